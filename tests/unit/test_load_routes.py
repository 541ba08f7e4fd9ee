"""Ways into a store that do not exist, or do not go together with the rest, are refused at once."""

import pytest

import simhbase
from simhbase.errors import UsageError
from tests.command_line import run

HBASE = "hbase://nowhere.invalid/x"


@pytest.mark.parametrize(
    ("url", "options", "message"),
    [
        ("rocksdb:s.db", {"via": "hfiles"}, "is only for stores in HBase"),
        (HBASE, {"via": "sst"}, "via: must be hfiles, not 'sst'"),
        (HBASE, {"work_folder": "x"}, "work_folder: is only for loads via hfiles"),
        (HBASE, {"via": "hfiles", "skip_existing": True}, "cannot list new documents or skip existing ones"),
    ],
)
def test_a_way_that_does_not_fit_is_refused(tmp_path, monkeypatch, url, options, message):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UsageError, match=message):
        simhbase.load(simhbase.Inputs(["missing.jsonl"]), url, **options)
    assert not list(tmp_path.iterdir())


def test_the_command_line_names_its_own_options(tmp_path):
    done = run("load", "--via", "hfiles", "--skip-existing", "--store", HBASE, "x.jsonl", cwd=tmp_path)
    assert done.returncode == 2
    assert b"--via: a load via hfiles does not read what is stored" in done.stderr
