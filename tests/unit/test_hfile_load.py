"""Documents that are put aside on disk until they are handed to HBase as files."""

import numpy as np

from simhbase.fingerprint.batch import FingerprintBatch
from simhbase.jobs import hfiles


def prints(*values: int) -> FingerprintBatch:
    return FingerprintBatch.bare(np.array(values, dtype=np.uint64))


def test_what_was_put_aside_comes_back_with_its_tags(tmp_path, monkeypatch):
    monkeypatch.setattr(hfiles, "PLANNED_AT_ONCE", 3)
    tagged = [(("tenant", "甲"),), (), (("source", "wire"), ("tenant", "b"))]
    aside = hfiles._Aside(tmp_path)
    aside.put(["a", "b"], prints(1, 2), None)
    aside.put(["新闻/1", "d", "e"], prints(3, 4, 5), tagged)
    aside.put(["f"], prints(6), None)
    batches = list(aside.batches())
    assert [batch.ids for batch in batches] == [["a", "b", "新闻/1", "d", "e"], ["f"]]
    assert [batch.values for batch in batches] == [[1, 2, 3, 4, 5], [6]]
    assert [batch.tags for batch in batches] == [[(), (), *tagged], None]
    aside.close()
