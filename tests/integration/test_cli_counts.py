"""The commands of a store that counts refused claims."""

import re
from pathlib import Path

from tests.command_line import documents, result, run, texts

MET = re.compile(r"met 2, \S+ \S+ to \S+ \S+  ")


def test_counts_are_asked_for_shown_and_copied(tmp_path: Path):
    text, other = texts(2)
    documents(tmp_path / "a.jsonl", [text, other, text, text])
    made = result("tables", "create", "--counts", "--store", "rocksdb:s.db", cwd=tmp_path)
    assert made["counts"] is True
    result("load", "--unique-only", "--yes", "a.jsonl", "--store", "rocksdb:s.db", cwd=tmp_path)
    for store in ("rocksdb:s.db", "rocksdb:copy.db"):
        listed = run("list", "--store", store, cwd=tmp_path).stdout.decode().splitlines()
        (met,) = (line for line in listed if MET.search(line))
        (never,) = (line for line in listed if "  met 0  " in line)
        assert (met.endswith("  d0"), never.endswith("  d1"), len(listed)) == (True, True, 2)
        if store == "rocksdb:s.db":
            moved = result("migrate", "--store", store, "--to", "rocksdb:copy.db", cwd=tmp_path)
            assert moved["refused_claims"] == 2
    assert result("tables", "describe", "--store", "rocksdb:copy.db", cwd=tmp_path)["counts"] is True
    result("delete", "d0", "--yes", "--store", "rocksdb:s.db", cwd=tmp_path)
    assert result("vacuum", "--store", "rocksdb:s.db", cwd=tmp_path)["refused_claims"] == 2
    assert result("check", "--store", "rocksdb:s.db", cwd=tmp_path)["clean"] is True


def test_a_store_that_does_not_count_refuses_to_and_shows_nothing(tmp_path: Path):
    documents(tmp_path / "a.jsonl", texts(1))
    result("load", "a.jsonl", "--store", "rocksdb:s.db", cwd=tmp_path)
    refused = run("tables", "create", "--counts", "--store", "rocksdb:s.db", cwd=tmp_path)
    assert refused.returncode == 14
    assert b"does not count refused claims, and should" in refused.stderr
    assert b"met" not in run("list", "--store", "rocksdb:s.db", cwd=tmp_path).stdout
