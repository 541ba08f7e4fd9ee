"""Claims: what every store promises. tests/property/test_claims.py has all interleavings of the protocol."""

import asyncio
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import combinations
from typing import cast

import numpy as np
import pytest

import simhbase
from simhbase import Document, Index, Profile
from simhbase.admin.vacuum import DAY, Vacuum
from simhbase.errors import Conflict, ReadOnly, UsageError
from simhbase.fingerprint.batch import FingerprintBatch
from simhbase.index.claims.batch import ClaimBatch, ClaimContext, ClaimKind
from simhbase.index.claims.selection import FOLLOWED
from simhbase.index.rows import BATCH_ROWS, BEHIND_BATCH_ROWS, document_key
from simhbase.stores.base import HintingStore
from tests.claiming import claims_of
from tests.contract.conftest import Backend

BRIDGE = "The council has decided to build a new bridge across the river."
SHOUTED = "THE COUNCIL has decided, to build a new bridge across the river!"
OTHER = "Quite another text, with many words that the first one does not have at all."
WORKERS = 4


@pytest.fixture
def index(backend: Backend) -> Iterator[Index]:
    with simhbase.open(backend.url(0), create=Profile(verify=False)) as opened:
        yield opened


def batch(values: list[int]) -> FingerprintBatch:
    return FingerprintBatch.bare(np.array(values, dtype=np.uint64))


def test_the_first_of_two_near_texts_is_accepted(index):
    first, second = index.claim("a", BRIDGE), index.claim("b", SHOUTED)
    assert (first.outcome, first.match) == ("accepted", None)
    assert (second.outcome, second.match.id, second.match.distance) == ("duplicate", "a", 0)
    assert [match.id for match in index.find(BRIDGE).matches] == ["a"]


def test_a_repeated_claim_gets_the_same_answer(index):
    assert [index.claim("a", BRIDGE).outcome for _ in range(3)] == ["accepted"] * 3
    assert [index.claim("b", SHOUTED).outcome for _ in range(3)] == ["duplicate"] * 3


def test_a_claim_of_an_id_with_another_text_is_a_conflict_and_changes_nothing(index):
    index.add([Document("a", BRIDGE)])
    with pytest.raises(Conflict, match="'a': another text is stored under this id"):
        index.claim("a", OTHER)
    assert index.find(OTHER).matches == ()
    assert [match.id for match in index.find(BRIDGE).matches] == ["a"]


def test_texts_without_features_and_bad_ids_are_rejected_and_the_others_claimed(index):
    documents = [
        Document("a", BRIDGE),
        Document("empty", ""),
        Document("", OTHER),
        Document("b", SHOUTED),
        Document("a", OTHER),
        Document("c", OTHER),
    ]
    claims = index.claim_many(documents)
    assert [claim.outcome for claim in claims] == [
        "accepted",
        "rejected",
        "rejected",
        "duplicate",
        "rejected",
        "accepted",
    ]
    assert [claim.id for claim in claims] == [document.id for document in documents]
    assert claims[1].reason == "the text is empty"
    assert claims[2].reason == "the id is empty"
    assert "earlier" in claims[4].reason


def test_a_deleted_document_is_no_obstacle_and_its_id_can_be_claimed_again(index):
    index.claim("a", BRIDGE)
    index.delete(["a"])
    assert index.claim("b", SHOUTED).accepted
    index.delete(["b"])
    assert index.claim("a", BRIDGE).accepted


def test_a_batch_is_decided_as_if_its_documents_came_one_after_the_other(index):
    middle = 0x0123456789ABCDEF
    values = [middle ^ 0b111, middle, middle ^ 0b111 << 40, ~middle & (1 << 64) - 1]
    claims = index.claim_batch(["low", "middle", "high", "far"], batch(values)).claims
    assert [claim.outcome for claim in claims] == ["accepted", "duplicate", "accepted", "accepted"]
    assert claims[1].match.id == "low"


def test_many_copies_in_one_batch_are_duplicates_of_the_first(index):
    ids = [f"copy/{number}" for number in range(200)]
    claims = index.claim_batch(ids, batch([7] * 200)).claims
    assert [claim.accepted for claim in claims] == [True] + [False] * 199
    assert {claim.match.id for claim in claims[1:]} == {"copy/0"}


def test_a_replacing_claim_moves_a_document_and_a_duplicate_leaves_it_as_it_was(index):
    values = [0, (1 << 64) - 1, 0x0F0F0F0F0F0F0F0F]
    index.add_fingerprints(["a", "b"], values[:2])
    claimed = index.claim_batch(["a", "b"], batch([values[2], values[2]]), replacing=True)
    assert [claim.outcome for claim in claimed.claims] == ["accepted", "duplicate"]
    assert (claimed.report.added, claimed.report.updated) == (0, 1)
    assert index.fingerprints(["a", "b"]) == [values[2], values[1]]
    assert [lookup.matches == () for lookup in index.find_fingerprints([values[0]])] == [True]


def test_threads_that_claim_near_texts_never_both_keep_them(index):
    generator = np.random.default_rng(1)
    centres = generator.integers(0, 2**63, 6, dtype=np.uint64)
    flips = [0, 1, 1 << 20, 1 << 41, 0b11, 0b1111 << 50]

    def work(worker: int) -> list[bool]:
        order = generator.permutation(len(centres) * len(flips)) if worker == 0 else range(36)
        answers = []
        for number in order:
            value = int(centres[number // 6]) ^ flips[number % 6]
            (claim,) = index.claim_batch([f"{worker}/{number}"], batch([value])).claims
            answers.append(claim.accepted)
        return answers

    with ThreadPoolExecutor(WORKERS) as pool:
        answers = list(pool.map(work, range(WORKERS)))
    ids = [f"{worker}/{number}" for worker in range(WORKERS) for number in range(36)]
    stored = [value for value in index.fingerprints(ids) if value is not None]
    assert sum(map(sum, answers)) == len(stored)
    assert all((one ^ other).bit_count() > 3 for one, other in combinations(stored, 2))
    assert all(lookup.matches for lookup in index.find_fingerprints(centres))


def test_tasks_of_asyncio_claim_as_threads_do(index):
    async def claim_all() -> list[simhbase.Claim]:
        several = index.aclaim_many([Document("empty", ""), Document("c", OTHER)])
        both = await asyncio.gather(index.aclaim("a", BRIDGE), index.aclaim("b", SHOUTED), several)
        return [both[0], both[1], *both[2]]

    claims = asyncio.run(claim_all())
    assert sorted(claim.outcome for claim in claims[:2]) == ["accepted", "duplicate"]
    assert [claim.outcome for claim in claims[2:]] == ["rejected", "accepted"]
    with pytest.raises(Conflict, match="'c': another text"):
        asyncio.run(index.aclaim("c", BRIDGE))


def test_claims_take_no_other_time_than_a_number_of_seconds_and_need_a_writer(index):
    for timeout in (-1, float("nan"), "soon", True):
        with pytest.raises(UsageError, match="timeout"):
            index.claim("a", BRIDGE, timeout)
    index.access = "read"
    with pytest.raises(ReadOnly):
        index.claim("a", BRIDGE)


class Died(Exception):
    pass


def test_a_batch_row_that_grows_old_decides_until_vacuum_takes_it(hinting: Backend, monkeypatch):
    accepted, open_ = 0x0123456789ABCDEF, 0xFEDCBA9876543210
    url = hinting.url(0)
    with simhbase.open(url, create=Profile(verify=False)) as index:
        scheme = index.profile.index_scheme
        context = ClaimContext(cast(HintingStore, index.store), scheme, index.clock, lease=0.1)
        meta = index.store.records("meta")

        def dies_before(step: str, document: str, value: int) -> None:
            def die(_: ClaimBatch, *places: Sequence[int]) -> None:
                if places != ([],):
                    raise Died

            with monkeypatch.context() as patch:
                patch.setattr(ClaimBatch, step, die)
                with pytest.raises(Died):
                    claims_of(context, [document], batch([value]), ClaimKind(scheme.bounds(None, None)))

        def batch_rows() -> int:
            return sum(map(len, meta.iterate(BATCH_ROWS, BEHIND_BATCH_ROWS)))

        dies_before("_commit", "accepted", accepted)
        dies_before("step", "open", open_)
        # Who meets them commits what the first has accepted, and ends the second, which has decided nothing.
        claims = index.claim_batch(["b", "c"], batch([accepted ^ 1, open_ ^ 1])).claims
        assert [(claim.outcome, claim.match and claim.match.id) for claim in claims] == [
            ("duplicate", "accepted"),
            ("accepted", None),
        ]
        assert index.fingerprints(["accepted", "open", "b", "c"]) == [accepted, None, None, open_ ^ 1]
        index.claimer.close()  # cleans up
        assert batch_rows() >= 2  # more where the test has failed before
        Vacuum(index.store, scheme, DAY, lambda: index.clock() + 3 * DAY * 1000).run()
        assert batch_rows() == 0
        assert context.store.document_cells.get([document_key("open")]) == [{}]
        assert index.fingerprints(["accepted", "open", "c"]) == [accepted, None, open_ ^ 1]
    with simhbase.open(url) as index:
        claims = index.claim_batch(["d", "open"], batch([accepted ^ 2, open_ ^ 2])).claims
        assert [claim.match and claim.match.id for claim in claims] == ["accepted", "c"]


def test_annotating_ends_where_many_sketches_of_one_fingerprint_differ(backend):
    """It asked for longer and longer listings of what was not followed, for ever."""
    with simhbase.open(backend.url(0), create="default") as index:
        text = f"{BRIDGE} {OTHER}"
        index.add([Document("z", text)])
        value = int(index["z"].fingerprint)
        near = index.fingerprinter.fingerprint_many([text]).fingerprints
        sketches = np.random.default_rng(0).integers(
            0, 256, (FOLLOWED + 10, near.sketches.shape[1]), np.uint8
        )
        ids = [f"a{number}" for number in range(len(sketches))]
        index.add_batch(ids, FingerprintBatch(np.full(len(ids), value, np.uint64), sketches))
        (claim,) = index.claim_many([Document("y", text)], mode="annotate")
        assert [match.id for match in claim.also_at] == ["z"]
        assert index.claim("x", text).match is not None
