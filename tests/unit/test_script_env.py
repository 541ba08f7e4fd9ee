"""What the scripts install with."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
ENV = ROOT / "scripts" / "_env"
NO_CARGO = "/usr/bin:/bin"


@pytest.mark.parametrize(("configured", "has_uv"), [("global.index-url='x'", False), ("", True)])
def test_uv_is_taken_only_where_pip_has_no_index_of_its_own(tmp_path, configured, has_uv):
    """Whatever pip has to say behind it, and however long that takes."""
    commands = {"uv": "", "python": f'echo "{configured}"; sleep 0.2; echo "global.timeout=60" || exit 1'}
    for name, command in commands.items():
        (tmp_path / name).write_text(f"#!/usr/bin/env bash\n{command}\n")
        (tmp_path / name).chmod(0o755)
    (function,) = re.findall(r"^has_uv\(\) \{.*?^\}", ENV.read_text("utf-8"), re.MULTILINE | re.DOTALL)
    done = subprocess.run(
        ["bash", "-c", f"set -euo pipefail\n{function}\nif has_uv; then echo uv; else echo pip; fi"],
        env={"PATH": f"{tmp_path}:{os.environ['PATH']}", "PYTHON": str(tmp_path / "python")},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout == ("uv\n" if has_uv else "pip\n")


def install(folder: Path, path: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Source the script where .venv has what requirements.lock pins, and lacks the package."""
    for name in ("requirements.lock", "pyproject.toml", "core/Cargo.toml", "scripts/_env"):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, folder / name)
    own = Path(sys.prefix)
    shutil.copytree(own / "bin", folder / ".venv" / "bin", symlinks=True)
    shutil.copy(own / "pyvenv.cfg", folder / ".venv")
    (folder / ".venv" / "lib").symlink_to(own / "lib")
    pinned = subprocess.run(
        ["cksum", "requirements.lock"], cwd=folder, capture_output=True, text=True, check=True
    )
    (folder / ".venv" / "pinned").write_text(f"{folder} {pinned.stdout}")
    command = ["bash", "-euo", "pipefail", "-c", "source scripts/_env"]
    settings = {"PATH": path, "HOME": str(folder), **environment}
    return subprocess.run(command, cwd=folder, env=settings, capture_output=True, text=True, check=False)


@pytest.mark.parametrize("version", ["cargo 0.66.0", "cargo 1.84.1 (abc 2024-12-01)"])
def test_an_old_rust_ends_with_the_ways_to_get_a_newer_one(tmp_path, version):
    """Debian's own cargo cannot compile the core: the script says so before pip does."""
    cargo = tmp_path / "old" / "cargo"
    cargo.parent.mkdir()
    cargo.write_text(f"#!/bin/sh\necho '{version}'\n")
    cargo.chmod(0o755)
    done = install(tmp_path, f"{cargo.parent}:{NO_CARGO}")
    assert done.returncode == 1
    assert "cargo-web" in done.stderr
    assert "rustup" in done.stderr
    assert "Traceback" not in done.stderr


def test_without_rust_and_without_its_server_the_ways_to_get_it_are_named(tmp_path):
    """Where puccinialin can fetch nothing, its Connection refused is not what people read."""
    done = install(tmp_path, NO_CARGO, HTTPS_PROXY="http://127.0.0.1:9", ALL_PROXY="http://127.0.0.1:9")
    assert done.returncode == 1
    assert "apt-get install gcc cargo-web rustc-web" in done.stderr
    assert "Traceback" not in done.stderr
