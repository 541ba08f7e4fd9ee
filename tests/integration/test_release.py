import os
import re
import shutil
import subprocess
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.mark.full
def test_a_release_builds_is_checked_and_works_from_the_wheel(tmp_path: Path) -> None:
    command = [str(ROOT / "scripts" / "release"), str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=900)
    assert done.returncode == 0, done.stdout + done.stderr
    built = {path.suffix for path in (tmp_path / "dist").iterdir() if path.suffix in (".gz", ".whl")}
    assert built == {".gz", ".whl"}
    wheels = list((tmp_path / "dist").glob("*.whl"))
    assert max(wheel.stat().st_size for wheel in wheels) < 3 << 20
    targets = len(re.findall("^No wheel, as no toolchain is here: .+", done.stdout, re.MULTILINE))
    assert len(wheels) + targets == 6  # Linux with glibc and musl and macOS, each for two processors
    for name in ("found.txt", "asked.txt"):
        assert "dev/254" in (tmp_path / "tried" / name).read_text("utf-8")
    installed = {path.name.partition("-")[0] for path in (tmp_path / "client").rglob("*.dist-info")}
    assert installed - {"pip", "setuptools"} == {"simhbase", "msgspec", "urllib3"}


def test_what_links_the_wheels_is_pinned_by_its_content() -> None:
    script = (ROOT / "scripts" / "release").read_text("utf-8")
    assert re.search(r"^ziglang==\S+( \\\n    --hash=sha256:[0-9a-f]{64}){4}\n", script, re.MULTILINE)
    assert 'install_into "$FOLDER/tools" --require-hashes --requirement' in script


CHANGES = """# Changelog

## [Unreleased]

### Added
- A store.

## [0.1.0] - 2026-01-31

The first one.
"""


def test_a_version_gets_its_section_of_the_changelog_and_a_tag(tmp_path: Path) -> None:
    person = {
        "GIT_AUTHOR_NAME": "a",
        "GIT_AUTHOR_EMAIL": "a@b.c",
        "GIT_COMMITTER_NAME": "a",
        "GIT_COMMITTER_EMAIL": "a@b.c",
    }

    def call(*command: str) -> subprocess.CompletedProcess[str]:
        environment = {**os.environ, **person}
        return subprocess.run(
            command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False
        )

    (tmp_path / "scripts").mkdir()
    shutil.copy(ROOT / "scripts" / "release", tmp_path / "scripts")
    for name in ("pyproject.toml", "CITATION.cff"):
        shutil.copy(ROOT / name, tmp_path)
    changes = tmp_path / "CHANGELOG.md"
    changes.write_text(CHANGES, "utf-8")
    for command in ("git init --quiet", "git add .", "git commit --quiet --message first"):
        assert call(*command.split()).returncode == 0
    tag = ("scripts/release", "--tag")
    assert "is no version" in call(*tag, "next").stderr
    tagged = call(*tag, "0.2.0")
    assert tagged.returncode == 0
    assert "names no address of the project: the remote origin is not at GitHub" in tagged.stderr
    dated = r"\[Unreleased\]\n\n## \[0\.2\.0\] - \d{4}-\d\d-\d\d\n\n### Added\n- A store\.\n\n## \[0\.1\.0\]"
    assert re.search(dated, changes.read_text("utf-8"))
    assert '\nversion = "0.2.0"\n' in (tmp_path / "pyproject.toml").read_text("utf-8")
    cited = (tmp_path / "CITATION.cff").read_text("utf-8")
    assert re.search(r'\nversion: 0\.2\.0\ndate-released: "\d{4}-\d\d-\d\d"\n', cited)
    assert "2026-11-24" not in cited
    assert call("git", "describe").stdout == "v0.2.0\n"
    assert call("git", "status", "--porcelain").stdout == ""
    assert "v0.2.0 exists" in call(*tag, "0.2.0").stderr
    assert "says nothing about 0.3.0" in call(*tag, "0.3.0").stderr
    assert call("git", "status", "--porcelain").stdout == ""
    # The package and the citation name the repository that the tag will be pushed to, once.
    call("git", "remote", "add", "origin", "git@github.com:Some/near.texts.git")
    for version in ("0.4.0", "0.4.1"):
        changes.write_text(
            changes.read_text("utf-8").replace("[Unreleased]", "[Unreleased]\n\n- Faster."), "utf-8"
        )
        call("git", "commit", "--quiet", "--all", "--message", "faster")
        assert call(*tag, version).returncode == 0
        project = tomllib.loads((tmp_path / "pyproject.toml").read_text("utf-8"))["project"]
        assert project["scripts"] == {"simhbase": "simhbase.cli:main"}
        assert project["urls"] == {
            "Documentation": "https://some.github.io/near.texts/",
            "Repository": "https://github.com/Some/near.texts",
            "Issues": "https://github.com/Some/near.texts/issues",
            "Changelog": f"https://github.com/Some/near.texts/blob/v{version}/CHANGELOG.md",
        }
        cited = (tmp_path / "CITATION.cff").read_text("utf-8")
        assert cited.count("\nrepository-code: https://github.com/Some/near.texts\n") == 1
    # The section of a version that is not tagged yet gets the day of the tag.
    assert call(*tag, "0.1.0").returncode == 0
    assert "## [0.1.0] - 2026-01-31" not in changes.read_text("utf-8")
