"""Looks up queries and prints the answers."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import chain
from typing import TYPE_CHECKING

from simhbase.cli.inputs import or_stdin, with_console
from simhbase.cli.output import Output, closeness, message, table
from simhbase.corpus.names import STDIN
from simhbase.model.values import Lookup

if TYPE_CHECKING:
    from simhbase.corpus.inputs import Inputs
    from simhbase.corpus.rejects import Rejects
    from simhbase.jobs.answers import Answer, AnsweredQueries
    from simhbase.model.explanations import Explanation


def documents_as_queries(inputs: Inputs, *, others: bool) -> Inputs:
    """The inputs; standard input if there are no other queries. Raises UsageError."""
    inputs = with_console(inputs, prints_results=True, prints_rejects=True)
    return inputs if others else or_stdin(inputs)


def answer(
    asked: Sequence[AnsweredQueries],
    others: Iterator[Sequence[Answer]],
    paths: Sequence[str],
    rejects: Rejects,
    output: Output,
    *,
    limits: str,
    exact: bool = False,
) -> None:
    """Print the answers to queries given by options, then those to the documents of files, and the number of
    queries with matches. others: answers to the documents of `paths`; limits: the options that cut answers;
    exact: similarities are no estimates.
    """
    from simhbase.corpus.paths import names_nothing

    queries = with_matches = truncated = 0
    for answers in chain(_noted(asked, rejects), others if paths else ()):
        show(answers, output, exact=exact)
        queries += len(answers)
        with_matches += sum(bool(each.lookup.matches) for each in answers)
        truncated += sum(each.lookup.truncated for each in answers)
    if not queries and any(given != STDIN and names_nothing(given) for given in paths):
        message("arguments are files: to look up a text, use --text TEXT")
    if queries > 1:
        output.hint(f"{with_matches:,} of {queries:,} queries have matches")
    if truncated:
        message(
            f"{truncated:,} of {queries:,} results are truncated: there may be more matches. Raise {limits}"
        )


def show(answers: Sequence[Answer], output: Output, *, exact: bool = False) -> None:
    output.records(
        answers,
        lambda each: _lookup_lines(each.id, each.lookup, exact=exact),
        lambda each: each.values,
    )


def _noted(asked: Sequence[AnsweredQueries], rejects: Rejects) -> Iterator[Sequence[Answer]]:
    for each in asked:
        yield each.answers
        rejects.note(each)


def explain(
    source: str,
    names: Sequence[str | None],
    explanations: Sequence[Explanation],
    rejects: Rejects,
    output: Output,
) -> None:
    """Print explanations of the queries of one option."""
    from simhbase.jobs.answers import AnsweredQueries

    print_explanations(names, explanations, output)
    lookups = [Lookup(each.fingerprint, reason=each.reason) for each in explanations]
    rejects.note(AnsweredQueries.of(source, names, lookups))


def print_explanations(
    names: Sequence[str | None], explanations: Sequence[Explanation], output: Output
) -> None:
    from simhbase.jobs.answers import with_id

    output.records(
        list(zip(names, explanations, strict=True)),
        lambda each: _explanation_lines(*each),
        lambda each: with_id(*each),
    )


def names_of(texts: Sequence[str]) -> Sequence[str | None]:
    """Names of texts in the output: none if there is only one."""
    return [None] if len(texts) == 1 else [f"text {number + 1}" for number in range(len(texts))]


def _title(query: str | None, found: Lookup | Explanation, matches: int) -> str:
    if found.fingerprint is None:
        return f"{query or 'no fingerprint'}: {found.reason}"
    name = str(found.fingerprint) if query is None else f"{found.fingerprint}  {query}"
    return f"{name}: " + (found.reason or f"{matches or 'no'} match{'es' * (matches != 1)}")


def _lookup_lines(query: str | None, found: Lookup, *, exact: bool) -> Iterator[str]:
    more = ", and there may be more (truncated)" if found.truncated else ""
    yield f"{_title(query, found, len(found.matches))}{more}"
    for match in found.matches:
        near = closeness(match.distance, match.similarity, exact=exact)
        yield f"  {near}  {match.fingerprint}  {match.id}"


def _explanation_lines(query: str | None, found: Explanation) -> Iterator[str]:
    yield _title(query, found, sum(each.verdict == "match" for each in found.candidates))
    drawers = [
        {
            "flag": each.flag,
            "bits": ", ".join(f"{start}-{start + width - 1}" for start, width in each.bits),
            "prefix": each.prefix,
            "rows": f"{each.rows:,}{' (truncated)' * each.truncated}",
            "candidates": each.candidates,
        }
        for each in found.drawers
    ]
    candidates = [
        {
            "verdict": each.verdict,
            "distance": "" if each.distance is None else each.distance,
            **({} if each.similarity is None else {"similarity": each.similarity}),
            "drawers": ",".join(map(str, each.drawers)),
            "fingerprint": "" if each.fingerprint is None else each.fingerprint,
            "id": "" if each.id is None else each.id,
        }
        for each in found.candidates
    ]
    for rows in (drawers, candidates):
        if rows:
            yield from (f"  {line}" for line in table(rows))
    yield from (f"  {note}" for note in found.notes)
    if found.more_candidates:
        yield f"  and {found.more_candidates:,} more distant fingerprints"
