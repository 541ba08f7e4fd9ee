"""Rows that are cut or flipped, in every store: what they say must be missed by every operation."""

import random
from collections.abc import Callable, Sequence
from contextlib import closing, nullcontext
from dataclasses import dataclass

import numpy as np

from simhbase.admin.check import check
from simhbase.admin.migrate import migrate
from simhbase.errors import StoreFailed
from simhbase.fingerprint.batch import FingerprintBatch
from simhbase.index import Index, open_index
from simhbase.index.rows import document_key
from simhbase.stores import open_store
from simhbase.stores.base import Access, Cell, RecordTable
from tests.adversary.faults import Faults, lasting


@dataclass(frozen=True)
class Row:
    """One that may be damaged. named: as errors name it; operations: that must fail."""

    table: RecordTable
    key: bytes
    named: str
    operations: Sequence[str]


META = (
    Row("meta", b"profile", "profile", ("open", "check", "migrate")),
    Row("meta", b"muted", "mute", ("find", "claim", "check")),
)


def mutate(value: bytes, chance: random.Random) -> bytes:
    """With one bit flipped, or cut."""
    at = chance.randrange(len(value))
    if chance.random() < 0.3:
        return value[:at]
    return value[:at] + bytes([value[at] ^ 1 << chance.randrange(8)]) + value[at + 1 :]


def damage_a_row(faults: Faults, rows: Sequence[Row] = META) -> str:
    """Of meta, or of a document that no worker changes."""
    victim = faults.chance.choice(list(faults.victims))
    # A lookup without sketches needs no such row in a store that changes all tables in one step.
    document = Row("documents", document_key(victim), "documents", ("documents", "check"))
    row = faults.chance.choice([*rows, document])
    with faults.quiet():
        copied = copy_beside(faults)
        good = cell_of(faults.url, row)
        bad = good._replace(value=mutate(good.value, faults.chance))
        with faults.damaged(row.named):
            try:
                lasting(lambda: put(faults.url, row, bad))
                require_errors(faults, row.named, row.operations, victim, copied)
            finally:
                lasting(lambda: put(faults.url, row, good))
    return f"damage a row: {row.named}"


def cell_of(url: str, row: Row) -> Cell:
    def get() -> Cell | None:
        with closing(open_store(url, "read")) as store:
            (cell,) = store.records(row.table).get([row.key])
        return cell

    cell = lasting(get)
    assert cell is not None, f"there is no row {row.key!r}"
    return cell


def put(url: str, row: Row, cell: Cell) -> None:
    """With the same version; meta has none."""
    with closing(open_store(url, "write")) as store:
        store.records(row.table).put([(row.key, cell.value)], None if row.table == "meta" else cell.version)
        store.sync()


def copy_beside(faults: Faults) -> str:
    """A good copy, which a comparison with what is damaged must not delete from."""
    to = f"rocksdb:{faults.crew.folder / 'good-copy.db'}"
    lasting(lambda: migrate(faults.url, to))
    return to


def require_errors(
    faults: Faults,
    named: str,
    operations: Sequence[str],
    victim: str,
    copied: str,
    held: Index | None = None,
) -> None:
    """Each operation fails, and names what is damaged; the copy keeps all its documents. held: an index that
    was opened before the damage; otherwise each operation opens one."""
    value = faults.victims[victim]

    def on_index(call: Callable[[Index], object], access: Access = "read") -> Callable[[], object]:
        def made() -> object:
            with nullcontext(held) if held else open_index(faults.url, access=access) as index:
                return call(index)

        return made

    calls: dict[str, Callable[[], object]] = {
        "open": lambda: open_index(faults.url, access="read").close(),
        "open to write": lambda: open_index(faults.url).close(),
        "find": on_index(lambda index: index.find_fingerprints([value])),
        "documents": on_index(lambda index: index.fingerprints([victim])),
        "stored": on_index(lambda index: sum(1 for _ in index.stored())),
        "claim": on_index(lambda index: claimed(index, value), "write"),
        "delete": on_index(lambda index: index.delete([victim]), "write"),
        "check": lambda: checked(faults.url),
        "migrate": lambda: migrate(faults.url, copied, delete_missing=True),
    }
    before = documents_in(copied)
    for operation in operations:
        faults.require_error(operation, calls[operation], named)
    missing = before - documents_in(copied)
    assert not missing, f"{len(missing)} documents are gone from a copy, the first {min(missing)}"


def claimed(index: Index, value: int) -> str:
    (claim,) = index.claim_batch(["claimed/of/damaged"], bare(value)).claims
    return claim.outcome


def bare(value: int) -> FingerprintBatch:
    return FingerprintBatch.bare(np.array([value], np.uint64))


def checked(url: str) -> str:
    report = check(url)
    if not report.clean:
        raise StoreFailed(f"check: {dict(report.problems)}, {report.examples}")
    return "clean"


def documents_in(url: str) -> set[str]:
    with open_index(url, access="read") as index:
        return set(index)
