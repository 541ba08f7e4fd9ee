"""`simhbase vacuum`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from simhbase.cli.consent import Consent, consent_options
from simhbase.cli.options import command, converted, option, part, seconds, store_option
from simhbase.cli.output import Output, json_option, message
from simhbase.errors import UsageError
from simhbase.process.progress import show_progress

if TYPE_CHECKING:
    from simhbase.index.part import Part


@command()
@store_option
@option(
    "--older-than TIME",
    "In HBase: remove only rows obsolete for this long, e.g. 12h.",
    default="1d",
    callback=converted(seconds),
)
@option(
    "--sweep I/N",
    "In HBase: also search part I of N of all fingerprints for rows left by crashes and races.",
    callback=converted(part),
)
@consent_options()
@json_option
def vacuum(url: str, older_than: int, sweep: Part | None, consent: Consent, output: Output) -> None:
    """Remove obsolete rows of updated and deleted documents, and expired documents.

    Run it every night; readers and writers can keep running. The command can be stopped and run again.
    Embedded stores, PostgreSQL and Redis have only expired documents to remove (simhbase tables create
    --ttl).

    --sweep first counts what it would remove, and asks before it removes more than half of the part, or all
    of fewer than ten rows; without a terminal it then needs --yes, which counts nothing. --dry-run counts
    this, too.
    """
    from simhbase.admin.vacuum import count_stale
    from simhbase.admin.vacuum import vacuum as remove

    if consent.dry_run:
        if sweep is None:
            raise UsageError("--dry-run counts what --sweep would remove: give both")
        removal = count_stale(url, sweep, older_than, progress=show_progress)
        output.summary({"would_remove": removal.removed, "listings": removal.of})
        return
    report = remove(url, older_than, sweep=sweep, agree=consent.agree, progress=show_progress)
    if report.removes_at_once and not (report.looked_at or report.refused_claims):
        message(f"{url} removes obsolete rows at once: nothing to do")
    output.summary(report)
