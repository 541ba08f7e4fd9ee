"""The core's own tests, where each access to memory is checked."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

CRATE = Path(__file__).parents[2] / "core" / "Cargo.toml"
CARGO = ("cargo", "+nightly")
TARGET = "x86_64-unknown-linux-gnu"


@pytest.mark.full
@pytest.mark.timeout(1800)
def test_no_access_is_outside_of_memory(tmp_path):
    """By AddressSanitizer, which only the nightly compiler has."""
    try:
        subprocess.run([*CARGO, "--version"], check=True, capture_output=True)
    except (OSError, subprocess.CalledProcessError):
        pytest.skip("needs a nightly Rust: rustup toolchain install nightly")
    command = [*CARGO, "test", "--quiet", f"--manifest-path={CRATE}", f"--target={TARGET}"]
    settings = {"RUSTFLAGS": "-Zsanitizer=address", "PYO3_PYTHON": sys.executable}
    done = subprocess.run(
        [*command, f"--target-dir={tmp_path}"],
        env={**os.environ, **settings},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "test result: ok" in done.stdout
