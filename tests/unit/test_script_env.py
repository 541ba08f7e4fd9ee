"""What the scripts install with."""

import os
import re
import subprocess
from pathlib import Path

import pytest

ENV = Path(__file__).parents[2] / "scripts" / "_env"


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
