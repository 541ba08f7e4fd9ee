"""Documents that are written out as Parquet, where the name of the file says so.

Nothing can be put behind the rows of such a file: until all are there they are JSON lines in a file beside
it, which a run that goes on where one was stopped cuts and continues.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from simhbase.corpus.outputs import NOTHING, Kept, OutputFile, parsed_line, rename
from simhbase.corpus.parquet import json_type

BATCH_BYTES = 4 << 20  # of lines, whose values are Python's at once
GROUP_BYTES = 64 << 20  # of values in a group of rows
COMPRESSION = "zstd"
MOST_LEVELS = 16  # of objects and lists in each other; deeper ones are written as JSON
_MADE_OF = b"simhbase.lines"
_MANY_BRACKETS = 500  # in a line, which may be nested more deeply than Python reads

Types = Mapping[str, Any]


class ParquetFile(OutputFile):
    """Takes JSON objects a line, and is a table with all their fields as columns when the `with` block ends
    well: until then PATH.part has the lines.

    types: asked at the end, Arrow's types of columns where they are known. A column has its type where all
    values fit it, else that which its values have in common; where they have none they are written as JSON.

    Raises what OutputFile does, and BadInput for an object that is nested too deeply to be read.
    """

    def __init__(
        self, path: Path, types: Callable[[], Types], *, of_use_in_part: bool = True, keep: Kept = NOTHING
    ) -> None:
        super().__init__(path, of_use_in_part=of_use_in_part, keep=keep)
        self._types = types

    def write(self, lines: Iterable[bytes]) -> None:
        """Appends objects, given without line breaks."""
        super().write(map(_readable, lines))

    def _name(self, target: Path) -> None:
        made = target.with_name(f"{target.name}.made")
        try:
            _write_table(self._written, made, Kept(self._size, self._crc), self._types())
            with made.open("rb") as table:
                os.fsync(table.fileno())
            rename(made, target)
        except BaseException:
            made.unlink(missing_ok=True)
            raise
        self._written.unlink()


def is_table_of(path: Path, kept: Kept) -> bool:
    """Whether a file is the table that was made of these lines."""
    from pyarrow import ArrowException
    from pyarrow.parquet import read_schema

    with suppress(OSError, ArrowException):
        return bool((read_schema(path).metadata or {}).get(_MADE_OF) == _made_of(kept))
    return False


def _made_of(kept: Kept) -> bytes:
    return f"{kept.size} {kept.crc}".encode()


def _readable(line: bytes) -> bytes:
    if line.count(b"[") + line.count(b"{") > _MANY_BRACKETS:
        parsed_line(line)
    return line


def _write_table(lines: Path, made: Path, kept: Kept, known: Types) -> None:
    """Makes a Parquet file of a file of JSON lines."""
    tried = _types_to_try(lines, known)
    unfit: str | None = ""
    while unfit is not None:
        unfit = _try_to_write(lines, made, kept, {name: each[0] for name, each in tried.items()})
        if unfit is not None:
            del tried[unfit][0]


def _types_to_try(lines: Path, known: Types) -> dict[str, list[Any]]:
    """For each column the types that its values may fit, the best first; None, which is JSON, always does."""
    import pyarrow as arrow

    found: dict[str, Any] = dict.fromkeys(() if lines.stat().st_size else known, arrow.null())
    for columns in _batches(lines, found):
        for name, values in columns.items():
            kind = _type_of(values)
            before = found.get(name, arrow.null())
            found[name] = None if None in (kind, before) else _in_common(before, kind)
    return {name: list(_tried(known.get(name), kind)) for name, kind in found.items()}


def _tried(known: Any, found: Any) -> Iterator[Any]:
    """The types of a column that is known to have one, and whose values have one in common, or None."""
    if known is not None and _takes(known, found):
        yield known
    if found is not None:
        yield found
    yield None


def _takes(known: Any, found: Any) -> bool:
    """Whether values of the type that was found are such of the known one: Arrow cuts fractions off where an
    array of integers is asked for."""
    from pyarrow import types

    if found is None:  # it finds none for pairs, and for integers of 64 bits without a sign
        return bool(types.is_map(known) or types.is_uint64(known))
    if types.is_null(found):
        return True
    if types.is_struct(known):
        inner = {field.name: field.type for field in known.fields}
        return types.is_struct(found) and all(
            field.name in inner and _takes(inner[field.name], field.type) for field in found.fields
        )
    if types.is_list(found):
        return bool(types.is_map(known)) or (
            types.is_nested(known) and _takes(known.value_type, found.value_type)
        )
    if types.is_integer(known):
        return bool(types.is_integer(found))
    if types.is_floating(known):
        return bool(types.is_integer(found) or types.is_floating(found))
    return bool(types.is_boolean(found) if types.is_boolean(known) else types.is_string(found))


def _type_of(values: list[Any]) -> Any:
    """That of values of JSON, None where they have none in common or Parquet has none of the kind."""
    import pyarrow as arrow

    if max(map(_levels, values), default=0) > MOST_LEVELS:
        return None
    try:
        kind = arrow.array(values).type
    except (arrow.ArrowException, OverflowError):
        return None
    return kind if _can_be_written(kind) else None


def _in_common(left: Any, right: Any) -> Any:
    import pyarrow as arrow

    if left == right:
        return left
    try:
        both = [arrow.schema([("column", kind)]) for kind in (left, right)]
        return arrow.unify_schemas(both, promote_options="permissive").field(0).type
    except arrow.ArrowException:
        return None


def _levels(value: Any) -> int:
    """How many lists and objects a value has in each other; one more than the most ends the search."""
    levels, inner = 0, [value]
    while inner and levels <= MOST_LEVELS:
        inner = [
            below
            for each in inner
            if isinstance(each, list | dict)
            for below in (each.values() if isinstance(each, dict) else each)
        ]
        levels += bool(inner)
    return levels


def _can_be_written(kind: Any) -> bool:
    """Not an object without fields, wherever it is."""
    from pyarrow import types

    if types.is_struct(kind):
        return kind.num_fields > 0 and all(_can_be_written(field.type) for field in kind.fields)
    return _can_be_written(kind.value_type) if types.is_list(kind) else True


def _try_to_write(lines: Path, made: Path, kept: Kept, types: Types) -> str | None:
    """Writes the table with columns of these types; the name of the first that does not take a value, where
    there is one."""
    import pyarrow as arrow
    from pyarrow.parquet import ParquetWriter

    fields = [(name, arrow.string() if kind is None else kind) for name, kind in types.items()]
    schema = arrow.schema(fields, metadata={_MADE_OF: _made_of(kept)})
    with ParquetWriter(made, schema, compression=COMPRESSION) as writer:
        group: list[Any] = []
        for columns in _batches(lines, types):
            arrays = []
            for name, values in columns.items():
                try:
                    arrays.append(_array(values, types[name]))
                except (arrow.ArrowException, OverflowError, TypeError, ValueError):
                    return name
            group.append(arrow.table(arrays, schema=schema))
            if sum(table.nbytes for table in group) >= GROUP_BYTES:
                writer.write_table(arrow.concat_tables(group))
                group.clear()
        if group:
            writer.write_table(arrow.concat_tables(group))
    return None


def _array(values: list[Any], kind: Any) -> Any:
    import pyarrow as arrow
    from pyarrow import types

    if kind is None:
        values = [None if value is None else json.dumps(value, ensure_ascii=False) for value in values]
        return arrow.array(values, arrow.string())
    if types.is_uint64(kind) and any(isinstance(value, float) for value in values):
        raise TypeError("integers alone")
    if types.is_map(kind):
        values = [value and [tuple(pair) for pair in value] for value in values]
    return arrow.array(values, json_type(kind)).cast(kind)


def _batches(lines: Path, names: Iterable[str]) -> Iterator[dict[str, list[Any]]]:
    """The values of some lines at a time, by the names of their fields: these, and what else comes."""
    columns = list(names)
    with lines.open("rb") as file:
        while group := file.readlines(BATCH_BYTES):
            rows = list(map(parsed_line, group))
            columns = list(dict.fromkeys([*columns, *(name for row in rows for name in row)]))
            yield {name: [row.get(name) for row in rows] for name in columns}
