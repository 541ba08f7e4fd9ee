import ast
import os
import re
import subprocess
import sys
import tarfile
import tomllib
from importlib.metadata import packages_distributions
from pathlib import Path
from zipfile import ZipFile

import pytest

ROOT = Path(__file__).parents[2]
pytestmark = pytest.mark.xdist_group("packaging")  # one process builds the wheel


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the sdist and a wheel that was made from it."""
    folder = tmp_path_factory.mktemp("built")
    build = ["maturin", "build", "--profile", "dev", "--sdist", "--out", str(folder)]
    # Where the tests in Rust were compiled, with the same libraries.
    compiled = {"CARGO_TARGET_DIR": str(ROOT / "core" / "target")}
    subprocess.run(build, cwd=ROOT, env=os.environ | compiled, check=True)
    return folder


@pytest.fixture(scope="module")
def wheel_files(built: Path) -> set[str]:
    (wheel,) = built.glob("*.whl")
    return set(ZipFile(wheel).namelist())


def test_the_sdist_pins_what_the_core_is_compiled_from(built: Path) -> None:
    (sdist,) = built.glob("*.tar.gz")
    with tarfile.open(sdist) as files:
        names = {name.partition("/")[2] for name in files.getnames()}
    assert {"core/Cargo.toml", "core/Cargo.lock", "core/src/lib.rs", "pyproject.toml"} <= names


def test_the_wheel_holds_the_package_whole(wheel_files: set[str]) -> None:
    package = [
        path for path in (ROOT / "simhbase").rglob("*") if path.is_file() and "__pycache__" not in path.parts
    ]
    assert {str(path.relative_to(ROOT)) for path in package} - wheel_files == set()
    assert {"simhbase/py.typed", "simhbase/index/probes.json"} <= wheel_files


def test_the_wheel_holds_the_pages_that_help_names(wheel_files: set[str]) -> None:
    sources = "".join(path.read_text("utf-8") for path in (ROOT / "simhbase").rglob("*.py"))
    named = set(re.findall(r"docs/[\w-]+\.md", sources))
    assert "docs/spark.md" in named
    assert {f"simhbase/{name}" for name in named} - wheel_files == set()


def imported() -> dict[str, list[str]]:
    """The packages that the sources import, each with the files that do."""
    found: dict[str, list[str]] = {}
    for path in (ROOT / "simhbase").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            names = [each.name for each in node.names] if isinstance(node, ast.Import) else []
            if isinstance(node, ast.ImportFrom) and node.module and not node.level:
                names = [node.module]
            for name in {name.partition(".")[0] for name in names}:
                found.setdefault(name, []).append(path.name)
    return found


def test_what_is_imported_is_declared() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    extras = [each for extra in project["optional-dependencies"].values() for each in extra]
    declared = {_name(each) for each in (*project["dependencies"], *extras)}
    # happybase makes Hbase_thrift when it is imported; PySpark's errors are those of py4j, which it brings.
    providers = {**packages_distributions(), "Hbase_thrift": ["happybase"], "py4j": ["pyspark"]}
    foreign = imported().keys() - sys.stdlib_module_names - {"simhbase"}
    # Imported where a caller gave a frame of it, or a URL that needs it.
    foreign -= {"polars", "huggingface_hub"}
    assert {"numpy", "aiohttp", "starlette", "pyspark"} <= foreign
    missing = {each for each in foreign if not declared.intersection(map(_name, providers.get(each, [each])))}
    assert missing == set()


def test_the_extra_all_has_the_others_but_what_is_compiled_on_the_spot() -> None:
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]["optional-dependencies"]
    del extras["kerberos"]
    assert extras.pop("all") == [f"simhbase[{','.join(sorted(extras))}]"]


def test_messages_name_extras_that_there_are() -> None:
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]["optional-dependencies"]
    folders = (ROOT / "simhbase", ROOT / "docs")
    files = [path for folder in folders for kind in ("*.py", "*.md") for path in folder.rglob(kind)]
    named = {
        name
        for path in files
        for given in re.findall(r"pip install '(?:simhbase|\.)\[([\w,]+)\]'", path.read_text("utf-8"))
        for name in given.split(",")
    }
    assert {"serve", "parquet"} <= named <= extras.keys()


def _name(requirement: str) -> str:
    """The normalised name of a distribution."""
    (name,) = re.findall(r"^[\w.-]+", requirement)
    return re.sub("[-_.]+", "-", name).lower()


def test_the_wheel_holds_nothing_else(wheel_files: set[str]) -> None:
    assert {name.split("/")[0].split("-")[0] for name in wheel_files} == {"simhbase"}
