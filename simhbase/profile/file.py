"""Profile files: TOML, one parameter per line.

scheme = "minhash"
threshold = 0.65
stop_words = ["的", "了"]
idf = "news.idf"                  # a file beside this one
boilerplate = "news.boilerplate"  # another
"""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path

from simhbase.errors import BadInput, OutputFailed, UsageError
from simhbase.model.urls import redacted
from simhbase.process.plain_files import write_whole
from simhbase.profile.profile import NAMES, PRESETS, Profile, preset_parameters
from simhbase.text.content import NamedContent
from simhbase.text.encoding import decode
from simhbase.text.idf import JIEBA
from simhbase.text.userfile import read_boilerplate, read_table, read_utf8

_FILES = {"idf": read_table, "boilerplate": read_boilerplate}
_MOST_BYTES = 1 << 20
# Texts and comments, which may have dots; and names of more parts than any parameter has, for each of which
# the parser takes the time and memory of all before it.
_TEXTS = re.compile(  # also those without an end, so that each is read once
    r""""{3}(?:[^\\]|\\.)*?(?:"{3}|\Z)|'{3}.*?(?:'{3}|\Z)"""
    r"""|"(?:[^"\\\n]|\\.)*+"?|'[^'\n]*+'?|#[^\n]*+""",
    re.DOTALL,
)
_LONG_NAME = re.compile(r"(?<![\w-])(?:[\w-]++[ \t]*+\.[ \t]*+){8}")
_HEAD = "# A profile of simhbase: the parameters that stored fingerprints depend on.\n"


def chosen_parameters(profile: str | None, settings: Iterable[str] = ()) -> dict[str, object]:
    """Parameters of a preset or profile file, overridden by settings such as "k=6". Raises as
    `read_parameters`."""
    given = {} if profile is None else dict(read_parameters(profile))
    set_to = dict[str, object]()
    for name, value in map(_setting, settings):
        if name in set_to:
            raise UsageError(
                f"{name!r} is set twice: which value counts is not certain", parameter="settings"
            )
        set_to[name] = value
    return given | set_to


def _setting(text: str) -> tuple[str, object]:
    name, sign, value = text.partition("=")
    if not sign:
        raise UsageError(f"{text!r} is not NAME=VALUE", parameter="settings")
    if name not in NAMES:
        raise UsageError(f"no parameter {name!r}: use {', '.join(NAMES)}", parameter="settings")
    if name in _FILES:
        return name, _FILES[name](Path(value))
    if name == "stop_words":
        return name, frozenset(decode(read_utf8(Path(value), "file of stop words")).split())
    with suppress(ValueError):
        return name, int(value)
    with suppress(ValueError):
        return name, float(value)
    return name, {"true": True, "false": False}.get(value, value)


def read_parameters(name: str) -> Mapping[str, object]:
    """Parameters of a profile. name: of a preset, or the path of a profile file.

    Raises UsageError if there is no such preset or file, or it has unknown parameters; BadInput if it cannot
    be read.
    """
    if name in PRESETS:
        return preset_parameters(name)
    path = Path(name)
    if not path.exists():
        raise UsageError(
            f"no profile {redacted(name)!r}: use {', '.join(PRESETS)}, or the path of a profile file"
        )
    content = read_utf8(path, "profile file", _MOST_BYTES).decode()
    if _LONG_NAME.search(_TEXTS.sub("text", content)):
        raise BadInput(f"the profile file {path} has a name of many parts: its parameters are plain")
    try:
        given = tomllib.loads(content)
        str(given)  # raises ValueError for a hexadecimal number that no message could show
    except RecursionError as error:
        raise BadInput(f"the profile file {path} nests values too deep: its parameters are plain") from error
    except ValueError as error:  # no TOML, or a number of too many digits
        raise BadInput(f"the profile file {path} is not valid TOML: {error}") from error
    if not given:
        raise UsageError(
            f"the profile file {path} has no parameters: use 'default' for those of that profile"
        )
    if unknown := sorted(given.keys() - set(NAMES)):
        raise UsageError(
            f"the profile file {path} has unknown parameters ({', '.join(unknown)}): use {', '.join(NAMES)}"
        )
    parameters: dict[str, object] = dict(given)
    for kind, read in _FILES.items():
        if kind in parameters:
            if not isinstance(parameters[kind], str) or "\0" in str(parameters[kind]):
                raise UsageError(f"the profile file {path}: {kind} must be the name of a file, in quotes")
            parameters[kind] = read(path.parent / str(parameters[kind]))
    if "stop_words" in parameters:
        words = parameters["stop_words"]
        if not isinstance(words, list) or not all(isinstance(word, str) for word in words):
            raise UsageError(f'the profile file {path}: stop_words must be a list such as ["a", "b"]')
        parameters["stop_words"] = frozenset(words)
    return parameters


def files_beside(path: Path) -> list[Path]:
    """Files that `write_profile_file` may write beside a profile file. Raises UsageError if the profile file
    itself has the suffix of one."""
    if path.suffix.removeprefix(".") in _FILES:
        raise UsageError(f"the profile file {path}: files beside it end in {path.suffix}, use .toml")
    return [path.with_suffix(f".{name}") for name in _FILES]


def write_profile_file(path: Path, profile: Profile) -> None:
    """Write all parameters of a profile, and beside the file a user's IDF table and boilerplate, with the
    same name and another suffix. Replaces the file as a whole, or leaves it unchanged on errors.

    Raises UsageError if a file beside it has other content; OutputFailed.
    """
    beside = dict(zip(_FILES, files_beside(path), strict=True))
    lines = [_HEAD]
    for name, value in profile.parameters().items():
        if isinstance(value, NamedContent):
            if getattr(value, "source", None) == JIEBA:
                continue
            _write(beside[name], value.content, replaces=False)
            value = beside[name].name
        elif name == "stop_words":
            value = sorted(profile.stop_words)
        if value is not None and value != []:
            # JSON and TOML agree on strings, numbers, lists and booleans, except for DEL in strings.
            toml = json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
            lines.append(f"{name} = {toml}\n")
    _write(path, "".join(lines).encode(), replaces=True)


def _write(path: Path, content: bytes, *, replaces: bool) -> None:
    if not replaces and path.exists() and not (path.is_file() and path.read_bytes() == content):
        raise UsageError(
            f"{path} belongs to the profile file, but exists with other content: use another name"
        )
    try:
        write_whole(path, content)
    except OSError as error:
        raise OutputFailed(f"cannot write {redacted(str(path))}: {error.strerror}") from error
