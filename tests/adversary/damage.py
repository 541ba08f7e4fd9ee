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

CHECKED = "check: "  # begins the error of a check that has found problems
LEFT_OUT = "migrate: rows were left out"  # a migration tells so, and deletes nothing for their sake


@dataclass(frozen=True)
class Row:
    """One that may be damaged. named: as errors and checks name it; operations: that must fail."""

    table: RecordTable
    key: bytes
    named: str
    operations: Sequence[str]


def meta_row(name: str, remedy: str, *operations: str) -> Row:
    named = rf"the row '{name}' of the table meta of \S+ is damaged: its checksum differs\. {remedy}"
    counted = rf"{CHECKED}.*rows of the table meta.*'{name}': {remedy}"
    return Row("meta", name.encode(), f"{named}|{counted}", (*operations, "check"))


def document_row(document: str) -> Row:
    """A lookup without sketches needs no such row in a store that changes all tables in one step."""
    key = document_key(document)
    named = rf"the row of the document '{document}' in the table documents is damaged: its checksum differs"
    counted = rf"{CHECKED}.*unreadable rows.*documents {key.hex()}"
    named = f"{named}|{counted}|{LEFT_OUT}"
    return Row("documents", key, named, ("documents", "stored", "migrate", "check"))


META = (
    meta_row("profile", "Restore the store from a copy", "open", "open to write", "migrate"),
    meta_row("muted", "'simhbase check --repair' removes the list", "find", "claim"),
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
    row = faults.chance.choice([*rows, document_row(victim)])
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
    return f"damage a row: {row.key.decode() if row.table == 'meta' else row.table}"


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
    """Each operation fails, and names what is damaged; the copy keeps all documents that no worker changes.
    held: an index that was opened before the damage; otherwise each operation opens one."""
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
        "migrate": lambda: migrated(faults.url, copied),
    }
    for operation in operations:
        faults.require_error(operation, calls[operation], named)
    missing = faults.victims.keys() - documents_in(copied)
    assert not missing, f"{len(missing)} documents are gone from a copy, the first {min(missing)}"


def claimed(index: Index, value: int) -> str:
    (claim,) = index.claim_batch(["claimed/of/damaged"], bare(value)).claims
    return claim.outcome


def bare(value: int) -> FingerprintBatch:
    return FingerprintBatch.bare(np.array([value], np.uint64))


def checked(url: str) -> str:
    report = check(url)
    if not report.clean:
        raise StoreFailed(f"{CHECKED}{dict(report.problems)}, {report.examples}")
    return "clean"


def migrated(url: str, to: str) -> str:
    report = migrate(url, to, delete_missing=True)
    if report.unreadable_rows:
        raise StoreFailed(f"{LEFT_OUT}: {report.unreadable_rows}")
    return str(report)


def documents_in(url: str) -> set[str]:
    with open_index(url, access="read") as index:
        return set(index)
