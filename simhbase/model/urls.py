"""Keeps passwords out of messages, which show URLs.

A store or service whose URL has a password is refused (`refuse_secret`). All else that is a URL, or looks
like one, is shown without it (`redacted`), also where something else was asked for (`without_passwords`).
Servers may repeat what they were given: what they say is shown `without` it.
"""

from __future__ import annotations

import os
import re
import traceback
from base64 import b64encode
from collections.abc import Iterable, Iterator, Mapping
from urllib.parse import unquote

from simhbase.errors import UsageError

_ADDRESS = re.compile(r"\[[^][]*\]")  # of IPv6
_PORT = re.compile(r":\d+(?=,|$)")
# As an option, in a fragment, or within the value of another option; not passfile and require_auth of libpq.
_NAME = (
    r"((pass(?!file)|pwd|secret|token|(?<!require_)auth(?!ors?\s*=)|credential|signature"
    r"|(api|access|account|client|server|shared)[_-]?key)[a-z_]{0,40}|(?<![a-z])sig)"
)
_SECRET = re.compile(rf"(?i){_NAME}\s*=")
# As in the key words of libpq and in variables, a user with a password, and a header, in what is no URL.
_GIVEN = re.compile(
    rf"(?i)(?<![\w./-])(\w{{0,40}}?{_NAME}(=|\s{{1,9}}=\s{{1,9}}))"
    r"(?![,;.)](\s|$))('[^']{1,500}'?|\"[^\"]{1,500}\"?|[^\s'\"]{1,500})"
)
_USER = re.compile(
    r"(?<![\w:@.+-])((//)?[^\s:/@'\"=]{1,100}):[^\s/'\"]{1,500}(?=@(\[[\w:.]{2,50}\]|[\w.-]{1,200})[:/])"
)
_HEADER = re.compile(r"(?i)(\bauthorization\s{0,9}:\s{0,9}([a-z]{1,20}\s{1,9})?)[^\s'\"]{1,500}")
_KEY = re.compile(r"(?i)https?://([^/?#]{1,500}@|.{1,2000}[?&]key=)")  # also a token as the user
_AUTHORITY = re.compile(r"[a-z][a-z0-9+.-]*://", re.IGNORECASE)
# The beginning of a URL, also of what is none: with a space before it, capitals, or one slash, as of a Path.
MEANT_AS_URL = re.compile(r"[\s\"'<(]*[a-z][a-z0-9+.-]+(:[a-z0-9+.-]*)*:[/\\]{1,2}", re.IGNORECASE)
_BETWEEN = re.compile(r"[/?#\s]+")  # parts of a URL, also of an invalid one
_USER_END = re.compile(r"(?i):|%3a")  # signs may be escaped by mistake, as may the "@" behind a password
_PLACE_END = re.compile(r"[/\\?#]")
_OPTION = re.compile(r"([?&;#][^=&;#/?]*=)[^&;#]*")
# Within a message. Lengths are bounded, so that the time is linear.
_WORD = re.compile(r"(?i)(?<![a-z0-9+.])[a-z][a-z0-9+.-]{0,40}(:[a-z0-9+.-]{0,40}){0,3}:[/\\]{1,2}\S{1,2000}")
_OF_ENVIRONMENT = re.compile(r"(?i)(token|secret|password|key)$")  # variables: libraries give them to servers
_PROXY = re.compile(r"(?i)_proxy$")
SHORTEST = 4  # characters of a secret that is looked for in what a server says
_EMBEDDED = ("memory:", "rocksdb:")  # their folders may have any name


def refuse_secret(url: str, instead: str) -> None:
    """Raises UsageError for a URL with what may be a password, also with one that has signs which end a name
    in a URL. The URL is not shown. instead: how to give it."""
    is_named = not url.startswith(_EMBEDDED) and _SECRET.search(unquote(url))
    parts = () if url.startswith(_EMBEDDED) else _BETWEEN.split(unquote(url))
    has_user = any(":" in part.rpartition("@")[0] for part in parts)
    if is_named or has_user or (_AUTHORITY.match(url) and _has_password(url)):
        raise UsageError(
            "the URL contains a password, and URLs are shown in messages, logs and lists of processes: leave "
            f"it out, and give it by {instead}"
        )


def redacted(name: str, *, every_option: bool = True) -> str:
    """A URL as messages show it: of the web without user and query, others without a password and without the
    values of options, or only of those that are named like a secret. The same for what was meant as a URL and
    is none, and for passwords as libpq takes them; other names are unchanged."""
    found = MEANT_AS_URL.match(name)
    if not found:
        return _without_given(name)
    scheme, rest = found[0], name[found.end() :]
    place = _PLACE_END.split(rest, maxsplit=1)[0]
    if "@" not in place and _odd_ports(place):  # a password with a sign that ends a name in a URL
        rest = rest.replace("%40", "@")
        place = rest[: rest.rfind("@") + 1]
    rest = rest[len(place) :]
    user, at, host = place.rpartition("@")
    if "http" in scheme.lower():
        return scheme + host + re.split("[?#]", rest, maxsplit=1)[0]
    return scheme + _OPTION.sub(
        lambda each: f"{each[1]}..." if every_option or _SECRET.search(unquote(each[1])) else each[0],
        f"{_USER_END.split(user)[0]}{at}{host}{rest}",
    )


def without_passwords(text: str) -> str:
    """A message in which each URL that may have a password is redacted, as are passwords without one."""
    return _without_given(_WORD.sub(lambda word: _shown(word[0]), text))


def secrets_in(url: str) -> list[str]:
    """What a server is given that may be secret, in the forms in which that may repeat it: of its URL a
    password, also in a path, and values of options as `redacted` hides them in messages; variables of the
    environment; and passwords of proxies that these name."""
    if not MEANT_AS_URL.match(url):
        return []
    held = [value for name, value in os.environ.items() if _OF_ENVIRONMENT.search(name)]
    proxies = [value for name, value in os.environ.items() if _PROXY.search(name)]
    named = [proxy if MEANT_AS_URL.match(proxy) else f"http://{proxy}" for proxy in proxies]
    return [secret for each in (url, *named) for secret in _given_by(each)] + held


def secret_options(options: Mapping[str, object]) -> Iterator[str]:
    """Values of options, and of those within them, that are named like a secret; of a header its last word,
    too."""
    for name, value in options.items():
        if isinstance(value, Mapping):
            yield from secret_options(value)
        elif isinstance(value, str) and _SECRET.search(f"{name}="):
            yield from (value, value.rpartition(" ")[2])


def without(said: str, secrets: Iterable[str]) -> str:
    """What a server has said without secrets that it was given. Shorter ones than SHORTEST stay, as they are
    in other words, too."""
    for secret in sorted(set(secrets), key=len, reverse=True):
        if len(secret) >= SHORTEST:
            said = said.replace(secret, "...")
    return said


def cause_without(error: BaseException, secrets: Iterable[str]) -> BaseException | None:
    """An error as the cause of another one; None if it, or one behind it, has a secret, as tracebacks show
    all of them."""
    looked_for = [secret for secret in secrets if len(secret) >= SHORTEST]
    shown = "".join(traceback.format_exception(error)) if looked_for else ""
    return None if any(secret in shown for secret in looked_for) else error


def _given_by(url: str) -> list[str]:
    """The secrets of a URL in all forms."""
    found = MEANT_AS_URL.match(url)
    assert found
    rest = url[found.end() :]
    is_web = "http" in found[0].lower()
    user = rest.partition("?")[0].rpartition("@")[0]
    _, is_with_password, password = unquote(user).partition(":")
    given = [password] if is_with_password or not is_web or "/" in user else [user]
    options = [each[0].partition("=") for each in _OPTION.finditer(rest)]
    given += [value for name, _, value in options if is_web or _SECRET.search(f"{unquote(name)}=")]
    basic = b64encode(unquote(user).encode(errors="replace")).decode()  # as in the header
    return [*given, *map(unquote, given), user.rpartition(":")[2], basic]


def _without_given(text: str) -> str:
    return _HEADER.sub(r"\1...", _USER.sub(r"\1", _GIVEN.sub(r"\1...", text)))


def _shown(word: str) -> str:
    is_secret = _has_password(word) or _SECRET.search(unquote(word)) or _KEY.match(word)
    return redacted(word, every_option=False) if is_secret else word


def _has_password(url: str) -> bool:
    """True for a URL whose user may have a password, also with signs that end a user."""
    rest = url[found.end() :] if (found := MEANT_AS_URL.match(url)) else ""
    user = unquote(_ADDRESS.sub("", rest.partition("?")[0].rpartition("@")[0]))
    return ":" in user or ("@" in unquote(rest) and _odd_ports(_PLACE_END.split(rest, maxsplit=1)[0]))


def _odd_ports(place: str) -> bool:
    """True if there are colons that begin no port."""
    return ":" in _PORT.sub("", _ADDRESS.sub("", unquote(place)))
