"""`simhbase delete`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from datetime import datetime
from itertools import chain, islice

import click
import orjson

from simhbase.cli.options import command, converted, option, past, store_option
from simhbase.cli.output import Output, json_option, message
from simhbase.errors import BadInput, UsageError
from simhbase.interrupt import defer_interrupts
from simhbase.progress import show_progress

BATCH = 4096  # documents removed at once
NAMED = 10  # missing ids to show


@command()
@click.argument("ids", nargs=-1, metavar="[ID]...")
@store_option
@option(
    "--ids-file FILE",
    "File of ids, one per line, or of JSON lines with an id; - is standard input.",
    type=click.Path(exists=True, dir_okay=False, allow_dash=True),
)
@option(
    "--older-than TIME",
    "Delete all documents last written before then, e.g. 90d or 2026-01-31.",
    callback=converted(past),
)
@json_option
def delete(
    ids: Sequence[str], ids_file: str | None, older_than: datetime | None, url: str, output: Output
) -> None:
    """Remove documents from a store.

    Deleted documents cannot be restored; 'simhbase tables snapshot' makes a copy first (in PostgreSQL,
    pg_dump; in Redis, BGSAVE). Unknown ids are listed and ignored.

    --older-than uses the time of the last write: loading an unchanged document does not write it. 6m is six
    minutes. The command can be stopped and run again.
    """
    from simhbase.admin import Administrator
    from simhbase.index import open_index

    if older_than is not None:
        if ids or ids_file is not None:
            raise UsageError("--older-than applies to all documents: leave out ids and --ids-file")
        with open_index(url) as index:
            output.summary(
                {"deleted": Administrator(index).delete_older_than(older_than, progress=show_progress)}
            )
        return
    if not ids and ids_file is None:
        raise UsageError("nothing to delete: give ids, --ids-file or --older-than")
    _delete(ids, ids_file, url, output)


def _delete(ids: Sequence[str], ids_file: str | None, url: str, output: Output) -> None:
    from simhbase.index import open_index

    given = deleted = 0
    missing: list[str] = []  # the first of them
    rest = chain(ids, _listed(ids_file) if ids_file else ())
    with open_index(url) as index:
        try:
            while batch := list(islice(rest, BATCH)):
                stored = index.fingerprints(batch)
                unknown = (document for document, found in zip(batch, stored, strict=True) if found is None)
                missing += islice(unknown, NAMED - len(missing))
                with defer_interrupts():
                    deleted += index.delete(batch)
                given += len(batch)
        except BaseException:
            message(f"stopped after {given:,} ids: {deleted:,} documents were deleted")
            raise
    if missing:
        message(f"not stored in {url}: {', '.join(missing)}{', ...' if len(missing) == NAMED else ''}")
    output.summary({"ids": given, "deleted": deleted})


def _listed(file: str) -> Iterator[str]:
    """The ids in the lines of a file. Raises BadInput for a line without one."""
    from simhbase.corpus.record import InputOptions, Reject
    from simhbase.corpus.sources import Sources

    options = InputOptions(format="lines", id_from="line")
    for item in chain.from_iterable(Sources([file], options).chunks()):
        where = f"--ids-file {file}" + (f", line {item.line}" if item.line else "")
        if isinstance(item, Reject):
            raise BadInput(f"{where}: {item.reason}")
        try:
            line = item.data.decode()
        except UnicodeDecodeError as error:
            raise BadInput(f"{where}: not UTF-8 at byte {error.start + 1}") from error
        yield _id_of(line, where)


def _id_of(line: str, where: str) -> str:
    """The id in a line, plain or in a JSON object. Raises BadInput for an object without one."""
    found = None
    with suppress(orjson.JSONDecodeError):
        found = orjson.loads(line) if line.startswith("{") else None
    if not isinstance(found, dict):
        return line
    if not isinstance(found.get("id"), (str, int)):
        raise BadInput(f"{where}: this object has no 'id' (a string or an integer)")
    return str(found["id"])
