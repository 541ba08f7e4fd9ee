"""The encoding of a source is found and said, and nothing is guessed for one that has shown UTF-8."""

from __future__ import annotations

from itertools import chain

import pytest

from simhbase.corpus.parser import Parser
from simhbase.corpus.record import InputOptions, Record
from simhbase.corpus.sources import Sources
from tests.reading import write

CHINESE = "美国总统在白宫举行记者会，宣布新的贸易政策，这是他第一次说明政府的计划。"
KOREAN = "미국 대통령은 백악관에서 기자회견을 열고 새로운 무역 정책을 발표했다고 밝혔다."
JAPANESE = "大統領は記者会見を開き、新しい貿易政策を発表した。政府の計画を説明するのは初めてである。"


def found(path):
    options = InputOptions()
    sources = Sources([str(path)], options)
    items = list(chain.from_iterable(map(Parser(options).parse, sources.chunks())))
    return [item.text if isinstance(item, Record) else None for item in items], sources.notes


@pytest.mark.parametrize("suffix", ["csv", "tsv", "jsonl", "txt"])
@pytest.mark.parametrize("first", ["", "plain ASCII"])
def test_a_source_in_gb18030_is_read_and_said(tmp_path, suffix, first):
    contents = [*filter(None, [first]), *(f"{CHINESE}{number}" for number in range(5))]
    if suffix == "txt":
        contents = ["\n".join(contents)]
        data = contents[0]
    elif suffix == "jsonl":
        data = "".join(f'{{"id": {number}, "text": "{text}"}}\n' for number, text in enumerate(contents))
    else:
        between = "," if suffix == "csv" else "\t"
        data = f"id{between}text\n" + "".join(f"{n}{between}{text}\n" for n, text in enumerate(contents))
    path = write(tmp_path / f"x.{suffix}", data.encode("gb18030"))
    assert found(path) == (contents, [f"{path}: its texts are GB18030, not UTF-8"])


@pytest.mark.parametrize(
    ("text", "encoding"),
    [
        ("café au lait, thé, crème et pâtisserie pour tous", "latin-1"),
        (KOREAN, "euc-kr"),
        (JAPANESE, "euc-jp"),
        (JAPANESE, "shift_jis"),
        ("Новая торговая политика президента объявлена сегодня", "cp1251"),
        ("美國總統在白宮舉行記者會，宣布新的貿易政策。", "big5"),
    ],
)
def test_other_encodings_are_not_taken_for_it(tmp_path, text, encoding):
    path = write(tmp_path / "x.csv", f"id,text\na,{text}\n".encode(encoding))
    assert found(path) == ([None], [])


def test_a_source_that_has_shown_utf_8_stays_so(tmp_path):
    rows = [b"a," + CHINESE.encode(), b"b," + CHINESE.encode("gb18030"), b"c," + CHINESE.encode()]
    path = write(tmp_path / "x.csv", b"id,text\n" + b"\n".join(rows))
    assert found(path) == ([CHINESE, None, CHINESE], [])


def test_every_file_has_its_own(tmp_path):
    write(tmp_path / "a.txt", CHINESE.encode())
    gb18030 = write(tmp_path / "b.txt", CHINESE.encode("gb18030"))
    utf_16 = write(tmp_path / "c.txt", CHINESE.encode("utf-16"))
    notes = [f"{gb18030}: its texts are GB18030, not UTF-8", f"{utf_16}: its texts are UTF-16"]
    assert found(tmp_path) == ([CHINESE] * 3, notes)
