"""`simhbase delete`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, islice
from typing import BinaryIO

import click

from simhbase.bulk.streams import BOM
from simhbase.cli.interrupt import interrupt_put_off
from simhbase.cli.options import store_option
from simhbase.cli.output import Output, json_option, message
from simhbase.errors import BadInput, UsageError
from simhbase.index import open_index

BATCH = 4096  # documents removed at once


@click.command()
@click.argument("ids", nargs=-1, metavar="[ID]...")
@click.option("--ids-file", type=click.File("rb"), help="A file of ids, one a line; - for standard input.")
@store_option
@json_option
def delete(ids: Sequence[str], ids_file: BinaryIO | None, url: str, output: Output) -> None:
    """Remove documents from a store.

    Ids that are not stored do no harm.
    """
    if not ids and ids_file is None:
        raise UsageError("nothing to delete: give ids, or --ids-file")
    given = deleted = 0
    rest = chain(ids, _lines(ids_file))
    with open_index(url) as index:
        try:
            while batch := list(islice(rest, BATCH)):
                with interrupt_put_off():
                    deleted += index.delete(batch)
                given += len(batch)
        except BaseException:
            message(f"stopped after {given:,} ids: {deleted:,} documents are deleted")
            raise
    if given and not deleted:
        message(f"none of these ids is stored in {url}, nothing is deleted")
    output.summary({"ids": given, "deleted": deleted})


def _lines(file: BinaryIO | None) -> Iterator[str]:
    """The lines of a file that are not empty. Raises BadInput where one is not UTF-8."""
    lines: Iterable[bytes] = file or ()
    for number, line in enumerate(lines, 1):
        try:
            document = line.removeprefix(BOM if number == 1 else b"").rstrip(b"\r\n").decode()
        except UnicodeDecodeError as error:
            raise BadInput(f"--ids-file, line {number}: not UTF-8 at byte {error.start + 1}") from error
        if document:
            yield document
