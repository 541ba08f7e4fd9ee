"""The crawler of docs/crawler.md: Scrapy on a web server; and what its pipeline does with other pages."""

from __future__ import annotations

import runpy
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NoReturn

import pytest

from simhbase import Undecided
from tests.command_line import texts
from tests.examples import Reader, blocks, page, write_articles
from tests.web import Web

SHOWN = "127.0.0.1:8000"
BLOCKS = list(blocks(page("docs/crawler.md")))


def test_the_crawler_passes_on_what_is_new(tmp_path: Path) -> None:
    """On another port than the page's, as that may be taken."""
    write_articles(tmp_path)
    (tmp_path / "site").mkdir()
    reader = Reader(tmp_path)
    with Web(tmp_path / "site") as web:
        for language, block in BLOCKS:
            if language in ("sh", "console") or language.startswith("file "):
                reader.follow(language, block.replace(SHOWN, web.host))


class Stats(dict[str, int]):
    def inc_value(self, name: str) -> None:
        self[name] = self.get(name, 0) + 1


@pytest.fixture
def seen(tmp_path: Path) -> Iterator[Any]:
    """The pipeline as the page shows it last."""
    (tmp_path / "seen.py").write_text(dict(BLOCKS)["file seen.py"], "utf-8")
    pipeline = runpy.run_path(str(tmp_path / "seen.py"))["Seen"](Stats(), "memory:", "monday")
    pipeline.open_spider()
    yield pipeline
    pipeline.close_spider()


def test_a_crawl_that_is_resumed_passes_on_what_it_has_passed_on(seen: Any) -> None:
    (text,) = texts(1)
    assert seen.outcome("a", text) == seen.outcome("a", text) == ("new", "")
    seen.tags = {"run": "tuesday"}
    assert seen.outcome("a", text) == ("known", "stored by an earlier crawl")
    assert seen.outcome("b", text) == ("duplicate", "near a")


def test_a_page_with_another_text_is_passed_on_if_nothing_is_near(seen: Any) -> None:
    first, second, third = texts(3)
    assert [seen.outcome(*each)[0] for each in (("a", first), ("b", second))] == ["new", "new"]
    assert seen.outcome("a", first + " and more") == ("known", "hardly changed")
    assert seen.outcome("a", second) == ("duplicate", "near b")
    assert seen.outcome("a", third) == ("changed", "")
    assert seen.outcome("c", third) == ("duplicate", "near a")
    assert seen.outcome("d", first)[0] == "new"


def test_a_page_without_text_is_dropped(seen: Any) -> None:
    assert seen.outcome("a", "") == ("rejected", "the text is empty")


def test_a_page_that_cannot_be_decided_is_passed_on(seen: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def claim(*given: object, **options: object) -> NoReturn:
        raise Undecided("others took longer")

    monkeypatch.setattr(seen.index, "claim", claim)
    assert seen.outcome("a", "text") == ("undecided", "others took longer")
