"""`simhbase migrate`."""

from __future__ import annotations

from collections.abc import Mapping

import click

from simhbase.admin.migrate import count_missing
from simhbase.admin.migrate import migrate as copy
from simhbase.cli.consent import Consent, consent_options
from simhbase.cli.inputs import DONE_WITH_REJECTS
from simhbase.cli.options import command, option, profile_options, store_option
from simhbase.cli.output import Output, json_option, message
from simhbase.errors import UsageError
from simhbase.progress import show_progress


@command(
    epilog="""\b
Examples:
  simhbase migrate --to rocksdb:news-6x3.db --set layout=6x3
  simhbase migrate --to 'hbase://gateway/news?thrift2=9091'
"""
)
@store_option
@option("--to URL", "Store to copy to; created if missing.", group="Store", required=True)
@profile_options
@option("--delete-missing", "Also delete from --to what is no longer in --store.")
@consent_options()
@json_option
def migrate(
    url: str,
    to: str,
    profile: Mapping[str, object],
    delete_missing: bool,
    consent: Consent,
    output: Output,
) -> None:
    """Copy the documents of a store to another one, also with another layout or on a server.

    Texts are not needed: the profile is kept, except for layout, k, reach, bands and threshold (--set).
    Readers and writers can keep using --store. To switch: run it again to catch up, stop the
    writers, add --delete-missing to a last run, and use the new store. A run can be stopped and run again.

    --delete-missing first counts what it would delete, and asks before it deletes more than half of the
    documents in --to, or all of fewer than ten; without a terminal it then needs --yes, which counts nothing.
    """
    if consent.dry_run:
        if not delete_missing:
            raise UsageError("--dry-run counts what --delete-missing would delete: give both")
        removal = count_missing(url, to, progress=show_progress)
        output.summary({"would_delete": removal.removed, "documents": removal.of})
        return
    report = copy(
        url, to, profile, delete_missing=delete_missing, agree=consent.agree, progress=show_progress
    )
    output.summary(report)
    if report.expired:
        message(f"documents left out, older than the time to live of {to}: {report.expired:,}")
    if report.too_young:
        message(
            f"documents kept in {to} that are not in {url}: {report.too_young:,}. They were written since "
            "this run began, or by a machine whose clock was ahead; a later run deletes them"
        )
    if report.lost_sketches or report.unreadable_rows:
        message(f"some documents were not copied: run 'simhbase check --store {url}' to see what is damaged")
        click.get_current_context().exit(DONE_WITH_REJECTS)
