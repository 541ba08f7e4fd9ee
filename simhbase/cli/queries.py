"""What the commands share that look queries up."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import click

from simhbase.cli.inputs import Console, or_stdin
from simhbase.cli.options import converted
from simhbase.cli.output import Output, message
from simhbase.corpus.inputs import Inputs
from simhbase.corpus.paths import names_nothing
from simhbase.corpus.rejects import Rejects
from simhbase.corpus.sources import STDIN
from simhbase.errors import UsageError
from simhbase.index.reader import IDS_LIMIT
from simhbase.jobs.lookups import Answer, Asked, Searched, answers_to
from simhbase.model import Explanation, Lookup

_STORED = "--id"  # where queries come from that are stored documents


def fingerprints_of(values: Sequence[str]) -> list[int]:
    """Fingerprints as they are typed. Raises UsageError."""
    for value in values:
        if not re.fullmatch("[0-9a-fA-F]{16}", value):
            raise UsageError(f"{value!r} is no fingerprint: 16 hexadecimal digits are needed")
    return [int(value, 16) for value in values]


text_option = click.option("--text", "texts", multiple=True, help="Look this text up; may be repeated.")
fingerprint_option = click.option(
    "--fingerprint",
    "fingerprints",
    callback=converted(fingerprints_of),
    multiple=True,
    metavar="HEX",
    help="Look this fingerprint up; may be repeated.",
)
ids_limit_option = click.option(
    "--ids-limit",
    type=click.IntRange(min=1),
    default=IDS_LIMIT,
    metavar="N",
    show_default=True,
    hidden=True,
    help="List at most N documents of one fingerprint.",
)


def documents_as_queries(inputs: Inputs, *, others: bool) -> Inputs:
    """The inputs; standard input if there are no other queries either. Raises UsageError."""
    inputs = replace(inputs, watcher=Console(prints_results=True, prints_rejects=True))
    return inputs if others else or_stdin(inputs)


def answer(
    searched: Searched,
    inputs: Inputs,
    rejects: Rejects,
    output: Output,
    *,
    texts: Sequence[str] = (),
    ids: Sequence[str] = (),
    fingerprints: Sequence[int] = (),
    exclude_self: bool = False,
) -> None:
    """Prints the matches of the queries of options, then of the documents of the inputs; in the end how
    many queries have any. exclude_self: without the document that has the query's own id."""
    found = _Found()
    for asked in _asked(searched, texts, ids, fingerprints):
        stored = asked.source == _STORED
        answers = (
            [each.without_self() for each in asked.answers] if exclude_self and stored else asked.answers
        )
        output.lookups(found.counting(answers))
        rejects.note(asked)
    if inputs.paths:
        for answers in answers_to(inputs, searched, rejects, exclude_self=exclude_self):
            output.lookups(found.counting(answers))
        if not found.queries and any(given != STDIN and names_nothing(given) for given in inputs.paths):
            message("arguments are files: a text is looked up with --text TEXT")
    if found.queries > 1:
        output.end(f"{found.with_matches:,} of {found.queries:,} queries have matches")


def explained(
    source: str,
    names: Sequence[str | None],
    explanations: Sequence[Explanation],
    rejects: Rejects,
    output: Output,
) -> None:
    """Prints what the lookups of queries did that were given as options of one name."""
    output.explanations(zip(names, explanations, strict=True))
    lookups = [Lookup(each.fingerprint, reason=each.reason) for each in explanations]
    rejects.note(Asked(source, list(map(Answer, names, lookups))))


@dataclass
class _Found:
    """How many queries were answered, and how many of them have matches."""

    queries: int = 0
    with_matches: int = 0

    def counting(self, answers: Sequence[Answer]) -> Sequence[Answer]:
        """The answers, which are counted."""
        self.queries += len(answers)
        self.with_matches += sum(bool(each.lookup.matches) for each in answers)
        return answers


def names_of(texts: Sequence[str]) -> Sequence[str | None]:
    """What answers call texts of options: nothing where there is one alone."""
    return [None] if len(texts) == 1 else [f"text {number + 1}" for number in range(len(texts))]


def _asked(
    searched: Searched, texts: Sequence[str], ids: Sequence[str], fingerprints: Sequence[int]
) -> Iterator[Asked]:
    if texts:
        yield Asked("--text", list(map(Answer, names_of(texts), searched.of_texts(texts))))
    if ids:
        yield Asked(_STORED, list(map(Answer, ids, searched.of_ids(ids))))
    if fingerprints:
        names = [None] * len(fingerprints)  # the answer has the fingerprint
        yield Asked("--fingerprint", list(map(Answer, names, searched.of_fingerprints(fingerprints))))
