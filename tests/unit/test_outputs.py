from __future__ import annotations

import os
import threading
import tracemalloc
from pathlib import Path

import orjson
import pyarrow as arrow
import pytest
from pyarrow import parquet

import simhbase
from simhbase.corpus.inputs import Inputs
from simhbase.corpus.outputs import files as outputs
from simhbase.corpus.outputs.csv import csv_form
from simhbase.corpus.outputs.files import (
    Duplicate,
    KeptBeginning,
    OutputBusy,
    OutputFile,
    duplicate_line,
    reject_line,
    unique_line,
)
from simhbase.corpus.outputs.parquet import parquet_form
from simhbase.corpus.outputs.trim import with_its_id
from simhbase.corpus.outputs.unique import unique_trim
from simhbase.corpus.parser import Parser
from simhbase.corpus.record import InputOptions, Record, Reject
from simhbase.corpus.sources import Sources
from simhbase.errors import SimhbaseError
from simhbase.stores.rocksdb.folder import make_folder
from tests.reading import json_lines, write


def test_a_file_gets_its_name_when_it_is_whole(tmp_path):
    path = tmp_path / "unique.jsonl"
    with OutputFile(path) as file:
        file.write([b"one", b"two"])
        file.write([])
        file.write([b"three"])
        assert not path.exists()
    assert path.read_bytes() == b"one\ntwo\nthree\n"
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("prepare", [os.symlink, os.link, lambda _, part: os.mkfifo(part)])
def test_what_another_user_may_have_prepared_is_not_written(tmp_path, prepare):
    """In a shared folder a link could choose which file is overwritten, and a pipe get all lines."""
    kept = write(tmp_path / "kept", b"kept")
    prepare(kept, tmp_path / "unique.jsonl.part")
    with pytest.raises(SimhbaseError, match=r"cannot write .*unique\.jsonl\.part: (it exists|Too many)"):
        OutputFile(tmp_path / "unique.jsonl")
    assert kept.read_bytes() == b"kept"


def peak_of_writing(path, lines):
    """Bytes that Python takes at most."""
    tracemalloc.start()
    with OutputFile(path, form=parquet_form(path, dict)) as file:
        file.write(lines)
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    return most


def test_one_document_of_many_fields_costs_the_others_little(tmp_path):
    """Each of its fields was a list of values of all documents that are read at once."""
    count, names = 12_000, {f"field {number}": number for number in range(900)}
    lines = [orjson.dumps({"id": f"{number}"} | (names if number == 5 else {})) for number in range(count)]
    path = tmp_path / "unique.parquet"
    assert peak_of_writing(path, lines) < 60_000_000
    table = parquet.read_table(path)
    assert table.column_names == ["id", *names]
    assert table.column("id").to_pylist() == [f"{number}" for number in range(count)]
    assert table.column("field 899").drop_null().to_pylist() == [899]
    assert table.column("field 899")[5].as_py() == 899


def test_fields_within_an_object_of_one_document_cost_the_others_little(tmp_path):
    """Each other document had all of them: 1.5 MB took minutes and gigabytes, when all had been compared."""
    count, many = 2_000, {f"field {number}": number for number in range(3_000)}
    lines = [
        orjson.dumps({"id": f"{n}", "few": {"a": n}, "many": many if n == 5 else {"a": n}})
        for n in range(count)
    ]
    path = tmp_path / "unique.parquet"
    assert peak_of_writing(path, lines) < 30_000_000
    table = parquet.read_table(path)
    assert table.schema.field("few").type == arrow.struct([("a", arrow.int64())])
    found = list(map(orjson.loads, table.column("many").to_pylist()))
    assert (found[4], found[5], len(found)) == ({"a": 4}, many, count)


def test_objects_of_all_columns_have_a_limited_number_of_fields(tmp_path):
    """The columns with the most of them are text, also where the types of an input say otherwise."""
    known = {"c": arrow.struct([(f"{n}", arrow.int8()) for n in range(2_000)])}
    fields = {name: {f"{n}": 1 for n in range(size)} for name, size in (("a", 150), ("b", 90), ("c", 160))}
    path = tmp_path / "unique.parquet"
    with OutputFile(path, form=parquet_form(path, lambda: known)) as file:
        file.write([orjson.dumps({name: each}) for name, each in fields.items()])
    kinds = parquet.read_schema(path)
    assert [arrow.types.is_struct(kinds.field(name).type) for name in "abc"] == [True, True, False]
    with OutputFile(path, form=parquet_form(path, lambda: {"c": known["c"].field(0).type})) as file:
        file.write([orjson.dumps({"c": fields["c"]["0"]})])
    assert parquet.read_schema(path).field("c").type == arrow.int8()


@pytest.mark.parametrize("inside", [lambda each: each, lambda each: {"inner": [each]}])
@pytest.mark.parametrize("order", [1, -1])
def test_a_list_of_objects_that_lack_most_fields_is_text(tmp_path, inside, order):
    """Each of them had all fields of one: 450 kB took 2 GB."""
    path, empty, few = tmp_path / "unique.parquet", [{}] * 8_000, [{"a": n} for n in range(3_000)]
    values = [{"many": inside([{f"{n}": 1 for n in range(240)}]), "few": few}, {"many": inside(empty)}][
        ::order
    ]
    tracemalloc.start()
    with OutputFile(path, form=parquet_form(path, dict)) as file:
        file.write(map(orjson.dumps, values))
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert most < 30_000_000
    table = parquet.read_table(path).to_pydict()
    assert list(map(orjson.loads, table["many"])) == [each["many"] for each in values]
    assert few in table["few"]


def test_columns_of_nulls_count_for_the_size_of_a_group_of_rows(tmp_path, monkeypatch):
    """They have no bytes, and arrays all the same: 64 MB of lines with a thousand took 2 GB."""
    monkeypatch.setattr("simhbase.corpus.outputs.parquet.GROUP_BYTES", 1 << 20)
    path = tmp_path / "unique.parquet"
    with OutputFile(path, form=parquet_form(path, dict)) as file:
        file.write([orjson.dumps({f"{n}": None for n in range(900)}), *[b'{"id":"a"}'] * 2_000])
    assert parquet.ParquetFile(path).num_row_groups > 1


def test_long_documents_are_written_a_few_at_a_time(tmp_path):
    """The lines of 4,096 documents were in memory at once, whatever their length."""
    lines = [
        {"id": f"{n}", "text": f"{n} " + "".join(map(str, range(n, n + 99)))} for n in range(0, 10_000, 100)
    ]
    path = write(tmp_path / "long.jsonl", json_lines(*(line | {"more": "x" * 1_000_000} for line in lines)))
    tracemalloc.start()
    report = simhbase.dedup(path, unique=tmp_path / "unique.jsonl", count_field="count")
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert report.unique == 100
    assert most < 70_000_000
    written = (tmp_path / "unique.jsonl").read_bytes()
    assert written.replace(b',"count":1}', b"}") == path.read_bytes()


@pytest.mark.skipif(os.getuid() != 0, reason="only root gives links away")
def test_a_link_of_another_user_in_a_folder_of_all_is_not_followed(tmp_path):
    kept, link = write(tmp_path / "kept", b"kept"), tmp_path / "shared" / "unique.jsonl"
    link.parent.mkdir()
    link.symlink_to(kept)
    os.lchown(link, 1, -1)
    OutputFile(link).__exit__(ValueError, None, None)  # a folder of its owner
    link.parent.chmod(0o1777)
    for write_to in OutputFile, Inputs(["x"]).check_outputs:
        with pytest.raises(SimhbaseError, match=r"cannot write .*: it is a link of another user"):
            write_to(link)
    os.lchown(link, 0, -1)
    with OutputFile(link) as file:
        file.write([b"one"])
    assert (kept.read_bytes(), link.is_symlink()) == (b"one\n", True)


@pytest.mark.skipif(os.getuid() != 0, reason="only root gives pipes and folders away")
def test_a_pipe_or_store_of_another_user_in_a_folder_of_all_is_not_written(tmp_path):
    pipe, folder = tmp_path / "unique.jsonl", tmp_path / "store"
    os.mkfifo(pipe)
    folder.mkdir()
    for prepared in pipe, folder:
        os.chown(prepared, 1, -1)
    tmp_path.chmod(0o1777)
    with pytest.raises(SimhbaseError, match=r"cannot write .*: it is a pipe or device of another user"):
        Inputs(["x"]).check_outputs(pipe)
    with pytest.raises(SimhbaseError, match="is not written to: it is a folder of another user"):
        simhbase.open(f"rocksdb:{folder}", create="default")
    with pytest.raises(SimhbaseError, match="it is a folder of another user"):
        make_folder("rocksdb:store", folder)  # as if it had been made a moment ago
    os.mkfifo(folder / "CURRENT")
    with pytest.raises(SimhbaseError, match="CURRENT in its folder is a link, pipe or device"):
        simhbase.open(f"rocksdb:{folder}", access="read")
    (folder / "CURRENT").unlink()
    os.chown(folder, 0, -1)
    simhbase.open(f"rocksdb:{folder}", create="default").close()


def test_a_part_of_another_user_in_a_shared_folder_is_not_written(tmp_path, monkeypatch):
    write(tmp_path / "unique.jsonl.part", b"")
    monkeypatch.setattr("os.geteuid", lambda: os.getuid() + 1)
    with OutputFile(tmp_path / "unique.jsonl") as file:  # the owner of the folder may do anything there
        file.write([b"one"])
    write(tmp_path / "unique.jsonl.part", b"")
    os.chown(tmp_path, os.getuid() + 2, -1) if os.getuid() == 0 else pytest.skip(
        "only root gives folders away"
    )
    with pytest.raises(SimhbaseError, match="belongs to another user"):
        OutputFile(tmp_path / "unique.jsonl")


@pytest.mark.skipif(os.getuid() != 0, reason="only root gives folders away")
def test_a_new_file_is_ours_whoever_owns_it(tmp_path, monkeypatch):
    """Servers of files may give what root writes to nobody."""
    monkeypatch.setattr("os.geteuid", lambda: 1)
    os.chown(tmp_path, 2, -1)
    with OutputFile(tmp_path / "unique.jsonl") as file:
        file.write([b"one"])
    assert (tmp_path / "unique.jsonl").read_bytes() == b"one\n"


@pytest.mark.parametrize("is_linked", [False, True])
def test_a_table_is_not_made_through_a_link(tmp_path, is_linked):
    kept = write(tmp_path / "kept", b"kept")
    if is_linked:
        (tmp_path / "unique.parquet.made").symlink_to(kept)
    path = tmp_path / "unique.parquet"
    with OutputFile(path, form=parquet_form(path, dict)) as file:
        file.write([b'{"id":"a"}'])
    assert kept.read_bytes() == b"kept"
    assert path.read_bytes()[:4] == b"PAR1"


def test_a_table_is_made_of_the_lines_that_were_written(tmp_path):
    """The owner of the folder could put a link to another user's file in their place."""
    private = write(tmp_path / "private", b'{"id":"private"}\n')
    path = tmp_path / "unique.parquet"
    with OutputFile(path, form=parquet_form(path, dict)) as file:
        file.write([b'{"id":"a"}'])
        (tmp_path / "unique.parquet.part").unlink()
        (tmp_path / "unique.parquet.part").symlink_to(private)
    assert parquet.read_table(path).to_pylist() == [{"id": "a"}]
    assert sorted(tmp_path.iterdir()) == [private, path]


@pytest.mark.parametrize("put", [os.mkfifo, lambda part: part.symlink_to("private")], ids=["pipe", "link"])
def test_a_header_is_read_from_no_link_or_pipe(tmp_path, put):
    path, part = tmp_path / "unique.csv", tmp_path / "unique.csv.part"
    (tmp_path / "private").write_bytes(b"secret\n")
    put(part)
    form = csv_form(path, ",", KeptBeginning(3, 0))
    with pytest.raises(OSError, match=r"pipe, socket or device|symbolic links"):
        list(form.rows([b'{"id":"a"}']))


def test_a_file_without_lines_is_written_too(tmp_path):
    with OutputFile(tmp_path / "x"):
        pass
    assert (tmp_path / "x").read_bytes() == b""


def test_the_file_that_was_there_stays_until_the_new_one_is_whole(tmp_path):
    path = tmp_path / "x"
    path.write_bytes(b"old")
    with OutputFile(path) as file:
        file.write([b"new"])
        assert path.read_bytes() == b"old"
    assert path.read_bytes() == b"new\n"


@pytest.mark.parametrize("interruption", [KeyboardInterrupt, ValueError])
def test_after_an_interruption_the_part_stays_and_the_name_is_not_taken(tmp_path, interruption):
    path = tmp_path / "x"
    with pytest.raises(interruption), OutputFile(path) as file:  # noqa: PT012  # written, then interrupted
        file.write([b"acknowledged"])
        raise interruption
    assert not path.exists()
    assert (tmp_path / "x.part").read_bytes() == b"acknowledged\n"


def test_a_part_that_nobody_needs_goes(tmp_path):
    with pytest.raises(KeyboardInterrupt), OutputFile(tmp_path / "empty"):
        raise KeyboardInterrupt
    with pytest.raises(KeyboardInterrupt), OutputFile(tmp_path / "x", keep_partial=False) as file:  # noqa: PT012
        file.write([b"one of many"])
        raise KeyboardInterrupt
    assert not list(tmp_path.iterdir())


def test_a_file_that_is_abandoned_leaves_the_one_that_was_there(tmp_path):
    (tmp_path / "x").write_bytes(b"old")
    with OutputFile(tmp_path / "x") as file:
        file.abandon()
    assert [(path.name, path.read_bytes()) for path in tmp_path.iterdir()] == [("x", b"old")]


@pytest.mark.parametrize("name", ["x.jsonl.gz", "x.jsonl.zst"])
def test_a_name_says_how_a_file_is_compressed_also_in_part(tmp_path, name):
    def lines(path):
        found = read(path)
        return [record.id for record in found if isinstance(record, Record)]

    with OutputFile(tmp_path / name) as file:
        file.write([b'{"id": "a", "text": "one"}'])
        file.checkpoint()  # ends a member: what comes behind cannot be checked yet
        (tmp_path / f"part-{name}").write_bytes((tmp_path / f"{name}.part").read_bytes())
        assert lines(tmp_path / f"part-{name}") == ["a"]
        file.write([b'{"id": "b", "text": "two"}'])
    assert lines(tmp_path / name) == ["a", "b"]


def read(path: Path) -> list[Record | Reject]:
    options = InputOptions()
    return [item for chunk in Sources([str(path)], options).chunks() for item in Parser(options).parse(chunk)]


def test_a_second_run_begins_anew(tmp_path):
    (tmp_path / "x.part").write_bytes(b"left over")
    with OutputFile(tmp_path / "x") as file:
        file.write([b"whole"])
    assert (tmp_path / "x").read_bytes() == b"whole\n"


def test_a_file_that_another_run_writes_is_refused_and_loses_nothing(tmp_path):
    path = tmp_path / "x"
    with OutputFile(path) as file:
        file.write([b"first"])
        with pytest.raises(OutputBusy, match=rf"another run is writing {path}\.part"):
            OutputFile(path)
        file.write([b"second"])
    assert path.read_bytes() == b"first\nsecond\n"
    with OutputFile(path):
        pass


def test_a_run_that_ends_while_another_waits_for_the_lock_keeps_its_file(tmp_path, monkeypatch):
    path = tmp_path / "x"
    first = OutputFile(path)
    first.write([b"first"])
    lock = outputs._lock

    def end_first_and_lock(*arguments):
        monkeypatch.setattr(outputs, "_lock", lock)
        with first:
            pass
        lock(*arguments)

    monkeypatch.setattr(outputs, "_lock", end_first_and_lock)
    second = OutputFile(path)
    assert path.read_bytes() == b"first\n"
    with second:
        second.write([b"second"])
    assert path.read_bytes() == b"second\n"


@pytest.mark.parametrize("before", [b"old", None], ids=["there", "dangling"])
def test_a_link_stays_and_the_file_that_it_names_is_written(tmp_path, before):
    (tmp_path / "folder").mkdir()
    target = tmp_path / "folder" / "target"
    if before:
        target.write_bytes(before)
    link = tmp_path / "link"
    link.symlink_to("folder/target")
    with OutputFile(link) as file:
        file.write([b"new"])
    assert link.is_symlink()
    assert target.read_bytes() == b"new\n"
    assert sorted(tmp_path.rglob("*")) == [target.parent, target, link]


def test_what_was_written_is_in_the_file_before_the_next_batch(tmp_path):
    with OutputFile(tmp_path / "x") as file:
        file.write([b"first"])
        assert (tmp_path / "x.part").read_bytes() == b"first\n"


def test_a_pipe_is_written_to_directly(tmp_path):
    path = tmp_path / "pipe"
    os.mkfifo(path)
    received: list[bytes] = []
    reader = threading.Thread(target=lambda: received.append(path.read_bytes()))
    reader.start()
    with OutputFile(path) as file:
        file.write([b"one"])
    reader.join()
    assert received == [b"one\n"]
    assert path.is_fifo()


def test_a_folder_that_does_not_exist_is_told_with_the_name(tmp_path):
    path = tmp_path / "no" / "x"
    with pytest.raises(SimhbaseError, match=rf"cannot write {path}\.part: No such file or directory"):
        OutputFile(path)


@pytest.fixture
def full_disk(tmp_path):
    """A link to the device that is always full: code that wrongly renames a file onto it would
    replace the link, and not, where root runs the tests, the device of the machine."""
    if not Path("/dev/full").is_char_device():
        pytest.skip("no /dev/full here to stand for a full disk")
    path = tmp_path / "full"
    path.symlink_to("/dev/full")
    return path


def test_a_full_disk_is_told_with_the_name(full_disk):
    with (
        pytest.raises(SimhbaseError, match=f"cannot write {full_disk}: No space left on device"),
        OutputFile(full_disk) as file,
    ):
        file.write([b"one"])


def test_an_interruption_is_not_hidden_by_a_full_disk(full_disk):
    file = OutputFile(full_disk)
    with pytest.raises(SimhbaseError, match="No space left"):
        file.write([b"one"])
    with pytest.raises(KeyboardInterrupt), file:
        raise KeyboardInterrupt


def test_a_device_is_not_replaced_by_a_file(tmp_path):
    path = tmp_path / "null"
    path.symlink_to("/dev/null")
    with OutputFile(path) as file:
        file.write([b"one"])
    assert path.is_char_device()
    assert list(tmp_path.iterdir()) == [path]


def test_unique_json_lines_are_written_as_they_were():
    assert unique_line(Record("x", 1, "p/a", text="t", json=b'{"id": "a",  "text":"t"}')) == (
        b'{"id": "a",  "text":"t"}'
    )


def test_unique_json_lines_have_the_prefixed_id_and_keep_the_rest():
    digits = "12345678901234567890123"
    record = Record("x", 1, "p/7", text="t", json=f'{{"n": 7, "text": "中", "big": {digits}}}'.encode())
    line = unique_line(with_its_id(record, "n")).decode()
    assert line == f'{{"n":"p/7","text":"中","big":{digits}}}'


def test_the_prefixed_id_is_put_where_the_id_was():
    record = Record("x", 1, "p/7", text="t", json=b'{"meta": {"id": 7, "n": 1}, "text": "t"}')
    assert unique_line(with_its_id(record, "meta.id")) == b'{"meta":{"id":"p/7","n":1},"text":"t"}'


def test_a_number_of_thousands_of_digits_loses_no_field_where_ids_get_a_prefix():
    line = f'{{"id":"a","more":{"1" * 5_000}}}'.encode()
    record = with_its_id(Record("x", 1, "p/a", text="t", json=line), "id")
    assert orjson.loads(unique_line(record)) == {"id": "p/a", "more": "1" * 5_000}


def test_a_field_with_half_a_character_in_its_name_is_a_column(tmp_path):
    """It was an unexpected UnicodeEncodeError, when all documents had been compared."""
    path = tmp_path / "unique.parquet"
    with OutputFile(path, form=parquet_form(path, dict)) as file:
        file.write([b'{"id":"a"}', b'{"id":"b","\\udfff":1}'])
    assert parquet.read_table(path).to_pylist() == [{"id": "a", "\\udfff": None}, {"id": "b", "\\udfff": 1}]


def test_an_escaped_name_is_no_other_column(tmp_path):
    """pandas and Arrow refuse a table with two columns of one name."""
    path = tmp_path / "unique.parquet"
    line = rb'{"id":"a","\ud800":1,"\\ud800":2,"\ud800_":3}'
    with OutputFile(path, form=parquet_form(path, dict)) as file:
        file.write([line])
    assert parquet.read_table(path).to_pylist() == [{"id": "a", "\\ud800_": 1, "\\ud800": 2, "\\ud800__": 3}]


def test_a_line_of_very_many_levels_gets_the_prefixed_id_too():
    levels = "[" * 1010 + "]" * 1010
    record = Record("x", 1, "p/a", text="t", json=f'{{"id": "a", "text": "t", "n": {levels}}}'.encode())
    line = unique_line(with_its_id(record, "id"))
    assert line.startswith(b'{"id":"p/a","text":"t"')


def test_unique_records_of_other_formats_become_json_lines():
    assert unique_line(Record("x", 1, "a", text="中\n")) == '{"id":"a","text":"中\\n"}'.encode()
    assert unique_line(Record("x", 1, "a", fingerprint=255)) == b'{"id":"a","fingerprint":"00000000000000ff"}'
    longer = unique_line(Record("x", 1, "a", fingerprint=255), fingerprint_bits=128)
    assert longer == b'{"id":"a","fingerprint":"%b"}' % (b"0" * 30 + b"ff")


def test_duplicates_and_rejects_have_the_documented_fields():
    assert duplicate_line(Duplicate("b", "a", 2)) == b'{"id":"b","duplicate_of":"a","distance":2}'
    named = b'{"id":"c","duplicate_of":"b","distance":2,"similarity":0.5,"containment":0.9999,"group":"a"}'
    assert duplicate_line(Duplicate("c", "b", 2, 0.5, 0.99999, "a")) == named
    assert reject_line(Reject("x", 3, None, "not JSON")) == (
        b'{"source":"x","line":3,"id":null,"reason":"not JSON"}'
    )


def test_a_reject_of_half_a_surrogate_pair_is_written_as_an_escape():
    line = reject_line(Reject("--id", None, "\udcff", "not stored"))
    assert line == b'{"source":"--id","line":null,"id":"\\udcff","reason":"not stored"}'


def test_a_line_of_a_document_whose_id_was_made_has_it():
    record = Record("a.jsonl", 3, "a.jsonl:3", text="t", json=b'{"text": "t"}')
    trim, _ = unique_trim(Inputs(["a.jsonl"], InputOptions(id_from="line")))
    assert unique_line(trim(record)) == b'{"text":"t","id":"a.jsonl:3"}'


PAGE = "<title>On foxes</title><p>The quick brown fox jumps over the lazy dog</p>"
FIELDS = {"id": 7, "text": "a text", "lang": "en", "source": "wire"}


def unique_of(paths, **options):
    trim, inputs = unique_trim(Inputs(paths, InputOptions(whole_rows=True, **options)))
    return [
        orjson.loads(unique_line(trim(record)))
        for chunk in inputs.sources.chunks()
        for record in Parser(inputs.options).parse(chunk)
    ]


@pytest.mark.parametrize("more", [[], ["b.html"]])
def test_folders_are_walked_once(tmp_path, monkeypatch, more):
    for name in ("x/a.jsonl", "x/c.jsonl", *(f"x/{each}" for each in more)):
        write(tmp_path / name, json_lines({"id": name, "text": "a text"}))
    listed, real = [], os.scandir
    monkeypatch.setattr(os, "scandir", lambda path: listed.append(path) or real(path))
    inputs = Inputs([str(tmp_path)], InputOptions(whole_rows=True))
    _, inputs = unique_trim(inputs)
    write(tmp_path / "x" / "z.txt", b"This came when the schema was decided.")
    names = [item.source for chunk in inputs.sources.chunks() for item in chunk]
    assert names == [str(tmp_path / "x" / name) for name in ("a.jsonl", *more, "c.jsonl")]
    assert listed == [tmp_path, tmp_path / "x"]


@pytest.mark.parametrize("fields", ["jsonl", "csv"])
def test_documents_of_mixed_inputs_have_one_schema(tmp_path, fields):
    rows, page, plain = (tmp_path / name for name in (f"a.{fields}", "b.html", "c.txt"))
    if fields == "jsonl":
        rows.write_bytes(orjson.dumps(FIELDS))
    else:
        rows.write_text("id,text,lang,source\n7,a text,en,wire\n")
    page.write_text(PAGE)
    plain.write_text("plain words")
    assert unique_of([tmp_path]) == [
        {"id": "7", "text": "a text", "lang": "en", "source": "wire", "title": None},
        {
            "id": "b.html",
            "text": "The quick brown fox jumps over the lazy dog",
            "source": str(page),
            "title": "On foxes",
        },
        {"id": "c.txt", "text": "plain words", "source": str(plain), "title": None},
    ]


def test_one_schema_has_the_names_of_the_fields_that_are_read(tmp_path):
    rows, page = tmp_path / "a.jsonl", tmp_path / "b.html"
    rows.write_text('{"url": "u", "body": "a text", "text": "other"}')
    page.write_text(PAGE)
    one, other = unique_of([rows, page], id_field="url", text_field="body", id_prefix="p/")
    assert one == {"url": "p/u", "body": "a text", "text": "other", "source": str(rows), "title": None}
    assert list(other) == ["url", "body", "source", "title"]


def test_json_lines_without_other_inputs_stay_as_they_are(tmp_path):
    (tmp_path / "a.jsonl").write_bytes(orjson.dumps(FIELDS))
    assert unique_of([tmp_path]) == [FIELDS]
