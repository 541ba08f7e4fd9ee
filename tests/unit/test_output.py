import ast
import json
import re
from pathlib import Path

import click
import pytest

import simhbase
from simhbase.cli import COMMANDS, cli
from simhbase.cli.output import OPTIONS, ConsoleOutput, JsonOutput, message
from simhbase.model import Fingerprint, Lookup, Match

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
    JsonOutput().lookups([("q", NEAR), (None, NOTHING_NEAR), ("e", REJECTED)])
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
    JsonOutput().summary(SUMMARY)
    assert json.loads(capfdbinary.readouterr().out) == SUMMARY


def test_fingerprints_are_a_line_a_document_in_both_forms(capfdbinary):
    rows = [("a b", "00ff"), ("ｃ", "ff00")]
    JsonOutput().fingerprints(rows)
    lines = capfdbinary.readouterr().out.splitlines()
    assert [json.loads(line) for line in lines] == [
        {"id": "a b", "fingerprint": "00ff"},
        {"id": "ｃ", "fingerprint": "ff00"},
    ]
    ConsoleOutput().fingerprints(rows)
    assert capfdbinary.readouterr().out.decode() == "00ff  a b\nff00  ｃ\n"


def test_the_console_shows_matches_below_their_query(capfdbinary):
    ConsoleOutput().lookups([("q", NEAR), (None, NOTHING_NEAR), ("e", REJECTED), (None, REJECTED)])
    assert capfdbinary.readouterr().out.decode().splitlines() == [
        "0123456789abcdef  q: 2 matches, and there may be more (truncated)",
        "  0 bits  0123456789abcdef  a",
        "  0.88 similar  000000000000000f  新闻/2",
        "0000000000000001: no matches",
        "no fingerprint    e: the text is empty",
        "no fingerprint: the text is empty",
    ]


def test_the_console_aligns_a_summary_and_indents_what_is_inside(capfdbinary):
    ConsoleOutput().summary(SUMMARY)
    assert capfdbinary.readouterr().out.decode().splitlines() == [
        "documents           1,234,567",
        "bytes per document  321.50",
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


@pytest.mark.parametrize("output", [JsonOutput(), ConsoleOutput()])
def test_an_id_of_any_length_is_printed_whole(output, capfdbinary):
    long = "语" * 341
    output.lookups([(long, Lookup(Fingerprint(1), (Match(0, long, Fingerprint(1)),)))])
    assert capfdbinary.readouterr().out.decode().count(long) == 2


def test_marks_that_have_an_id_look_like_another_are_shown(capfdbinary):
    one = Fingerprint(1)
    ConsoleOutput().lookups([("abc\u202edef", Lookup(one, (Match(0, "a\u2066b\x1b", one),)))])
    shown = capfdbinary.readouterr().out.decode()
    assert r"abc\u202edef" in shown
    assert r"a\u2066b\x1b" in shown


def test_messages_go_to_stderr_alone(capfd):
    message("仅供参考")
    assert capfd.readouterr() == ("", "仅供参考\n")


def test_parameters_that_the_library_names_are_shown_as_options(capfd):
    message("`max_rejects` allows 3; `encoding='auto'`, `verify=True`, `share`; 'verify' and `else` stay")
    assert capfd.readouterr().err == (
        "--max-rejects allows 3; --encoding auto, --verify, --boilerplate-share; 'verify' and `else` stay\n"
    )


def test_the_library_names_parameters_never_options_and_each_is_an_option_of_a_command():
    root = Path(simhbase.__file__).parent
    named = set()
    for file in root.rglob("*.py"):
        if file.is_relative_to(root / "cli") or file.is_relative_to(root / "jobs" / "spark"):
            continue  # no command leads to Spark
        tree = ast.parse(file.read_text("utf-8"))
        said = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}  # docstrings
        # Adjacency hold the arguments of other programs.
        said |= {id(each) for node in ast.walk(tree) if isinstance(node, ast.List) for each in node.elts}
        for node in ast.walk(tree):
            if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in said:
                text = re.sub(r"simhbase [a-z]+ --[a-z-]+", "", node.value)  # a whole command may be named
                assert not re.search(r"(?<![\w-])--[a-z]", text), f"{file}, line {node.lineno}"
                named |= set(re.findall(r"`(\w+)(?:`|=|$)", text))
    assert named <= OPTIONS.keys()
    context = click.Context(cli)
    commands = [cli.get_command(context, name) for name in COMMANDS]
    commands += [
        each for group in commands if isinstance(group, click.Group) for each in group.commands.values()
    ]
    options = {name for command in commands for option in command.params for name in option.opts}
    assert set(OPTIONS.values()) <= options


def test_hints_are_for_people(capfd):
    ConsoleOutput().hint("there is more")
    JsonOutput().hint("there is more")
    assert capfd.readouterr() == ("", "there is more\n")


def test_a_list_of_mappings_is_a_table_for_people(capfdbinary):
    share = {"value": 0.931, "low": 0.9, "high": 0.954, "pairs": 120}
    rows = [
        {"layout": "5x2", "rows": 10, "recall": {"0.8-0.9": share, "all": None}},
        {"layout": "10x3", "rows": 1200, "recall": {"0.8-0.9": None, "all": share}},
    ]
    ConsoleOutput().summary({"layouts": rows, "recall": share})
    assert capfdbinary.readouterr().out.decode().splitlines() == [
        "layouts",
        "  layout  rows   recall 0.8-0.9  recall all",
        "  5x2     10     93.1 (90-95)    -",
        "  10x3    1,200  -               93.1 (90-95)",
        "recall   93.1 (90-95) %",
    ]
