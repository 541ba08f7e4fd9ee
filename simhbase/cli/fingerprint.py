"""`simhbase fingerprint`."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import closing
from typing import TYPE_CHECKING

from simhbase.cli.inputs import end, input_options, or_stdin, with_console
from simhbase.cli.options import command, option, profile_options
from simhbase.cli.output import Output, results_option

if TYPE_CHECKING:
    from simhbase.corpus.inputs import Inputs
    from simhbase.profile.profile import Profile


@command(
    epilog="""\b
Examples:
  simhbase fingerprint news.jsonl.gz
  simhbase fingerprint --json --set verify=false news.jsonl.gz > fingerprints.jsonl
  simhbase load --store rocksdb:bare.db --fingerprint-field fingerprint fingerprints.jsonl
"""
)
@option("--store URL", "Use this store's profile.", name="url", group="Profile")
@profile_options
@input_options()
@results_option
def fingerprint(inputs: Inputs, url: str | None, profile: Mapping[str, object], output: Output) -> None:
    """Print the fingerprint of each document, in input order.

    SIMHBASE_STORE is ignored: give --store to use a store's profile.
    """
    from simhbase.corpus.outputs.trim import without_content
    from simhbase.corpus.parser import Parser
    from simhbase.corpus.reading import read_each
    from simhbase.jobs.pipeline import ChunkFingerprinter
    from simhbase.profile.profile import make_profile

    inputs = or_stdin(with_console(inputs, prints_results=True))
    inputs.require_outputs()
    used = make_profile(profile) if url is None else _stored_profile(url, profile)
    work = ChunkFingerprinter(Parser(inputs.options), used.fingerprinter(), without_content)
    with inputs.noting_rejects() as rejects, closing(read_each(inputs, work)) as batches:
        for batch in batches:
            digits = batch.fingerprints.values.astype(">u8").tobytes().hex()
            width = batch.bits // 4
            cut = (digits[start : start + width] for start in range(0, len(digits), width))
            output.records(
                zip(batch.ids, cut, strict=True),
                lambda each: [f"{each[1]}  {each[0]}"],
                lambda each: {"id": each[0], "fingerprint": each[1]},
            )
            rejects.note(batch)
    end(rejects.counts, inputs)


def _stored_profile(url: str, given: Mapping[str, object]) -> Profile:
    """A store's profile. Raises ProfileMismatch if a parameter or this machine differs from it."""
    from simhbase.index import open_index

    with open_index(url, access="read") as index:
        index.profile.require(given)
        _ = index.fingerprinter
        return index.profile
