"""Documents spooled to disk until they are loaded into HBase as HFiles, and manifests of HFiles."""

from base64 import b64encode

import numpy as np
import pytest

from simhbase.errors import BadInput
from simhbase.fingerprint.batch import FingerprintBatch
from simhbase.index.writer import DocumentBatch
from simhbase.loads import hfiles
from simhbase.loads.hfile_input import FORMAT, HFileInput, TableFiles
from simhbase.stores.hbase.hfiles import HFile


def prints(*values: int) -> FingerprintBatch:
    return FingerprintBatch.bare(np.array(values, dtype=np.uint64))


def test_spooled_documents_come_back_with_their_tags(tmp_path, monkeypatch):
    monkeypatch.setattr(hfiles, "PLANNED_AT_ONCE", 3)
    tagged = [(("tenant", "甲"),), (), (("source", "wire"), ("tenant", "b"))]
    spooled = hfiles._SpooledDocuments(tmp_path)
    spooled.append(DocumentBatch(["a", "b"], prints(1, 2)))
    spooled.append(DocumentBatch(["新闻/1", "d", "e"], prints(3, 4, 5), tagged))
    spooled.append(DocumentBatch(["f"], prints(6)))
    batches = list(spooled.batches())
    assert [batch.ids for batch in batches] == [["a", "b", "新闻/1", "d", "e"], ["f"]]
    assert [batch.values for batch in batches] == [[1, 2, 3, 4, 5], [6]]
    assert [batch.tags for batch in batches] == [[(), (), *tagged], None]
    spooled.close()


MADE = HFileInput("hbase:x", "digest", 1, 2, 3, 4, 5, 6, ("a", "新闻/1"), {"index": TableFiles(7, ())})


def of_file(content: bytes) -> bytes:
    return MADE.encode().replace(b'"files":[]', b'"files":[%b]' % content)


def test_a_manifest_comes_back_as_it_was_written():
    files = (HFile("name", 3, (b"\xff\0", b"b")),)
    for manifest in (MADE, HFileInput(**vars(MADE) | {"tables": {"documents": TableFiles(8, files)}})):
        assert HFileInput.decode(manifest.encode(), "folder") == manifest


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"{", "folder/manifest.json is not a manifest of HFiles"),
        (b"[]", "is not a manifest of HFiles"),
        (MADE.encode().replace(b'"rejected":6', b'"rejected":"x"'), "is not a manifest of HFiles"),
        (MADE.encode().replace(b'"begun":2', b'"begun":%d' % 10**400), "is not a manifest of HFiles"),
        (MADE.encode().replace(b'"files":[]', b'"files":[5]'), "is not a manifest of HFiles"),
        (of_file(b'{"name":"x","rows":1,"samples":[]}'), "is not a manifest of HFiles"),
        (of_file(b'{"name":"x","rows":1,"samples":["AAAA"]}'), "is not a manifest of HFiles"),
        (of_file(b'{"name":"x","rows":-1,"samples":["%b"]}' % b64encode(bytes(13))), "is no"),
        (
            MADE.encode().replace(b'"format":%d' % FORMAT, b'"format":2'),
            "folder was written by another version",
        ),
    ],
)
def test_what_is_no_manifest_or_another_version_s_is_told(content, reason):
    with pytest.raises(BadInput, match=reason):
        HFileInput.decode(content, "folder")
