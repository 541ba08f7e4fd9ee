"""Bytes or HTML to text, and text to the one form that features are taken from."""

from __future__ import annotations

import codecs
import hashlib
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from unicodedata import is_normalized, normalize

from simhbase.errors import BadInput, UsageError

# Any part of a text may be replaced by its own NFKC beforehand without changing the NFKC of the
# whole: both decompose to the same sequence (UAX #15). So the few characters that make nearly every
# Chinese text "not normalised" go first, and most texts never meet the far slower normalize.
_COMMON = tuple((character, normalize("NFKC", character)) for character in "，：；？！（）％\u3000\xa0…℃")
_NEITHER_ASCII_NOR_HAN = re.compile("[^\x00-\x7f\u4e00-\u9fff、。《》“”·—]+")

# No token holds one of these, and what stands before and behind one never changes its neighbour:
# NFKC composes none of them with anything before it, and the lower case of a final sigma is the same
# before one as at the end (which is not so before a colon, a full stop or an apostrophe).
_SEPARATOR = re.compile("[\\s,;!?，；！？、。]")
PIECE = 1 << 16  # characters

# Browsers nest no deeper; looking for the main text takes time quadratic in the depth.
_MAX_DEPTH = 512
_DEEPER = " > ".join(["*"] * (_MAX_DEPTH + 1))

# resiliparse (2.0.1) takes a lone character of three UTF-8 bytes between tags for an icon and drops
# it. A mark behind the character keeps it, and leaves again with the text.
_LONE_CHARACTER = re.compile(r"(>\s*[\u0800-\ud7ff\uf900-\uffff])(?=\s*<)")
_MARK = "\u200b"


def normalise(text: str) -> str:
    """NFKC, lower case, every run of white space one space, none at the ends. Idempotent."""
    return " ".join(fold(text).split())


def fold(text: str) -> str:
    """NFKC and lower case, with the white space that it has."""
    composed = _nfkc(text)
    lower = composed.lower()
    if lower != composed:
        lower = _nfkc(lower)  # a capital and its accent may compose in lower case only: ẗ, ǰ
    return lower


def _nfkc(text: str) -> str:
    for character, replacement in _COMMON:
        text = text.replace(character, replacement)
    if is_normalized("NFKC", text):
        return text
    text = _NEITHER_ASCII_NOR_HAN.sub(lambda run: normalize("NFKC", run[0]), text)
    if is_normalized("NFKC", text):
        return text
    return normalize("NFKC", text)


def pieces(text: str) -> Iterator[str]:
    """A long text in parts of about PIECE characters that have the tokens of the whole.

    Put together without white space, their normal forms are that of the whole without it. A part is
    longer where no separator comes up for longer.
    """
    start = 0
    while len(text) - start > PIECE and (found := _SEPARATOR.search(text, start + PIECE)):
        yield text[start : found.start()]
        start = found.start()
    yield text[start:]


def decode(data: bytes, encoding: str = "utf-8") -> str:
    """The text of bytes, without a byte order mark.

    `encoding` is any that Python knows, or "auto": UTF-8, else GB18030. Raises BadInput naming the
    offset of the first wrong byte, UsageError for an encoding that does not exist.
    """
    if encoding == "auto":
        return _decode_automatically(data)
    try:
        codecs.lookup(encoding)
        return _without_mark(data.decode(encoding))
    except LookupError as error:
        message = f"no text encoding {encoding!r}: use auto, utf-8, gb18030 or another name that Python knows"
        raise UsageError(message) from error
    except UnicodeDecodeError as error:
        raise BadInput(f"not {encoding}: {_where(error)}") from error


@dataclass(frozen=True)
class NamedContent:
    """What is in a file: two of one content are equal, whatever their names."""

    name: str = field(compare=False)
    content: bytes = field(repr=False)

    @cached_property
    def digest(self) -> str:
        """SHA-256 of the content, in hex."""
        return hashlib.sha256(self.content).hexdigest()


def read_utf8(path: Path, kind: str) -> bytes:
    """What is in a file of UTF-8, of a kind that messages name. Raises BadInput."""
    try:
        content = path.read_bytes()
        content.decode("utf-8")
    except OSError as error:
        raise BadInput(f"cannot read the {kind} {path}: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise BadInput(f"the {kind} {path} is not UTF-8 at byte {error.start}") from error
    return content


def _decode_automatically(data: bytes) -> str:
    try:
        return _without_mark(data.decode("utf-8"))
    except UnicodeDecodeError as not_utf8:
        try:
            return _without_mark(data.decode("gb18030"))
        except UnicodeDecodeError as not_gb18030:
            message = f"neither utf-8 ({_where(not_utf8)}) nor gb18030 ({_where(not_gb18030)})"
            raise BadInput(message) from not_gb18030


def _without_mark(text: str) -> str:
    return text.removeprefix("\ufeff")


def _where(error: UnicodeDecodeError) -> str:
    return f"{error.reason} at byte {error.start} (0x{error.object[error.start]:02x})"


def extract_html(html: str | bytes) -> str:
    """The main text of a page: no markup, navigation, comments, scripts or hidden elements.

    Bytes are read as UTF-8 if they are valid UTF-8, else in the encoding that the page declares, else
    in the one they look like; what does not fit becomes U+FFFD. Broken markup is read as browsers
    read it. A page without text gives "".
    """
    from resiliparse.extract.html2text import extract_plain_text
    from resiliparse.parse.html import HTMLTree

    page = html if isinstance(html, str) else _decode_page(html)
    marked = _LONE_CHARACTER.sub(rf"\1{_MARK}", page)
    tree = HTMLTree.parse_from_bytes(marked.encode("utf-8", "replace"))
    document = tree.document
    assert document is not None
    for element in document.query_selector_all('[style*="visibility"]'):
        del element["style"]  # WeChat and others hide an article until a script shows it
    text = extract_plain_text(
        tree,
        preserve_formatting=False,
        main_content=document.query_selector(_DEEPER) is None,
        list_bullets=False,
        alt_texts=False,
        comments=False,
    )
    return text.replace(_MARK, "")


def _decode_page(html: bytes) -> str:
    """A wrong declaration of a page in UTF-8 is common, valid UTF-8 by accident is not."""
    try:
        return decode(html)
    except BadInput:
        from resiliparse.parse.encoding import detect_encoding

        encoding = detect_encoding(html, from_html_meta=True) or "utf-8"
        # Pages that say GBK are GB18030 to browsers, and hold what GBK does not.
        return html.decode("gb18030" if encoding == "gbk" else encoding, "replace")
