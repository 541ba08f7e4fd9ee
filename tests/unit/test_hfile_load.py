"""Documents spooled to disk until they are loaded into HBase as HFiles."""

import numpy as np

from simhbase.fingerprint.batch import FingerprintBatch
from simhbase.jobs import hfiles


def prints(*values: int) -> FingerprintBatch:
    return FingerprintBatch.bare(np.array(values, dtype=np.uint64))


def test_spooled_documents_come_back_with_their_tags(tmp_path, monkeypatch):
    monkeypatch.setattr(hfiles, "PLANNED_AT_ONCE", 3)
    tagged = [(("tenant", "甲"),), (), (("source", "wire"), ("tenant", "b"))]
    spooled = hfiles._SpooledDocuments(tmp_path)
    spooled.append(["a", "b"], prints(1, 2), None)
    spooled.append(["新闻/1", "d", "e"], prints(3, 4, 5), tagged)
    spooled.append(["f"], prints(6), None)
    batches = list(spooled.batches())
    assert [batch.ids for batch in batches] == [["a", "b", "新闻/1", "d", "e"], ["f"]]
    assert [batch.values for batch in batches] == [[1, 2, 3, 4, 5], [6]]
    assert [batch.tags for batch in batches] == [[(), (), *tagged], None]
    spooled.close()
