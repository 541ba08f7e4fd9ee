"""What others run for the project: the workflow of CI, and the hooks before a commit."""

import re
import subprocess
import tomllib
from pathlib import Path
from typing import Any

import pytest
from ruamel.yaml import YAML

ROOT = Path(__file__).parents[2]
WORKFLOW = ROOT / ".github" / "workflows" / "test.yml"
HOOKS = ROOT / ".pre-commit-config.yaml"


def read(path: Path) -> Any:
    return YAML(typ="safe").load(path)


@pytest.fixture(scope="module")
def job() -> dict[str, Any]:
    return read(WORKFLOW)["jobs"]["test"]


def test_the_workflow_follows_the_schema_of_workflows() -> None:
    lint = ["check-jsonschema", "--builtin-schema", "vendor.github-workflows", str(WORKFLOW)]
    done = subprocess.run(lint, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_updates_of_what_is_pinned_are_proposed() -> None:
    proposals = ROOT / ".github" / "dependabot.yml"
    lint = ["check-jsonschema", "--builtin-schema", "vendor.dependabot", str(proposals)]
    assert subprocess.run(lint).returncode == 0
    asked = YAML(typ="safe").load(proposals)["updates"]
    folders = [folder for each in asked for folder in each.get("directories", [each.get("directory")])]
    assert all((ROOT / folder.lstrip("/")).is_dir() for folder in folders)


def test_the_workflow_runs_scripts_test_with_every_python_that_the_project_names(job: dict[str, Any]) -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    named = re.findall(r"Python :: (3\.\d+)", "\n".join(project["classifiers"]))
    assert [each["python"] for each in job["strategy"]["matrix"]["include"]] == named
    assert any(step.get("run", "") == "scripts/test ${{ matrix.tests }}" for step in job["steps"])


def test_one_python_of_the_workflow_meets_the_servers(job: dict[str, Any]) -> None:
    runs = [each["tests"] for each in job["strategy"]["matrix"]["include"]]
    assert sorted(runs) == ["--coverage", "--quick", "--quick", "--quick"]


def test_actions_are_pinned_by_commit(job: dict[str, Any]) -> None:
    """A tag can be moved to other code."""
    used = [step["uses"] for step in job["steps"] if "uses" in step]
    assert len(used) == 5
    assert all(re.fullmatch(r"[\w-]+/[\w-]+@[0-9a-f]{40}", each) for each in used)


def test_hooks_are_local_and_fetch_nothing() -> None:
    repositories = read(HOOKS)["repos"]
    assert {each["repo"] for each in repositories} == {"local"}
    assert {hook["language"] for each in repositories for hook in each["hooks"]} == {"system"}


def test_hooks_run_the_linter_the_formatter_and_all_checks() -> None:
    (local,) = read(HOOKS)["repos"]
    assert [hook["id"] for hook in local["hooks"]] == ["ruff", "ruff-format", "check"]
    assert (ROOT / local["hooks"][-1]["entry"]).exists()
