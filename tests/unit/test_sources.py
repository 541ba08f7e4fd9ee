from __future__ import annotations

import bz2
import gzip
import io
import json
import lzma
import os
import re
import tracemalloc
import zlib
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from itertools import chain
from pathlib import Path
from threading import Thread
from typing import Any, ClassVar

import pytest
import zstandard

from simhbase.corpus.parser import Parser
from simhbase.corpus.paths import LeftOut, files_left_out
from simhbase.corpus.record import CHUNK_BYTES, CHUNK_RECORDS, InputOptions, Record, Reject, SourceReject
from simhbase.corpus.sources import MANY_LINES, Sources
from simhbase.errors import UsageError
from simhbase.text import packing
from tests.reading import json_lines, read, rejects, texts, write

A = {"id": "a", "text": "first"}
B = {"id": "b", "text": "second"}


class TestJsonLines:
    def test_records_carry_their_source_line_and_the_line_as_it_was(self, tmp_path):
        path = write(tmp_path / "x.jsonl", b'{"id": "a",  "text": "first", "more": [1]}\n' + json_lines(B))
        assert read(path, whole_rows=True) == [
            Record(str(path), 1, "a", text="first", json=b'{"id": "a",  "text": "first", "more": [1]}'),
            Record(str(path), 2, "b", text="second", json=b'{"id":"b","text":"second"}'),
        ]

    def test_lines_are_kept_for_output_files_only(self, tmp_path):
        path = write(tmp_path / "x.jsonl", json_lines(A))
        assert [read(path, whole_rows=whole)[0].json for whole in (False, True)] == [None, json_lines(A)[:-1]]

    def test_blank_lines_are_skipped_and_counted(self, tmp_path):
        path = write(tmp_path / "x.jsonl", b"\n  \n" + json_lines(A) + b"\r\n" + json_lines(B) + b"\n")
        assert [item.line for item in read(path)] == [3, 5]

    def test_crlf_is_a_line_end(self, tmp_path):
        path = write(tmp_path / "x.jsonl", b'{"id":"a","text":"first"}\r\n{"id":"b","text":"second"}\r\n')
        items = read(path, whole_rows=True)
        assert texts(items) == [("a", "first"), ("b", "second")]
        assert items[0].json == b'{"id":"a","text":"first"}'

    def test_the_last_line_needs_no_line_feed(self, tmp_path):
        assert texts(read(write(tmp_path / "x.jsonl", json_lines(A, B)[:-1]))) == [
            ("a", "first"),
            ("b", "second"),
        ]

    def test_a_byte_order_mark_is_tolerated(self, tmp_path):
        assert texts(read(write(tmp_path / "x.jsonl", b"\xef\xbb\xbf" + json_lines(A)))) == [("a", "first")]

    def test_an_empty_file_has_no_records(self, tmp_path):
        assert read(write(tmp_path / "x.jsonl", b"")) == []

    def test_integers_become_decimal_ids(self, tmp_path):
        path = write(tmp_path / "x.jsonl", json_lines({"id": 7, "text": ""}, {"id": -(2**63), "text": ""}))
        assert texts(read(path)) == [("7", ""), ("-9223372036854775808", "")]

    def test_fields_may_have_other_names(self, tmp_path):
        path = write(tmp_path / "x.jsonl", json_lines({"url": "u", "body": "t", "id": 1, "text": 2}))
        assert texts(read(path, id_field="url", text_field="body")) == [("u", "t")]

    def test_a_dot_steps_into_objects(self, tmp_path):
        row = {"meta": {"url": "u", "print": "0x" + "0" * 15 + "7"}, "content": {"en": {"body": "t"}}}
        path = write(tmp_path / "x.jsonl", json_lines(row))
        assert texts(read(path, id_field="meta.url", text_field="content.en.body")) == [("u", "t")]
        (item,) = read(path, id_field="meta.url", fingerprint_field="meta.print", value_field="meta.url")
        assert (item.fingerprint, item.value) == (7, "u")

    def test_a_key_with_a_dot_comes_before_a_step(self, tmp_path):
        rows = [{"id": 1, "a": {"b": "inner"}, "a.b": "outer"}, {"id": 2, "a": {"b": "inner"}}]
        path = write(tmp_path / "x.jsonl", json_lines(*rows))
        assert texts(read(path, text_field="a.b")) == [("1", "outer"), ("2", "inner")]

    @pytest.mark.parametrize(
        ("row", "reason"),
        [
            ({"id": 1}, "no field 'a.b.c': 'a' is not among 'id': name another text field (text_field)"),
            (
                {"id": 1, "a": {}},
                "no field 'a.b.c': 'b' is not in 'a', among none: name another text field (text_field)",
            ),
            ({"id": 1, "a": {"b": {"d": 1}}}, "no field 'a.b.c': 'c' is not in 'a.b', among 'd': "),
            (
                {"id": 1, "a": {"b": "t"}},
                "no field 'a.b.c': 'a.b' is a text, not an object: name another text field (text_field)",
            ),
            ({"id": 1, "a": {"b": {"c": None}}}, "field 'a.b.c' is null, not a text"),
        ],
    )
    def test_the_step_that_is_missing_is_named(self, tmp_path, row, reason):
        ((_, known_id, found),) = rejects(
            read(write(tmp_path / "x.jsonl", json_lines(row)), text_field="a.b.c", value_field="x.y")
        )
        assert known_id == "1"
        assert found.startswith(reason)

    def test_a_prefix_is_put_before_ids_and_not_into_the_line(self, tmp_path):
        (item,) = read(write(tmp_path / "x.jsonl", json_lines(A)), id_prefix="news/", whole_rows=True)
        assert (item.id, item.json) == ("news/a", b'{"id":"a","text":"first"}')

    @pytest.mark.parametrize(
        ("name", "prefix"),
        [
            ("x.jsonl", "x"),
            ("x.y.JSONL.gz", "x.y"),
            ("v1.2", "v1.2"),
            ("v1.2.zst", "v1.2"),
            (".jsonl", ".jsonl"),
            ("{file}.txt", "{file}"),
        ],
    )
    def test_the_prefix_of_a_files_name(self, tmp_path, name, prefix):
        content = gzip.compress(json_lines(A)) if name.endswith(".gz") else json_lines(A)
        (item,) = read(write(tmp_path / name, content), format="jsonl", id_prefix="a/{file}/")
        assert item.id == f"a/{prefix}/a"

    def test_escaped_and_raw_characters_are_the_same(self, tmp_path):
        path = write(tmp_path / "x.jsonl", '{"id":"文","text":"\\u6587\\ud83d\\ude00"}\n'.encode())
        assert texts(read(path)) == [("文", "文😀")]

    @pytest.mark.parametrize(
        ("line", "known_id", "reason"),
        [
            (b"{", None, "not JSON: "),
            (b"<html>", None, "not JSON: unexpected character"),
            (b'[{"id": "a"}]', None, "a JSON list, not an object"),
            (b'[{"id": "a"},', None, "Write one object a line (jq -c '.[]' does it)"),
            (b'"a"', None, "not a JSON object but a text"),
            (b"null", None, "not a JSON object but null"),
            (b"{}", None, "no field 'id' among none"),
            (
                b'{"ID": "a", "text": "t"}',
                None,
                "no field 'id' among 'ID', 'text': name another id field (id_field)",
            ),
            (b'{"id": "", "text": "t"}', None, "the id is empty"),
            (
                b'{"id": true, "text": "t"}',
                None,
                "field 'id' is true or false: ids are texts, whole numbers or UUIDs",
            ),
            (b'{"id": 1.5, "text": "t"}', None, "the id is 1.5: ids are texts, whole numbers or UUIDs"),
            (b'{"id": 1e20, "text": "t"}', None, "its type does not hold all digits of such numbers"),
            (b'{"id": null, "text": "t"}', None, "field 'id' is null"),
            (b'{"id": ["a"], "text": "t"}', None, "field 'id' is a list"),
            (b'{"id": {"a": 1}, "text": "t"}', None, "field 'id' is an object"),
            (b'{"id": "%b", "text": "t"}' % (b"x" * 1025), None, "1025 bytes"),
            (b'{"id": "\\ud800", "text": "t"}', None, "the id is not valid Unicode"),
            (b'{"id": "a"}', "a", "no field 'text' among 'id': name another text field (text_field)"),
            (b'{"id": "a", "text": null}', "a", "field 'text' is null, not a text"),
            (b'{"id": "a", "text": 5}', "a", "field 'text' is a number, not a text"),
            (b'{"id": "a", "text": ["t"]}', "a", "field 'text' is a list, not a text"),
            (
                b'{"id": "a", "text": "caf\xe9 au lait"}',
                None,
                "not UTF-8: name its encoding (encoding), invalid",
            ),
        ],
    )
    def test_a_bad_line_is_rejected_with_its_reason_and_the_others_are_kept(
        self, tmp_path, line, known_id, reason
    ):
        path = write(tmp_path / "x.jsonl", json_lines(A) + line + b"\n" + json_lines(B))
        first, bad, last = read(path)
        assert (first.id, last.id, last.line) == ("a", "b", 3)
        assert isinstance(bad, Reject)
        assert (bad.source, bad.line, bad.id) == (str(path), 2, known_id)
        assert reason in bad.reason

    def test_an_id_of_a_kilobyte_is_kept_and_its_prefix_counts(self, tmp_path):
        path = write(tmp_path / "x.jsonl", json_lines({"id": "文" * 341, "text": "t"}))
        assert texts(read(path)) == [("文" * 341, "t")]
        assert "1025 bytes" in rejects(read(path, id_prefix="x/"))[0][2]

    def test_many_field_names_are_not_all_listed(self, tmp_path):
        path = write(tmp_path / "x.jsonl", json_lines({f"field{i}": i for i in range(1000)}))
        assert len(rejects(read(path))[0][2]) < 300

    @pytest.mark.parametrize(("indent", "hint"), [([A, B], "jq -c '.[]'"), (A, "jq -c .")])
    def test_json_over_several_lines_is_one_reject_that_says_what_to_do(self, tmp_path, indent, hint):
        path = write(tmp_path / "x.json", json.dumps(indent, indent=2).encode())
        (item,) = read(path)
        assert isinstance(item, SourceReject)
        assert hint in item.reason


class TestIds:
    DATA: ClassVar = {
        "x.jsonl": json_lines({"id": 1, "text": "中"}, {"id": None, "text": "t"}),
        "x.csv": "text,n\n中,1\n".encode(),
        "x.lines": "中\n".encode(),
        "x.txt": "中".encode("utf-16"),
        "x.html": "<html><body><p>中</p></body></html>".encode(),
    }

    def read(self, folder: Path, name: str, **options: Any) -> list[tuple[str, str | None]]:
        write(folder / name, self.DATA[name])
        file_format = "lines" if name == "x.lines" else None
        return texts(read(folder / name, format=file_format, encoding="auto", **options))

    def test_they_are_made_of_the_place_where_that_is_asked_for(self, tmp_path, monkeypatch):
        monkeypatch.chdir(tmp_path)
        found = {name: [item[0] for item in self.read(Path(), name, id_from="line")] for name in self.DATA}
        assert found == {
            "x.jsonl": ["x.jsonl:1", "x.jsonl:2"],
            "x.csv": ["x.csv:2"],
            "x.lines": ["x.lines:1"],
            "x.txt": ["x.txt"],
            "x.html": ["x.html"],
        }

    def test_a_place_in_a_folder_is_named_from_there(self, tmp_path):
        write(tmp_path / "a/x.jsonl", json_lines({"text": "t"}))
        assert texts(read(tmp_path, id_from="line", id_prefix="p/")) == [("p/a/x.jsonl:1", "t")]

    @pytest.mark.parametrize("given", ["news", "./news/../news", "news/*", "news/a.txt", "link", "."])
    def test_those_of_the_path_are_the_same_however_the_file_is_named(self, tmp_path, monkeypatch, given):
        (tmp_path / "news").mkdir()
        (tmp_path / "link").symlink_to("news")
        write(tmp_path / "news" / "a.txt", b"t")
        monkeypatch.chdir(tmp_path)
        assert texts(read(given, id_from="path")) == [(str(tmp_path.resolve() / "news" / "a.txt"), "t")]

    @pytest.mark.parametrize("name", DATA)
    def test_the_same_text_has_the_same_id_wherever_it_comes_from(self, tmp_path, name):
        # Known for good: ids are stored.
        assert self.read(tmp_path, name, id_from="text")[0] == ("59b75fac990804cb", "中")

    def test_other_texts_have_other_ids_with_the_prefix(self, tmp_path):
        one, other = self.read(tmp_path, "x.jsonl", id_from="text", id_prefix="p/")
        assert one[0].startswith("p/")
        assert one[0] != other[0]

    def test_a_record_without_a_text_has_no_id_of_it(self, tmp_path):
        path = write(tmp_path / "x.jsonl", json_lines({"text": None}, {"text": "t"}))
        bad, good = read(path, id_from="text")
        assert (bad.line, bad.id, good.line) == (1, None, 2)

    def test_whoever_has_none_is_told_how_to_do_without(self, tmp_path):
        for name, data in (("x.jsonl", json_lines({"text": "t"})), ("x.csv", b"n,text\n1,t\n")):
            ((_, _, reason),) = rejects(read(write(tmp_path / name, data)))
            assert reason.endswith(
                ": name another id field (id_field), or make ids of lines or texts (id_from)"
            )

    def test_fingerprints_have_no_text_to_make_ids_of(self):
        with pytest.raises(UsageError, match="fingerprints have no text"):
            InputOptions(id_from="text", fingerprint_field="f")

    def test_ids_from_anything_else_are_refused(self):
        with pytest.raises(UsageError, match=r"id_from: 'url' is none of field, line, path, text"):
            InputOptions(id_from="url")  # type: ignore[arg-type]


class TestEncodings:
    def test_gb18030_is_read_where_it_is_said_or_found(self, tmp_path):
        text = "这是一个中国人写的中文句子"
        lines = f'{{"id":"a","text":"{text}"}}\n{{"id":"b","text":"中文"}}\n'.encode("gb18030")
        path = write(tmp_path / "x.jsonl", lines)
        items = read(path, encoding="auto", whole_rows=True)
        assert texts(items) == [("a", text), ("b", "中文")]
        assert items[0].json == f'{{"id":"a","text":"{text}"}}'.encode()
        assert read(path, encoding="gb18030", whole_rows=True)[0] == items[0]

    def test_an_encoding_that_does_not_exist_is_refused(self):
        with pytest.raises(ValueError, match="klingon"):
            InputOptions(encoding="klingon")

    @pytest.mark.parametrize("encoding", ["hex", "rot13", "zip", "idna", "undefined"])
    def test_an_encoding_of_no_text_is_refused_with_some_that_are(self, encoding):
        with pytest.raises(
            UsageError, match=f"no text encoding '{encoding}': use auto, utf-8, gb18030, big5"
        ):
            InputOptions(encoding=encoding)

    def test_big5_is_told_from_gb18030(self, tmp_path):
        traditional = "美國總統在白宮舉行記者會，宣布新的貿易政策。"
        for text in (
            traditional,
            "美国总统在白宫举行记者会，宣布新的贸易政策。",
            "これはテストです",
            "Новая политика",
        ):
            line = json.dumps({"id": "a", "text": text}, ensure_ascii=False)
            path = write(tmp_path / "x.jsonl", line.encode("gb18030"))
            assert texts(read(path, encoding="gb18030")) == [("a", text)]
            (found,) = read(path, encoding="auto")
            assert found.source == str(path)
            assert isinstance(found, Reject) or found.text == text
        line = json.dumps({"id": "a", "text": traditional}, ensure_ascii=False)
        path = write(tmp_path / "x.jsonl", line.encode("big5"))
        (reject,) = read(path, encoding="auto")
        assert reject.reason.startswith("not UTF-8: name its encoding (encoding)")
        assert texts(read(path, encoding="big5")) == [("a", traditional)]

    @pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le", "utf-16-be", "utf-32-le", "cp037"])
    def test_an_encoding_with_other_line_ends_is_read_if_it_is_named(self, tmp_path, encoding):
        text = "a text" if encoding == "cp037" else "中文"
        lines = write(tmp_path / "x.csv", f"id,text\na,{text}\nb,{text}\n".encode(encoding))
        assert texts(read(lines, encoding=encoding)) == [("a", text), ("b", text)]
        write(tmp_path / "文.txt", f"{text}\n".encode(encoding))
        assert texts(read(tmp_path / "文.txt", encoding=encoding))[0][1] == f"{text}\n"


class TestFingerprints:
    def test_hexadecimal_digits_are_read(self, tmp_path):
        rows = [{"id": 1, "h": "0123456789abcdef"}, {"id": 2, "h": "0X0123456789ABCDEF"}]
        items = read(write(tmp_path / "x.jsonl", json_lines(*rows)), fingerprint_field="h")
        assert [(item.text, item.fingerprint) for item in items] == [(None, 0x0123456789ABCDEF)] * 2

    def test_longer_ones_are_read_where_they_are_expected(self, tmp_path):
        path = write(tmp_path / "x.jsonl", json_lines({"id": 1, "h": "f" * 32}))
        (item,) = read(path, fingerprint_field="h", fingerprint_bits=128)
        assert item.fingerprint == 2**128 - 1

    @pytest.mark.parametrize(
        "value",
        ["", "12f", "0123456789abcdeg", "0123456789abcdef0", "-123456789abcdef", " 123456789abcdef",
         "0123456789abcdef\n", "0x123456789abcdef", "f" * 32, "1_23456789abcdef", "０123456789abcdef"],
    )  # fmt: skip
    def test_anything_else_is_rejected(self, tmp_path, value):
        path = write(tmp_path / "x.jsonl", json_lines({"id": "a", "h": value}))
        ((line, known_id, reason),) = rejects(read(path, fingerprint_field="h"))
        assert (line, known_id) == (1, "a")
        assert "is no fingerprint of 64 bits: 16 hexadecimal digits are needed" in reason

    def test_csv_has_them_too(self, tmp_path):
        path = write(tmp_path / "x.csv", b"id,h\na,00000000000000ff\nb,ff\n")
        good, bad = read(path, fingerprint_field="h")
        assert (good.id, good.fingerprint, good.json) == ("a", 255, None)
        assert (bad.line, bad.id) == (3, "b")


class TestCsv:
    def test_rows_after_the_header_are_records(self, tmp_path):
        path = write(tmp_path / "x.csv", b"day,text,id\nMon,first,a\nTue,second,b\n")
        assert read(path) == [
            Record(str(path), 2, "a", text="first"),
            Record(str(path), 3, "b", text="second"),
        ]

    def test_quoted_fields_hold_delimiters_quotes_and_line_ends(self, tmp_path):
        path = write(tmp_path / "x.csv", b'id,text\r\na,"one, ""two""\r\nthree\n"\r\nb,four\r\n')
        items = read(path)
        assert texts(items) == [("a", 'one, "two"\r\nthree\n'), ("b", "four")]
        assert [item.line for item in items] == [2, 5]

    def test_fields_beyond_the_usual_limit_of_csv_are_read(self, tmp_path):
        long = "长" * 300_000
        path = write(tmp_path / "x.csv", f'id,text\na,"{long}"\n'.encode())
        assert texts(read(path)) == [("a", long)]

    def test_a_byte_order_mark_before_a_quoted_header_is_tolerated(self, tmp_path):
        assert texts(read(write(tmp_path / "x.csv", b'\xef\xbb\xbf"id","text"\na,b\n'))) == [("a", "b")]

    def test_another_delimiter(self, tmp_path):
        path = write(tmp_path / "x.csv", b"id;text\na;1,5\n")
        assert texts(read(path, delimiter=";")) == [("a", "1,5")]

    def test_tsv_is_separated_by_tabs(self, tmp_path):
        assert texts(read(write(tmp_path / "x.tsv", b"id\ttext\na\tb, c\n"))) == [("a", "b, c")]

    @pytest.mark.parametrize("delimiter", ["", ";;", "，", '"', "\n"])
    def test_a_delimiter_that_cannot_be_is_refused(self, delimiter):
        with pytest.raises(ValueError, match="delimiter"):
            InputOptions(delimiter=delimiter)

    @pytest.mark.parametrize(("delimiter", "encoding"), [("|", "gb18030"), ("0", "gb18030")])
    def test_a_delimiter_that_is_a_byte_of_other_characters_is_refused(self, delimiter, encoding):
        with pytest.raises(UsageError, match=r"^delimiter: the byte of " + re.escape(repr(delimiter))):
            InputOptions(delimiter=delimiter, encoding=encoding)

    def test_a_column_is_named_as_a_whole(self, tmp_path):
        path = write(tmp_path / "x.csv", b"meta.id,text\na,b\n")
        assert texts(read(path, id_field="meta.id")) == [("a", "b")]

    def test_blank_rows_are_skipped(self, tmp_path):
        assert texts(read(write(tmp_path / "x.csv", b"id,text\n\na,b\n  \n\r\n"))) == [("a", "b")]

    def test_other_encodings(self, tmp_path):
        path = write(tmp_path / "x.csv", '编号,正文\n甲,"镕基, 福\n"\n'.encode("gb18030"))
        found = read(path, id_field="编号", text_field="正文", encoding="auto")
        assert texts(found) == [("甲", "镕基, 福\n")]

    def test_a_cell_that_is_not_utf8_costs_its_own_row_only(self, tmp_path):
        path = write(tmp_path / "x.csv", b"id,text\na,\xff\nb,ok\n\xff,ok\n")
        bad, good, bad_id = read(path)
        assert (bad.line, bad.id, good.id) == (2, "a", "b")
        assert (bad_id.line, bad_id.id) == (4, None)
        assert "not UTF-8" in bad.reason
        assert "not UTF-8" in bad_id.reason

    @pytest.mark.parametrize("row", [b"a", b"a,b,c", b'a,"b" c', b'a,b"\rc"'])
    def test_a_broken_row_is_rejected_and_the_others_are_kept(self, tmp_path, row):
        path = write(tmp_path / "x.csv", b"id,text\nx,y\n" + row + b"\nz,z\n")
        items = read(path)
        assert [item.id for item in items if isinstance(item, Record)] == ["x", "z"]
        assert [line for line, _, _ in rejects(items)] == [3]

    def test_a_quote_that_is_never_closed_costs_a_bounded_piece_of_the_file(self, tmp_path):
        rows = b"".join(b"n%d,text\n" % i for i in range(1000))
        items = read(write(tmp_path / "x.csv", b'id,text\na,b\nbad,"open\n' + rows), max_record_bytes=500)
        assert [line for line, _, _ in rejects(items)] == [3]
        assert "500" in rejects(items)[0][2]
        assert len(items) > 900

    def test_a_quote_open_at_the_end_is_rejected(self, tmp_path):
        items = read(write(tmp_path / "x.csv", b'id,text\na,b\nbad,"open\nc,d\n'))
        assert [item.id for item in items] == ["a", None, "c"]
        assert items[1].reason.startswith("not CSV: unexpected end of data (the row from line 3 to 4)")

    def test_a_line_over_the_limit_is_rejected_and_the_others_are_kept(self, tmp_path):
        path = write(tmp_path / "x.csv", b"id,text\na," + b"x" * 2000 + b"\nb,c\n")
        bad, good = read(path, max_record_bytes=1000)
        assert (bad.line, good.id) == (2, "b")

    @pytest.mark.parametrize(
        ("header", "reason"),
        [
            (
                b"key,text\n",
                "in the header: no column 'id' among 'key', 'text': name another id field (id_field)",
            ),
            (
                b"id,body\n",
                "in the header: no column 'text' among 'id', 'body': name another text field (text_field)",
            ),
            (
                b"id;text\n",
                "in the header: no column 'id' among 'id;text': name the delimiter that is between",
            ),
            (b"id,\xff\n", "in the header: not UTF-8"),
            (b'id,"te"xt\n', "in the header: not CSV: "),
        ],
    )
    def test_a_header_that_does_not_fit_is_one_reject_for_the_file(self, tmp_path, header, reason):
        items = read(write(tmp_path / "x.csv", header + b"a,b\nc,d\n"))
        assert [(line, known_id) for line, known_id, _ in rejects(items)] == [(1, None)]
        assert len(items) == 1
        assert items[0].reason.startswith(reason)
        assert isinstance(items[0], SourceReject) == reason.startswith("in the header")

    @pytest.mark.parametrize("data", [b"", b"id,text\n", b"id,text"])
    def test_a_file_without_rows_has_no_records(self, tmp_path, data):
        assert read(write(tmp_path / "x.csv", data)) == []


class TestPlainText:
    def test_a_file_is_a_document_named_by_its_place_in_the_folder(self, tmp_path):
        write(tmp_path / "b.txt", b"\xef\xbb\xbfone\ntwo\n")
        write(tmp_path / "deep/er/a.txt", "三".encode())
        items = read(tmp_path)
        assert texts(items) == [("b.txt", "one\ntwo\n"), ("deep/er/a.txt", "三")]
        assert [(item.source, item.line) for item in items] == [
            (str(tmp_path / "b.txt"), 1),
            (str(tmp_path / "deep/er/a.txt"), 1),
        ]

    def test_a_file_that_is_named_keeps_the_path_it_was_given_by(self, tmp_path, monkeypatch):
        write(tmp_path / "x/a.txt", b"one")
        monkeypatch.chdir(tmp_path)
        assert texts(read("./x/a.txt")) == [("x/a.txt", "one")]

    def test_a_line_is_a_document_where_that_is_asked_for(self, tmp_path):
        write(tmp_path / "x/a.txt", b"one\r\n\n  two\n")
        items = read(tmp_path, format="lines", id_prefix="p/")
        assert texts(items) == [("p/x/a.txt:1", "one"), ("p/x/a.txt:3", "  two")]

    def test_bytes_of_another_encoding_are_rejected_under_their_id(self, tmp_path):
        write(tmp_path / "a.txt", "中文".encode("gb18030"))
        for encoding in ("utf-8", "auto"):
            ((line, known_id, reason),) = rejects(read(tmp_path, encoding=encoding))
            assert (line, known_id) == (1, "a.txt")
            assert "not UTF-8" in reason
        assert texts(read(tmp_path, encoding="gb18030")) == [("a.txt", "中文")]

    @pytest.mark.parametrize("encoding", ["utf-16-le", "utf-16-be", "utf-32-le", "utf-32-be"])
    @pytest.mark.parametrize("pack", [bytes, gzip.compress])
    def test_utf_16_with_a_byte_order_mark_is_read_where_the_encoding_is_told_by_content(
        self, tmp_path, encoding, pack
    ):
        path = write(tmp_path / "a.csv", pack("\ufeffid,text\na,中文\nb,😀\n".encode(encoding)))
        assert texts(read(path, encoding="auto")) == [("a", "中文"), ("b", "😀")]
        (item,) = read(path, encoding="utf-8")
        assert isinstance(item, SourceReject)
        name = encoding[:6].upper()
        assert item.reason == f"it is {name}, not UTF-8: encoding auto reads it"

    def test_utf_16_that_was_cut_short_keeps_what_came_before(self, tmp_path):
        path = write(tmp_path / "a.csv", "id,text\na,中文\nb".encode("utf-16")[:-1])
        record, end = read(path, encoding="auto")
        assert (record.text, end.line) == ("中文", 3)
        assert "its UTF-16 data is damaged" in end.reason

    def test_utf_16_that_is_named_needs_no_guessing(self, tmp_path):
        write(tmp_path / "a.txt", "中文".encode("utf-16"))
        assert texts(read(tmp_path, format="text", encoding="utf-16")) == [("a.txt", "中文")]

    def test_a_file_over_the_limit_is_rejected(self, tmp_path):
        write(tmp_path / "a.txt", b"x" * 101)
        write(tmp_path / "b.txt", b"x" * 100)
        bad, good = read(tmp_path, max_record_bytes=100)
        assert (bad.line, good.id) == (1, "b.txt")
        assert "at most 100 are read" in bad.reason

    def test_a_file_name_that_is_no_text_is_escaped(self, tmp_path):
        name = os.fsencode(tmp_path) + b"/\xff.txt"
        try:
            with open(name, "wb") as file:  # noqa: PTH123  # a Path has no such name
                file.write(b"one")
        except OSError:
            pytest.skip("this file system takes UTF-8 names only")
        (item,) = read(tmp_path)
        assert (item.id, item.source) == ("\\xff.txt", f"{tmp_path}/\\xff.txt")


@contextmanager
def unprivileged() -> Iterator[None]:
    """Root may read everything, so root becomes nobody meanwhile."""
    if os.geteuid() != 0:
        yield
        return
    os.seteuid(65534)
    try:
        yield
    finally:
        os.seteuid(0)


PACKS = {".gz": gzip.compress, ".zst": zstandard.compress, ".bz2": bz2.compress, ".xz": lzma.compress}
PACKERS = pytest.mark.parametrize("pack", PACKS.values(), ids=["gzip", "zstd", "bzip2", "xz"])
PACKERS_BY_NAME = pytest.mark.parametrize(("suffix", "pack"), PACKS.items(), ids=PACKS)


class Pipe(io.BytesIO):
    def seekable(self):
        return False


class TestPackedFiles:
    @PACKERS
    @pytest.mark.parametrize("name", ["x.jsonl", "x.jsonl.gz", "x.json.zst", "x.bin", "x"])
    def test_content_tells_what_it_is_packed_with_not_the_name(self, tmp_path, pack, name):
        assert texts(read(write(tmp_path / name, pack(json_lines(A, B))))) == [
            ("a", "first"),
            ("b", "second"),
        ]

    @PACKERS_BY_NAME
    def test_the_name_before_the_packer_tells_the_format(self, tmp_path, suffix, pack):
        write(tmp_path / f"x.csv{suffix}", pack(b"id,text\na,b\n"))
        write(tmp_path / f"y.txt{suffix}", pack(b"whole\nfile"))
        assert texts(read(tmp_path)) == [("a", "b"), (f"y.txt{suffix}", "whole\nfile")]

    @PACKERS
    def test_many_members_are_one_file(self, tmp_path, pack):
        data = pack(json_lines(A)[:7]) + pack(b"") + pack(json_lines(A)[7:]) + pack(json_lines(B))
        assert texts(read(write(tmp_path / "x.jsonl", data))) == [("a", "first"), ("b", "second")]

    @PACKERS
    def test_a_byte_order_mark_inside_is_tolerated(self, tmp_path, pack):
        path = write(tmp_path / "x.jsonl", pack(b"\xef\xbb\xbf" + json_lines(A)))
        assert texts(read(path)) == [("a", "first")]

    @PACKERS
    def test_zeros_after_a_member_are_padding(self, tmp_path, pack):
        data = pack(json_lines(A)) + b"\0" * 5000
        assert texts(read(write(tmp_path / "x.jsonl", data))) == [("a", "first")]

    def test_a_skippable_frame_comes_first(self, tmp_path):
        frame = b"\x50\x2a\x4d\x18\x04\0\0\0abcd"
        path = write(tmp_path / "x.jsonl", frame + zstandard.compress(json_lines(A)))
        assert texts(read(path)) == [("a", "first")]

    def test_frames_of_a_file_share_their_decompressor(self, tmp_path, monkeypatch):
        """It takes 20 times as long to make as to read an empty frame: 2 MB of them took half a minute."""
        made = list[object]()
        new = packing.ZstdDecompressor
        monkeypatch.setattr(packing, "ZstdDecompressor", lambda **how: made.append(how) or new(**how))
        data = zstandard.compress(b"") * 1000 + zstandard.compress(json_lines(A))
        assert texts(read(write(tmp_path / "x.jsonl", data))) == [("a", "first")]
        assert len(made) == 1

    def test_a_frame_with_a_very_long_window_is_read_where_it_is_allowed(self, tmp_path):
        parameters = zstandard.ZstdCompressionParameters(window_log=30, enable_ldm=False, threads=0)
        packer = zstandard.ZstdCompressor(compression_params=parameters).compressobj()
        data = packer.compress(json_lines(A)) + packer.flush()
        path = write(tmp_path / "x.jsonl", data)
        assert texts(read(path, zstd_long=30)) == [("a", "first")]
        for zstd_long in (None, 29):
            (item,) = read(path, zstd_long=zstd_long)
            assert isinstance(item, SourceReject)
            assert "than is allowed: allow it (zstd_long 30), or unpack it first" in item.reason
        with pytest.raises(UsageError, match="zstd_long: must be from 10 to 31, not 32"):
            InputOptions(zstd_long=32)

    @PACKERS
    def test_of_a_file_that_was_cut_short_only_what_can_be_checked_is_kept(self, tmp_path, pack):
        rows = [{"id": i, "text": os.urandom(500).hex()} for i in range(200)]
        whole, cut = pack(json_lines(*rows[:50])), pack(json_lines(*rows[50:]))
        path = write(tmp_path / "x.jsonl", whole + cut[: len(cut) // 2])
        *records, end = read(path)
        assert texts(records) == [(str(row["id"]), row["text"]) for row in rows[:50]]
        assert (end.source, end.line, end.id) == (str(path), 51, None)
        assert "ends in the middle: the file was cut short" in end.reason
        assert f"Nothing from byte {len(whole):,} on is read" in end.reason

    @pytest.mark.slow
    @PACKERS
    def test_a_member_of_more_than_is_held_is_given_when_it_was_checked(self, tmp_path, pack):
        rows = [{"id": i, "text": f"{i} " * 10_000} for i in range(200)]
        data = pack(json_lines(*rows))
        assert len(texts(read(write(tmp_path / "x.jsonl", data)))) == 200
        assert len(texts(read("-", stdin=Pipe(data)))) == 200
        (end,) = read(write(tmp_path / "x.jsonl", data[: len(data) * 3 // 4]))
        assert isinstance(end, SourceReject)
        (end,) = read("-", stdin=Pipe(data[: len(data) * 3 // 4]))
        assert isinstance(end, SourceReject)

    @PACKERS
    def test_what_comes_before_damage_is_kept(self, tmp_path, pack):
        good = pack(json_lines(*[{"id": i, "text": "t"} for i in range(10)]))
        bad = bytearray(pack(json_lines(*[{"id": i, "text": os.urandom(500).hex()} for i in range(100)])))
        bad[4:60] = bytes(56)
        *records, end = read(write(tmp_path / "x.jsonl", good + bad))
        assert len(texts(records)) == 10
        assert end.line == 11
        assert "data is damaged" in end.reason

    def test_an_xz_dictionary_of_more_memory_than_is_allowed_is_no_damage(self, tmp_path):
        data = bytearray(lzma.compress(json_lines(A)))
        data[16] = 37  # in the header of the first block: a dictionary of 1.5 GiB
        data[20:24] = zlib.crc32(data[12:20]).to_bytes(4, "little")
        (item,) = read(write(tmp_path / "x.jsonl", data))
        assert isinstance(item, SourceReject)
        assert item.reason.startswith("its xz data takes more memory to unpack than is allowed")

    def test_a_wrong_checksum_is_told(self, tmp_path):
        data = bytearray(gzip.compress(json_lines(A, B)))
        data[-6] ^= 1
        *_, end = read(write(tmp_path / "x.jsonl", data))
        assert "incorrect data check" in end.reason

    @PACKERS_BY_NAME
    def test_a_packed_file_without_a_byte_was_cut_short_and_one_of_nothing_was_not(
        self, tmp_path, suffix, pack
    ):
        (cut,) = read(write(tmp_path / f"x.txt{suffix}", b""))
        assert isinstance(cut, SourceReject)
        assert "cut short" in cut.reason
        assert read(write(tmp_path / "y.jsonl.gz", pack(b""))) == []
        assert read(write(tmp_path / "y.jsonl", b"")) == []

    @PACKERS
    def test_what_follows_the_last_member_and_is_none_is_told(self, tmp_path, pack):
        record, end = read(write(tmp_path / "x.jsonl", pack(json_lines(A)) + b"garbage, not a member"))
        assert record.id == "a"
        assert (end.line, "data is damaged" in end.reason) == (2, True)

    def test_another_packer_is_named_instead_of_a_million_bad_lines(self, tmp_path):
        path = write(tmp_path / "x.jsonl", b"PK\x03\x04\0\0\0\0\0\0\n\x01\n\x02\n")
        advice = "unpack it (gzip, zstd, bzip2 or xz need not be) or save it as CSV or text"
        reason = f"it is packed with zip (.xlsx, .docx and .epub are, too): {advice}"
        assert read(path) == [SourceReject(str(path), None, None, reason)]

    def test_data_that_is_not_packed_as_its_name_says_is_read_where_it_can_be(self, tmp_path):
        for name in ("x.jsonl.gz", "x.zst"):
            assert texts(read(write(tmp_path / name, json_lines(A)))) == [("a", "first")]
            (fake,) = read(write(tmp_path / name, b"hello\nworld\n"))
            assert isinstance(fake, SourceReject)
            assert fake.reason.startswith("its name says that it is packed, but it is not (gzip, ")
        assert texts(read(write(tmp_path / "x.txt.gz", b"hello"))) == [
            ((tmp_path / "x.txt.gz").as_posix(), "hello")
        ]


class TestInputs:
    def test_files_folders_and_globs_are_read_in_the_order_given(self, tmp_path):
        for name in ("b/2.jsonl", "b/1.jsonl", "b/0/z.jsonl", "a.jsonl", "c1.jsonl", "c2.jsonl"):
            write(tmp_path / name, json_lines({"id": name, "text": "t"}))
        found = read(tmp_path / "c?.jsonl", tmp_path / "b", tmp_path / "a.jsonl")
        assert [item.id for item in found] == [
            "c1.jsonl", "c2.jsonl", "b/1.jsonl", "b/2.jsonl", "b/0/z.jsonl", "a.jsonl"
        ]  # fmt: skip

    def test_a_glob_of_everything_below_names_each_file_once(self, tmp_path):
        for name in ("x/a.jsonl", "x/y/b.jsonl", "c.jsonl"):
            write(tmp_path / name, json_lines({"id": name, "text": "t"}))
        assert sorted(item.id for item in read(tmp_path / "**")) == ["c.jsonl", "x/a.jsonl", "x/y/b.jsonl"]

    def test_a_name_with_a_star_that_exists_is_no_glob(self, tmp_path):
        write(tmp_path / "[1].jsonl", json_lines(A))
        write(tmp_path / "1.jsonl", json_lines(B))
        assert texts(read(tmp_path / "[1].jsonl")) == [("a", "first")]

    def test_a_folder_gives_the_files_whose_names_tell_a_format(self, tmp_path):
        write(tmp_path / "a.jsonl", json_lines(A))
        for name in ("_SUCCESS", "notes.doc", ".hidden.jsonl", ".git/x.jsonl"):
            write(tmp_path / name, b"no record")
        assert texts(read(tmp_path)) == [("a", "first")]

    def test_markdown_is_text(self, tmp_path):
        write(tmp_path / "a.md", b"# one")
        write(tmp_path / "b.MD.gz", gzip.compress(b"two"))
        assert texts(read(tmp_path)) == [("a.md", "# one"), ("b.MD.gz", "two")]

    def test_what_a_folder_does_not_stand_for_is_told_by_the_ends_of_names(self, tmp_path):
        names = ["a.pdf", "b.PDF", "deep/c.pdf", "d.doc", "e.log.gz", "f", ".g.pdf", "_SUCCESS", ".h/i.pdf"]
        for name in (*names, "j.jsonl"):
            write(tmp_path / name, b"")
        sources = Sources([str(tmp_path)], InputOptions())
        sources.total()
        assert list(sources.chunks()) == []
        (left_out,) = sources.left_out
        assert left_out.endings == {".pdf": 3, ".doc": 1, ".log.gz": 1, "": 1}
        assert files_left_out([left_out]) == [
            f"{tmp_path}: 6 files were not read, as their names tell no format (.pdf 3, .doc 1, .log.gz 1, "
            "none 1): name them, or give their format"
        ]
        named = Sources([str(tmp_path)], InputOptions(format="jsonl"))
        assert list(named.chunks())
        assert named.left_out == []

    def test_many_kinds_and_folders_are_one_line(self):
        one, many = LeftOut("a", Counter([".x"])), LeftOut("b", Counter(f".{i}" for i in range(20)))
        assert files_left_out([one])[0].startswith(
            "a: 1 file was not read, as its name tells no format (.x 1)"
        )
        assert files_left_out([one, many, one])[0].startswith("a and 2 more: 22 files were not read, ")
        assert files_left_out([many])[0].endswith(".4 1, ...): name them, or give their format")

    def test_a_page_is_its_main_text_in_the_encoding_that_it_declares(self, tmp_path):
        article = "<p>" + "青山县新建水库本月开始蓄水，总库容达三亿立方米。" * 3 + "</p>"
        head = '<head><meta charset="gbk"><title>t</title></head>'
        page = f"<html>{head}<body><nav>首页</nav>{article}</body></html>"
        write(tmp_path / "a.html", page.encode("gbk"))
        write(tmp_path / "b.htm.gz", gzip.compress(page.replace("gbk", "utf-8").encode()))
        write(tmp_path / "c.jsonl", json_lines(A))
        write(tmp_path / "b2.html", page.replace("gbk", "utf-16").encode("utf-16"))
        (first, a), (second, b), (_, wide), (_, c) = texts(read(tmp_path))
        assert (first, second) == ("a.html", "b.htm.gz")
        assert a == b == wide
        assert a.startswith("青山县新建水库")
        assert "首页" not in a
        assert c == "first"

    @pytest.mark.parametrize("file_format", ["jsonl", "csv"])
    def test_html_in_a_field_gives_its_main_text(self, tmp_path, file_format):
        html = "<div><script>x()</script><p>one two</p></div>"
        content = (
            json_lines({"id": "a", "text": html})
            if file_format == "jsonl"
            else f"id,text\na,{html}\n".encode()
        )
        path = write(tmp_path / f"x.{file_format}", content)
        assert texts(read(path, html=True)) == [("a", "one two")]
        assert texts(read(path)) == [("a", html)]

    def test_fingerprints_are_no_html(self):
        with pytest.raises(UsageError, match="fingerprints are no HTML"):
            InputOptions(html=True, fingerprint_field="f")

    def test_a_folder_gives_all_visible_files_where_the_format_is_said(self, tmp_path):
        write(tmp_path / "part-00000", json_lines(A))
        write(tmp_path / "_SUCCESS", b"")
        write(tmp_path / ".part-00000.crc", b"crc")
        assert texts(read(tmp_path, format="jsonl")) == [("a", "first")]

    def test_the_format_that_is_said_overrides_the_name(self, tmp_path):
        assert texts(read(write(tmp_path / "x.txt", json_lines(A)), format="jsonl")) == [("a", "first")]

    def test_a_name_that_tells_nothing_means_json_lines(self, tmp_path):
        assert texts(read(write(tmp_path / "data", json_lines(A)))) == [("a", "first")]

    @pytest.mark.parametrize("name", ["X.JSONL", "x.ndjson", "x.json", "x.Json.GZ"])
    def test_names_of_json_lines(self, tmp_path, name):
        write(tmp_path / name, json_lines(A))
        assert texts(read(tmp_path)) == [("a", "first")]

    def test_what_cannot_be_opened_is_rejected_and_the_others_are_read(self, tmp_path):
        good = write(tmp_path / "x.jsonl", json_lines(A))
        gone, inside = tmp_path / "gone.jsonl", good / "y"
        items = read(gone, good, inside)
        assert [item.source for item in items] == [str(gone), str(good), str(inside)]
        assert rejects(items) == [
            (None, None, "it cannot be opened: No such file or directory"),
            (None, None, "it cannot be opened: Not a directory"),
        ]

    def test_what_may_not_be_read_is_rejected(self, tmp_path):
        path = write(tmp_path / "x" / "y.jsonl", json_lines(A))
        path.chmod(0)
        with unprivileged():
            closed_file = read(path)
        path.parent.chmod(0)
        with unprivileged():
            closed_folders = [read(path), read(path.parent), read(tmp_path)]
        path.parent.chmod(0o700)
        denied = [(None, None, "it cannot be opened: Permission denied")]
        assert [rejects(items) for items in (closed_file, *closed_folders)] == [denied] * 4

    def test_of_a_folder_the_rest_is_read_beside_a_folder_that_may_not_be(self, tmp_path, monkeypatch):
        write(tmp_path / "x.jsonl", json_lines(A)).chmod(0o644)
        (tmp_path / "closed").mkdir(mode=0)
        tmp_path.chmod(0o755)
        monkeypatch.chdir(tmp_path)  # the folders above are closed, too
        with unprivileged():
            items = read(Path())
        assert items[0].id == "a"
        assert rejects(items) == [(None, None, "it cannot be opened: Permission denied")]

    def test_a_pipe_in_a_folder_is_not_waited_for(self, tmp_path):
        write(tmp_path / "x.jsonl", json_lines(A))
        os.mkfifo(tmp_path / "y.jsonl")
        items = read(tmp_path)
        assert items[0].id == "a"
        assert rejects(items) == [(None, None, "it is a pipe, socket or device: name it to read it")]

    def test_a_glob_that_names_nothing_is_rejected(self, tmp_path):
        (item,) = read(tmp_path / "*.jsonl")
        assert item == SourceReject(str(tmp_path / "*.jsonl"), None, None, "no file has a name like this")

    def test_a_folder_without_a_file_to_read_is_rejected(self, tmp_path):
        write(tmp_path / "a.doc", b"x")
        write(tmp_path / ".b.jsonl", b"x")
        (item,) = read(tmp_path)
        assert (item.source, item.line) == (str(tmp_path), None)
        assert item.reason.startswith("the folder has no files ending in .jsonl, ")

    def test_a_file_that_vanishes_meanwhile_is_rejected(self, tmp_path):
        rows = [{"id": i, "text": "t"} for i in range(CHUNK_RECORDS + 1)]
        write(tmp_path / "1.jsonl", json_lines(*rows))
        second = write(tmp_path / "2.jsonl", json_lines(A))
        chunks = Sources([str(tmp_path)], InputOptions()).chunks()
        next(chunks)
        second.unlink()
        assert list(chunks)[-1][-1] == SourceReject(
            str(second), None, None, "it cannot be opened: No such file or directory"
        )

    def test_a_disk_that_fails_in_the_middle_keeps_what_was_read(self):
        class FailingDisk(io.BytesIO):
            def read1(self, size: int | None = -1, /) -> bytes:
                if data := super().read1(size):
                    return data
                raise OSError(5, "Input/output error")

        record, end = read("-", stdin=FailingDisk(json_lines(A) + b'{"id": "half'))
        assert record.id == "a"
        assert end == Reject("stdin", 2, None, "it cannot be read further: Input/output error")


class TestStandardInput:
    @pytest.mark.parametrize("pack", [bytes, *PACKS.values()])
    def test_json_lines_come_through_a_pipe_packed_or_not(self, pack):
        reading, writing = os.pipe()
        os.write(writing, pack(json_lines(A, B)))
        os.close(writing)
        with os.fdopen(reading, "rb") as stdin:
            items = read("-", stdin=stdin)
        assert texts(items) == [("a", "first"), ("b", "second")]
        assert items[1].source == "stdin"

    def test_other_formats_are_said(self):
        assert texts(read("-", stdin=io.BytesIO(b"id,text\na,b\n"), format="csv")) == [("a", "b")]
        assert texts(read("-", stdin=io.BytesIO(b"x\ny\n"), format="lines")) == [
            ("stdin:1", "x"),
            ("stdin:2", "y"),
        ]
        assert texts(read("-", stdin=io.BytesIO(b"x\ny\n"), format="text")) == [("stdin", "x\ny\n")]

    def test_it_may_stand_between_files(self, tmp_path):
        path = write(tmp_path / "x.jsonl", json_lines(A))
        assert [item.id for item in read(path, "-", path, stdin=io.BytesIO(json_lines(B)))] == ["a", "b", "a"]


class TestChunks:
    def test_chunks_have_a_bounded_count_and_keep_the_order_across_files(self, tmp_path):
        for name in "ab":
            rows = [{"id": f"{name}{i}", "text": "t"} for i in range(CHUNK_RECORDS)]
            write(tmp_path / f"{name}.jsonl", b"\n" + json_lines(*rows) + b"bad\n")
        chunks = list(Sources([str(tmp_path)], InputOptions()).chunks())
        assert [len(chunk) for chunk in chunks] == [CHUNK_RECORDS, CHUNK_RECORDS, 2]
        items = list(chain.from_iterable(map(Parser(InputOptions()).parse, chunks)))
        expected = [*(f"a{i}" for i in range(512)), None, *(f"b{i}" for i in range(512)), None]
        assert [item.id for item in items] == expected

    def test_chunks_have_bounded_bytes_except_for_a_single_large_record(self, tmp_path):
        sizes = [10, CHUNK_BYTES * 3, 10, CHUNK_BYTES // 2, CHUNK_BYTES // 2 - 100, CHUNK_BYTES // 2]
        path = write(tmp_path / "x.txt", b"\n".join(b"x" * size for size in sizes))
        chunks = Sources([str(path)], InputOptions(format="lines")).chunks()
        assert [[len(raw.data) for raw in chunk] for chunk in chunks] == [
            sizes[:1], sizes[1:2], sizes[2:5], sizes[5:]
        ]  # fmt: skip

    def test_a_large_record_goes_before_the_next_one_is_read(self):
        stdin = io.BytesIO(b"\n".join(b"x" * size for size in (CHUNK_BYTES * 3, CHUNK_BYTES * 5, 1)))
        chunks = Sources(["-"], InputOptions(format="lines"), stdin).chunks()
        assert [len(raw.data) for raw in next(chunks)] == [CHUNK_BYTES * 3]
        assert stdin.tell() <= CHUNK_BYTES * 4
        assert [[len(raw.data) for raw in chunk] for chunk in chunks] == [[CHUNK_BYTES * 5], [1]]

    def test_a_record_of_the_largest_size_is_read_and_one_byte_more_is_not(self, tmp_path):
        path = write(tmp_path / "x.txt", b"x" * 1000 + b"\n" + b"y" * 1001 + b"\nz")
        good, bad, last = read(path, format="lines", max_record_bytes=1000)
        assert (good.text, last.line) == ("x" * 1000, 3)
        reason = "the record has 1,001 bytes or more, at most 1,000 are read (max_record_bytes)"
        assert bad == Reject(str(path), 2, None, reason)

    @pytest.mark.parametrize("size", [0, -1])
    def test_no_room_for_any_record_is_refused(self, size):
        with pytest.raises(ValueError, match="max_record_bytes"):
            InputOptions(max_record_bytes=size)

    def test_a_format_that_does_not_exist_is_refused(self):
        with pytest.raises(ValueError, match="format: 'xml' is none of"):
            InputOptions(format="xml")  # type: ignore[arg-type]


class TestMemory:
    """Memory does not grow with what is read: the peaks allowed are far below the data's size."""

    @pytest.mark.slow
    @pytest.mark.parametrize(
        ("pack", "form"),
        [
            *((bytes, form) for form in ("jsonl", "lines", "csv", "text")),
            *((pack, "jsonl") for pack in PACKS.values()),
        ],
    )
    def test_a_line_of_50_megabytes_is_skipped(self, tmp_path, pack, form):
        head = b"id,text\n" if form == "csv" else b""
        path = write(tmp_path / "x", pack(head + b"x" * (50 << 20) + b"\n"))
        options = InputOptions(format=form, max_record_bytes=1 << 20)
        (chunk,), peak = traced(lambda: list(Sources([str(path)], options).chunks()))
        (reject,) = chunk
        assert reject.line == (2 if form == "csv" else 1)
        assert "at most 1,048,576 are read" in reject.reason
        assert peak < 36 << 20

    def test_the_record_after_a_line_of_50_megabytes_is_read(self, tmp_path):
        path = write(tmp_path / "x.jsonl", json_lines(A) + b"x" * (50 << 20) + b"\n" + json_lines(B))
        items = read(path)
        assert [(item.line, item.id) for item in items] == [(1, "a"), (2, None), (3, "b")]
        assert "52,428,800 bytes" in items[1].reason

    @pytest.mark.slow
    def test_an_endless_stream_needs_no_more_than_a_few_chunks(self):
        class Endless(io.RawIOBase):
            lines = json_lines(*[{"id": i, "text": "x" * 1000} for i in range(1000)])

            def readable(self) -> bool:
                return True

            def readinto(self, buffer: Any) -> int:
                size = min(len(buffer), len(self.lines))
                buffer[:size] = self.lines[:size]
                return size

        sources = Sources(["-"], InputOptions(), io.BufferedReader(Endless()))

        def read_100_megabytes() -> None:
            for _ in sources.chunks():
                if sources.consumed > 100 << 20:
                    return

        _, peak = traced(read_100_megabytes)
        assert peak < 10 << 20


def traced(work: Any) -> tuple[Any, int]:
    tracemalloc.start()
    try:
        result = work()
        return result, tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


class TestProgress:
    def test_the_bytes_consumed_end_as_the_total_of_all_files(self, tmp_path):
        packed = gzip.compress(json_lines(*[{"id": i, "text": "x" * 100} for i in range(5000)]))
        write(tmp_path / "a.jsonl.gz", packed)
        write(tmp_path / "b.jsonl", json_lines(A))
        sources = Sources([str(tmp_path)], InputOptions())
        total = len(packed) + len(json_lines(A))
        assert sources.total() == total
        assert sources.consumed == 0
        assert list(positions(sources))[-1] == total
        assert sources.consumed == total

    def test_it_grows_while_files_are_read(self, tmp_path):
        path = write(tmp_path / "x.txt", b"x" * 4095 + b"\n")
        path.write_bytes(path.read_bytes() * 2000)
        grown = list(positions(Sources([str(path)], InputOptions(format="lines"))))
        assert grown == sorted(grown)
        assert grown[0] < grown[-1] == 4096 * 2000

    def test_nobody_knows_how_much_comes_through_a_pipe(self, tmp_path):
        path = tmp_path / "pipe"
        os.mkfifo(path)
        assert Sources([str(path)], InputOptions()).total() is None
        assert Sources(["-"], InputOptions()).total() is None

    def test_a_pipe_that_was_read_is_not_waited_for_when_a_table_is_written(self, tmp_path):
        path = tmp_path / "pipe"
        os.mkfifo(path)
        found: list[Mapping[str, Any]] = []
        looking = Thread(
            target=lambda: found.append(Sources([str(path)], InputOptions()).column_types()), daemon=True
        )
        looking.start()
        looking.join(10)
        with os.fdopen(os.open(path, os.O_RDWR)):  # ends a thread that waits
            assert found == [{}]

    def test_what_is_missing_adds_nothing(self, tmp_path):
        path = write(tmp_path / "x.jsonl", b"1234")
        assert Sources([str(tmp_path / "gone"), str(path)], InputOptions()).total() == 4


def positions(sources: Sources) -> Iterator[int]:
    for _ in sources.chunks():
        yield sources.consumed
    yield sources.consumed


class TestFoldersOfPrograms:
    @pytest.mark.parametrize("name", ["_temporary/0/part-1.jsonl", "_delta_log/00.json", "_x.jsonl"])
    def test_what_spark_and_hive_skip_is_not_read(self, tmp_path, name):
        write(tmp_path / "part-0.jsonl", json_lines(A))
        write(tmp_path / "_day=1/part-0.jsonl", json_lines(B))
        write(tmp_path / name, json_lines({"id": "c", "text": "c"}))
        write(tmp_path / "_SUCCESS", b"")
        sources = Sources([str(tmp_path)], InputOptions())
        ids = [item.source for chunk in sources.chunks() for item in chunk]
        assert ids == [str(tmp_path / "part-0.jsonl"), str(tmp_path / "_day=1/part-0.jsonl")]
        (message,) = files_left_out(sources.left_out)
        assert f"keep notes there: {name.partition('/')[0]} (1)" in message
        assert ("a Delta table, which keeps the files of older versions" in message) == (
            name == "_delta_log/00.json"
        )
        assert [item.id for item in read(tmp_path / name)] == ["c"]

    @pytest.mark.parametrize(
        ("note", "kind"),
        [
            ("metadata/00001-a.metadata.json", "an Iceberg table"),
            (".hoodie_partition_metadata", "a Hudi table"),
        ],
    )
    def test_tables_that_keep_older_versions_are_named(self, tmp_path, note, kind):
        write(tmp_path / "data/0.jsonl", json_lines(A))
        write(tmp_path / "data/metadata/0.json", json_lines(B))  # of another program
        write(tmp_path / note, b"{}")
        sources = Sources([str(tmp_path)], InputOptions())
        assert [item.line for chunk in sources.chunks() for item in chunk] == [1, 1]
        (message,) = files_left_out(sources.left_out)
        assert f"This is {kind}, which keeps the files of older versions" in message

    def test_names_that_are_not_utf8_make_ids_of_lines(self, tmp_path):
        path = os.fsencode(tmp_path) + b"/caf\xe9.txt"
        with open(path, "wb") as file:  # noqa: PTH123  # no Path of bytes
            file.write(b"one\ntwo\n")
        items = read(tmp_path, format="lines")
        assert [item.id for item in items] == ["caf\\xe9.txt:1", "caf\\xe9.txt:2"]


def test_many_lines_in_the_only_text_are_named_where_nothing_says_that_it_is_one_document(tmp_path):
    """A document a line was meant, and one was read, without a word."""
    path, other = tmp_path / "x.txt", tmp_path / "y.txt"
    path.write_text("some words\n" * MANY_LINES)
    other.write_text("some words\n" * (MANY_LINES - 1))

    def notes(*paths, **options):
        sources = Sources(list(map(str, paths)), InputOptions(**options))
        assert sum(map(len, sources.chunks()))
        return sources.notes

    (said,) = notes(path)
    assert said.startswith(f"{path}: its {MANY_LINES} lines are one document")
    assert not [*notes(other), *notes(path, other), *notes(path, format="text"), *notes(path, format="lines")]
