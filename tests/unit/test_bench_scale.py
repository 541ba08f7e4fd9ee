"""A small run of scripts/bench scale."""

import pytest

from tests.bench import scale


@pytest.mark.slow
def test_a_store_grows_beside_what_was_planned(tmp_path, monkeypatch):
    monkeypatch.setattr(scale, "STEP", 400)
    monkeypatch.setattr(scale, "SAMPLE", 2000)
    monkeypatch.setattr(scale, "ASKED", 20)
    found = scale.grown([300, 1000], tmp_path)
    assert list(found) == list(scale.LAYOUTS)
    assert all(list(by_size) == [300, 1000] for by_size in found.values())
    planned = [by_size[1000]["planned bytes a document"] for by_size in found.values()]
    assert planned[0] > planned[1]
    scale.draw(found, tmp_path / "scale.svg")
    assert b"2x1p1, planned" in (tmp_path / "scale.svg").read_bytes()


def test_documents_do_not_depend_on_where_a_load_begins(monkeypatch):
    monkeypatch.setattr(scale, "STEP", 100)

    def documents(start, stop):
        return [value for _, values in scale._documents(start, stop) for value in values.tolist()]

    assert documents(0, 150) + documents(150, 350) == documents(0, 350)
    assert len(set(documents(0, 350))) > 340
