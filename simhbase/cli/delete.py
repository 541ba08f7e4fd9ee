"""`simhbase delete`."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from contextlib import closing, nullcontext, suppress
from datetime import datetime
from itertools import chain, islice
from pathlib import Path
from tempfile import gettempdir
from typing import TYPE_CHECKING

import click
import orjson

from simhbase.cli.consent import Consent, consent_options
from simhbase.cli.options import command, converted, option, past, scope_option, store_option
from simhbase.cli.output import Output, json_option, message
from simhbase.corpus.fields import JsonObject, json_value
from simhbase.corpus.names import STDIN
from simhbase.errors import BadInput, UsageError
from simhbase.model.ids import id_of
from simhbase.process.interrupt import defer_interrupts
from simhbase.process.progress import show_progress

if TYPE_CHECKING:
    from simhbase.index import Index
    from simhbase.process.spool import Spool

BATCH = 4096  # documents removed at once
NAMED = 10  # missing ids to show


@command()
@click.argument("ids", nargs=-1, metavar="[ID]...")
@store_option
@scope_option
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
@consent_options()
@json_option
def delete(
    ids: Sequence[str],
    ids_file: str | None,
    older_than: datetime | None,
    url: str,
    scope: str | None,
    consent: Consent,
    output: Output,
) -> None:
    """Remove documents from a store.

    Deleted documents cannot be restored; 'simhbase tables snapshot' makes a copy first (in PostgreSQL,
    pg_dump; in Redis, BGSAVE). Unknown ids are listed and ignored.

    Asks before it removes more than half of the documents, or all of fewer than ten; without a terminal it
    then needs --yes. For this, --older-than counts all documents before it removes any, and ids are compared
    with the store's estimate, and with an exact count if they may be half of it. --yes counts nothing.

    --older-than uses the time of the last write: loading an unchanged document does not write it. 6m is six
    minutes. The command can be stopped and run again.
    """
    from simhbase.index import open_index

    if older_than is not None and (ids or ids_file is not None):
        raise UsageError("--older-than applies to all documents: leave out ids and --ids-file")
    if older_than is None and not ids and ids_file is None:
        raise UsageError("nothing to delete: give ids, --ids-file or --older-than")
    with open_index(url, access="read" if consent.dry_run else "write", scope=scope) as index:
        if older_than is not None:
            _delete_older(older_than, index, consent, output)
        else:
            _delete_ids(chain(ids, _listed(ids_file) if ids_file else ()), index, consent, output)


def _delete_older(than: datetime, index: Index, consent: Consent, output: Output) -> None:
    from simhbase.admin import Administrator

    administrator = Administrator(index)
    if consent.dry_run or not consent.yes:
        removal = administrator.count_older_than(than, progress=show_progress)
        if consent.dry_run:
            output.summary({"would_delete": removal.removed, "documents": removal.of})
            return
        consent.require(removal)
    output.summary({"deleted": administrator.delete_older_than(than, progress=show_progress)})


def _delete_ids(given: Iterator[str], index: Index, consent: Consent, output: Output) -> None:
    from simhbase.admin import Administrator
    from simhbase.process.spool import Spool

    if consent.yes and not consent.dry_run:
        _delete(given, index, output)
        return
    with closing(Spool(Path(gettempdir()))) as spool:  # standard input is read once
        while batch := list(islice(given, BATCH)):
            spool.append(each.encode("utf-8", "surrogatepass") for each in batch)
        if consent.dry_run:
            stored = _stored(spool, index)
            documents = Administrator(index).documents(4 * stored, progress=show_progress)
            output.summary({"ids": len(spool), "would_delete": stored, "documents": documents})
            return
        _require_consent(spool, index, consent)
        _delete(_spooled(spool), index, output)


def _require_consent(spool: Spool, index: Index, consent: Consent) -> None:
    """Asks if the ids may be more than half of the stored documents."""
    from simhbase.admin import Administrator
    from simhbase.admin.removal import Removal

    # An estimate may be up to twice the number, because of obsolete rows.
    documents = Administrator(index).documents(4 * len(spool), progress=show_progress)
    if Removal(len(spool), documents, "documents", index.store.url).is_much:
        consent.require(Removal(_stored(spool, index), documents, "documents", index.store.url))


def _stored(spool: Spool, index: Index) -> int:
    """How many of the ids are stored; those that are repeated far apart count each time."""
    ids = _spooled(spool)
    stored = 0
    while batch := list(dict.fromkeys(islice(ids, BATCH))):
        stored += sum(found is not None for found in index.fingerprints(batch))
    return stored


def _spooled(spool: Spool) -> Iterator[str]:
    for start in range(0, len(spool), BATCH):
        numbers = range(start, min(start + BATCH, len(spool)))
        yield from (each.decode("utf-8", "surrogatepass") for each in spool.read(numbers))


def _delete(rest: Iterator[str], index: Index, output: Output) -> None:
    given = deleted = 0
    missing: list[str] = []  # the first of them
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
        more = ", ..." if len(missing) == NAMED else ""
        message(f"not stored in {index.store.url}: {', '.join(missing)}{more}")
    output.summary({"ids": given, "deleted": deleted})


def _listed(file: str) -> Iterator[str]:
    """The ids in the lines of a file. Raises BadInput for a line without one."""
    from simhbase.corpus.formats.parquet import MAGIC_BYTES, is_columnar
    from simhbase.corpus.formats.raw import raw_records
    from simhbase.corpus.paths import FoundSource
    from simhbase.corpus.record import InputOptions, Reject, Source
    from simhbase.index.rows import id_problem
    from simhbase.text.packing import Rereadable, RereadablePipe, peek

    options, source = InputOptions(format="lines", id_from="line"), Source(file, file)
    try:
        opened = nullcontext(sys.stdin.buffer) if file == STDIN else FoundSource(source, Path(file)).open()
    except OSError as error:
        raise BadInput(f"--ids-file {file}: it cannot be opened: {error.strerror}") from error
    with opened as given, closing((Rereadable if given.seekable() else RereadablePipe)(given)) as lines:
        if is_columnar(peek(lines, MAGIC_BYTES)):
            raise BadInput(f"--ids-file {file}: it is a Parquet or Arrow file: write its ids one per line")
        for item in raw_records(source, lines, "lines", options, message):
            where = f"--ids-file {file}" + (f", line {item.line}" if item.line else "")
            if isinstance(item, Reject):
                raise BadInput(f"{where}: {item.reason}")
            try:
                found = _id_of(item.data)
            except UnicodeDecodeError as error:
                raise BadInput(f"{where}: not UTF-8 at byte {error.start + 1}") from error
            except BadInput as error:
                raise BadInput(f"{where}: {error}") from error
            if problem := id_problem(found):
                raise BadInput(f"{where}: {problem}")
            yield found


def _id_of(line: bytes) -> str:
    """The id in a line, plain or in a JSON object. Raises BadInput for an object without one."""
    found = None
    with suppress(orjson.JSONDecodeError):
        found = json_value(line.decode()) if line.startswith(b"{") else None
    if not isinstance(found, dict):
        return line.decode()
    if "id" not in found:
        raise BadInput("this object has no 'id' (a string or an integer)")
    return id_of(JsonObject(line, found).get("id", ""))
