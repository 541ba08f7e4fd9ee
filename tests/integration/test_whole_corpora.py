"""Four real corpora, 104,659 documents, in one command on both stores; killed twenty times, it ends as if
nothing had been."""

import random
import signal
import subprocess
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import orjson
import pytest

from simhbase.admin import Administrator
from simhbase.errors import TablesMissing
from simhbase.index import open_index
from tests.cluster import Cluster
from tests.command_line import COMMAND, environment
from tests.content import content
from tests.reference import DATA

CORPORA = {"xwlb_chinadata": 74_545, "xwlb_duckburn": 19_876, "laws": 3_475, "versioned_docs_en": 6_763}
FILES = ["unique.jsonl", "duplicates.jsonl", "rejects.jsonl", "evidence.jsonl"]
KILLS = 20

pytestmark = pytest.mark.full


@pytest.fixture
def corpora() -> list[str]:
    files = [DATA / f"{name}.jsonl.gz" for name in CORPORA]
    if missing := [path.name for path in files if not path.exists()]:
        pytest.skip(f"the corpora {', '.join(missing)} are not in {DATA}")
    return list(map(str, files))


@pytest.fixture(params=["rocksdb", pytest.param("hbase", marks=pytest.mark.hbase)])
def stores(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """URLs of empty stores."""

    def several() -> Iterator[str]:
        for number in range(100):
            if request.param == "rocksdb":
                yield f"rocksdb:{tmp_path / str(number)}.db"
            else:
                cluster: Cluster = request.getfixturevalue("hbase")
                url = cluster.url(f"corpora{number}")
                created = [*COMMAND, "tables", "create", "--store", url]
                subprocess.run(
                    [*COMMAND, "tables", "drop", "--yes", "--store", url], capture_output=True, check=False
                )
                subprocess.run(created, capture_output=True, check=True)
                yield url

    return several()


def command(corpora: list[str], url: str) -> list[str]:
    # The ids of one archive are those of the other.
    read = ["--id-prefix", "{file}/", "--rejects", FILES[2]]
    lists = ["--unique", FILES[0], "--duplicates", FILES[1], "--evidence", FILES[3]]
    return [*COMMAND, "load", "--json", "--unique-only", *read, *lists, "--store", url, *corpora]


def outcome(folder: Path, url: str) -> tuple[dict[str, object], list[bytes]]:
    """All rows and files."""
    assert not list(folder.glob("*.part"))
    with open_index(url, access="read") as index:
        rows = {table: held for table, held in content(index.store).items() if table != "meta"}
    return rows, [(folder / name).read_bytes() for name in FILES]


def is_finished(url: str) -> bool:
    with suppress(TablesMissing), open_index(url, access="read") as index:
        return any(state.progress == "finished" for state in Administrator(index).loads())
    return False


def test_they_are_loaded_in_one_command_and_again_where_it_was_killed(
    corpora: list[str], stores: Iterator[str], tmp_path: Path, record_property: Callable[[str, object], None]
) -> None:
    undisturbed, url = tmp_path / "undisturbed", next(stores)
    undisturbed.mkdir()
    done = subprocess.run(
        command(corpora, url), cwd=undisturbed, env=environment(), capture_output=True, check=False
    )
    assert done.returncode in (0, 3), done.stderr
    report = orjson.loads(done.stdout)
    documents = {Path(each["source"]).name: each for each in report["sources"]}
    for name, count in CORPORA.items():
        found = documents[f"{name}.jsonl.gz"]
        assert found["documents"] + found["rejected"] == count
    assert report["documents"] == sum(CORPORA.values())
    assert report["loaded"] + report["duplicates"] + report["rejected"] == report["documents"]
    expected = outcome(undisturbed, url)
    lines = [len(data.splitlines()) for data in expected[1]]
    assert lines == [report[name] for name in ("loaded", "duplicates", "rejected", "duplicates")]
    assert len(expected[0]["documents"]) == report["loaded"]

    chance = random.Random(1)
    kills = rounds = 0
    while kills < KILLS:
        folder, url = tmp_path / f"killed{rounds}", next(stores)
        folder.mkdir()
        of_this_round = 0
        while True:
            # Later, as there is more to pass over.
            was_killed = killed(command(corpora, url), folder, chance.uniform(1, 6) + of_this_round)
            if not was_killed or is_finished(url):
                break
            of_this_round += 1
        assert outcome(folder, url) == expected, f"after {of_this_round} kills"
        kills += of_this_round
        rounds += 1
    record_property("kills", kills)


def killed(loading: list[str], folder: Path, seconds: float) -> bool:
    """Whether a load was killed before it ended."""
    process = subprocess.Popen(
        loading, cwd=folder, env=environment(), stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    with suppress(subprocess.TimeoutExpired):
        process.wait(seconds)
    process.kill()
    _, said = process.communicate()
    assert process.returncode in (-signal.SIGKILL, 0, 3), said
    return process.returncode == -signal.SIGKILL
