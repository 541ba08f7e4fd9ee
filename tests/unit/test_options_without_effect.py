"""An option that changes nothing is refused: nobody learns otherwise that a typing mistake had no effect."""

from itertools import product
from pathlib import Path

import pyarrow as pa
import pytest
from pyarrow import feather, parquet

from simhbase.corpus.inputs import Inputs
from simhbase.corpus.record import FORMATS, InputOptions
from simhbase.deduplication.representative import preference
from simhbase.errors import UsageError
from tests.command_line import run
from tests.reading import json_lines, read, write

TEXT = '<p>The café</p> approved "the" budget'
ROW = {"id": "a", "other": "b", "text": TEXT, "title": "another text", "f": "ffffffffffffffff"}
# Options, and values that change how the files below are read where they apply.
VALUES = {
    "id_field": "other",
    "id_from": "text",
    "id_prefix": "p/",
    "text_field": "title",
    "html": True,
    "encoding": "latin-1",
    "delimiter": "\t",
    "quoting": "none",
    "fingerprint_field": "f",
    "fingerprint_base": 16,
    "max_record_bytes": 3,
    "escape_formulas": True,
}
# Limits and permissions, which change nothing where no file needs them; the bits are those of a profile.
BOUNDS = ("zstd_long", "follow_links")
OF_JOBS = ("format", "fingerprint_bits", "value_field", "whole_rows", "tags", "tag_fields")


def files(folder: Path) -> dict[str, Path]:
    """A file of each format, with the same row where it has rows."""
    page = f"<html><head><title>t</title></head><body><p>{TEXT}. {TEXT}.</p></body></html>".encode()
    answer = b"HTTP/1.1 200 OK\r\nContent-Type: text/html; charset=utf-8\r\n\r\n" + page
    head = "WARC/1.0\r\nWARC-Type: response\r\nWARC-Target-URI: http://a/b\r\nWARC-Record-ID: <urn:a>\r\n"
    head += f"Content-Type: application/http; msgtype=response\r\nContent-Length: {len(answer)}\r\n\r\n"
    quoted = {name: '"' + value.replace('"', '""') + '"' for name, value in ROW.items()}
    of = {
        "jsonl": json_lines(ROW),
        "text": TEXT.encode(),
        "html": page,
        "lines": TEXT.encode(),
        "warc": head.encode() + answer + b"\r\n\r\n",
    }
    for kind, between in ("csv", ","), ("tsv", "\t"):
        of[kind] = f"{between.join(ROW)}\n{between.join(quoted.values())}\n".encode()
    found = {kind: write(folder / f"x.{kind}", data) for kind, data in of.items()}
    table = pa.table({name: pa.array([value]) for name, value in ROW.items()})
    parquet.write_table(table, folder / "x.parquet")
    feather.write_feather(table, folder / "x.arrow")
    return found | {kind: folder / f"x.{kind}" for kind in ("parquet", "arrow")}


def test_every_option_is_tried():
    assert {*VALUES, *BOUNDS, *OF_JOBS} == set(InputOptions.__dataclass_fields__)


@pytest.mark.parametrize(("option", "kind"), [*product(VALUES, FORMATS)])
def test_an_option_changes_what_is_read_or_is_refused(option, kind, tmp_path):
    path, chosen = files(tmp_path)[kind], {"format": kind, option: VALUES[option]}
    refusal = None
    try:
        Inputs([path], InputOptions(**chosen)).check_outputs()
    except UsageError as error:
        refusal = error
    is_read_otherwise = read(path, **chosen) != read(path, format=kind)
    if refusal:
        assert (refusal.parameter, "has no effect" in str(refusal)) == (option, True)
        # Formats without fields would take their whole text for the fingerprint in a field.
        assert not is_read_otherwise or option == "fingerprint_field"
    else:
        # Pages state their encoding, and are extracted in any case; Parquet says that it ignores an encoding.
        is_said = option == "encoding" and kind in ("parquet", "arrow", "html", "warc")
        assert is_read_otherwise or is_said or (option == "html" and kind in ("html", "warc"))


@pytest.mark.parametrize(
    ("options", "refused"),
    [
        ({"id_field": "other", "id_from": "line"}, "id_field"),
        ({"text_field": "title", "fingerprint_field": "f"}, "text_field"),
    ],
)
def test_an_option_that_another_one_takes_the_place_of_is_refused(options, refused, tmp_path):
    with pytest.raises(UsageError, match="has no effect") as error:
        Inputs([files(tmp_path)["jsonl"]], InputOptions(**options)).check_outputs()
    assert error.value.parameter == refused


@pytest.mark.parametrize("given", ["folder", "folder/*"])
def test_in_a_folder_one_file_that_an_option_is_for_is_enough(given, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    inputs = Inputs([given], InputOptions(delimiter=";"))
    write(tmp_path / "folder" / "a.jsonl", json_lines(ROW))
    with pytest.raises(UsageError, match="no input is csv"):
        inputs.check_outputs()
    write(tmp_path / "folder" / "b.csv.gz", b"")
    inputs.check_outputs()


def test_names_of_fields_and_delimiters_are_those_of_the_output_too(tmp_path):
    page, table = files(tmp_path)["html"], tmp_path / "out.csv"
    for option in {"text_field": "body"}, {"delimiter": ";"}, {"escape_formulas": True}:
        inputs = Inputs([page], InputOptions(**option))
        inputs.check_outputs(documents=[table])
        with pytest.raises(UsageError, match="has no effect"):
            inputs.check_outputs(tmp_path / "list.jsonl")


def test_rows_of_a_program_have_no_format(tmp_path):
    rows = [("a", TEXT)]
    Inputs(rows=rows, options=InputOptions(id_prefix="p/")).check_outputs()
    for option in {"format": "csv"}, {"encoding": "latin-1"}, {"delimiter": ";"}, {"follow_links": True}:
        with pytest.raises(UsageError, match="documents are given in place of files"):
            Inputs(rows=rows, options=InputOptions(**option)).check_outputs()


def test_another_format_than_that_of_its_content_is_refused(tmp_path):
    table = files(tmp_path)["parquet"]
    assert read(table, format="arrow")[0].id == "a"
    (found,) = read(table, format="csv")
    assert found.reason == "it is Parquet or Arrow, and not csv: leave out the format (format)"


def test_parquet_says_that_its_texts_have_an_encoding(tmp_path):
    done = run("fingerprint", "--encoding", "latin-1", "x.parquet", cwd=files(tmp_path)["parquet"].parent)
    assert b"x.parquet: its texts are UTF-8, as its schema says: encoding has no effect" in done.stderr


@pytest.mark.parametrize(
    ("keep", "how", "refused"),
    [
        ("first", {"date_field": "day"}, "date_field"),
        ("n", {"date_field": "day"}, "date_field"),
        ("longest", {"date_order": "dmy"}, "date_order"),
        ("first", {"date_unit": "s"}, "date_unit"),
    ],
)
def test_dates_that_nothing_is_kept_by_are_refused(keep, how, refused):
    with pytest.raises(UsageError, match="applies to keep newest") as error:
        preference(keep, **{"date_field": "date", **how})
    assert error.value.parameter == refused


@pytest.mark.parametrize(
    ("command", "option"),
    [
        ("find --text a --delimiter ;", "--delimiter"),
        ("find --text a --exclude-self", "--exclude-self"),
        ("find --text a --explain --exclude-self", "--exclude-self"),
        ("find --id a --fingerprint-base 16", "--fingerprint-base"),
        ("match --against x.jsonl --text a --delimiter ;", "--delimiter"),
        ("compare --text a --text b --html", "--html"),
        ("match --against x.jsonl --text a --by-source file", "--by-source"),
        ("evaluate --pairs x.tsv --store memory: x.jsonl", "--store"),
        ("evaluate --pairs pairs --store rocksdb:s --right 0.9", "--right"),
        ("mute add --store rocksdb:s --fingerprint-base 16 a", "--fingerprint-base"),
        ("serve --store rocksdb:s --token-file x.jsonl --allow-host news.example", "--allow-host"),
        ("compare x.text --text b --rejects r", "--rejects"),
        ("evaluate --pairs x.tsv --max-rejects 1", "--max-rejects"),
        ("evaluate --pairs x.tsv --encoding latin-1", "--encoding"),
        ("pairs --store memory: --id-prefix a", "--id-prefix"),
        ("idf -o out x.jsonl --boilerplate-share 0.5", "--boilerplate-share"),
        ("idf --boilerplate out x.jsonl --min-documents 5", "--min-documents"),
        ("load --escape-formulas x.jsonl", "--escape-formulas"),
        ("dedup --escape-formulas --unique out.jsonl x.jsonl", "--escape-formulas"),
        ("dedup --date-order dmy x.jsonl", "--date-order"),
    ],
)
def test_commands_name_an_option_without_effect(command, option, tmp_path):
    files(tmp_path)
    write(tmp_path / "pairs", b"a\tb\n")
    done = run(*command.split(), cwd=tmp_path)
    assert (done.returncode, done.stdout) == (2, b"")
    assert option in done.stderr.decode()
    assert not list(tmp_path.glob("out*"))


@pytest.mark.parametrize(
    ("kind", "options", "refused"),
    [
        ("parquet", {"id_prefix": "p/"}, "id_prefix"),
        ("parquet", {"html": True}, "html"),
        ("jsonl", {"delimiter": ";"}, "delimiter"),
        ("jsonl", {"id_from": "line"}, "id_from"),
    ],
)
def test_on_spark_too(kind, options, refused):
    files_of = pytest.importorskip("simhbase.spark.files").Files
    with pytest.raises(UsageError, match=f"has no effect on {kind} on Spark") as error:
        files_of([], [], [], [], kind).rows(None, InputOptions(**options), None, None)
    assert error.value.parameter == refused
