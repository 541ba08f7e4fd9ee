"""An embedded store in a process that may take 512 MB, as in a container."""

import resource
import subprocess
import sys
from pathlib import Path

import pytest

MEMORY = 512 << 20
CODE = """
import sys
from pathlib import Path
import simhbase
from simhbase.corpus.inputs import Inputs
from simhbase.corpus.record import InputOptions

folder, count = Path(sys.argv[1]), int(sys.argv[2])
values = [number * 0x9E3779B97F4A7C15 % 2**64 for number in range(count)]
file, url = folder / "documents.jsonl", f"rocksdb:{folder / 'store'}"
with file.open("w") as lines:
    lines.writelines(f'{{"id": "{i}", "fingerprint": "{value:016x}"}}\\n' for i, value in enumerate(values))
inputs = Inputs([str(file)], InputOptions(fingerprint_field="fingerprint"), threads=1)
print(simhbase.load(inputs, url).added)
with simhbase.open(url, access="read") as index:
    asked = [value ^ 1 for value in values[:: count // 2000]]
    found = [index.find_fingerprints([value])[0] for value in asked[:1000]]
    found += index.find_fingerprints(asked[1000:2000])
    print(sum(bool(each) for each in found))
"""


def with_little_memory() -> None:
    resource.setrlimit(resource.RLIMIT_DATA, (MEMORY, MEMORY))


@pytest.mark.parametrize("count", [100_000, pytest.param(1_000_000, marks=pytest.mark.full)])
def test_a_load_and_lookups_in_512_mb(tmp_path: Path, count: int) -> None:
    command = [sys.executable, "-c", CODE, str(tmp_path), str(count)]
    done = subprocess.run(command, preexec_fn=with_little_memory, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == [str(count), "2000"]
