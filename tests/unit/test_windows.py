"""What works, and what is said, on a system without fork, signal masks and locks of files."""

import subprocess
import sys

import pytest

WITHOUT_POSIX = """
import os, signal, sys
del os.fork, os.register_at_fork, signal.pthread_sigmask
sys.modules.update(fcntl=None, resource=None)
"""


def python(code: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", WITHOUT_POSIX + code]
    return subprocess.run(command, capture_output=True, text=True, check=False)


@pytest.mark.parametrize(
    "code",
    [
        "import simhbase; simhbase.open('memory:')",
        "from simhbase import dedup",
        "from simhbase.cli import main; main()",
    ],
)
def test_stores_jobs_and_commands_name_the_systems_that_they_need(code: str) -> None:
    done = python(code)
    assert done.returncode == 1
    last = done.stderr.splitlines()[-1]
    assert "Error: stores and jobs of simhbase need Linux or macOS. On Windows install it in WSL" in last


def test_clients_need_none_of_it() -> None:
    done = python("import simhbase; simhbase.AsyncClient; simhbase.Client('http://localhost:1').close()")
    assert done.returncode == 0, done.stderr
