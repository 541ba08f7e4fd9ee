"""`simhbase migrate`."""

from __future__ import annotations

import click

from simhbase.admin.migrate import migrate as copy
from simhbase.cli.inputs import DONE_WITH_REJECTS
from simhbase.cli.options import HidingCommand, ProfileOptions, profile_options, store_option
from simhbase.cli.output import Output, json_option, message
from simhbase.cli.progress import progress


@click.command(
    cls=HidingCommand,
    epilog="""\b
Examples:
  simhbase migrate --to rocksdb:news-6x3.db --layout 6x3
  simhbase migrate --to 'hbase://gateway/news?thrift2=9091'
""",
)
@store_option
@click.option("--to", required=True, metavar="URL", help="The other store.")
@profile_options("layout", "k", "bands", "threshold")
@click.option(
    "--delete-missing",
    is_flag=True,
    help="Also delete what --to has and --store has not, but for what is written there meanwhile.",
)
@json_option
def migrate(url: str, to: str, chosen: ProfileOptions, delete_missing: bool, output: Output) -> None:
    """Copy the documents of a store to another one, with other drawers or in HBase.

    Texts are not needed: fingerprints and sketches stay what they are, and so does the profile but for
    --layout, -k, --bands and --threshold. A store that does not exist is created; in HBase through a Thrift 2
    gateway, with regions for as many documents and the same time to live ('simhbase tables create' makes
    one with others).

    Readers and writers may go on with --store meanwhile. Run it again to catch up with them, stop the
    writers, run it once more with --delete-missing, and give all of them the other store. A run may be
    stopped at any time and run again. A document that is the same in both stores costs a read; one that was
    written to --to later stays as it is there.
    """
    report = copy(url, to, chosen.given, delete_missing=delete_missing, progress=progress)
    output.report(report)
    if report.expired:
        message(f"documents left out, as they are older than the time to live of {to}: {report.expired:,}")
    if report.too_young:
        message(
            f"documents that {to} keeps, though {url} does not have them: {report.too_young:,}. They were "
            "written since this began, or by a machine whose clock was ahead: a later run deletes them"
        )
    if report.lost_sketches or report.unreadable_rows:
        message(f"not all was copied: simhbase check --store {url} says what is damaged; load it again")
        click.get_current_context().exit(DONE_WITH_REJECTS)
