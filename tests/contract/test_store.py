"""What simhbase.stores.base.Store promises, for every store."""

from collections.abc import Callable

import numpy as np
import pytest

from simhbase.errors import StoreFailed
from simhbase.stores import create_store
from simhbase.stores.base import Store
from tests.contract.conftest import Backend

PREFIX = np.zeros((1, 5), dtype=np.uint8)
KEYS = np.zeros((1, 1, 13), dtype=np.uint8)


def test_a_store_knows_its_url(backend: Backend, store: Store) -> None:
    assert store.url == backend.url(0)


def test_a_moment_is_not_later_than_the_next(store: Store) -> None:
    assert isinstance(store.moment(), int)
    assert store.moment() <= store.moment()


def test_closing_twice_is_as_good_as_once(store: Store) -> None:
    store.close()
    store.close()


@pytest.mark.parametrize(
    "use",
    [
        lambda store: store.drawers.add(KEYS),
        lambda store: store.drawers.remove(KEYS, before=0),
        lambda store: store.drawers.contains(KEYS),
        lambda store: store.drawers.read(PREFIX, 1),
        lambda store: list(store.drawers.iterate()),
        lambda store: store.drawers.approximate_size(),
        lambda store: store.records("meta").put([(b"a", b"")]),
        lambda store: store.records("meta").get([b"a"]),
        lambda store: store.records("meta").delete([b"a"]),
        lambda store: store.records("meta").scan([b"a"], 1),
        lambda store: list(store.records("meta").iterate()),
        lambda store: store.records("meta").compare_and_set(b"a", None, b""),
        lambda store: store.records("meta").increment(b"a"),
        lambda store: store.records("meta").approximate_size(),
    ],
)
def test_use_after_closing_says_so(store: Store, use: Callable[[Store], object]) -> None:
    store.close()
    with pytest.raises(StoreFailed, match="closed"):
        use(store)


def test_refresh_and_sync_can_be_called_at_any_time(store: Store) -> None:
    store.refresh()
    store.sync()
    store.records("meta").put([(b"a", b"1")])
    store.refresh()
    store.sync()
    assert store.records("meta").get([b"a"]) == [b"1"]


def test_creating_what_exists_opens_it(lasting: Backend) -> None:
    store = lasting.fresh()
    store.records("meta").put([(b"a", b"1")])
    store.close()
    again = create_store(store.url)
    lasting.opened.append(again)
    assert again.records("meta").get([b"a"]) == [b"1"]
