import subprocess
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
    for name in ("found.txt", "asked.txt"):
        assert "dev/254" in (tmp_path / "tried" / name).read_text("utf-8")
    installed = {path.name.partition("-")[0] for path in (tmp_path / "client").rglob("*.dist-info")}
    assert installed - {"pip", "setuptools"} == {"simhbase", "msgspec", "urllib3"}
