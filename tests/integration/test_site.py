"""The docs as a site, in a browser: nothing is cut without a sign, and pictures fit the scheme of colours."""

from __future__ import annotations

import io
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from playwright.sync_api import Browser, Page

from tests.examples import ROOT

pytestmark = pytest.mark.browser
# Contents that are wider than their box, which has no scrollbar.
CUT = """[...document.querySelectorAll(".md-content table, .md-content pre > code")]
    .map(each => each.closest(".md-typeset__scrollwrap") ?? each)
    .filter(each => each.scrollWidth > each.clientWidth && getComputedStyle(each).overflowX != "auto")
    .map(each => each.textContent.slice(0, 60))"""


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Of a copy, as the site is written beside the docs."""
    folder = tmp_path_factory.mktemp("site")
    for name in ("simhbase/docs", "schema"):
        shutil.copytree(ROOT / name, folder / name, symlinks=True)
    for path in (ROOT / "mkdocs.yml", *ROOT.glob("*.md")):
        shutil.copy(path, folder)
    subprocess.run([sys.executable, "-m", "zensical", "build"], cwd=folder, check=True, capture_output=True)
    return folder / "build-site"


def opened(browser: Browser, page: Path, width: int, scheme: str) -> Page:
    context = browser.new_context(viewport={"width": width, "height": 900}, color_scheme=scheme)  # type: ignore[arg-type]
    found = context.new_page()
    found.goto(page.as_uri())
    return found


@pytest.mark.parametrize("width", [1280, 390])
@pytest.mark.parametrize("name", ["quality", "benchmarks", "planning", "reference/commands", "using"])
def test_no_table_is_cut_without_a_sign(browser: Browser, site: Path, name: str, width: int) -> None:
    page = opened(browser, site / f"{name}.html", width, "light")
    assert page.evaluate(CUT) == []
    assert page.evaluate("document.documentElement.scrollWidth") <= width


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_picture_of_a_lookup_has_the_ground_of_its_page(
    browser: Browser, site: Path, scheme: str
) -> None:
    page = opened(browser, site / "index.html", 1280, scheme)
    shot = Image.open(io.BytesIO(page.locator("img[src$='lookup.svg']").screenshot())).convert("L")
    assert (np.median(np.asarray(shot)) < 100) == (scheme == "dark")
