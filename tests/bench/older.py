"""An older state of the source, with an environment of its own, to be measured beside this one."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from tempfile import gettempdir

ROOT = Path(__file__).parents[2]
BUILT: dict[str, Path] = {}  # interpreters by commit


def build(name: str) -> None:
    """Make a work tree of a commit, with its environment, in the folder for temporary files, where
    both stay."""
    found = subprocess.run(
        ["git", "rev-parse", "--verify", "--short", f"{name}^{{commit}}"],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    commit = found.stdout.strip()
    folder = Path(gettempdir(), f"simhbase-{commit}")
    if not folder.exists():
        subprocess.run(["git", "worktree", "add", "--detach", folder, commit], cwd=ROOT, check=True, stdout=2)
    print(f"making the environment of {commit} in {folder} ...", file=sys.stderr)
    subprocess.run(["bash", "-c", "source scripts/_env"], cwd=folder, check=True, stdout=2)
    BUILT[commit] = folder / ".venv/bin/python"
