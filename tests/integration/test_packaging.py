import subprocess
import sys
from pathlib import Path
from zipfile import ZipFile

import pytest

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def wheel_files(tmp_path_factory: pytest.TempPathFactory) -> set[str]:
    folder = tmp_path_factory.mktemp("wheel")
    build = [sys.executable, "-m", "hatchling", "build", "--target", "wheel", "--directory", str(folder)]
    subprocess.run(build, cwd=ROOT, check=True)
    (wheel,) = folder.glob("*.whl")
    return set(ZipFile(wheel).namelist())


def test_the_wheel_holds_the_package_whole(wheel_files: set[str]) -> None:
    package = [
        path for path in (ROOT / "simhbase").rglob("*") if path.is_file() and "__pycache__" not in path.parts
    ]
    assert {str(path.relative_to(ROOT)) for path in package} - wheel_files == set()
    assert {"simhbase/py.typed", "simhbase/probes.json"} <= wheel_files


def test_the_wheel_holds_nothing_else(wheel_files: set[str]) -> None:
    assert {name.split("/")[0].split("-")[0] for name in wheel_files} == {"simhbase"}
