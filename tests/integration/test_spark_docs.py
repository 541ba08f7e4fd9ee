"""The examples of docs/spark.md do what it shows."""

import pytest

from tests.examples import ROOT, Reader, blocks, page

LANGUAGES = {f"{name} spark": name for name in ("sh", "console", "python")}


@pytest.mark.spark
def test_examples_do_what_the_page_shows(spark, tmp_path):
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    reader = Reader(tmp_path)
    shown = page("docs/spark.md").replace(
        'json("articles")', f'json("{tmp_path}/articles")'
    )  # Java is elsewhere
    examples = [(language, block) for language, block in blocks(shown) if language in LANGUAGES]
    assert len(examples) == 3
    for language, block in examples:
        reader.follow(LANGUAGES[language], block)
