"""Documents and texts as Python programs hold them, read in chunks; results as columns.

Read are Document objects, (id, text) pairs, dicts, and frames: pandas DataFrames by column, others (polars,
Arrow tables and record batches, DuckDB relations) through Arrow's C stream, for which pyarrow is imported. A
data set or generator of these is read no further than a chunk needs.

Nothing here imports NumPy, pandas or polars (except to add a column to a frame of polars): the client of the
service reads documents, too.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple, Protocol, TypeVar, runtime_checkable

from simhbase.errors import BadInput, Conflict, Undecided, UsageError
from simhbase.model.ids import IDS_ARE, id_of, is_integer, may_be_id
from simhbase.model.notebook import html_table
from simhbase.model.values import Claim, Document, Lookup, Match

CHUNK_ROWS, CHUNK_CHARACTERS = 4096, 4 << 20
BATCH_ROWS = 4096  # rows of an Arrow batch that are converted at once
ID_FIELD = "id"
MOST_SHOWN = 80  # characters of a value in a message
_ADDING_COLUMNS = ("iloc", "append_column", "with_columns", "add_column")  # pandas, Arrow, polars, data sets
_MISSING = ("NAType", "NaTType")  # pandas' own

Result = TypeVar("Result")


@runtime_checkable
class ArrowStream(Protocol):
    """A frame that exports Arrow's C stream: a DataFrame, an Arrow table."""

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object: ...


@runtime_checkable
class ArrowArray(Protocol):
    """An Arrow record batch."""

    def __arrow_c_array__(self, requested_schema: object | None = None) -> tuple[object, object]: ...


Frame = ArrowStream | ArrowArray
Documents = Frame | Iterable[Document | tuple[Any, Any] | Mapping[str, Any] | Frame]
Texts = Frame | Iterable[str | Document | tuple[Any, Any] | Mapping[str, Any] | Frame | None]


@dataclass(frozen=True, slots=True)
class Fields:
    """Names of the fields of dicts and the columns of frames. The field `tags`, if there, holds a mapping.
    value: another one to read, None for none. fingerprints: the texts are fingerprints, which may be
    integers."""

    id: str = ID_FIELD
    text: str = "text"
    value: str | None = None
    fingerprints: bool = False

    @property
    def names_id(self) -> bool:
        """True for another field of ids than the usual one: it was asked for, so it must be there."""
        return self.id != ID_FIELD


@dataclass(frozen=True, slots=True)
class _Absent:
    """Stands for the value of a field that a dict does not have."""

    field: str


class GivenRow(NamedTuple):
    """A document or text as it was given. id: None if it has none; problem: why it cannot be used; value: of
    the field that was asked for, None if missing; is_integer: the text has the digits of one; given_id: the
    id before it became a text."""

    id: str | None
    text: str
    tags: Mapping[str, str]
    problem: str | None = None
    value: Any = None
    is_integer: bool = False
    given_id: Any = None


def document_rows(given: Documents, fields: Fields = Fields()) -> Iterator[GivenRow]:
    """Documents in order; those without a usable id or text have a problem. Raises UsageError for what is no
    document, and for a frame without the columns."""
    if isinstance(given, str | Document):
        raise UsageError("one document was given: put it into a list, [Document(id, text)]")
    rows = _rows(given, fields, "documents", need_ids=True)
    return (_checked(number, *row, need_id=True) for number, row in enumerate(rows))


def document_row(given: Document) -> GivenRow:
    """One document as a row: see `document_rows`."""
    return _checked(0, given.id, given.text, given.tags, None, need_id=True)


def text_rows(given: Texts, fields: Fields = Fields()) -> Iterator[GivenRow]:
    """Texts in order, with ids where they have some. Raises UsageError as `document_rows`."""
    if isinstance(given, str):
        raise UsageError(f"one string was given for texts: put it into a list, [{given[:40]!r}]")
    rows = _rows(given, fields, "texts", need_ids=False)
    return (
        _checked(number, *row, need_id=False, integers=fields.fingerprints) for number, row in enumerate(rows)
    )


def chunks(
    rows: Iterable[GivenRow], most: int = CHUNK_ROWS, characters: int = CHUNK_CHARACTERS
) -> Iterator[list[GivenRow]]:
    """Rows in chunks of at most `most` rows and about so many characters. Without rows there is one
    empty chunk, so that arguments are checked."""
    chunk: list[GivenRow] = []
    size, is_first = 0, True
    for row in rows:
        chunk.append(row)
        size += len(row.text)
        if len(chunk) == most or size >= characters:
            yield chunk
            chunk, size, is_first = [], 0, False
    if chunk or is_first:
        yield chunk


def collected(given: Any) -> Any:
    """The DataFrame of a LazyFrame of polars; anything else as it is."""
    return given.collect() if type(given).__name__ == "LazyFrame" and hasattr(given, "collect") else given


def require_new_column(given: Any, name: str, parameter: str) -> None:
    """Raise UsageError if a column cannot be added to these rows: it is there, or rows are no frame, no
    data set and no list of dicts. parameter: that names it."""
    if isinstance(given, Sequence) and all(isinstance(each, Mapping) for each in given):
        for number, each in enumerate(given):
            if name in each:
                raise UsageError(
                    f"row {number} has a field {name!r} already: name another one", parameter=parameter
                )
    elif hasattr(given, "__len__") and any(hasattr(given, each) for each in _ADDING_COLUMNS):
        # Arrow's tables and data sets have columns that are no names.
        if name in list(given.column_names if hasattr(given, "column_names") else given.columns):
            raise UsageError(f"there is a column {name!r} already: name another one", parameter=parameter)
    else:
        raise UsageError(
            "needs a frame, a data set or a list of dicts: others have no place for a new field",
            parameter=parameter,
        )


def with_column(rows: Any, name: str, values: list[int]) -> Any:
    """Rows with one more column, which `require_new_column` has passed."""
    if hasattr(rows, "iloc"):
        return rows.assign(**{name: values})
    if hasattr(rows, "append_column"):  # Arrow
        return rows.append_column(name, _pyarrow("columns are added").array(values, "int64"))
    if hasattr(rows, "add_column"):  # a data set
        return rows.add_column(name, values)
    if hasattr(rows, "with_columns"):
        import polars

        return rows.with_columns(polars.Series(name, values, dtype=polars.Int64))
    return [{**row, name: value} for row, value in zip(rows, values, strict=True)]


def is_frame(given: object) -> bool:
    """True for a table with columns, in pandas or as Arrow data; not for a single column."""
    has_columns = hasattr(given, "schema") or hasattr(given, "columns")
    return _is_pandas(given) or (has_columns and isinstance(given, ArrowStream | ArrowArray))


_Values = tuple[Any, Any, Any, Any]  # id, text, tags, value


def _rows(given: Any, fields: Fields, what: str, *, need_ids: bool) -> Iterator[_Values]:
    """The values of rows. The arguments are checked at once, items when they are reached."""
    given = collected(given)
    if _is_pandas(given):
        return _pandas_rows(given, fields, need_ids=need_ids)
    if is_frame(given):
        return _arrow_rows(given, fields, need_ids=need_ids)
    if isinstance(given, Mapping):
        raise UsageError(f"a dict was given for {what}: give its items(), a list of dicts, or a frame")
    if not isinstance(given, Iterable) or isinstance(given, bytes):
        raise UsageError(f"{shown(given)} was given for {what}: a list of them is needed, or a frame")
    return _item_rows(given, fields, what, need_ids=need_ids)


def _is_pandas(given: object) -> bool:
    return hasattr(given, "iloc") and hasattr(given, "columns")


def _pandas_rows(frame: Any, fields: Fields, *, need_ids: bool) -> Iterator[_Values]:
    # Not by its Arrow stream, which copies the whole frame, and is refused for one column of mixed types.
    names = _columns(list(frame.columns), fields, need_ids=need_ids)
    nothing = [None] * len(frame)
    columns = [nothing if name is None else frame[name] for name in names]
    _require_types(names, list(map(_of_one_type, columns)), fields)
    return zip(*columns, strict=True)


def _of_one_type(column: Any) -> Iterable[Any]:
    """A pandas column; nothing for one of objects, whose values can have different types."""
    return column if getattr(column, "dtype", None) != "object" else ()


def _arrow_rows(frame: Any, fields: Fields, *, need_ids: bool) -> Iterator[_Values]:
    arrow = _pyarrow(f"a {type(frame).__name__} is read")
    if isinstance(frame, ArrowStream):
        batches = arrow.RecordBatchReader.from_stream(frame)
    else:
        batch = arrow.record_batch(frame)
        batches = arrow.RecordBatchReader.from_batches(batch.schema, [batch])
    return _batch_rows(batches, _columns(batches.schema.names, fields, need_ids=need_ids), fields)


def _pyarrow(what: str) -> Any:
    """The module. Raises UsageError if it is not installed. what: what it is needed for."""
    try:
        import pyarrow
    except ImportError as error:
        raise UsageError(
            f"{what} by pyarrow, which is not installed: pip install 'simhbase[parquet]'"
        ) from error
    return pyarrow


def _batch_rows(batches: Any, names: Sequence[str | None], fields: Fields) -> Iterator[_Values]:
    for whole in batches:
        for start in range(0, whole.num_rows, BATCH_ROWS):
            batch = whole.slice(start, BATCH_ROWS)
            nothing = [None] * batch.num_rows
            columns = [nothing if name is None else batch.column(name).to_pylist() for name in names]
            _require_types(names, columns, fields)
            yield from zip(*columns, strict=True)


def _require_types(names: Sequence[str | None], columns: Sequence[Iterable[Any]], fields: Fields) -> None:
    """Raise UsageError if the values of a typed column cannot be ids or texts, as its first one shows."""
    may_be_text = partial(_may_be_text, integers=fields.fingerprints)
    for (name, column), is_usable, parameter, wanted in (
        ((names[0], columns[0]), may_be_id, "id_field", IDS_ARE),
        ((names[1], columns[1]), may_be_text, "text_field", "texts are needed"),
    ):
        first = next((value for value in column if not _is_missing(value)), None)
        if first is not None and not is_usable(first):
            kind = type(first).__name__
            raise UsageError(f"column {name!r} has values of type {kind}: {wanted}", parameter=parameter)


def _may_be_text(value: object, *, integers: bool) -> bool:
    return isinstance(value, str) or (integers and is_integer(value))


def _columns(there: Sequence[Any], fields: Fields, *, need_ids: bool) -> tuple[str | None, ...]:
    """The columns of id, text, tags and value, None for one that is not there. Raises UsageError for one that
    is missing, or there twice."""
    for parameter, name, is_needed in (
        ("text_field", fields.text, True),
        ("id_field", fields.id, need_ids or fields.names_id),
        (None, "tags", False),
        ("keep", fields.value, fields.value is not None),
    ):
        count = there.count(name)
        if count > 1 or (is_needed and not count):
            listed = ", ".join(map(repr, there[:20]))
            number = f"{count} columns" if count else "no column"
            raise UsageError(f"{number} {name!r} in the frame, which has {listed}", parameter=parameter)
    return tuple(name if name in there else None for name in (fields.id, fields.text, "tags", fields.value))


def _item_rows(items: Iterable[Any], fields: Fields, what: str, *, need_ids: bool) -> Iterator[_Values]:
    takes_texts = what == "texts"
    for item in items:
        if isinstance(item, Document):
            yield item.id, item.text, item.tags, None
        elif takes_texts and (isinstance(item, str) or _is_missing(item)):
            yield None, item, None, None
        elif isinstance(item, Mapping):
            text = item[fields.text] if fields.text in item else _Absent(fields.text)
            given_id = item.get(fields.id, _Absent(fields.id) if fields.names_id else None)
            yield given_id, text, item.get("tags"), item.get(fields.value)
        elif isinstance(item, tuple) and len(item) == 2:
            yield *item, None, None
        elif takes_texts and hasattr(item, "as_py"):  # of an Arrow array
            yield None, item.as_py(), None, None
        elif is_frame(item):
            yield from _rows(item, fields, what, need_ids=need_ids)
        else:
            forms = f"{'a text, ' * takes_texts}Document(id, text), an (id, text) pair or a dict"
            raise UsageError(f"{shown(item)} is among the {what}: each must be {forms}")


def _checked(
    number: int, given_id: Any, text: Any, tags: Any, value: Any, *, need_id: bool, integers: bool = False
) -> GivenRow:
    """A row with its values converted. number: of the row, from 0; integers: texts may be integers."""
    row_id, problem = None, None
    try:
        if isinstance(given_id, _Absent):
            problem = f"there is no field {given_id.field!r}"
        elif not _is_missing(given_id):
            row_id = id_of(given_id)
    except BadInput as error:
        problem = str(error)
    if row_id is None and need_id:
        problem = f"row {number}: {problem or 'the id is missing'}"
    has_digits = integers and is_integer(text)
    if has_digits:
        text = str(text.__index__())
    if isinstance(text, _Absent):
        problem = problem or f"there is no field {text.field!r}"
    elif not isinstance(text, str):
        wrong = f"missing ({text})" if _is_missing(text) else f"{shown(text)}, not a text"
        problem = problem or f"the text is {wrong}"
    named, wrong_tags = ({}, None) if _is_missing(tags) else _tags(tags)
    problem = problem or wrong_tags
    text = "" if problem else str(text)  # NumPy has its own
    value = None if _is_missing(value) else value
    return GivenRow(row_id, text, named, problem, value, has_digits, None if row_id is None else given_id)


def _tags(value: Any) -> tuple[dict[str, str], str | None]:
    """Tags of a mapping, or the pairs of an Arrow map, without those that are missing; and what is wrong."""
    with suppress(TypeError, ValueError):
        tags = {name: tag for name, tag in dict(value).items() if not _is_missing(tag)}
        if all(isinstance(name, str) and isinstance(tag, str) for name, tag in tags.items()):
            return tags, None
    return {}, f"the tags are {shown(value)}: they must be a dict of strings, {{'tenant': 'a'}}"


def _is_missing(value: Any) -> bool:
    return value is None or (isinstance(value, float) and value != value) or type(value).__name__ in _MISSING


def decided(claim: Claim) -> Claim:
    """Returns the claim, or raises Undecided or Conflict."""
    if claim.outcome == "undecided":
        raise Undecided(f"the claim of {shown(claim.id)}: {claim.reason}")
    if claim.outcome == "conflict":
        raise Conflict(f"the claim of {shown(claim.id)}: {claim.reason}")
    return claim


def shown(value: object) -> str:
    """A value in a message."""
    told = repr(value)
    return told if len(told) <= MOST_SHOWN else f"{told[:MOST_SHOWN]}..."


class Results(list[Result]):
    """A list of results that can also be had as columns, with a row for each."""

    def columns(self) -> dict[str, list[Any]]:
        """The values by column."""
        raise NotImplementedError

    def to_arrow(self) -> Any:
        """The results as a pyarrow.Table. Raises UsageError without pyarrow."""
        arrow = _pyarrow("columns are made")
        near = [("id", "string"), ("distance", "int64"), ("similarity", "float64")]
        matches = arrow.list_(arrow.struct([(name, arrow.type_for_alias(kind)) for name, kind in near]))
        types = {
            "row": arrow.int64(),
            "distance": arrow.int64(),
            "similarity": arrow.float64(),
            "containment": arrow.float64(),
            "truncated": arrow.bool_(),
            "matches": matches,
            "also_at": matches,
        }
        columns = {name: _column(arrow, values, types.get(name)) for name, values in self.columns().items()}
        return arrow.table(columns)

    def to_pandas(self) -> Any:
        """The results as a pandas.DataFrame. Needs pandas and pyarrow."""
        return self.to_arrow().to_pandas()

    def _repr_html_(self) -> str:
        return html_table(self.columns())


def _column(arrow: Any, values: list[Any], kind: Any) -> Any:
    """An Arrow array. kind: None for the type of the values, texts if they have several."""
    with suppress(arrow.ArrowException, OverflowError):
        found = arrow.array(values, kind)
        if kind is not None or found.null_count < len(found):
            return found
    return arrow.array([None if value is None else str(value) for value in values], arrow.string())


class LookupList(Results[Lookup]):
    """Lookups in the order of the queries, as a list and as columns.

    ids: of the queries, as they were given, None where there is none. Columns: id; fingerprint; match,
    distance and similarity of the nearest match, null if there is none; matches, all of them; truncated;
    reason.
    """

    def __init__(self, lookups: Iterable[Lookup] = (), ids: Iterable[Any] | None = None) -> None:
        super().__init__(lookups)
        self.ids = [None] * len(self) if ids is None else list(ids)

    def columns(self) -> dict[str, list[Any]]:
        return {
            "id": self.ids,
            "fingerprint": [None if each.fingerprint is None else str(each.fingerprint) for each in self],
            **_nearest([each.matches[0] if each.matches else None for each in self]),
            "matches": [list(map(_match, each.matches)) for each in self],
            "truncated": [each.truncated for each in self],
            "reason": [each.reason for each in self],
        }


class ClaimList(Results[Claim]):
    """Claims in the order of the documents, as a list and as columns: id; outcome; fingerprint; match,
    distance and similarity of the nearest stored document; also_at; truncated; reason.

    ids: of the documents, as they were given.
    """

    def __init__(self, claims: Iterable[Claim] = (), ids: Iterable[Any] = ()) -> None:
        super().__init__(claims)
        self.ids = list(ids)

    def columns(self) -> dict[str, list[Any]]:
        return {
            "id": self.ids,
            "outcome": [each.outcome for each in self],
            "fingerprint": [None if each.fingerprint is None else str(each.fingerprint) for each in self],
            **_nearest([each.match or next(iter(each.also_at), None) for each in self]),
            "also_at": [list(map(_match, each.also_at)) for each in self],
            "truncated": [each.truncated for each in self],
            "reason": [each.reason for each in self],
        }


def _nearest(matches: Sequence[Match | None]) -> dict[str, list[Any]]:
    return {
        "match": [each and each.id for each in matches],
        "distance": [each and each.distance for each in matches],
        "similarity": [each and each.similarity for each in matches],
    }


def _match(match: Match) -> dict[str, Any]:
    return {"id": match.id, "distance": match.distance, "similarity": match.similarity}
