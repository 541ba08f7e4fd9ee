"""Token files: what a line means, and which lines are refused as their meaning is not certain."""

import os
import time
from hashlib import sha256
from pathlib import Path

import pytest

from simhbase.errors import UsageError
from simhbase.online import tokens
from simhbase.online.tokens import Role, Token, Tokens, read_tokens

FIRST, SECOND = "0123456789abcdef", "fedcba9876543210"


def read(folder: Path, *lines: str, scoped: bool = True) -> list[tuple[Role, str | None]]:
    """Role and scope of each token."""
    path = folder / "tokens"
    path.write_text("\n".join(lines))
    return [(token.role, token.scope) for token in read_tokens(path, scoped=scoped)]


@pytest.mark.parametrize(
    ("behind", "scope"),
    [
        ("scope=acme", "acme"),
        ("  \t scope=acme  ", "acme"),
        ("scope=acme # the crawlers of tenant=7", "acme"),
        ("scope=ünï/7:x=y", "ünï/7:x=y"),
        ('scope="acme corp"', "acme corp"),
        ('scope="acme corp" # theirs', "acme corp"),
        ('scope="#1"', "#1"),
        ('scope="a\\"b"', 'a"b'),
        (f"scope={'x' * 64}", "x" * 64),
    ],
)
def test_a_scope_stands_behind_the_token(tmp_path: Path, behind: str, scope: str) -> None:
    assert read(tmp_path, f"read {FIRST} {behind}") == [("read", scope)]


@pytest.mark.parametrize(
    ("behind", "problem"),
    [
        ("", "the store has scopes: add the one of the token"),
        ("tenant=acme", "the store has scopes: add the one of the token"),
        ("# scope=acme", "its comment mentions a scope"),
        ("theirs scope=acme", "its comment mentions a scope"),
        ("scope acme", "its comment mentions a scope"),
        ("scope: acme", "its comment mentions a scope"),
        ("scope =acme", "its comment mentions a scope"),
        ("SCOPE=acme", "its comment mentions a scope"),
        ("scope=acme scope=other", "behind a scope, a comment begins with #"),
        ("scope=acme # not scope=other", "its comment mentions a scope"),
        ("scope=acme corp", "behind a scope, a comment begins with #"),
        ("scope=acme\u3000corp", "behind a scope, a comment begins with #"),
        ("scope=acme#theirs", "put a name with # in quotes"),
        ("scope=#theirs", "put a name with # in quotes"),
        ("scope= acme", "behind a scope, a comment begins with #"),
        ("scope=", "is not a valid name of a scope"),
        ('scope=""', "is not a valid name of a scope"),
        ('scope="acme', "is no string of JSON"),
        ('scope="acme"corp', "put a space behind the name"),
        ('scope="a\\nb"', "is not a valid name of a scope"),
        ('scope="\\ud800"', "is not a valid name of a scope"),
        (f"scope={'x' * 65}", "is not a valid name of a scope"),
    ],
)
def test_what_a_reader_could_take_for_something_else_is_refused(
    tmp_path: Path, behind: str, problem: str
) -> None:
    with pytest.raises(UsageError, match=problem) as refused:
        read(tmp_path, f"write {SECOND} scope=acme", f"read {FIRST} {behind}")
    assert "line 2: " in str(refused.value)
    assert FIRST not in str(refused.value)


def test_a_field_before_the_token_is_not_taken_for_the_token(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="line 1: must be 'read TOKEN'"):
        read(tmp_path, f"read scope=a-tenant-of-ours {FIRST}", scoped=False)


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        (f"read {FIRST} scope=acme", "what is served has no scopes"),
        (f"read {FIRST} all scopes", "its comment mentions a scope"),
    ],
)
def test_without_scopes_no_token_has_one(tmp_path: Path, line: str, problem: str) -> None:
    with pytest.raises(UsageError, match=problem):
        read(tmp_path, line, scoped=False)


def test_one_token_has_one_scope_and_the_role_that_allows_most(tmp_path: Path) -> None:
    both = f"write {FIRST} scope=a", f"read {FIRST} scope=a"
    assert read(tmp_path, *both) == read(tmp_path, *reversed(both)) == [("write", "a")]
    with pytest.raises(UsageError, match="line 2: a line before has this token with another scope"):
        read(tmp_path, f"write {FIRST} scope=a", f"read {FIRST} scope=b")
    with pytest.raises(UsageError, match="line 2: a line before has this token with another scope"):
        read(tmp_path, f"metrics {FIRST}", f"read {FIRST} scope=b")


def test_metrics_are_of_all_scopes(tmp_path: Path) -> None:
    assert read(tmp_path, f"metrics {FIRST} the dashboard") == [("metrics", None)]
    with pytest.raises(UsageError, match="metrics are of all scopes: leave scope= out"):
        read(tmp_path, f"metrics {FIRST} scope=acme")
    allowed: dict[tuple[Role, str | None], str] = {
        ("metrics", None): "metrics",
        ("read", None): "metrics read",
        ("write", None): "metrics read write",
        ("read", "a"): "read",
        ("write", "a"): "read write",
    }
    roles: tuple[Role, ...] = ("metrics", "read", "write")
    for (role, scope), expected in allowed.items():
        token = Token(b"", role, scope)
        assert [each for each in roles if token.includes(each)] == expected.split()


def test_a_file_of_any_editor_has_the_same_tokens(tmp_path: Path) -> None:
    for text in (f"\ufeffread {FIRST}\r\nwrite {SECOND}\r\n", f"read\t{FIRST}\n\n write {SECOND}"):
        (tmp_path / "tokens").write_bytes(text.encode())
        assert [token.role for token in read_tokens(tmp_path / "tokens")] == ["read", "write"]


def test_a_file_that_is_being_written_changes_nothing_until_it_is_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first half is a valid file, without the tokens of the second one."""
    monkeypatch.setattr(tokens, "LOOKED_AT", 0)
    monkeypatch.setattr(tokens, "WRITTEN", 60)
    path = tmp_path / "tokens"
    path.write_text(f"read {FIRST}\nwrite {SECOND}\n")
    known = Tokens(path)
    path.write_text(f"read {FIRST}\n")
    assert known.find(SECOND.encode())
    monkeypatch.setattr(tokens, "WRITTEN", 0)
    assert known.find(SECOND.encode()) is None
    assert known.find(FIRST.encode())


@pytest.mark.parametrize("kind", ["a pipe", "a device", "a folder", "too large", "nothing"])
def test_only_a_small_plain_file_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, kind: str
) -> None:
    """A service reads it on its event loop: a pipe without a writer stopped all of it."""
    monkeypatch.setattr(tokens, "LOOKED_AT", 0)
    monkeypatch.setattr(tokens, "WRITTEN", 0)
    path = tmp_path / "tokens"
    path.write_text(f"read {FIRST}\n")
    known = Tokens(path)
    path.unlink()
    match kind:
        case "a pipe":
            os.mkfifo(path)
            problem = "it is a pipe, socket or device"
        case "a device":
            path.symlink_to("/dev/zero")
            problem = "it is a pipe, socket or device"
        case "a folder":
            path.mkdir()
            problem = "Is a directory"
        case "too large":
            path.write_text(f"read {SECOND}\n" + "#" * tokens.MOST_BYTES)
            problem = "has more than 1 MiB"
        case _:
            problem = "No such file"
    assert known.find(SECOND.encode()) is None
    assert known.find(FIRST.encode())
    assert "keeping the previous tokens: " in caplog.text
    with pytest.raises(UsageError, match=problem):
        read_tokens(path)


def test_a_link_to_a_file_is_read_as_secrets_of_kubernetes_are(tmp_path: Path) -> None:
    (tmp_path / "secret").write_text(f"read {FIRST}\n")
    (tmp_path / "tokens").symlink_to("secret")
    assert [token.role for token in read_tokens(tmp_path / "tokens")] == ["read"]


def test_many_tokens_make_no_request_slower(tmp_path: Path) -> None:
    """Each request was compared with all tokens, also of strangers: with 100,000 it took 7 ms."""
    path = tmp_path / "tokens"
    path.write_text("".join(f"read {sha256(b'%d' % number).hexdigest()}\n" for number in range(10_000)))
    known = Tokens(path)
    before = time.process_time()
    assert not any(known.find(b"%d" % number) for number in range(5_000))
    assert time.process_time() - before < 2
