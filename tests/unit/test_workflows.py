"""What others run for the project: the workflows of CI and of a release, and the hooks before a commit."""

import os
import re
import subprocess
import tomllib
from pathlib import Path
from typing import Any

import pytest
from ruamel.yaml import YAML

from tests.programs import program

ROOT = Path(__file__).parents[2]
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
WORKFLOW = ROOT / ".github" / "workflows" / "test.yml"
RELEASE = ROOT / ".github" / "workflows" / "release.yml"
HOOKS = ROOT / ".pre-commit-config.yaml"


def read(path: Path) -> Any:
    return YAML(typ="safe").load(path)


@pytest.fixture(scope="module")
def job() -> dict[str, Any]:
    return read(WORKFLOW)["jobs"]["test"]


@pytest.fixture(scope="module")
def release() -> dict[str, Any]:
    return read(RELEASE)["jobs"]


def test_workflows_follow_the_schema_of_workflows() -> None:
    lint = ["check-jsonschema", "--builtin-schema", "vendor.github-workflows", *map(str, WORKFLOWS)]
    done = subprocess.run(lint, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.operations
def test_actionlint_finds_nothing() -> None:
    """Of expressions, contexts, runners, inputs and, by shellcheck, the commands."""
    lint = [program("actionlint"), *map(str, WORKFLOWS)]
    done = subprocess.run(lint, cwd=ROOT, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, ""), done.stdout + done.stderr


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


def test_each_week_what_the_others_leave_out_meets_its_servers() -> None:
    (job,) = read(WORKFLOWS[0].with_name("weekly.yml"))["jobs"].values()
    assert job["steps"][-1]["run"] == 'scripts/test --full -m "kerberos or hbase_cluster"'


def test_actions_are_pinned_by_commit() -> None:
    """A tag can be moved to other code."""
    lines = [line for path in WORKFLOWS for line in path.read_text("utf-8").splitlines() if "uses:" in line]
    foreign = [line.partition("uses: ")[2] for line in lines if "uses: ./" not in line]
    assert len(foreign) == 20
    assert all(re.fullmatch(r"[\w-]+/[\w-]+@[0-9a-f]{40} # v[\d.]+", each) for each in foreign)
    assert len({each.partition("@")[0] for each in foreign}) == len(set(foreign))  # one commit of each


def test_a_release_is_tested_and_built_before_it_is_published(release: dict[str, Any]) -> None:
    assert release["test"]["uses"] == "./.github/workflows/test.yml"
    assert "workflow_call" in read(WORKFLOW)["on"]
    assert release["publish"]["needs"] == ["test", "build"]
    assert {release[each]["needs"] for each in ("image", "docs")} == {"publish"}
    assert read(RELEASE)["on"] == {"push": {"tags": ["v*"]}}


def test_each_job_of_a_release_has_the_rights_that_it_needs_and_no_password(release: dict[str, Any]) -> None:
    assert read(RELEASE)["permissions"] == {"contents": "read"}
    given = {name: job["permissions"] for name, job in release.items() if "permissions" in job}
    assert given == {
        "publish": {"id-token": "write"},
        "image": {"contents": "read", "packages": "write"},
        "docs": {"contents": "read", "id-token": "write", "pages": "write"},
    }
    assert release["publish"]["environment"] == "pypi"
    assert "secrets." not in RELEASE.read_text("utf-8")


def run_step(release: dict[str, Any], job: str, name: str, folder: Path, tag: str = "") -> tuple[int, str]:
    """Runs the commands of a step as GitHub does: the exit code, and what they print."""
    (step,) = [each for each in release[job]["steps"] if each.get("name") == name]
    done = subprocess.run(
        ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", step["run"]],
        cwd=folder,
        env={**os.environ, "GITHUB_REF_NAME": tag},
        capture_output=True,
        text=True,
        check=False,
    )
    return done.returncode, done.stdout


def test_a_tag_that_names_another_version_is_not_built(release: dict[str, Any]) -> None:
    version = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]["version"]
    step = ("build", "The tag names the version of the package", ROOT)
    assert run_step(release, *step, tag=f"v{version}") == (0, "")
    code, said = run_step(release, *step, tag="v9.9.9")
    assert (code, version in said, "v9.9.9" in said) == (1, True, True)


def test_nothing_is_published_unless_all_platforms_have_a_wheel(
    release: dict[str, Any], tmp_path: Path
) -> None:
    (tmp_path / "dist").mkdir()
    platforms = [
        *("manylinux_2_17_x86_64.manylinux2014_x86_64", "manylinux_2_17_aarch64.manylinux2014_aarch64"),
        *("musllinux_1_2_x86_64", "musllinux_1_2_aarch64", "macosx_10_12_x86_64", "macosx_11_0_arm64"),
    ]
    names = [f"simhbase-0.1.0-cp311-abi3-{platform}.whl" for platform in platforms]
    for name in (*names, "simhbase-0.1.0.tar.gz"):
        (tmp_path / "dist" / name).touch()
    step = ("publish", "An sdist, and wheels of all platforms", tmp_path)
    assert run_step(release, *step)[0] == 0
    for name in (names[3], names[5], "simhbase-0.1.0.tar.gz"):
        (tmp_path / "dist" / name).unlink()
        assert run_step(release, *step)[0] == 1
        (tmp_path / "dist" / name).touch()
    (tmp_path / "dist" / "simhbase-0.1.0-py3-none-any.whl").touch()
    assert run_step(release, *step)[0] == 1


def test_hooks_are_local_and_fetch_nothing() -> None:
    repositories = read(HOOKS)["repos"]
    assert {each["repo"] for each in repositories} == {"local"}
    assert {hook["language"] for each in repositories for hook in each["hooks"]} == {"system"}


def test_hooks_run_the_linter_the_formatter_and_all_checks() -> None:
    (local,) = read(HOOKS)["repos"]
    assert [hook["id"] for hook in local["hooks"]] == ["ruff", "ruff-format", "check"]
    assert (ROOT / local["hooks"][-1]["entry"]).exists()
