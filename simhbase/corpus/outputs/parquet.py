"""Writes documents as Parquet.

Parquet files cannot be appended to, so documents are first written to a file of JSON lines beside it, which a
resumed run truncates and continues.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, BinaryIO
from uuid import UUID

from simhbase.corpus.fields import json_value
from simhbase.corpus.formats.parquet import json_type, json_values
from simhbase.corpus.outputs.files import (
    Form,
    KeptBeginning,
    cell,
    made_of,
    parsed_line,
    part_of,
    rename,
)
from simhbase.errors import BadInput

BATCH_BYTES = 4 << 20  # lines parsed at once
BATCH_CELLS = 1 << 18  # of their table, at most: one document may have a thousand fields that no other has
GROUP_BYTES = 64 << 20  # size of a row group
ARRAY_BYTES = 400  # of an array, beside its values
COMPRESSION = "zstd"
MOST_COLUMNS = 1_000
# Fields within objects of all columns, of which each document with such an object has all in Arrow: columns
# with more are written as JSON.
MOST_FIELDS = 250
# Fields that Arrow has in lists of objects, missing ones too, beside a multiple of the values there: lists
# with more are written as JSON.
MOST_IN_LISTS, SPARSEST = 1 << 20, 8
MOST_LEVELS = 16  # of nesting; deeper values are written as JSON
_MADE_OF = b"simhbase.lines"
_MANY_BRACKETS = 500  # a line with more may be nested too deeply for Python

Types = Mapping[str, Any]


def parquet_form(path: Path, types: Callable[[], Types]) -> Form:
    """Convert lines of JSON objects to a Parquet table with all their fields as columns.

    types: called at the end, known Arrow types of columns. A column gets its type if all values fit it,
    otherwise a common type of its values, otherwise text, with other values as JSON. Raises BadInput for an
    object that is nested too deeply, and for too many different fields.
    """
    names: set[str] = set()

    def readable(lines: Iterable[bytes]) -> Iterator[bytes]:
        for line in lines:
            is_deep = line.count(b"[") + line.count(b"{") > _MANY_BRACKETS
            names.update(parsed_line(line) if is_deep else json_value(line))
            if len(names) > MOST_COLUMNS:
                raise BadInput(
                    f"documents have more than {MOST_COLUMNS:,} different fields, and each would be a column "
                    f"of {path}: write JSON lines (.jsonl) for documents of several kinds"
                )
            yield line

    def finish(written: BinaryIO, target: Path, kept: KeptBeginning) -> None:
        made = made_of(target)
        try:
            made.unlink(missing_ok=True)
            with made.open("xb") as table:  # a link that another user puts there is not followed
                _write_table(written, table, kept, types())
                table.flush()
                os.fsync(table.fileno())
            rename(made, target)
        except BaseException:
            made.unlink(missing_ok=True)
            raise
        part_of(target).unlink()

    return Form(readable, finish)


def count_type() -> Any:
    """Arrow type of a column of counts."""
    import pyarrow as arrow

    return arrow.int64()


def is_table_of(path: Path, kept: KeptBeginning) -> bool:
    """True if a file is the table created from these lines."""
    from pyarrow import ArrowException
    from pyarrow.parquet import read_schema

    with suppress(OSError, ArrowException):
        return bool((read_schema(path).metadata or {}).get(_MADE_OF) == _made_of(kept))
    return False


def _made_of(kept: KeptBeginning) -> bytes:
    return f"{kept.size} {kept.crc}".encode()


def _write_table(lines: BinaryIO, made: BinaryIO, kept: KeptBeginning, known: Types) -> None:
    """Create a Parquet file from JSON lines."""
    tried = _types_to_try(lines, known)
    unfit = set(tried)
    while unfit:
        unfit = _unfit(lines, made, kept, {name: each[0] for name, each in tried.items()})
        for name in unfit:
            del tried[name][0]


def _types_to_try(lines: BinaryIO, known: Types) -> dict[str, list[Any]]:
    """For each column the types that its values may fit, best first; None, for text, always fits."""
    import pyarrow as arrow

    known = {name: kind for name, kind in _bounded(known, MOST_COLUMNS).items() if kind is not None}
    found: dict[str, Any] = dict.fromkeys(() if lines.seek(0, os.SEEK_END) else known, arrow.null())
    for _, columns in _batches(lines, 0):
        for name, values in columns.items():
            kind = _type_of(values)
            before = found.get(name, arrow.null())
            found[name] = None if None in (kind, before) else _in_common(before, kind)
    return {
        name: [*([known[name]] if name in known else []), *([] if kind is None else [kind]), None]
        for name, kind in _bounded(found, MOST_FIELDS).items()
    }


def _bounded(types: Types, most: int) -> Types:
    """The types, with None for those of the most fields, so that all have at most `most` within objects."""
    fields = {name: _fields(kind) for name, kind in types.items()}
    found, left = dict(types), sum(fields.values())
    for name in sorted(fields, key=fields.__getitem__, reverse=True):
        if left <= most:
            break
        found[name], left = None, left - fields[name]
    return found


def _fields(kind: Any) -> int:
    """Number of fields within the objects of a type."""
    from pyarrow import types

    if kind is None or not types.is_nested(kind):
        return 0
    own = kind.num_fields if types.is_struct(kind) else 0
    return own + sum(_fields(kind.field(number).type) for number in range(kind.num_fields))


def _is_sparse(values: Iterable[Any], kind: Any) -> bool:
    """True if lists within values have far more fields as this type than values."""
    if not _fields(kind):
        return False
    most, inner = MOST_IN_LISTS, list(values)
    while inner:
        inner = [
            below
            for each in inner
            if isinstance(each, list | dict)
            for below in (each.values() if isinstance(each, dict) else each)
        ]
        most += SPARSEST * len(inner)
    return _in_lists(values, kind, most) > most


def _in_lists(values: Iterable[Any], kind: Any, most: int) -> int:
    """Number of fields of all objects in lists, as far as it is at most `most`."""
    from pyarrow import types

    if not _fields(kind):
        return 0
    if types.is_struct(kind):
        objects, found = [each for each in values if isinstance(each, dict)], 0
        for field in kind.fields:
            if found <= most and types.is_nested(field.type):
                there = (each[field.name] for each in objects if field.name in each)
                found += _in_lists(there, field.type, most - found)
        return found
    below = kind.item_type if types.is_map(kind) else kind.value_type
    items = [item for each in values if isinstance(each, list) for item in each]
    found = len(items) * _fields(below)
    return found if found > most else found + _in_lists(items, below, most - found)


def _type_of(values: list[Any]) -> Any:
    """The common type of JSON values, None if there is none."""
    import pyarrow as arrow

    nested = [value for value in values if isinstance(value, list | dict)]
    if max(map(_levels, nested), default=0) > MOST_LEVELS:
        return None
    try:
        # An array would have all fields for each value.
        if nested and (_fields(each := arrow.infer_type(nested)) > MOST_FIELDS or _is_sparse(nested, each)):
            return None
        kind = arrow.array(values).type
    except (arrow.ArrowException, OverflowError, UnicodeEncodeError):
        return None
    return kind if _can_be_written(kind) else None


def _in_common(left: Any, right: Any) -> Any:
    import pyarrow as arrow

    if left == right:
        return left
    try:
        both = [arrow.schema([("column", kind)]) for kind in (left, right)]
        kind = arrow.unify_schemas(both, promote_options="permissive").field(0).type
        return None if _fields(kind) > MOST_FIELDS else kind
    except arrow.ArrowException:
        return None


def _levels(value: Any) -> int:
    """Nesting depth of a value, up to one more than MOST_LEVELS."""
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
    """False for types that contain an object without fields."""
    from pyarrow import types

    if types.is_struct(kind):
        return kind.num_fields > 0 and all(_can_be_written(field.type) for field in kind.fields)
    return _can_be_written(kind.value_type) if types.is_list(kind) else True


def _unfit(lines: BinaryIO, made: BinaryIO, kept: KeptBeginning, types: Types) -> set[str]:
    """Write the table with columns of these types; returns the columns that do not fit all values, in which
    case the table is incomplete."""
    import pyarrow as arrow
    from pyarrow.parquet import ParquetWriter

    kinds = [arrow.string() if kind is None else kind for kind in types.values()]
    fields = list(zip(_column_names(types), kinds, strict=True))
    width = len(kinds) + sum(map(_fields, kinds))
    schema = arrow.schema(fields, metadata={_MADE_OF: _made_of(kept)})
    unfit: set[str] = set()
    made.seek(0)
    made.truncate()
    with ParquetWriter(made, schema, compression=COMPRESSION) as writer:
        group: list[Any] = []
        size = 0
        for count, columns in _batches(lines, width):
            arrays = {
                name: _array(values, types[name]) for name, values in columns.items() if name not in unfit
            }
            unfit.update(name for name, array in arrays.items() if array is None)
            if unfit:
                continue
            every = [
                arrays[name] if name in arrays else arrow.nulls(count, kind)
                for name, kind in zip(types, kinds, strict=True)
            ]
            group.append(arrow.table(every, schema=schema))
            size += group[-1].nbytes + width * ARRAY_BYTES  # those without values have none
            if size >= GROUP_BYTES:
                writer.write_table(arrow.concat_tables(group))
                group.clear()
                size = 0
        if group:
            writer.write_table(arrow.concat_tables(group))
    return unfit


def _column_names(names: Iterable[str]) -> list[str]:
    """Names for columns. Halves of surrogate pairs are escaped, as in CSV; readers refuse a name that is
    there twice."""
    given, found = set(names), dict[str, None]()
    for name in names:
        shown = name.encode(errors="backslashreplace").decode()
        while shown in found or (shown != name and shown in given):
            shown += "_"
        found[shown] = None
    return list(found)


def _array(values: list[Any], kind: Any) -> Any:
    """JSON values as an Arrow array, None if that would change any: Arrow rounds, truncates and converts."""
    import pyarrow as arrow
    from pyarrow import types

    if kind is None:
        # Halves of surrogate pairs are escaped, as in CSV.
        texts = (None if value is None else cell(value).encode(errors="backslashreplace") for value in values)
        values = [None if text is None else text.decode() for text in texts]
        return arrow.array(values, arrow.string())
    if _is_sparse(values, kind):
        return None
    try:
        is_plain = not types.is_nested(kind) and not isinstance(kind, arrow.BaseExtensionType)
        given = values if is_plain else [_given(value, kind) for value in values]
        array = _cast(arrow.array(given, json_type(kind, is_made=True)), kind)
    except (arrow.ArrowException, OverflowError, TypeError, ValueError):
        return None
    is_text = types.is_string(kind) or types.is_large_string(kind)
    return array if is_text or all(map(_is_same, json_values(array), values)) else None


def _given(value: Any, kind: Any) -> Any:
    """A JSON value as Arrow takes it: tuples for maps, bytes for UUIDs, integers for booleans of 8 bits.
    Raises ValueError for other values."""
    from pyarrow import types

    match getattr(kind, "extension_name", None):
        case "arrow.uuid" if value is not None:
            return UUID(str(value)).bytes
        case "arrow.bool8" if isinstance(value, bool):
            return int(value)
    if types.is_map(kind) and isinstance(value, list):
        return [(_given(key, kind.key_type), _given(each, kind.item_type)) for key, each in value]
    if types.is_struct(kind) and isinstance(value, dict):
        places = {name: kind.get_field_index(name) for name in value}
        return {
            name: _given(each, kind.field(places[name]).type) if places[name] >= 0 else each
            for name, each in value.items()
        }
    if types.is_nested(kind) and not types.is_struct(kind) and isinstance(value, list):
        return [_given(each, kind.value_type) for each in value]
    return value


def _cast(array: Any, kind: Any) -> Any:
    """Cast an array of `json_type`. Under null objects Arrow has empty strings, which cannot be cast to
    dates: they are set to null."""
    import pyarrow as arrow
    from pyarrow import types

    if types.is_struct(kind):
        fields = list(kind.fields)
        inner = [_cast(each, field.type) for each, field in zip(array.flatten(), fields, strict=True)]
        return arrow.StructArray.from_arrays(inner, fields=fields, mask=array.is_null())
    if types.is_large_list(array.type) and types.is_nested(kind.value_type):
        inner = _cast(array.values, kind.value_type)
        return arrow.LargeListArray.from_arrays(array.offsets, inner, mask=array.is_null()).cast(kind)
    return array.cast(kind)


def _is_same(written: Any, given: Any) -> bool:
    """True if two JSON values are equal, ignoring null fields."""
    if isinstance(given, dict):
        if not isinstance(written, dict):
            return False
        more = {name for name, each in written.items() if each is not None}
        return all(_is_same(written.get(name), given.get(name)) for name in given.keys() | more)
    if isinstance(given, list):
        return isinstance(written, list) and len(written) == len(given) and all(map(_is_same, written, given))
    if written != written:
        return bool(given != given)  # NaN
    return bool(written == given) and isinstance(written, bool) == isinstance(given, bool)


def _batches(lines: BinaryIO, width: int) -> Iterator[tuple[int, dict[str, list[Any]]]]:
    """Some lines at a time: their number, and those columns of values that one of them has. width: of the
    table, if it is known."""
    lines.seek(0)
    while group := lines.readlines(BATCH_BYTES):
        rows = list(map(parsed_line, group))
        at_once = max(1, BATCH_CELLS // max(1, width, len(_names(rows))))
        for start in range(0, len(rows), at_once):
            some = rows[start : start + at_once]
            yield len(some), {name: [row.get(name) for row in some] for name in _names(some)}


def _names(rows: Iterable[Mapping[str, Any]]) -> Mapping[str, None]:
    """The fields of some objects, in the order in which they come."""
    return dict.fromkeys(name for row in rows for name in row)
