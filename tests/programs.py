"""Programs that tests run, which scripts/program finds or gets."""

import subprocess
from functools import cache
from pathlib import Path

SCRIPT = Path(__file__).parents[1] / "scripts" / "program"


@cache
def program(name: str) -> str:
    """The path of a program. Raises AssertionError where there is none."""
    found = subprocess.run([SCRIPT, name], capture_output=True, text=True, check=False)
    assert found.returncode == 0, found.stderr
    return found.stdout.strip()
