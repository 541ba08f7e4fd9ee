"""A write, a move or a delete that stops between any two store calls, or in the middle of one."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
import pytest

from simhbase import records
from simhbase.check import Checker
from simhbase.filing import Filing, MinHashFiling, SimHashFiling
from simhbase.layout import layout
from simhbase.minhash import SketchForm, bands
from simhbase.prints import Prints
from simhbase.reader import Reader
from simhbase.records import State
from simhbase.stores import create_store
from simhbase.stores.base import Store
from simhbase.writer import Writer
from tests.content import content
from tests.stopping import Crash, Stopping

FORM = SketchForm(slots=32)
SCHEMES = {
    "simhash": SimHashFiling(layout("5x2"), k=3),
    "simhash, verified": SimHashFiling(layout("5x2"), k=3, form=FORM),
    "minhash": MinHashFiling(bands("4x8"), FORM, threshold=0.8),
}
F1, F2, F3, F4 = 0x0123456789ABCDEF, 0xFFFFFFFFFFFFFFFF, 0x8000000000000001, 0
BEFORE = {"a": F1, "b": F1, "c": F2, "z": F4}


@dataclass(frozen=True)
class Operation:
    """What is stopped; `after` is what an undisturbed run leaves."""

    name: str
    run: Callable[[Writer], object]
    after: dict[str, int]


def prints(filing: Filing, *fingerprints: int) -> Prints:
    """Fingerprints, each with a sketch of its own where the scheme keeps some."""
    size = filing.form.bytes if filing.form else 0
    sketches = [np.random.default_rng(value).integers(0, 256, size, np.uint8) for value in fingerprints]
    return Prints(
        np.array(fingerprints, dtype=np.uint64), np.array(sketches).reshape(len(fingerprints), size)
    )


def add(**documents: int) -> Callable[[Writer], object]:
    return lambda writer: writer.add(list(documents), prints(writer.filing, *documents.values()))


def delete(*ids: str) -> Callable[[Writer], object]:
    return lambda writer: writer.delete(list(ids))


OPERATIONS = [
    Operation("add", add(d=F3), BEFORE | {"d": F3}),
    Operation("add to a fingerprint with documents", add(d=F1), BEFORE | {"d": F1}),
    Operation("move the last document of a fingerprint", add(c=F3), BEFORE | {"c": F3}),
    Operation("move one of two documents", add(a=F3), BEFORE | {"a": F3}),
    Operation("move both documents", add(a=F2, b=F3), BEFORE | {"a": F2, "b": F3}),
    Operation("exchange fingerprints", add(a=F2, c=F1), BEFORE | {"a": F2, "c": F1}),
    Operation("move onto a neighbour", add(c=F1), BEFORE | {"c": F1}),
    Operation("delete the last document of a fingerprint", delete("c"), {"a": F1, "b": F1, "z": F4}),
    Operation("delete one of two documents", delete("a"), {"b": F1, "c": F2, "z": F4}),
    Operation("delete both documents", delete("a", "b", "none"), {"c": F2, "z": F4}),
    Operation(
        "add, move and keep at once",
        add(a=F2, b=F1, d=F3, e=F3),
        BEFORE | {"a": F2, "b": F1, "d": F3, "e": F3},
    ),
]


@pytest.fixture(params=SCHEMES)
def filing(request) -> Filing:
    return SCHEMES[request.param]


@pytest.fixture(params=["memory", "rocksdb"])
def new_store(request, tmp_path) -> Iterator[Callable[[], Store]]:
    opened = []

    def make() -> Store:
        url = "memory:" if request.param == "memory" else f"rocksdb:{tmp_path}/{len(opened)}"
        opened.append(create_store(url))
        return opened[-1]

    yield make
    for store in opened:
        store.close()


def undisturbed(
    new_store: Callable[[], Store], filing: Filing, documents: dict[str, int]
) -> dict[str, object]:
    store = new_store()
    add(**documents)(Writer(store, filing))
    return content(store)


def stopped(
    new_store: Callable[[], Store], filing: Filing, operation: Operation, *, torn: bool
) -> Iterator[tuple[Store, dict[str, object]]]:
    """Stores in which the operation stopped after 0, 1, 2 ... calls, with the rows it left."""
    for calls in range(100):
        store = new_store()
        add(**BEFORE)(Writer(store, filing))
        try:
            operation.run(Writer(Stopping(store, calls, torn=torn), filing))
        except Crash:
            yield store, content(store)
        else:
            assert calls > 3, "the operation is stopped at several places"
            return
    raise AssertionError("the operation never ends")


def assert_lookups_are_right(store: Store, filing: Filing, operation: Operation) -> None:
    """What the operation leaves alone is found, what it changes is found as it was or as it will be."""
    lookups = Reader(store, filing).find(prints(filing, F1, F2, F3, F4))
    found = {(match.id, match.fingerprint) for lookup in lookups for match in lookup.matches}
    before, after = set(BEFORE.items()), set(operation.after.items())
    assert before & after <= found <= before | after
    for document in BEFORE.keys() & operation.after.keys():
        assert any(document == match for match, _ in found), f"{document} is not found at all"


pytestmark = pytest.mark.parametrize("operation", OPERATIONS, ids=lambda operation: operation.name)


@pytest.mark.parametrize("torn", [False, True], ids=["between calls", "within a call"])
def test_repeating_a_stopped_operation_ends_as_if_it_had_not_stopped(new_store, filing, operation, torn):
    expected = undisturbed(new_store, filing, operation.after)
    for store, _ in stopped(new_store, filing, operation, torn=torn):
        assert_lookups_are_right(store, filing, operation)
        operation.run(Writer(store, filing))
        assert content(store) == expected
        assert_lookups_are_right(store, filing, operation)


@pytest.mark.parametrize("torn", [False, True], ids=["between calls", "within a call"])
def test_repair_finishes_a_stopped_operation(new_store, filing, operation, torn):
    """Every document ends as it was, if its row had not been written yet, or as it was meant to be."""
    for store, left in stopped(new_store, filing, operation, torn=torn):
        meant = {
            records.document_id(key): entry.fingerprint
            for key, entry in left["documents"].items()
            if entry.state != State.DELETING
        }
        writer = Writer(store, filing)
        Checker(store, filing, writer).check()
        assert content(store) == undisturbed(new_store, filing, meant)
        assert not Checker(store, filing).check().problems


def test_any_other_operation_on_the_same_documents_finishes_a_stopped_one(new_store, filing, operation):
    ids = ["a", "b", "c", "d", "e"]
    for store, _ in stopped(new_store, filing, operation, torn=False):
        writer = Writer(store, filing)
        writer.add(ids, prints(filing, F4, F3, F4, F2, F2))
        expected = {"a": F4, "b": F3, "c": F4, "d": F2, "e": F2, "z": F4}
        assert content(store) == undisturbed(new_store, filing, expected)
    for store, _ in stopped(new_store, filing, operation, torn=False):
        Writer(store, filing).delete(ids)
        assert content(store) == undisturbed(new_store, filing, {"z": F4})
