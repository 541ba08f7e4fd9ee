"""What the repository says about itself to people and programs: how to cite it, and what is supported."""

import re
import subprocess
import tomllib
from pathlib import Path
from typing import Any

import pytest
from ruamel.yaml import YAML

from simhbase.index.stored_profile import FORMAT

ROOT = Path(__file__).parents[2]
SUPPORT = (ROOT / "docs" / "support.md").read_text("utf-8")


@pytest.fixture(scope="module")
def project() -> dict[str, Any]:
    found: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    return found


def test_the_citation_is_one_and_of_this_version(project: dict[str, Any]) -> None:
    path = ROOT / "CITATION.cff"
    lint = ["check-jsonschema", "--builtin-schema", "vendor.citation-file-format", "--force-filetype", "yaml"]
    done = subprocess.run([*lint, str(path)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    cited = YAML(typ="safe").load(path)
    for name in ("version", "license", "keywords"):
        assert cited[name] == project[name]
    changes = (ROOT / "CHANGELOG.md").read_text("utf-8")
    assert f"## [{project['version']}] - {cited['date-released']}" in changes


def test_the_package_and_the_citation_name_one_repository(project: dict[str, Any]) -> None:
    cited = YAML(typ="safe").load(ROOT / "CITATION.cff")
    assert cited.get("repository-code") == project.get("urls", {}).get("Repository")


def test_pythons_that_are_supported_are_those_that_are_tested(project: dict[str, Any]) -> None:
    (line,) = re.findall(r"^\| Python \| (.*)$", SUPPORT, re.MULTILINE)
    named = re.findall(r"Python :: (3\.\d+)", "\n".join(project["classifiers"]))
    assert re.findall(r"3\.\d+", line) == named


def test_the_format_that_is_promised_is_the_one_that_is_written() -> None:
    assert f"writes and reads format {FORMAT})" in SUPPORT


@pytest.mark.parametrize("name", ["PostgreSQL", "Redis"])
def test_servers_that_are_supported_are_those_of_their_pages(name: str) -> None:
    (least,) = re.findall(rf"^\| {name}\b.*\[(\d+) or newer\]", SUPPORT, re.MULTILINE)
    assert f"(version {least} or newer)" in (ROOT / "docs" / f"{name.lower()}.md").read_text("utf-8")
