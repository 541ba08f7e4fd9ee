"""The examples of docs/spark.md do what it shows."""

import shlex
from contextlib import closing

import pytest

from simhbase.index.stored_profile import write_profile
from simhbase.profile.profile import Profile
from simhbase.stores import open_store
from simhbase.stores.hbase.tools import VARIABLE
from tests.examples import ROOT, Reader, blocks, page

LANGUAGES = ("sh", "console", "python")


@pytest.mark.full
@pytest.mark.spark
def test_examples_do_what_the_page_shows(spark, tmp_path):
    """Commands start a Java of their own, which takes long."""
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    reader = Reader(tmp_path)
    shown = page("docs/spark.md")
    for folder in ('json("articles', 'work="work'):
        assert folder in shown
        before, _, name = folder.rpartition('"')
        shown = shown.replace(folder, f'{before}"{tmp_path}/{name}')  # Java is elsewhere
    chosen = {f"{language} spark": language for language in LANGUAGES}
    examples = [(chosen[language], block) for language, block in blocks(shown) if language in chosen]
    assert list(dict.fromkeys(language for language, _ in examples)) == list(LANGUAGES)
    for language, block in examples:
        reader.follow(language, block)


@pytest.mark.full
@pytest.mark.hbase
@pytest.mark.spark
def test_rows_for_hbase_are_made_and_loaded_as_the_page_shows(hbase, tmp_path):
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    reader = Reader(tmp_path)
    url = hbase.empty_store("shown")
    with closing(open_store(url, "write")) as store:
        write_profile(store, Profile(verify=False))
    reader.variables = {"SIMHBASE_STORE": url, VARIABLE: shlex.join(hbase.command("run"))}
    shown = list(blocks(page("docs/spark.md")))
    (articles,) = [block for language, block in shown if language == "sh spark"]
    (loading,) = [block for language, block in shown if language == "console spark hbase"]
    reader.follow("sh", articles)
    reader.follow("console", loading)
