import ast
import json
import pickle
import re
import subprocess
import sys
from pathlib import Path

import click
import pytest

import simhbase
from simhbase.cli import COMMANDS, cli
from simhbase.cli.output import Output, message
from simhbase.cli.profiles import MEANINGS
from simhbase.cli.queries import show
from simhbase.deduplication import match
from simhbase.index import reader
from simhbase.jobs.answers import Answer
from simhbase.model.values import Fingerprint, Lookup, Match
from simhbase.profile.file import NAMES
from simhbase.profile.profile import PRESETS
from simhbase.quality import calibrate, calibration, evaluation
from tests.command_line import documents, environment, result, run, texts

JSON, TEXT = Output(as_json=True), Output()
SAME = Fingerprint(0x0123456789ABCDEF)
NEAR = Lookup(
    SAME,
    (Match(0, "a", SAME, None, (1, 2)), Match(3, "新闻/2", Fingerprint(0xF), 0.87654)),
    truncated=True,
)
NOTHING_NEAR = Lookup(Fingerprint(1))
REJECTED = Lookup(None, reason="the text is empty")
SUMMARY = {
    "documents": 1234567,
    "bytes_per_document": 321.5,
    "exact": False,
    "top": None,
    "stop_words": [],
    "profile": {"layout": "5x2", "k": 3},
    "examples": {"stray": ["a", "b"]},
}


def test_json_lookups_are_a_line_a_query(capfdbinary):
    show([Answer(*each) for each in [("q", NEAR), (None, NOTHING_NEAR), ("e", REJECTED)]], JSON)
    near, nothing, rejected = map(json.loads, capfdbinary.readouterr().out.splitlines())
    assert near == {
        "id": "q",
        "fingerprint": "0123456789abcdef",
        "matches": [
            {
                "distance": 0,
                "id": "a",
                "fingerprint": "0123456789abcdef",
                "similarity": None,
                "drawers": [1, 2],
            },
            {
                "distance": 3,
                "id": "新闻/2",
                "fingerprint": "000000000000000f",
                "similarity": 0.87654,
                "drawers": None,
            },
        ],
        "truncated": True,
        "reason": None,
    }
    assert next(iter(near)) == "id"
    assert nothing == {
        "id": None,
        "fingerprint": "0000000000000001",
        "matches": [],
        "truncated": False,
        "reason": None,
    }
    assert rejected == {
        "id": "e",
        "fingerprint": None,
        "matches": [],
        "truncated": False,
        "reason": "the text is empty",
    }


def test_a_json_summary_is_one_object(capfdbinary):
    JSON.summary(SUMMARY)
    assert json.loads(capfdbinary.readouterr().out) == SUMMARY


def test_the_console_shows_matches_below_their_query(capfdbinary):
    answers = [("q", NEAR), (None, NOTHING_NEAR), ("e", REJECTED), (None, REJECTED)]
    show([Answer(*each) for each in answers], TEXT)
    assert capfdbinary.readouterr().out.decode().splitlines() == [
        "0123456789abcdef  q: 2 matches, and there may be more (truncated)",
        "  0 bits  0123456789abcdef  a",
        "  about 0.88 similar  000000000000000f  新闻/2",
        "0000000000000001: no matches",
        "e: the text is empty",
        "no fingerprint: the text is empty",
    ]


def test_the_console_aligns_a_summary_and_indents_what_is_inside(capfdbinary):
    TEXT.summary(SUMMARY)
    assert capfdbinary.readouterr().out.decode().splitlines() == [
        "documents           1,234,567",
        "bytes per document  322",
        "exact               no",
        "top                 none",
        "stop words          none",
        "profile",
        "  layout  5x2",
        "  k       3",
        "examples",
        "  stray",
        "    a",
        "    b",
    ]


@pytest.mark.parametrize("output", [JSON, TEXT])
def test_an_id_of_any_length_is_printed_whole(output, capfdbinary):
    long = "语" * 341
    show(
        [Answer(*each) for each in [(long, Lookup(Fingerprint(1), (Match(0, long, Fingerprint(1)),)))]],
        output,
    )
    assert capfdbinary.readouterr().out.decode().count(long) == 2


def test_marks_that_have_an_id_look_like_another_are_shown(capfdbinary):
    one = Fingerprint(1)
    show([Answer(*each) for each in [("abc\u202edef", Lookup(one, (Match(0, "a\u2066b\x1b", one),)))]], TEXT)
    shown = capfdbinary.readouterr().out.decode()
    assert r"abc\u202edef" in shown
    assert r"a\u2066b\x1b" in shown


def test_json_has_no_character_that_a_terminal_obeys_and_the_same_values(capfdbinary):
    text = "a\x1b[1m\x9b31m\u202e\u2028\x85\u061c é中"
    Output(as_json=True).rows([{"id": text}])
    (line,) = capfdbinary.readouterr().out.splitlines()
    assert json.loads(line) == {"id": text}
    assert line.decode().isprintable()


def test_messages_go_to_stderr_alone(capfd):
    message("仅供参考")
    assert capfd.readouterr() == ("", "仅供参考\n")


@pytest.mark.parametrize(
    ("command", "options", "told"),
    [
        ("load", ["--max-record-bytes", "0"], "--max-record-bytes"),  # by the command line
        ("load", ["--delimiter", "ab"], "--delimiter: must be one ASCII character"),  # by the library
        ("load", ["--set", "k=9"], "--set k: must be 0 to 3 with layout 5x2, not 9"),
        ("find", ["-k", "9", "--text", "a text"], "-k: must be 0 to 3 with layout 5x2, not 9"),
        ("load", ["--set", "near=9"], "--set: no parameter 'near': use scheme, features, "),
        ("load", ["--tag", "a=b", "--tag-field", "a=c"], "--tag: 'a' is also a tag field"),
    ],
)
def test_an_error_names_the_option_that_is_at_fault(tmp_path, command, options, told):
    documents(tmp_path / "a.jsonl", texts(2))
    if command == "find":
        result("load", "a.jsonl", cwd=tmp_path)
    done = run(command, "a.jsonl", *options, cwd=tmp_path)
    assert done.returncode == 2
    assert told in done.stderr.decode()


def test_python_names_the_parameter_that_is_at_fault():
    with pytest.raises(simhbase.UsageError, match=r"^k: must be 0 to 3 with layout 5x2, not 9") as caught:
        simhbase.Profile(verify=False, k=9)
    assert caught.value.parameter == "k"
    assert pickle.loads(pickle.dumps(caught.value)).calling_it("-k").startswith("-k: must be 0 to 3")


def all_commands():
    context = click.Context(cli)
    for name in COMMANDS:
        command = cli.get_command(context, name)
        yield from command.commands.values() if isinstance(command, click.Group) else ()
        yield command


def test_help_shows_every_option_and_names_those_that_exist():
    commands = list(all_commands())
    known = {
        name for command in commands for each in command.params for name in (*each.opts, *each.secondary_opts)
    }
    for command in commands:  # --long is an option of zstd
        assert not any(getattr(each, "hidden", False) for each in command.params)
        shown = command.get_help(click.Context(command))
        assert all(each.opts[-1] in shown for each in command.params if isinstance(each, click.Option))
        assert set(re.findall(r"(?<![\w-])--[a-z][a-z-]*", shown)) <= known | {"--help", "--long"}, (
            command.name
        )


@pytest.mark.parametrize("name", ["find", "load", "dedup", "match", "tables", "delete", "fingerprint"])
def test_help_loads_no_engine(tmp_path, name):
    assert loaded_by(name, "--help", cwd=tmp_path) == set()


# Each takes time to import, from a millisecond to a tenth of a second.
HEAVY = {
    *("numpy", "pyarrow", "polars", "pandas", "rocksdict", "happybase", "psycopg", "redis", "urllib3"),
    *("jieba", "trafilatura", "asyncio", "multiprocessing", "importlib.metadata", "importlib.resources"),
    *(
        "simhbase.corpus.reading",
        "simhbase.corpus.parser",
        "simhbase.corpus.formats.raw",
        "simhbase.text.packing",
    ),
    *(
        "simhbase.profile.comparison",
        "simhbase.text.html",
        "simhbase.text.dictionary_making",
        "simhbase.jobs.pipeline",
    ),
}


@pytest.mark.parametrize("query", ["--id=d0", "--text=a text of some words"])
def test_a_single_lookup_loads_what_it_needs(tmp_path, query):
    documents(tmp_path / "a.jsonl", texts(2))
    result("load", "a.jsonl", cwd=tmp_path)
    assert loaded_by("find", query, cwd=tmp_path) == {"numpy", "rocksdict"}


def test_a_first_fingerprint_loads_neither_numpy_nor_what_reads_files(tmp_path):
    code = (
        "import simhbase; print(hex(simhbase.Profile().fingerprinter().fingerprint('a text of some words')))"
    )
    assert loaded(code, cwd=tmp_path) == set()


def loaded_by(*arguments, cwd):
    """Which of the heavy modules a command imports."""
    return loaded("from simhbase.cli import cli; cli(standalone_mode=False)", *arguments, cwd=cwd)


def loaded(code, *arguments, cwd):
    done = subprocess.run(
        [sys.executable, "-c", f"{code}; import sys; print(*sys.modules)", *arguments],
        cwd=cwd,
        env=environment(),
        capture_output=True,
        check=True,
    )
    *_, modules = done.stdout.decode().splitlines()
    return HEAVY & set(modules.split())


@pytest.mark.slow
def test_the_library_names_no_options():
    root = Path(simhbase.__file__).parent
    for file in root.rglob("*.py"):
        if file.is_relative_to(root / "cli") or file == root / "quality" / "report.py":
            continue  # the report has the command to type next
        tree = ast.parse(file.read_text("utf-8"))
        said = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}  # docstrings
        # Adjacency hold the arguments of other programs.
        said |= {id(each) for node in ast.walk(tree) if isinstance(node, ast.List) for each in node.elts}
        for node in ast.walk(tree):
            if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in said:
                # A whole command may be named.
                text = re.sub(r"(simhbase [a-z ]+|pg_[a-z]+|zstd -d) --[a-z-]+", "", node.value)
                assert not re.search(r"(?<![\w-])--[a-z]", text), f"{file}, line {node.lineno}"


def test_profiles_lists_every_preset_and_parameter(tmp_path):
    listed = result("profiles", cwd=tmp_path)
    assert [each["name"] for each in listed["presets"]] == list(PRESETS)
    assert [each["name"] for each in listed["parameters"]] == list(NAMES)
    assert set(MEANINGS) == set(NAMES)


def test_defaults_in_help_are_those_of_the_library():
    defaults = {
        ("find", "drawer_limit"): str(reader.DRAWER_LIMIT),
        ("find", "ids_limit"): reader.IDS_LIMIT,
        ("match", "drawer_limit"): str(reader.DRAWER_LIMIT),
        ("match", "ids_limit"): reader.IDS_LIMIT,
        ("match", "matches_limit"): match.MATCHES_LIMIT,
        ("evaluate", "right"): evaluation.RIGHT,
        ("calibrate", "sample"): calibrate.SAMPLE,
        ("calibrate", "recall"): calibration.Goal.recall,
        ("calibrate", "precision"): calibration.Goal.precision,
        ("calibrate", "max_candidates"): calibration.Goal.candidates,
    }
    for (name, parameter), default in defaults.items():
        params = cli.get_command(click.Context(cli), name).params
        assert next(each.default for each in params if each.name == parameter) == default, parameter


def test_hints_are_for_people(capfd):
    TEXT.hint("there is more")
    JSON.hint("there is more")
    assert capfd.readouterr() == ("", "there is more\n")


def test_a_list_of_mappings_is_a_table_for_people(capfdbinary):
    share = {"value": 0.931, "low": 0.9, "high": 0.954, "pairs": 120}
    rows = [
        {"layout": "5x2", "rows": 10, "recall": {"0.8-0.9": share, "all": None}},
        {"layout": "10x3", "rows": 1200, "recall": {"0.8-0.9": None, "all": share}},
    ]
    TEXT.summary({"layouts": rows, "recall": share})
    assert capfdbinary.readouterr().out.decode().splitlines() == [
        "layouts",
        "  layout  rows   recall 0.8-0.9  recall all",
        "  5x2     10     93.1 (90-95)    -",
        "  10x3    1,200  -               93.1 (90-95)",
        "recall   93.1 (90-95) %",
    ]
