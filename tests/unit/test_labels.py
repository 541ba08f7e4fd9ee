import bz2
import gzip
import lzma

import pytest
import zstandard

from simhbase.errors import BadInput
from simhbase.quality.labels import Labels, labelled_pairs, read_labels
from simhbase.quality.sample import Sample
from simhbase.text.jaccard import shingle_sets


@pytest.mark.parametrize(
    ("lines", "similarity"),
    [
        ("a\tb\nc\td\n", None),
        ("0.9\ta\tb\n0.8\tc\td\n", [0.9, 0.8]),
        ("0.9\t1\t3\t4\ta\tb\t0\n0.8\t1\t3\t4\tc\td\t1\n", [0.9, 0.8]),
        ("id_b\tother\tid_a\nb\tx\ta\nd\ty\tc\n", None),
        ("jaccard\tid_a\tid_b\r\n0.9\ta\tb\r\n\r\n0.8\tc\td\r\n", [0.9, 0.8]),
    ],
)
def test_pairs_are_read_with_and_without_a_header(tmp_path, lines, similarity):
    path = tmp_path / "pairs.tsv"
    path.write_text(lines)
    labels = read_labels(path)
    assert (labels.left, labels.right) == (["a", "c"], ["b", "d"])
    assert (None if labels.jaccard is None else labels.jaccard.tolist()) == similarity


@pytest.mark.parametrize("compress", [gzip.compress, zstandard.compress, bz2.compress, lzma.compress])
def test_pairs_are_read_from_a_compressed_file(tmp_path, compress):
    path = tmp_path / "pairs.tsv"
    path.write_bytes(compress(b"a\tb\n") + compress(b"c\td\n"))
    assert read_labels(path).ids == ["a", "b", "c", "d"]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "has no pairs"),
        (b"only one column\n", "line 1: 1 columns"),
        (b"a\tb\nc\n", "line 2: 'c' does not have the columns"),
        (b"0.5\ta\tb\nhigh\tc\td\n", "line 2: 'high"),
        (b"0.5\ta\tb\n7\tc\td\n", "line 2: '7"),
        (b"0.5\ta\tb\n0.5\tb\ta\n0.4\tb\ta\n", "line 3: 'b' and 'a' have another similarity"),
        (b"id_a\tid_b\tid_a\na\tb\tc\n", "its header names id_a twice"),
        (b"\x80\x81", "pairs.tsv is not UTF-8 at byte 0"),
        (
            gzip.compress(b"a\tb\n", mtime=0)[:-9],
            "pairs.tsv cannot be read: its gzip data ends in the middle",
        ),
        (zstandard.compress(b"a\tb\n")[:-2], "pairs.tsv"),
    ],
)
def test_a_file_that_is_none_is_refused_with_what_is_wrong(tmp_path, content, message):
    path = tmp_path / "pairs.tsv"
    path.write_bytes(content)
    with pytest.raises(BadInput, match=message):
        read_labels(path)


def test_lines_end_where_those_of_files_do(tmp_path):
    """An id may hold what Python takes for the end of a line."""
    path = tmp_path / "pairs.tsv"
    path.write_bytes("a\u2028b\tc\r\nd\x85\te\r\n".encode())
    assert read_labels(path).ids == ["a\u2028b", "c", "d\x85", "e"]


def test_a_line_may_be_long(tmp_path):
    """As those of a corpus are, which somebody gives for its pairs."""
    path = tmp_path / "pairs.tsv"
    path.write_text('{"text": "' + 200_000 * "x" + '"}\n')
    with pytest.raises(BadInput, match="line 1: 1 columns"):
        read_labels(path)
    path.write_text(f"id_a\tid_b\ttext\na\tb\t{200_000 * 'x'}\n")
    assert read_labels(path).ids == ["a", "b"]


def test_unknown_ids_are_named():
    labels = Labels("pairs.tsv", ["a", "nobody"], ["b", "a"], None)
    with pytest.raises(
        BadInput, match=r"pairs\.tsv names 1 ids of 3 that are not among the documents: 'nobody'"
    ):
        labels.places(Sample.of_all(["a", "b"]))


def test_labelled_pairs_get_their_exact_similarity_and_count_once():
    sample = Sample.of_all(["a", "b", "c"])
    labels = Labels("pairs.tsv", ["b", "a", "c"], ["a", "b", "c"], None)
    found = labelled_pairs(labels, sample, shingle_sets(["abcd", "abcde", "xyz"]))
    assert (found.left.tolist(), found.right.tolist()) == ([0], [1])
    assert found.score.tolist() == [pytest.approx(2 / 3)]
