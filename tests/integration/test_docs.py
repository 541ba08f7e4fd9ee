"""The pages of docs: their examples do what they show, and they are a site whose links lead somewhere."""

import csv
import doctest
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.examples import ROOT, Reader, blocks, page, write_articles

RUN = ("sh", "python", "console")  # also with "full" behind
HBASE = ("hbase.md", "hbase-operations.md")  # need servers: test_hbase_docs.py
SERVED = ("crawler.md",)  # needs a web server: test_crawler_docs.py
PAGES = [
    path.name
    for path in sorted((ROOT / "docs").glob("*.md"))
    if path.name not in (*HBASE, *SERVED)
    and not path.is_symlink()
    and any(language.split()[0] in RUN for language, _ in blocks(path.read_text("utf-8")))
]


@pytest.fixture
def reader(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Reader:
    """In a folder with the demo's articles, and some of them as news.jsonl. Hugging Face's `datasets` asks no
    server, and keeps its copies there."""
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    monkeypatch.setenv("HF_HOME", str(tmp_path / "hugging-face"))
    write_articles(tmp_path)
    lines = (tmp_path / "articles.jsonl").read_text("utf-8").splitlines(keepends=True)
    (tmp_path / "news.jsonl").write_text("".join(lines[:300]), "utf-8")
    return Reader(tmp_path)


@pytest.mark.parametrize("name", PAGES)
def test_examples_do_what_the_page_shows(reader: Reader, name: str) -> None:
    for language, block in blocks(page(f"docs/{name}")):
        if language in RUN or language.startswith("file "):
            reader.follow(language, block)


def test_examples_in_python_fit_the_types(tmp_path: Path) -> None:
    """Without errors for values that may be None, which a reader of the page knows not to be."""
    parser = doctest.DocTestParser()
    for path in (ROOT / "README.md", *(ROOT / "docs" / name for name in (*PAGES, *SERVED))):
        shown = list(blocks(path.read_text("utf-8")))
        code = [block for name, block in shown if name.split()[0] == "python"]
        source = "".join(example.source for block in code for example in parser.get_examples(block))
        (tmp_path / f"page_{path.stem.replace('-', '_')}.py").write_text(source, "utf-8")
        for name, block in shown:
            if name.startswith("file ") and name.endswith(".py"):
                (tmp_path / name.removeprefix("file ")).write_text(block, "utf-8")
    options = ("--no-strict-optional", "--check-untyped-defs", "--allow-redefinition")
    others = ("--config-file=", "--ignore-missing-imports", "--disable-error-code=operator")
    command = [sys.executable, "-m", "mypy", *options, *others, *map(str, tmp_path.glob("*.py"))]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "Success" in done.stdout


@pytest.mark.full
@pytest.mark.parametrize("name", PAGES)
def test_examples_that_take_long_do_what_the_page_shows(reader: Reader, name: str) -> None:
    for language, block in blocks(page(f"docs/{name}")):
        if language.removesuffix(" full") in RUN and language.endswith(" full"):
            reader.follow(language.removesuffix(" full"), block)


def test_the_tutorial_has_examples() -> None:
    assert "tutorial.md" in PAGES


def test_the_site_has_every_page_and_the_links_between_them(tmp_path: Path) -> None:
    """In a copy, as the site is written beside the docs."""
    for name in ("simhbase/docs", "schema"):
        shutil.copytree(ROOT / name, tmp_path / name, symlinks=True)
    for path in (ROOT / "mkdocs.yml", *ROOT.glob("*.md")):
        shutil.copy(path, tmp_path)
    build = [sys.executable, "-m", "zensical", "build", "--strict"]
    done = subprocess.run(build, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    site = tmp_path / "build-site"
    missing = [
        path.stem for path in (ROOT / "docs").glob("*.md") if not (site / f"{path.stem}.html").exists()
    ]
    assert missing == []
    assert 'href="schema/format.html"' in (site / "how.html").read_text("utf-8")
    foreign = re.compile(r"<(?:link|script|img)[^>]+//")
    assert not [path for path in site.rglob("*.html") if foreign.search(path.read_text("utf-8"))]


@pytest.mark.parametrize("name", ["ARCHITECTURE.md", "CHANGELOG.md", "CONTRIBUTING.md"])
def test_pages_at_the_root_are_links_in_the_docs(name: str) -> None:
    """A copy would go its own way. Editors that replace a file by a new one make copies of links."""
    assert (ROOT / "simhbase" / "docs" / name).resolve() == ROOT / name


NAMED = re.compile(r"(?<![\w/.-])(?:simhbase|tests|scripts|schema|docs|docker)/[\w/-]*\w(?:\.\w+)*")


def test_files_of_the_repository_that_pages_name_exist() -> None:
    folders = (ROOT, ROOT / "docs", ROOT / "schema", ROOT / "docker")
    pages = [path for folder in folders for path in folder.glob("*.md")]
    named = [(path.name, name) for path in pages for name in NAMED.findall(path.read_text("utf-8"))]
    assert len(named) > 50
    missing = [(path, name) for path, name in named if "NAME" not in name and not (ROOT / name).exists()]
    assert missing == []


def test_the_figures_of_the_page_on_quality_are_those_of_its_tables():
    figure = re.compile(r"\d+\.\d \(\d+-\d+\)")
    tables = "".join(path.read_text("utf-8") for path in (ROOT / "docs" / "quality").glob("*.csv"))
    shown = set(figure.findall(page("docs/quality.md")))
    assert len(shown) > 50
    assert shown <= set(figure.findall(tables))


def test_the_changes_that_still_match_are_those_of_their_table() -> None:
    text = page("docs/choosing.md").partition("## Which changes still match\n")[2].partition("\n## ")[0]
    with (ROOT / "docs" / "quality" / "which-changes-still-match.csv").open(encoding="utf-8") as file:
        measured = {(row["texts"], row["words"], row["change"]): row for row in csv.DictReader(file)}
    lines = re.findall(r"^\| (.*) \|$", text, re.MULTILINE)
    by_change = [line.split(" | ") for line in lines if line[0].isdigit() or line.startswith("a ")]
    assert len(by_change) == 14
    for number, (change, similarity, *shares) in enumerate(by_change):
        row = measured[("English documentation", "Chinese news")[number // 7], "300", change]
        assert similarity == f"{row['similarity']} ({row['lowest tenth']}-{row['highest tenth']})"
        assert shares == [row[way].split()[0] for way in ("default", "complete", "short", "dedup")]
    head = next(line.split(" | ") for line in lines if line.startswith("found by"))
    changes = [measured["English documentation", "300", change] for change in head[1:]]
    by_threshold = [line.split(" | ") for line in lines if line.startswith(("store, ", "`"))]
    ways = [way for way in changes[0] if way.startswith(("default", "complete", "dedup"))]
    given = sorted(shares for _, *shares in by_threshold)
    assert given == sorted([row[way].split()[0] for row in changes] for way in ways)
