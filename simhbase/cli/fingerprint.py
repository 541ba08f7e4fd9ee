"""`simhbase fingerprint`."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing

import click

from simhbase.bulk.parser import Parser
from simhbase.bulk.pipeline import Batch, ChunkFingerprinter, without_content
from simhbase.cli.inputs import Inputs, input_options
from simhbase.cli.options import ProfileOptions, profile_options_with_bits
from simhbase.cli.output import Output, json_option
from simhbase.cli.progress import progress_beside_results
from simhbase.index import open_index
from simhbase.profile import Profile


@click.command(
    epilog="""\b
Examples:
  simhbase fingerprint news.jsonl.gz
  simhbase fingerprint --json --store rocksdb:news.db news.jsonl.gz > fingerprints.jsonl
  simhbase load --store rocksdb:news.db --fingerprint-field fingerprint fingerprints.jsonl
"""
)
@input_options
@click.option("--store", "url", metavar="URL", help="Take the profile of this store.")
@profile_options_with_bits
@json_option
def fingerprint(inputs: Inputs, url: str | None, chosen: ProfileOptions, output: Output) -> None:
    """Print the fingerprint of each document, in input order.

    SIMHBASE_STORE is not looked at: only a store that --store names gives its profile.
    """
    inputs.check_outputs()
    paths = inputs.or_stdin()
    profile = chosen.profile() if url is None else _stored_profile(url, chosen)
    work = ChunkFingerprinter(Parser(inputs.options), profile, without_content)
    with (
        inputs.noting_rejects() as rejects,
        closing(inputs.each(work, paths, progress_beside_results)) as batches,
    ):
        for batch in batches:
            output.fingerprints(zip(batch.ids, _digits(batch), strict=True))
            rejects.note(batch)
    rejects.end()


def _stored_profile(url: str, chosen: ProfileOptions) -> Profile:
    """A store's profile. Raises ProfileMismatch where an option or this machine differs from it."""
    with open_index(url, access="read") as index:
        index.profile.require(chosen.given)
        _ = index.fingerprinter
        return index.profile


def _digits(batch: Batch) -> Iterator[str]:
    """The fingerprints' hexadecimal digits."""
    digits = batch.prints.values.astype(">u8").tobytes().hex()
    width = batch.bits // 4
    return (digits[start : start + width] for start in range(0, len(digits), width))
