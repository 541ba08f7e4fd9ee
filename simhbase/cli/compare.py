"""`simhbase compare`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from simhbase.cli.inputs import input_options, with_console, without_ids
from simhbase.cli.options import command, option, profile_options, scope_option, store_option, text_option
from simhbase.cli.output import Output, json_option
from simhbase.cli.queries import print_explanations
from simhbase.errors import NoFingerprint, UsageError
from simhbase.model.explanations import Comparison, Explanation, Stretch

if TYPE_CHECKING:
    from simhbase.corpus.inputs import Inputs
    from simhbase.corpus.record import Reject
    from simhbase.index import Index

CONTEXT = 60  # characters of what both texts have, before and after what differs


@command(
    epilog="""\b
Examples:
  simhbase compare monday.html tuesday.html
  simhbase compare --profile short --text 'a short text' --text 'another short text'
  simhbase compare --id 20240101/3 --text '今天上午，北京市气象台发布大风蓝色预警信号。'
"""
)
@store_option
@scope_option
@text_option("Compare this text. Repeatable.", "Texts and documents")
@option(
    "--id ID",
    "Compare this stored document. Repeatable.",
    name="ids",
    group="Texts and documents",
    multiple=True,
)
@profile_options
@input_options(ids=False)
@json_option
def compare(
    inputs: Inputs,
    url: str,
    scope: str | None,
    texts: Sequence[str],
    ids: Sequence[str],
    profile: Mapping[str, object],
    output: Output,
) -> None:
    """Compare two texts, two stored documents, or one of each.

    A FILE holds one text. Files stand on the left, --id on the right. Two texts are compared word by word,
    under --profile, --set, or the profile of a --store that is given (SIMHBASE_STORE is ignored). Of a stored
    document only the fingerprint and the sketch are known: its drawers and its similarity are shown as by
    find --explain.
    """
    inputs.check_outputs()
    inputs.require_no_rejects("a file without a text is an error")
    texts = [*_texts_of(without_ids(with_console(inputs, prints_results=True))), *texts]
    if len(texts) + len(ids) != 2:
        raise UsageError(
            f"compare takes two texts or stored documents, not {len(texts) + len(ids)}: files that hold one "
            "text each, --text TEXT, --id ID"
        )
    source = click.get_current_context().get_parameter_source("url")
    if not ids and source is not ParameterSource.COMMANDLINE:
        if scope is not None:
            raise UsageError("is one of a store: give --store, whose profile is used", parameter="scope")
        from simhbase.profile.comparison import compare as compare_texts

        _show(compare_texts(texts[0], texts[1], profile), output)
        return

    from simhbase.index import open_index

    with open_index(url, access="read", scope=scope) as index:
        index.profile.require(profile)
        if not ids:
            _show(index.compare(texts[0], texts[1]), output)
            return
        if missing := index.not_stored(ids):
            raise UsageError(f"{url} holds no document {', '.join(map(repr, missing))}")
        *left, right = ids
        print_explanations([left[0] if left else None], [_explained(index, texts, left, right)], output)


@dataclass(frozen=True)
class _Texts:
    """The texts of a chunk, with the outcome of reading it."""

    texts: list[str]
    rejects: list[Reject]
    used: Mapping[str, int]

    @property
    def parsed(self) -> int:
        return len(self.texts)


def _texts_of(inputs: Inputs) -> Iterator[str]:
    """The texts of files. Raises UsageError for a file without one."""
    from simhbase.corpus.parser import Parser
    from simhbase.corpus.reading import read_each
    from simhbase.corpus.remote import public_name

    parser = Parser(inputs.options)
    for path in inputs.paths:
        first, count = list[str](), 0  # a file may have any number
        with closing(
            read_each(replace(inputs, paths=(path,)), lambda chunk: _Texts(*parser.texts(chunk)))
        ) as chunks:
            for chunk in chunks:
                if chunk.rejects:
                    raise UsageError(f"{public_name(path)}: {chunk.rejects[0].reason}")
                first = first or chunk.texts[:1]
                count += chunk.parsed
        if count != 1:
            raise UsageError(
                f"{public_name(path)} holds {count:,} texts, and compare takes one of a file: give the text "
                "by --text"
            )
        yield first[0]


def _explained(index: Index, texts: Sequence[str], ids: Sequence[str], right: str) -> Explanation:
    """What a lookup of a text or document says of another document alone."""
    if texts:
        found = index.explain(texts[0], right)
    else:
        (found,) = index.explain_ids(ids, candidate=right)
    if found.reason is not None:
        raise NoFingerprint(found.reason)
    candidates = tuple(each for each in found.candidates if each.id == right)
    return replace(found, candidates=candidates, more_candidates=0)


def _show(found: Comparison, output: Output) -> None:
    if output.as_json:
        output.summary(found)
        return
    shared = f"{len(found.drawers)} of {found.drawer_count}"
    values: dict[str, Any] = {
        "match": found.match,
        "exact similarity": found.jaccard,
        **_contained(found),
        "estimated similarity": found.similarity,
        "distance": found.distance,
        "shared drawers": f"{shared} ({', '.join(map(str, found.drawers))})" if found.drawers else shared,
    }
    for side, fingerprint, reason in zip(("left", "right"), found.fingerprints, found.reasons, strict=True):
        values[side] = reason or str(fingerprint)
    values |= {"notes": list(found.notes)} if found.notes else {}
    if found.words:
        values["words"] = [
            {"word": each.word, "left": each.left, "right": each.right} for each in found.words
        ]
    output.summary(values)
    output.records(["".join(map(_marked, found.stretches))], str.splitlines, str)
    if found.more_words:
        output.hint(f"and {found.more_words:,} more words that one text has more often")
    if found.whole:
        output.hint("a stretch was too long to compare word by word: all of it is shown as different")


def _contained(found: Comparison) -> dict[str, str]:
    if found.containment is None:
        return {}
    # Rounded down: 1.000 is all of a text.
    left, right = (f"{int(1000 * each) / 1000:.3f}" for each in found.containment)
    return {"containment": f"{left} of the left in the right, {right} of the right in the left"}


def _marked(stretch: Stretch) -> str:
    """A stretch as wdiff shows it: [-left-]{+right+}."""
    if stretch.same:
        cut = len(stretch.left) - 2 * CONTEXT
        if cut <= 0:
            return stretch.left
        return f"{stretch.left[:CONTEXT]} [... {cut:,} characters ...] {stretch.left[-CONTEXT:]}"
    left = f"[-{stretch.left}-]" if stretch.left else ""
    return left + (f"{{+{stretch.right}+}}" if stretch.right else "")
