"""Links, loops and special files in folders and globs."""

from __future__ import annotations

import os
from itertools import chain
from pathlib import Path
from time import process_time
from typing import Any

import pytest
from fsspec.implementations.local import LocalFileSystem

from simhbase.corpus.folders import Unread
from simhbase.corpus.paths import FoundSource, LeftOut, Listed, expand, files_left_out, names_nothing
from simhbase.corpus.record import InputOptions, SourceReject
from simhbase.corpus.remote import _Place
from simhbase.corpus.sources import Sources
from simhbase.errors import UsageError
from simhbase.spark.files import require_within
from tests.reading import json_lines, write


def document(path: Path) -> Path:
    return write(path, json_lines({"id": path.name, "text": "t"}))


def names(found: list[Listed]) -> list[str]:
    return [each.source.id for each in found if isinstance(each, FoundSource)]


@pytest.fixture
def corpus(tmp_path):
    """A folder with documents, beside which are others."""
    document(tmp_path / "corpus" / "a.jsonl")
    document(tmp_path / "corpus" / "sub" / "b.jsonl")
    document(tmp_path / "secret" / "c.jsonl")
    return tmp_path / "corpus"


@pytest.mark.parametrize("glob", ["", "*", "**/*.jsonl"])
@pytest.mark.parametrize("is_folder", [False, True])
def test_links_that_take_the_place_of_a_found_file_are_not_followed(corpus, glob, is_folder):
    """Who may write to a folder may do so between the look at a file and its opening."""
    document(corpus.parent / "secret" / "b.jsonl")
    *_, found = (each for each in expand(str(corpus / glob), None) if isinstance(each, FoundSource))
    assert found.path == corpus / "sub" / "b.jsonl"
    replaced = found.path.parent if is_folder else found.path
    replaced.rename(corpus / ".old")
    replaced.symlink_to(corpus.parent / "secret" / ("" if is_folder else "b.jsonl"))
    with pytest.raises(OSError, match="leads out of the folder"):
        found.open()


def test_a_pipe_that_takes_the_place_of_a_found_file_is_not_waited_for(corpus):
    (found, _) = expand(str(corpus), None)
    found.path.unlink()
    os.mkfifo(found.path)
    with pytest.raises(OSError, match="pipe, socket or device"):
        found.open()


def test_a_link_that_is_swapped_while_it_is_resolved_is_not_followed(corpus, monkeypatch):
    (found, _) = expand(str(corpus), None)
    (corpus / "a.jsonl").unlink()
    (corpus / "a.jsonl").symlink_to("../secret/c.jsonl")
    monkeypatch.setattr("simhbase.corpus.folders.resolved", Path)  # as it was before the swap
    with pytest.raises(OSError, match="symbolic links"):
        found.open()


def test_links_that_lead_out_of_a_folder_are_refused_on_spark(corpus):
    """Spark itself follows them."""
    (corpus / "x.jsonl").symlink_to("../secret/c.jsonl")
    (corpus / "y.jsonl").symlink_to("sub/b.jsonl")
    files = [str(corpus / name) for name in ("a.jsonl", "x.jsonl", "y.jsonl")]
    for given in (str(corpus), f"file://{corpus}", f"{corpus}/*.jsonl"):
        require_within(given, [files[0], files[2]])
        with pytest.raises(UsageError, match=r"x\.jsonl leads out of .* by a link"):
            require_within(given, files)
    require_within(files[1], [files[1]])


GLOBS = ["", "*", "**", "**/*.jsonl"]


@pytest.mark.parametrize("glob", GLOBS)
def test_links_that_lead_out_of_a_folder_are_named_and_not_read(corpus, glob):
    (corpus / "x.jsonl").symlink_to("../secret/c.jsonl")
    (corpus / "linked").symlink_to(corpus.parent / "secret")
    (corpus / ".hidden").symlink_to(corpus.parent / "secret")
    found = list(expand(str(corpus / glob), None))
    assert [each.path.name for each in found if isinstance(each, FoundSource)] == ["a.jsonl", "b.jsonl"]
    (left_out,) = (each for each in found if isinstance(each, LeftOut))
    assert set(left_out.links) == {str(corpus / "linked"), str(corpus / "x.jsonl")}
    (message,) = files_left_out([left_out])
    assert ": 2 links that lead out of it were not followed (" in message
    assert message.endswith("). The option follow_links reads the files there")


@pytest.mark.parametrize("glob", GLOBS)
def test_they_are_read_where_that_is_asked_for(corpus, glob):
    (corpus / "x.jsonl").symlink_to("../secret/c.jsonl")
    (corpus / "linked").symlink_to(corpus.parent / "secret")
    found = list(expand(str(corpus / glob), None, follow_links=True))
    assert sorted(each.path.name for each in found if isinstance(each, FoundSource)) == [
        "a.jsonl", "b.jsonl", "c.jsonl", "x.jsonl"
    ]  # fmt: skip
    assert not [each for each in found if isinstance(each, LeftOut)]


@pytest.mark.parametrize("follow_links", [False, True])
def test_links_within_a_folder_need_no_mention(corpus, follow_links):
    (corpus / "link.jsonl").symlink_to("a.jsonl")
    (corpus / "latest").symlink_to("sub")
    found = list(expand(str(corpus), None, follow_links=follow_links))
    assert names(found) == ["a.jsonl", "link.jsonl", "sub/b.jsonl"]
    assert len(found) == 3


@pytest.mark.parametrize("glob", ["s*/", "s*", "s*/**", "s*/**/*.jsonl"])
def test_links_to_folders_that_a_glob_does_not_match_are_named(corpus, glob):
    """They are inside its folder, so that they were taken for read."""
    document(corpus / "other" / "d.jsonl")
    (corpus / "sub" / "linked").symlink_to("../other")
    found = list(expand(f"{corpus}/{glob}", None))
    assert [name.rpartition("/")[2] for name in names(found)] == ["b.jsonl"]
    (left_out,) = (each for each in found if isinstance(each, LeftOut))
    assert left_out.links == (str(corpus / "sub" / "linked"),)
    followed = list(expand(f"{corpus}/{glob}", None, follow_links=True))
    assert [name.rpartition("/")[2] for name in names(followed)] == ["b.jsonl", "d.jsonl"]
    assert len(followed) == 2


@pytest.mark.parametrize("follow_links", [False, True])
@pytest.mark.parametrize("link", ["before", "sub/linked", "tail"])
def test_a_folder_that_a_glob_matches_by_two_names_is_read_once(corpus, link, follow_links):
    """The second reading found nothing new, and was a reject."""
    document(corpus / "other" / "d.jsonl")
    (corpus / link).symlink_to(corpus / "other")
    found = list(expand(f"{corpus}/*/", None, follow_links=follow_links))
    assert [name.rpartition("/")[2] for name in sorted(names(found))] == ["b.jsonl", "d.jsonl"]
    assert len(found) == 2


@pytest.mark.parametrize("follow_links", [False, True])
@pytest.mark.parametrize("glob", ["", "**", "**/*.jsonl"])
def test_links_to_hidden_folders_within_a_folder_are_followed(corpus, glob, follow_links):
    """As in volumes of Kubernetes, whose documents were lost without a word."""
    document(corpus / "..2026" / "volume" / "d.jsonl")
    (corpus / "..data").symlink_to("..2026")
    (corpus / "volume").symlink_to("..data/volume")
    found = list(expand(str(corpus / glob), None, follow_links=follow_links))
    assert [name.rpartition("/")[2] for name in names(found)] == ["a.jsonl", "b.jsonl", "d.jsonl"]
    assert len(found) == 3


def test_folders_of_stores_are_named(corpus):
    """One file of that name hides all others of its folder."""
    document(corpus / "x" / "d.jsonl")
    write(corpus / "x" / "CURRENT", b"v3\n")
    *found, left_out = expand(str(corpus), None)
    assert names(found) == ["a.jsonl", "sub/b.jsonl"]
    assert files_left_out([left_out]) == [
        f"{corpus}: 1 folder was not read, as files of a store are there ({corpus}/x): documents beside "
        "these are read if you name it"
    ]
    assert names(list(expand(str(corpus / "x"), None))) == ["d.jsonl"]


@pytest.mark.parametrize("follow_links", [False, True])
@pytest.mark.parametrize("glob", ["", "**", "**/*.jsonl"])
def test_links_that_form_loops_come_to_an_end(corpus, glob, follow_links):
    for number in range(3):
        (corpus / f"loop{number}").symlink_to(corpus)
        (corpus / "sub" / f"loop{number}").symlink_to(corpus.parent)
    found = names(list(expand(str(corpus / glob), None, follow_links=follow_links)))
    ends = ["a.jsonl", "b.jsonl", "c.jsonl"] if follow_links else ["a.jsonl", "b.jsonl"]
    assert sorted(name.rpartition("/")[2] for name in found) == ends


@pytest.mark.parametrize("glob", ["", "*.jsonl"])
@pytest.mark.parametrize("follow_links", [False, True])
def test_a_chain_of_links_that_the_system_does_not_follow_is_a_reject(corpus, glob, follow_links):
    """Python called itself for each link."""
    for number in range(2_000):
        (corpus / f"{number:04}.jsonl").symlink_to(f"{number + 1:04}.jsonl")
    options = InputOptions(id_from="path", follow_links=follow_links)
    items = chain.from_iterable(Sources([str(corpus / glob)], options).chunks())
    assert sum(isinstance(each, SourceReject) for each in items) == 2_000


def test_a_deep_folder_takes_time_by_its_depth(corpus):
    """Not by the square, nor the third power, of it: half a minute."""
    folder = corpus
    for _ in range(1_500):
        folder /= "d"
        folder.mkdir()
    begun = process_time()
    found = names(list(expand(str(corpus), None)))
    took = process_time() - begun
    while folder != corpus:  # Python's removal of folders calls itself for each
        folder.rmdir()
        folder = folder.parent
    assert found == ["a.jsonl", "sub/b.jsonl"]
    assert took < 8


@pytest.mark.parametrize("below", ["", "**", "**/*.jsonl"])
def test_a_path_that_is_too_long_for_the_system_is_a_reject(corpus, below):
    folder = os.open(corpus, os.O_RDONLY)
    for _ in range(20):  # PATH_MAX is 4,096
        os.mkdir("d" * 250, dir_fd=folder)
        above, folder = folder, os.open("d" * 250, os.O_RDONLY, dir_fd=folder)
        os.close(above)
    os.close(folder)
    items = list(expand(str(corpus / below), None))
    assert [Path(name).name for name in names(items)] == ["a.jsonl", "b.jsonl"]
    (reject,) = (item for item in items if isinstance(item, SourceReject))
    assert reject.reason == "it cannot be opened: File name too long"


def test_a_folder_of_links_only_says_so(tmp_path):
    document(tmp_path / "blobs" / "0a")
    (tmp_path / "snapshot").mkdir()
    (tmp_path / "snapshot" / "a.jsonl").symlink_to("../blobs/0a")
    left_out, reject = expand(str(tmp_path / "snapshot"), None)
    assert isinstance(left_out, LeftOut)
    assert isinstance(reject, SourceReject)
    assert names(list(expand(str(tmp_path / "snapshot"), None, follow_links=True))) == ["a.jsonl"]


def test_a_link_that_is_given_itself_is_followed(corpus, tmp_path):
    (tmp_path / "link").symlink_to("corpus")
    (tmp_path / "link.jsonl").symlink_to("corpus/a.jsonl")
    assert names(list(expand(str(tmp_path / "link"), None))) == ["a.jsonl", "sub/b.jsonl"]
    assert len(names(list(expand(str(tmp_path / "link.jsonl"), None)))) == 1
    assert len(names(list(expand(f"{tmp_path}/link/*.jsonl", None)))) == 1


@pytest.mark.parametrize("follow_links", [False, True])
def test_nothing_of_proc_is_read(corpus, follow_links):
    (corpus / "x.jsonl").symlink_to("/proc/self/environ")
    (corpus / "proc").symlink_to("/proc")
    found = list(expand(str(corpus), None, follow_links=follow_links))
    assert names(found) == ["a.jsonl", "sub/b.jsonl"]
    (message,) = files_left_out([each for each in found if isinstance(each, LeftOut)])
    assert ("files of /proc and /sys were not read" in message) is follow_links
    (left_out, reject) = expand("/proc/self/task", "text")
    assert isinstance(reject, SourceReject)
    assert left_out.of_system == ("/proc/self/task",)  # type: ignore[union-attr]


@pytest.mark.parametrize("glob", ["*.jsonl", "**/*.jsonl", "*", "**"])
def test_a_pipe_that_a_glob_matches_is_not_waited_for(corpus, glob):
    os.mkfifo(corpus / "y.jsonl")
    rejects = [each.reason for each in expand(str(corpus / glob), None) if isinstance(each, SourceReject)]
    assert rejects == ["it is a pipe, socket or device: name it to read it"]


@pytest.fixture
def of_programs(corpus):
    document(corpus / "_note.jsonl")
    document(corpus / "_temporary" / "0" / "t.jsonl")
    document(corpus / "_day=1" / "d.jsonl")
    write(corpus / "_SUCCESS", b"")
    return corpus


@pytest.mark.parametrize(
    ("glob", "read_files", "skipped"),
    [
        ("*.jsonl", ["a"], {"_note.jsonl": 1}),
        ("*", ["d", "a", "b"], {"_note.jsonl": 1, "_temporary": 1}),
        ("*/*.jsonl", ["d", "b"], {}),
        ("*/*/*.jsonl", [], {"_temporary": 1}),
        ("**/*.jsonl", ["d", "a", "b"], {"_note.jsonl": 1, "_temporary": 1}),
        ("*[!l]", ["d", "b"], {"_temporary": 1}),
        ("_*.jsonl", ["_note"], {}),
        ("_temporary/*/*.jsonl", ["t"], {}),
        ("**/_temporary/*/*.jsonl", ["t"], {}),
    ],
)
@pytest.mark.parametrize("is_remote", [False, True])
def test_globs_skip_what_programs_keep_as_folders_do(of_programs, glob, read_files, skipped, is_remote):
    path = f"{of_programs}/{glob}"
    place = _Place(LocalFileSystem(skip_instance_cache=True), path, "x://", False, Unread())
    found = list(place.expand(None) if is_remote else expand(path, None))
    stems = [name.rpartition("/")[2].removesuffix(".jsonl") for name in names(found)]
    assert stems == read_files
    left_out = [each.of_programs for each in found if isinstance(each, LeftOut)]
    assert left_out == ([skipped] if skipped else [])
    assert any(isinstance(each, SourceReject) for each in found) == (not read_files)


def test_remote_links_are_named_and_not_read_unless_asked_for(corpus):
    (corpus / "x.jsonl").symlink_to("../secret/c.jsonl")
    (corpus / "linked").symlink_to("../secret")
    for follow_links in (False, True):
        place = _Place(LocalFileSystem(skip_instance_cache=True), str(corpus), "x://", follow_links, Unread())
        found = list(place.expand(None))
        assert names(found) == ["a.jsonl", *(["x.jsonl"] if follow_links else []), "sub/b.jsonl"]
        (left_out,) = (each for each in found if isinstance(each, LeftOut))
        assert len(left_out.links) == 2 - follow_links


def test_urls_of_local_files_are_paths(corpus):
    (corpus / "x.jsonl").symlink_to("../secret/c.jsonl")
    for scheme in ("file://", "local://"):
        assert names(list(expand_as(f"{scheme}{corpus}"))) == ["a.jsonl", "sub/b.jsonl"]


def expand_as(given: str) -> list[Listed]:
    return list(Sources([given], InputOptions())._found())


def test_a_glob_tells_what_it_cannot_list(corpus, monkeypatch):
    def scandir(path: Any) -> Any:
        if Path(path).name == "sub":
            raise PermissionError(13, "Permission denied", str(path))
        return scan(path)

    scan = os.scandir
    monkeypatch.setattr(os, "scandir", scandir)
    found = list(expand(str(corpus / "**" / "*.jsonl"), None))
    assert [each.reason for each in found if isinstance(each, SourceReject)] == [
        "it cannot be opened: Permission denied"
    ]


@pytest.mark.parametrize("glob", ["gone/*.jsonl", "a.jsonl/*", "sub/*.gone"])
def test_a_glob_that_names_nothing_is_one_reject(corpus, glob):
    (reject,) = expand(str(corpus / glob), None)
    assert isinstance(reject, SourceReject)
    assert reject.reason == "no file has a name like this"


def test_a_text_that_names_no_file_is_none(corpus):
    assert names_nothing("Is it * windy?")
    assert not names_nothing(f"{corpus}/*.jsonl")
