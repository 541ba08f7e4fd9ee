"""How values of options are read."""

import shlex
from datetime import datetime, timedelta

import pytest

from simhbase.cli import options
from simhbase.corpus.paths import names_nothing
from simhbase.deduplication.representative import Preference, preference
from simhbase.errors import UsageError
from simhbase.index.part import Part
from tests.command_line import run


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("0", 0), ("90s", 90), ("5m", 300), ("2h", 7200), ("30d", 2592000), ("1w", 604800)],
)
def test_durations_have_units(text, seconds):
    assert options.seconds(text) == seconds


@pytest.mark.parametrize("text", ["90", "30 d", "1.5d", "", "00", "1m30s"])
def test_a_duration_without_a_unit_may_be_meant_as_days(text):
    with pytest.raises(UsageError, match="is not a duration: use a number with s, m, h, d or w"):
        options.seconds(text)


def test_times_are_durations_from_now_or_dates():
    now = datetime.now().astimezone()
    rounded = timedelta(milliseconds=-1)
    assert rounded < options.past("7d") - (now - timedelta(days=7)) < timedelta(hours=1)
    assert rounded < options.future("2h") - (now + timedelta(hours=2)) < timedelta(hours=1)
    assert options.past("2020-01-31T18:00") == datetime(2020, 1, 31, 18).astimezone()


@pytest.mark.parametrize("text", ["90", "soon", "-1d", "1.5h", "1y", "", "9999999999w", "2026-13-01"])
def test_what_is_no_time_is_refused(text):
    with pytest.raises(UsageError, match="is not a time: use a number with s, m, h, d or w"):
        options.past(text)


def test_a_time_is_on_the_side_of_now_that_is_asked_for():
    for read, text, side in (options.past, "2999-01-31", "future"), (options.future, "2020-01-31", "past"):
        with pytest.raises(UsageError, match=f"{text} is in the {side}: give a time"):
            read(text)


@pytest.mark.parametrize("text", ["0/4", "5/4", "1", "1/0", "a/b", "1/4/2", "-1/4", "1 / 4"])
def test_what_is_no_part_is_refused(text):
    assert options.part("2/4") == Part(2, 4)
    with pytest.raises(UsageError, match="is not a part"):
        options.part(text)


@pytest.mark.parametrize(
    ("typed", "reason"),
    [
        (["tenant"], "'tenant' is not NAME=VALUE"),
        (["=a"], "'=a' is not NAME=VALUE"),
        (["tenant="], "'tenant=' is not NAME=VALUE"),
        (["a=b", "a=c"], "'a' is given twice"),
    ],
)
def test_pairs_have_a_name_and_a_value_once(typed, reason):
    assert options.pairs(["a=b", "c=d=e"]) == {"a": "b", "c": "d=e"}
    with pytest.raises(UsageError, match=reason):
        options.pairs(typed)


@pytest.mark.parametrize("text", ["ab", "0" * 15, "g" * 16, ""])
def test_fingerprints_are_16_digits(text):
    assert options.typed_fingerprints(["F" * 16, "0" * 16], None) == [2**64 - 1, 0]
    with pytest.raises(UsageError, match="16 hexadecimal digits are needed"):
        options.typed_fingerprints([text, "F" * 16], None)


def test_digits_without_a_letter_need_their_base():
    assert options.typed_fingerprints(["10", "-1"], 10) == [10, 2**64 - 1]
    with pytest.raises(UsageError, match=r"^fingerprint_base: .* may be decimal or hexadecimal"):
        options.typed_fingerprints(["0" * 16], None)


def test_the_document_to_keep_is_told_by_a_word_or_a_field():
    assert preference("first", "date") is None
    assert preference("longest", "date") == Preference(None)
    assert preference("oldest", "day") == Preference("day", -1, is_date=True)
    assert preference("-n", "date") == Preference("n", -1)
    for name, date_field in ("", "date"), ("-", "date"), ("newest", ""):
        with pytest.raises(UsageError, match=r"^keep: must be first, longest"):
            preference(name, date_field)


def test_a_text_given_for_a_file_names_nothing(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a.jsonl").touch()
    assert names_nothing("Is it * windy?")
    assert names_nothing("今天大风")
    assert not any(map(names_nothing, ["a.jsonl", "a*", "http://host/x"]))


@pytest.mark.parametrize(
    ("command", "told"),
    [
        ("stats --store memory: --store rocksdb:x", "--store is given 2 times"),
        ("find --store memory: --id a --since 1d --since 2d", "--since is given 2 times"),
        ("load --format csv --format jsonl x.jsonl", "--format is given 2 times"),
        ("dedup --chains --no-chains x.jsonl", "--chains/--no-chains is given 2 times"),
        ("compare --profile default --profile short --text a --text b", "--profile is given 2 times"),
        ("load --tag 'a =1' x.jsonl", "'a =1' has spaces around its name"),
        ("dedup --profile '' x.jsonl", "'--profile': the name is empty"),
        ("match --against x.jsonl --drawer-limit 9999999999 x.jsonl", "'--drawer-limit': '9999999999'"),
        ("find --store memory: --ids-limit 9999999999 --text a", "'--ids-limit': 9999999999"),
    ],
)
def test_what_cannot_be_meant_is_refused(command, told, tmp_path):
    done = run(*shlex.split(command), cwd=tmp_path)
    assert done.returncode == 2
    assert told in done.stderr.decode()


def test_what_may_be_given_twice_is_taken(tmp_path):
    several = ["--text", "a b", "--text", "a c", "--set", "k=3", "--set", "bits=64"]
    assert run("compare", *several, cwd=tmp_path).returncode == 0
    assert run("delete", "--store", "memory:", "--yes", "--yes", "a", cwd=tmp_path).returncode != 2


@pytest.mark.parametrize("name", ["SIMHBASE_STOR", "SIMHBASE_STORES", "SIMHBASE_SOTRE", "simhbase_store"])
def test_a_variable_that_is_nearly_that_of_the_store_is_refused_where_none_is_named(name, tmp_path):
    done = run("stats", cwd=tmp_path, **{name: "memory:"})
    assert done.returncode == 2
    assert f"no variable {name} is read" in done.stderr.decode()
    for others in {"SIMHBASE_STORE": "memory:"}, {}:
        given = () if others else ("--store", "memory:")
        assert b"no variable" not in run("stats", *given, cwd=tmp_path, **{name: "memory:"}, **others).stderr


def test_an_empty_variable_is_refused_and_those_of_kubernetes_are_not(tmp_path):
    assert b"SIMHBASE_STORE is empty" in run("stats", cwd=tmp_path, SIMHBASE_STORE="").stderr
    done = run("stats", cwd=tmp_path, SIMHBASE_PORT="tcp://10.0.0.1:80", SIMHBASE_SERVICE_HOST="10.0.0.1")
    assert b"no store there" in done.stderr
