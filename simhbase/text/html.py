"""HTML to the main text of a page."""

from __future__ import annotations

import re

from simhbase.errors import BadInput
from simhbase.text.encoding import decode

# Browsers nest no deeper; looking for the main text takes time quadratic in the depth.
_MAX_DEPTH = 512


_DEEPER = " > ".join(["*"] * (_MAX_DEPTH + 1))


# resiliparse (2.0.1) takes a lone character of three UTF-8 bytes between tags for an icon and drops
# it. A mark behind the character keeps it, and leaves again with the text.
_LONE_CHARACTER = re.compile(r"(>\s*[\u0800-\ud7ff\uf900-\uffff])(?=\s*<)")


_MARK = "\u200b"


def extract_html(html: str | bytes, encoding: str | None = None) -> str:
    """The main text of a page: no markup, navigation, comments, scripts or hidden elements.

    Bytes are read as UTF-8 if they are valid UTF-8, else in the `encoding` that its server has named, else
    in the one that the page declares or looks like; what does not fit becomes U+FFFD. Broken markup is
    read as browsers read it. A page without text gives "".
    """
    from resiliparse.extract.html2text import extract_plain_text
    from resiliparse.parse.html import HTMLTree

    page = html if isinstance(html, str) else _decode_page(html, encoding)
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


def _decode_page(html: bytes, encoding: str | None) -> str:
    """A wrong declaration of a page in UTF-8 is common, valid UTF-8 by accident is not."""
    try:
        return decode(html)
    except BadInput:
        from resiliparse.parse.encoding import detect_encoding

        encoding = encoding or detect_encoding(html, from_html_meta=True) or "utf-8"
        # Pages that say GBK are GB18030 to browsers, and hold what GBK does not.
        return html.decode("gb18030" if encoding == "gbk" else encoding, "replace")
