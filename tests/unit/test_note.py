"""The note in a store's folder, as strangers may have written it."""

import zlib
from pathlib import Path

import pytest

from simhbase.errors import StoreFailed
from simhbase.stores.rocksdb.note import NOTE, require_as_noted


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"[]",
        b"null",
        b"[" * 100_000,
        b'{"a": 1}',
        b'{"place": "x", "files": null}',
        b'{"place": null, "files": ["CURRENT"]}',
        b'{"place": null, "files": {"CURRENT": [%s, 1]}}' % (b"9" * 5_000),
    ],
    ids=["empty", "list", "null", "deep", "names", "place", "files", "size"],
)
def test_a_note_of_another_form_is_damage(tmp_path: Path, body: bytes) -> None:
    (tmp_path / NOTE).write_bytes(b"%d\n%s" % (zlib.crc32(body), body))
    with pytest.raises(StoreFailed, match=f"its file {NOTE} is damaged"):
        require_as_noted("rocksdb:here", tmp_path)
