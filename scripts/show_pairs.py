#!/usr/bin/env python3
"""Shows the most instructive of the near-duplicate pairs that `simhbase find --json` printed.

usage: simhbase find --json FILE.jsonl | scripts/show_pairs.py FILE.jsonl
"""

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from pathlib import Path
from typing import Any

import orjson
from rich.console import Console
from rich.padding import Padding
from rich.text import Text

from simhbase.text.features import tokens
from simhbase.text.normalise import normalise

SHOWN = 5
CONTEXT = 8  # words shown around a difference
INDENT = 2
DIFFERENCES = 4  # shown of one pair
IDEAL = 0.06  # share of differing words that teaches most: clearly edited, clearly the same
LONGEST = 3_000  # tokens; longer pairs are not considered


@dataclass(frozen=True)
class Pair:
    """Two different texts that were found near each other."""

    one: dict[str, Any]
    other: dict[str, Any]
    distance: int


@dataclass(frozen=True)
class Difference:
    """A pair with its words and where they differ."""

    pair: Pair
    left: list[str]
    right: list[str]
    changes: Sequence[tuple[str, int, int, int, int]]

    @property
    def share(self) -> float:
        changed = sum(i2 - i1 + j2 - j1 for _, i1, i2, j1, j2 in self.changes)
        return changed / (len(self.left) + len(self.right))


def main() -> None:
    records = [orjson.loads(line) for line in Path(sys.argv[1]).read_bytes().splitlines()]
    articles = {record["id"]: record for record in records}
    answers = [orjson.loads(line) for line in sys.stdin.buffer]
    pairs = [
        Pair(articles[answer["id"]], articles[match["id"]], match["distance"])
        for answer in answers
        for match in answer["matches"]
        if answer["id"] < match["id"]
    ]
    near = [pair for pair in pairs if normalise(pair.one["text"]) != normalise(pair.other["text"])]
    equal = len(pairs) - len(near)
    with_duplicates = sum(len(answer["matches"]) > 1 for answer in answers)
    console = Console(highlight=False)
    for line in (
        f"{with_duplicates:,} of {len(articles):,} articles have a near-duplicate.",
        f"{equal:,} pairs of them have the same text, {len(near):,} pairs differ.",
        "The most instructive pairs ([-only in the first article-], {+only in the second+}):\n",
    ):
        console.print(line, markup=False, soft_wrap=True)
    for difference in instructive(near):
        show(console, difference)


def instructive(pairs: list[Pair]) -> list[Difference]:
    """Those whose share of differing words is nearest to the ideal; no article twice."""
    differences = sorted(map(compare, pairs), key=lambda difference: abs(difference.share - IDEAL))
    chosen: list[Difference] = []
    seen: set[str] = set()
    for difference in differences:
        texts = {difference.pair.one["text"], difference.pair.other["text"]}
        if difference.changes and not seen & texts and len(difference.left) < LONGEST:
            chosen.append(difference)
        seen |= texts
    return sorted(chosen[:SHOWN], key=lambda difference: difference.share)


def compare(pair: Pair) -> Difference:
    left, right = tokens(pair.one["text"]), tokens(pair.other["text"])
    matcher = SequenceMatcher(None, left, right, autojunk=False)
    changes = [step for step in matcher.get_opcodes() if step[0] != "equal"]
    return Difference(pair, left, right, changes)


def show(console: Console, difference: Difference) -> None:
    pair = difference.pair
    console.print(
        f"[bold]{pair.one['id']}[/] and [bold]{pair.other['id']}[/]: {pair.distance} of 64 bits differ, "
        f"{difference.share:.1%} of the words"
    )
    for change in difference.changes[:DIFFERENCES]:
        line = excerpt(difference, change, console.width - INDENT)
        console.print(Padding(line, (0, 0, 0, INDENT), expand=False))
    more = len(difference.changes) - DIFFERENCES
    console.print(f"  and {more} more {'place' if more == 1 else 'places'}\n" if more > 0 else "")


def excerpt(difference: Difference, change: tuple[str, int, int, int, int], width: int) -> Text:
    """A place that differs among as many neighbours as fit in a line, at most CONTEXT on each side."""
    for context in range(CONTEXT, 0, -1):
        line = marked(difference, change, context)
        if line.cell_len <= width:
            break
    return line


def marked(difference: Difference, change: tuple[str, int, int, int, int], context: int) -> Text:
    """A place among its neighbours: what only the first text has in red and [-so-], what only the
    second has in green and {+so+}."""
    left, right = difference.left, difference.right
    _, i1, i2, j1, j2 = change
    line = Text(f"... {spaced(left[max(0, i1 - context) : i1])} " if i1 else "")
    if i2 > i1:
        line.append(f"[-{shortened(left[i1:i2], 3 * context)}-]", style="red")
    if j2 > j1:
        line.append(f"{{+{shortened(right[j1:j2], 3 * context)}+}}", style="green")
    line.append(f" {spaced(left[i2 : i2 + context])} ..." if i2 < len(left) else "")
    return line


def shortened(words: list[str], most: int) -> str:
    return spaced(words) if len(words) <= most else f"{spaced(words[:most])} ..."


def spaced(words: list[str]) -> str:
    """Chinese words follow each other without a space."""
    text = ""
    for word in words:
        apart = text and text[-1].isascii() and word[0].isascii()
        text += f" {word}" if apart else word
    return text


if __name__ == "__main__":
    main()
