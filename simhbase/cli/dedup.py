"""`simhbase dedup`."""

from __future__ import annotations

from pathlib import Path

import click

from simhbase.cli.inputs import UNIQUE_LINES, end, input_options_with_fingerprints, or_stdin, output_option
from simhbase.cli.options import (
    HidingCommand,
    ProfileOptions,
    min_similarity_option,
    profile_options_with_bits,
)
from simhbase.cli.output import Output, json_option
from simhbase.corpus.inputs import Inputs
from simhbase.jobs.dedup import dedup as dedup_documents


@click.command(
    cls=HidingCommand,
    epilog="""\b
Examples:
  simhbase dedup --unique unique.jsonl --duplicates duplicates.jsonl corpus.jsonl.gz
  simhbase dedup --keep newest --date-field day --duplicates duplicates.jsonl corpus.jsonl.gz
  simhbase dedup --against rocksdb:simhbase.db --unique new.jsonl today/
  simhbase dedup --bits 128 -k 6 --json 'parts/*.jsonl.zst'
""",
)
@input_options_with_fingerprints
@profile_options_with_bits("k")
@min_similarity_option(
    "Least Jaccard similarity of a match, counted exactly in what the fingerprints find; 0: compare no "
    "texts. [default: the threshold of a profile that has one (0.7), else 0.65]"
)
@click.option(
    "--keep",
    metavar="first|longest|newest|oldest|FIELD|-FIELD",
    help="Which document of a group to keep: the first in input order, the longest text, the newest or "
    "oldest by the field date (--date-field names another), or that with the greatest (-FIELD: least) value "
    "of a field; as numbers where all are, dates (ISO 8601) where all are, else as texts. [default: first]",
)
@click.option("--representative", hidden=True, help="The former name of --keep.")
@click.option(
    "--date-field", default="date", show_default=True, hidden=True, help="Field that --keep newest goes by."
)
@click.option(
    "--chains/--no-chains",
    default=False,
    show_default=True,
    help="A group is a connected component of matches; or a document that is kept and what matches it.",
)
@click.option(
    "--against",
    metavar="URL",
    help="A store, such as rocksdb:simhbase.db, whose documents count as kept: what matches one of them is "
    "its duplicate. The store stays as it is.",
)
@output_option("--unique", "File for the documents that are kept, and those without a match. " + UNIQUE_LINES)
@click.option(
    "--keep-rejected",
    is_flag=True,
    help="With --unique: list texts there, too, that are too short for a fingerprint, behind the others.",
)
@output_option("--duplicates", "File for the others, each with what is kept for it and its group.")
@output_option(
    "--evidence",
    "File for why each of the others was removed: the rule, the similarity of the texts, the words that "
    "differ.",
)
@json_option
def dedup(
    inputs: Inputs,
    chosen: ProfileOptions,
    min_similarity: float | None,
    keep: str | None,
    representative: str | None,
    date_field: str,
    chains: bool,
    against: str | None,
    unique: Path | None,
    keep_rejected: bool,
    duplicates: Path | None,
    evidence: Path | None,
    output: Output,
) -> None:
    """Find the near-duplicates within one corpus, without a store.

    A group is a document and all its matches: texts that share --min-similarity of their shingles, counted
    exactly. MinHash finds what is compared, nearly all that share 0.8 and more; with -k SimHash does.
    Groups are formed greedily: around the most preferred
    document (--keep), then around the most preferred of the rest, and so on; ties go to the first in input
    order, and documents without the field come last. With --chains a group is a connected component:
    documents that a chain of matches joins, so that two of them may have little in common. With -k all
    pairs within k bits are compared: a layout is chosen for it unless --layout names one.

    Fingerprints, and the values of --keep, are kept in memory. Until the end this takes room on disk: for
    texts and ids, and with --unique once more for the input without compression, beside the files that are
    written, or in the folder for temporary files where none are. --bits 128 takes longer fingerprints.

    A group is named by the id of its first document, whichever is kept. With --keep first, documents added
    behind the others change no group of these; another --keep may take some out of their group. With --chains
    added documents only ever join groups, and the earlier name stays.

    A store that --against names holds no texts: where it keeps sketches (scheme minhash, or --verify) these
    tell how similar its documents are, else their fingerprints alone decide. A document whose id is stored
    is no duplicate of itself; but of two that are stored and match, each is one of the other.
    """
    report = dedup_documents(
        or_stdin(inputs),
        chosen.given,
        min_similarity=min_similarity,
        keep=next(each for each in (keep, representative, "first") if each is not None),
        date_field=date_field,
        chains=chains,
        against=against,
        unique=unique,
        duplicates=duplicates,
        evidence=evidence,
        keep_rejected=keep_rejected,
    )
    output.report(report)
    if report.duplicates and not (unique or duplicates or evidence):
        output.hint("to see them: --duplicates FILE lists the duplicates, --unique FILE the other documents")
    end(report.counts)
