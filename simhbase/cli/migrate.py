"""`simhbase migrate`."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Literal

import click

from simhbase.admin.migrate import count_missing
from simhbase.admin.migrate import migrate as copy
from simhbase.admin.salvage import Loss
from simhbase.admin.salvage import salvage as rescue
from simhbase.cli.consent import Consent, consent_options
from simhbase.cli.inputs import DONE_WITH_REJECTS
from simhbase.cli.options import (
    WrittenFile,
    command,
    converted,
    option,
    profile_options,
    seconds,
    store_option,
)
from simhbase.cli.output import Output, json_option, message
from simhbase.corpus.outputs.files import OutputFile, files_in_place
from simhbase.errors import UsageError
from simhbase.model.wire import encode_any_text
from simhbase.process.progress import show_progress


def _ttl(typed: str) -> int | Literal["never"]:
    return "never" if typed == "never" else seconds(typed)


@command(
    epilog="""\b
Examples:
  simhbase migrate --to rocksdb:news-6x3.db --set layout=6x3
  simhbase migrate --to 'hbase://gateway/news?thrift2=9091'
  simhbase migrate --store rocksdb:damaged.db --to rocksdb:new.db --salvage lost.jsonl
"""
)
@store_option
@option("--to URL", "Store to copy to; created if missing.", group="Store", required=True)
@option("--scope NAME", "Copy into this scope of --to.", group="Store")
@profile_options
@option(
    "--ttl TIME",
    "Documents expire in --to this long after their last write, e.g. 30d, or never. [default: as in --store]",
    group="Store",
    callback=converted(_ttl),
)
@option("--delete-missing", "Also delete from --to what is no longer in --store.")
@option(
    "--salvage FILE",
    "Copy what can be read of a damaged --store, and list here what is lost.",
    type=WrittenFile(dir_okay=False, path_type=Path),
)
@consent_options()
@json_option
def migrate(
    url: str,
    to: str,
    scope: str | None,
    profile: Mapping[str, object],
    ttl: int | Literal["never"] | None,
    delete_missing: bool,
    salvage: Path | None,
    consent: Consent,
    output: Output,
) -> None:
    """Copy the documents of a store to another one, also with another layout or on a server.

    Texts are not needed: the profile is kept, except for layout, k, reach, bands and threshold (--set).
    Readers and writers can keep using --store. To switch: run it again to catch up, stop the
    writers, add --delete-missing to a last run, and use the new store. A run can be stopped and run again.

    --delete-missing first counts what it would delete, and asks before it deletes more than half of the
    documents in --to, or all of fewer than ten; without a terminal it then needs --yes, which counts nothing.

    --salvage copies documents and the mute list, and changes nothing in --store, which no process may write
    meanwhile. FILE gets a JSON line for each lost document and each damage. If the profile is lost, too, give
    it with --profile. The exit code is 3 if anything is lost.
    """
    if salvage:
        if delete_missing or consent.dry_run:
            raise UsageError(
                "--salvage cannot be combined with --delete-missing or --dry-run: what a damaged store lacks "
                "may have been in it"
            )
        if scope is not None:
            raise UsageError("--salvage copies whole stores: give --scope to a later 'simhbase migrate'")
        if ttl is not None:
            raise UsageError("--salvage keeps the time to live: give --ttl to a later 'simhbase migrate'")
        _salvage(url, to, profile, salvage, consent, output)
        return
    if consent.dry_run:
        if not delete_missing:
            raise UsageError("--dry-run counts what --delete-missing would delete: give both")
        removal = count_missing(url, to, scope=scope, progress=show_progress)
        output.summary({"would_delete": removal.removed, "documents": removal.of})
        return
    report = copy(
        *(url, to, profile),
        scope=scope,
        ttl=ttl,
        delete_missing=delete_missing,
        agree=consent.agree,
        progress=show_progress,
    )
    output.summary(report)
    for warning in report.warnings:
        message(f"warning: {warning}")
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


def _salvage(
    url: str, to: str, profile: Mapping[str, object], listed: Path, consent: Consent, output: Output
) -> None:
    consent.require_replacing(files_in_place([listed]))
    with OutputFile(listed, keep_partial=False) as file:

        def lost(loss: Loss) -> None:
            file.write([encode_any_text(loss)])

        report = rescue(url, to, profile, lost=lost, progress=show_progress)
    output.summary(report)
    if not report.whole:
        message(f"something was lost: {listed} lists it. Load the texts again: stored ones are not changed")
        click.get_current_context().exit(DONE_WITH_REJECTS)
