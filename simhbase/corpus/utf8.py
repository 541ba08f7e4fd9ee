"""Finds the encoding of a source that does not say it: UTF-8 or GB18030."""

from __future__ import annotations

import re
from collections.abc import Callable

from simhbase.errors import BadInput
from simhbase.text.encoding import decode

_CERTAIN_CHARACTERS = 4  # valid by chance in UTF-8 once in thousands of texts of GB18030
_NOT_ASCII = re.compile(rb"[\x80-\xff]")
_GB2312_PAIR = re.compile(rb"[\xa1-\xf7][\xa1-\xfe]")
_LEAST_PAIRS = 0.4  # share of the bytes beyond ASCII: GBK has more pairs, other encodings hardly any of these
_FEW_HAN, _LEAST_COMMON = 10, 0.1  # characters; share of the common ones among them
_HAN = re.compile("[\u4e00-\u9fff]")
_COMMON = frozenset(
    "的一是不了在人有我他这个们中来上大为和国地到以说时要就出会可也你对生能而子那得于着下自之年过发后作里用道行所然家种"
    "事成方多经么去法学如都同现当没动面起看定天分还进好小部其些主样理心本前开但因只从想实日者意无力与长把机十民第公此已"
    "工使情明性知全三又关点正业外将两高间由问很最重并物手应战向头文体政美相见被利二等产或新制身果加月话合回特代内信表化"
)


class Utf8:
    """Converts the texts of one source to UTF-8, in order.

    Nothing is guessed for a source that has shown UTF-8: texts that are not UTF-8 stay as they are, and are
    rejected. note: gets what was found, if it is not UTF-8.
    """

    def __init__(self, note: Callable[[str], None]) -> None:
        self._note = note
        self._seen = 0  # characters beyond ASCII
        self._is_gb18030 = False

    def converted(self, data: bytes) -> bytes:
        """A text in UTF-8, unchanged if it cannot be decoded with certainty."""
        if data.isascii():
            return data
        try:
            text = data.decode()
        except UnicodeDecodeError:
            return self._from_gb18030(data)
        if self._seen < _CERTAIN_CHARACTERS:
            self._seen += sum(not character.isascii() for character in text[:1000])
        return data

    def _from_gb18030(self, data: bytes) -> bytes:
        if not self._is_gb18030:
            if self._seen >= _CERTAIN_CHARACTERS or not _is_plausible(data):
                return data
            self._is_gb18030 = True
            self._note("GB18030, not UTF-8")
        try:
            return decode(data, "auto").encode()
        except BadInput:
            return data


def _is_plausible(data: bytes) -> bool:
    """True if a text looks like Chinese in GB18030, and not like another encoding."""
    if 2 * len(_GB2312_PAIR.findall(data)) < _LEAST_PAIRS * len(_NOT_ASCII.findall(data)):
        return False
    try:
        han = _HAN.findall(decode(data, "auto"))
    except BadInput:
        return False
    common = sum(character in _COMMON for character in han)
    return len(han) < _FEW_HAN or common >= _LEAST_COMMON * len(han)
