"""`simhbase fingerprint`."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace

import click

from simhbase.cli.inputs import Console, end, input_options, or_stdin
from simhbase.cli.options import HidingCommand, ProfileOptions, profile_options_with_bits
from simhbase.cli.output import Output, results_option
from simhbase.corpus.inputs import Inputs
from simhbase.corpus.parser import Parser
from simhbase.corpus.trim import without_content
from simhbase.index import open_index
from simhbase.jobs.pipeline import Batch, ChunkFingerprinter
from simhbase.profile import Profile


@click.command(
    cls=HidingCommand,
    epilog="""\b
Examples:
  simhbase fingerprint news.jsonl.gz
  simhbase fingerprint --json --store rocksdb:news.db news.jsonl.gz > fingerprints.jsonl
  simhbase load --store rocksdb:news.db --fingerprint-field fingerprint fingerprints.jsonl
""",
)
@input_options
@click.option("--store", "url", metavar="URL", help="Take the profile of this store.")
@profile_options_with_bits()
@results_option
def fingerprint(inputs: Inputs, url: str | None, chosen: ProfileOptions, output: Output) -> None:
    """Print the fingerprint of each document, in input order.

    SIMHBASE_STORE is not looked at: only a store that --store names gives its profile.
    """
    inputs = or_stdin(replace(inputs, watcher=Console(prints_results=True)))
    inputs.require_outputs()
    profile = chosen.profile() if url is None else _stored_profile(url, chosen)
    work = ChunkFingerprinter(Parser(inputs.options), profile, without_content)
    with (
        inputs.noting_rejects() as rejects,
        closing(inputs.each(work)) as batches,
    ):
        for batch in batches:
            output.fingerprints(zip(batch.ids, _digits(batch), strict=True))
            rejects.note(batch)
    end(rejects.counts)


def _stored_profile(url: str, chosen: ProfileOptions) -> Profile:
    """A store's profile. Raises ProfileMismatch where an option or this machine differs from it."""
    with open_index(url, access="read") as index:
        index.profile.require(chosen.given)
        _ = index.fingerprinter
        return index.profile


def _digits(batch: Batch) -> Iterator[str]:
    """The fingerprints' hexadecimal digits."""
    digits = batch.fingerprints.values.astype(">u8").tobytes().hex()
    width = batch.bits // 4
    return (digits[start : start + width] for start in range(0, len(digits), width))
