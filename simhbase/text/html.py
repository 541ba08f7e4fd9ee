"""Extracts the main text of HTML pages."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import islice
from typing import Any, NamedTuple

from simhbase.errors import BadInput
from simhbase.text.encoding import decode
from simhbase.text.packages import package_folder

# Limit of browsers. Finding the main text takes time quadratic in the depth.
_MAX_DEPTH = 512
_DEEPER = " > ".join(["*"] * (_MAX_DEPTH + 1))

# resiliparse (2.0.1) drops a single character of three UTF-8 bytes between tags as an icon. A mark after the
# character prevents this, and is removed from the result.
# Possessive, as some of these characters are white space, too: backtracking would take quadratic time.
_LONE_CHARACTER = re.compile(r"(>\s*+[\u0800-\ud7ff\uf900-\uffff])(?=\s*+<)")
_MARK = "\u200b"

# Attributes as parsers read them: no space has to follow a quoted value, and a name may begin with "=".
_ATTRIBUTE = (
    r"""[ \t\n\f\r/]*+[^ \t\n\f\r/>][^ \t\n\f\r/>=]*+"""
    r"""(?:[ \t\n\f\r]*+=[ \t\n\f\r]*+(?:"[^"]*+"|'[^']*+'|(?!["'])[^ \t\n\f\r>]*+))?+"""
)
# The parser compares each attribute of a tag with those before it. The name of a tag may have another "<",
# but a search that begins there finds the same.
_MOST_ATTRIBUTES = 1000
_MANY_ATTRIBUTES = re.compile(
    r"<[a-zA-Z][^ \t\n\f\r/<>]*+(?:<(?![a-zA-Z])[^ \t\n\f\r/<>]*+)*+(?=[ \t\n\f\r/])"
    rf"(?:{_ATTRIBUTE}){{{_MOST_ATTRIBUTES + 1}}}"
)
# The parser merges the attributes of all these tags into one element. Pages that were joined have many such
# tags, with few attributes each.
_MOST_MERGED = 10_000
_MERGED = re.compile(rf"<(?:html|body)(?=[ \t\n\f\r/]((?:{_ATTRIBUTE})++))", re.IGNORECASE)
_ONE_ATTRIBUTE = re.compile(_ATTRIBUTE)
_LINK = re.compile(rf"<a(?=[ \t\n\f\r/])((?:{_ATTRIBUTE})++)", re.IGNORECASE)
_TARGET = re.compile(
    r"""(?i)[ \t\n\f\r/]*+href[ \t\n\f\r]*+=[ \t\n\f\r]*+("[^"]*+"|'[^']*+'|[^ \t\n\f\r>]*+)"""
)
# The parser looks at the options of a list again for each further one.
_MOST_OPTIONS = 10_000
_OPTION = re.compile(r"<option(?=[\s/>])", re.IGNORECASE)
_STATED_WITHIN = 1 << 13  # bytes
_STATED = re.compile(
    rb"""<meta\s(?:(?!<meta\s)[^>])*?\bcharset\s*+=\s*+["']?\s*+(?P<meta>[\w.:-]+)"""
    rb"""|^\s*+<\?xml\s[^>]*?\bencoding\s*+=\s*+["'](?P<xml>[\w.:-]+)""",
    re.IGNORECASE,
)
_LEAST_ZEROS = 8  # in UTF-16, where each ASCII character has a zero byte, markup has one in 8 bytes or more
_HIDDEN = '[style*="visibility"]'
_MISSING = "pages are read by resiliparse and fastwarc, which are not installed: pip install 'simhbase[web]'"
REPLACEMENT = "\ufffd"  # in place of bytes that an encoding does not have


class Page(NamedTuple):
    """The main text of a page, "" if it has none, and its title, None if it has none."""

    text: str
    title: str | None


def require_readers() -> None:
    """Raises BadInput if what reads pages and web archives is not installed."""
    for package in ("resiliparse", "fastwarc"):
        package_folder(package, _MISSING)


def extract_html(html: str | bytes, encoding: str | None = None) -> Page:
    """Extract the main text of a page, without markup, navigation, comments, scripts and hidden elements.

    Bytes are decoded as UTF-8 if valid, else by `encoding` (from the HTTP header), else by the encoding that
    the page declares or looks like; invalid bytes become U+FFFD. Broken markup is parsed as in browsers.
    Raises BadInput for a tag with more than 1,000 attributes, for more than 10,000 attributes of all <html>
    and <body> tags or options of lists, and without the packages of the extra `web`;
    MemoryError if the process may not have the memory for it. A page of 32 KiB may take 3 GB, and one of
    512 KiB a minute: read those of strangers in a process whose memory and time are limited.
    """
    try:
        from resiliparse.extract.html2text import extract_plain_text
    except ModuleNotFoundError as error:
        raise BadInput(_MISSING) from error

    page = html if isinstance(html, str) else _decode_page(html, encoding)
    if _MANY_ATTRIBUTES.search(page):
        raise BadInput(f"a tag of the page has more than {_MOST_ATTRIBUTES:,} attributes")
    merged = (each for found in _MERGED.finditer(page) for each in _ONE_ATTRIBUTE.finditer(found[1]))
    if any(islice(merged, _MOST_MERGED, None)):
        raise BadInput(f"the <html> and <body> tags of the page have more than {_MOST_MERGED:,} attributes")
    if any(islice(_OPTION.finditer(page), _MOST_OPTIONS, None)):
        raise BadInput(f"the page has more than {_MOST_OPTIONS:,} options of lists (<option>)")
    marked = _LONE_CHARACTER.sub(rf"\1{_MARK}", page)
    tree = _parsed(marked.encode("utf-8", "replace"))
    document = tree.document
    if document.query_selector(_HIDDEN) is not None:
        _show_hidden(document)
    text = extract_plain_text(
        tree,
        preserve_formatting=False,
        main_content=document.query_selector(_DEEPER) is None,
        list_bullets=False,
        alt_texts=False,
        comments=False,
    )
    title = " ".join((tree.title or "").replace(_MARK, "").split())
    return Page(text.replace(_MARK, ""), title or None)


def _parsed(html: bytes) -> Any:
    """The tree of a page, which has a document. Raises MemoryError."""
    from resiliparse.parse.html import HTMLTree
    from resiliparse.parse.html.exception import HTMLParserException

    try:
        return HTMLTree.parse_from_bytes(html)
    except HTMLParserException as error:  # browsers, and so the parser, read whatever they get
        raise MemoryError(str(error)) from error


def links(page: str) -> Iterator[str]:
    """The targets of the links of a page, in order, as they are given. Takes linear time for any text."""
    from html import unescape  # takes time to load

    for link in _LINK.finditer(page):
        named = (_TARGET.fullmatch(attribute[0]) for attribute in _ONE_ATTRIBUTE.finditer(link[1]))
        if target := next(filter(None, named), None):
            value = target[1][1:-1] if target[1][:1] in ("'", '"') else target[1]
            yield unescape(value).strip()


def stated_encoding(html: bytes) -> str | None:
    """The encoding that a page states at its beginning, or None. Names that browsers do not know are none."""
    from resiliparse.parse.encoding import map_encoding_to_html5

    found = _STATED.search(html[:_STATED_WITHIN])
    if found is None:
        return None
    label = (found["meta"] or found["xml"]).decode("latin-1")
    name: str | None = map_encoding_to_html5(label, False)
    return "utf-8" if name and name.startswith("utf-16") else name  # as browsers: it can be read by bytes


def is_utf8(html: bytes, encoding: str | None) -> bool:
    """True for a page in UTF-8, whatever it states: pages in UTF-8 often state another encoding, and others
    are hardly ever valid UTF-8, but for those made of its characters. encoding: named by the server."""
    try:
        html.decode()
    except UnicodeDecodeError:
        return False
    if b"\x1b" not in html and b"\0" not in html:
        return True
    match encoding or stated_encoding(html):
        case "iso2022_jp":
            return b"\x1b" not in html or not html.isascii()
        case None | "utf-16-le" | "utf-16-be":
            return html.count(0) * _LEAST_ZEROS < len(html)
    return True


def decode_stated(html: bytes, encoding: str) -> tuple[str, int]:
    """A page in the encoding stated, and the number of U+FFFD in place of bytes that are not in it."""
    # Browsers read GBK as GB18030, and pages use characters that GBK lacks.
    name = "gb18030" if encoding == "gbk" else encoding
    try:
        return html.decode(name), 0
    except UnicodeDecodeError:
        text = html.decode(name, "replace")
        own = REPLACEMENT.encode(name, "ignore")
        return text, text.count(REPLACEMENT) - (html.count(own) if own else 0)


def _show_hidden(document: Any) -> None:
    """Remove styles with a visibility: WeChat and other sites hide an article until a script shows it."""
    from resiliparse.parse.html import NodeType, traverse_dom

    hidden = []  # not by query_selector_all, which takes quadratic time for its answer

    def note(context: Any) -> None:
        element = context.node
        if element.type == NodeType.ELEMENT and "visibility" in (element.getattr("style") or ""):
            hidden.append(element)

    traverse_dom(document, note)
    for element in hidden:
        del element["style"]


def _decode_page(html: bytes, encoding: str | None) -> str:
    if is_utf8(html, encoding):
        return decode(html)
    from resiliparse.parse.encoding import detect_encoding

    return decode_stated(html, encoding or detect_encoding(html, from_html_meta=True) or "utf-8")[0]
