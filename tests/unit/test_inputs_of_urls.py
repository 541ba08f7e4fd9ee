"""What was meant as a URL, or is one, and has a password: inputs and outputs of jobs."""

import pytest

from simhbase.corpus.inputs import Inputs
from simhbase.errors import OutputFailed, UsageError
from tests.command_line import run


@pytest.mark.parametrize(
    "given",
    [
        " https://u:secret@h/x",
        "HTTPS://u:secret@h/x",
        "HTTPS://h/*?password=secret",
        "https:/u:secret@h/x",
        "'https://u:secret@h/*.gz'",
        "file://u:secret@h/x",
        "simplecache::https://u:secret@h/x?sig=secret",
    ],
)
@pytest.mark.parametrize("read", [Inputs, Inputs.of], ids=["inputs", "a path"])
def test_what_is_no_url_is_refused_without_its_password(given, read):
    with pytest.raises(UsageError, match="is no URL") as refused:
        read([given])
    assert "secret" not in str(refused.value)


def test_inputs_that_are_printed_show_no_password():
    assert "secret" not in repr(Inputs(["https://u:secret@h/x"]))


@pytest.mark.parametrize("given", ["HTTPS:/u:p@h", "file://u:p@h", " ftp:/a", "a:b@c", "/x:y@z", "C:/x"])
def test_a_file_may_have_any_name(given, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    path = tmp_path / given.removeprefix("file://")
    if not path.is_absolute() or path.is_relative_to(tmp_path):
        path.parent.mkdir(exist_ok=True)
        path.touch()
    assert Inputs([given]).paths == [given]


@pytest.mark.parametrize(
    "given",
    [
        "host=h password=secret",
        "PGPASSWORD=secret",
        "PGPASSWORD=secret?*",
        "u:secret@h/x",
        "//u:secret@h/x",
        "u:secret*@h/x",
    ],
)
def test_what_names_no_file_and_may_hold_a_password_is_refused_without_it(given, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UsageError, match="names no file, and may hold a password") as refused:
        Inputs([given])
    assert "secret" not in str(refused.value)
    (tmp_path / "password=secret").touch()
    for named in "password=secret", "password=*", "pass*=secre[t]":
        assert Inputs([named]).paths == [named]


def test_a_folder_that_may_hold_a_password_is_not_shown(tmp_path):
    with pytest.raises(OutputFailed, match="there is no folder") as failed:
        Inputs(["x"]).check_outputs(tmp_path / "u:secret@h" / "unique.jsonl")
    assert "secret" not in str(failed.value)


@pytest.mark.parametrize("given", [" https://u:secret@h/x", "HTTPS://u:secret@h/x", "https://u:secret@h/x"])
@pytest.mark.parametrize(
    "command",
    [
        ["dedup", "--rejects", "GIVEN", "-"],
        ["dedup", "--unique", "GIVEN", "-"],
        ["dedup", "GIVEN"],
        ["compare", "GIVEN", "--text", "a"],
        ["idf", "-", "-o", "GIVEN"],
        ["profile", "show", "--profile", "GIVEN"],
        ["compare", "--set", "boilerplate=GIVEN", "--text", "a", "--text", "b"],
        ["load", "--store", "memory:", "GIVEN"],
    ],
    ids=" ".join,
)
def test_no_command_shows_a_password(command, given, tmp_path):
    done = run(*(given if each == "GIVEN" else each for each in command), cwd=tmp_path, stdin=b"{}\n")
    assert done.returncode
    assert b"secret" not in done.stdout + done.stderr
