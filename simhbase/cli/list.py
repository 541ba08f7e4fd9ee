"""`simhbase list`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import datetime

from simhbase.cli.options import command, scope_option, since_option, store_option, tag_option
from simhbase.cli.output import Output, results_option, times_met
from simhbase.model.stored import StoredDocument


@command(
    epilog="""\b
Examples:
  simhbase list --since 1d
  simhbase list --tag source=wire --json > stored.jsonl
""",
)
@store_option
@scope_option
@since_option("Documents")
@tag_option("Only documents with this tag. Repeatable: with all of them.", "Documents")
@results_option
def list(  # noqa: A001  # the command's name
    url: str, scope: str | None, since: datetime | None, tags: Mapping[str, str], output: Output
) -> None:
    """List the documents of a store.

    Prints fingerprint, tags and id of each, in no particular order. Reads all documents. If the store counts
    refused claims ('simhbase tables create --counts'), prints how many ids were refused because of each, and
    when the first and the last of them, in local time.
    """
    from simhbase.index import open_index

    with open_index(url, access="read", scope=scope) as index:
        output.records(index.stored(since, tags), _lines)


def _lines(document: StoredDocument) -> Iterator[str]:
    tags = "".join(f"{name}={value}  " for name, value in document.tags.items())
    yield f"{document.fingerprint}  {times_met(document.met)}{tags}{document.id}"
