"""What a store that many processes write holds, and holds after a day when nobody has written any more."""

from collections.abc import Mapping

import numpy as np

from simhbase.admin.check import Checker, CheckReport
from simhbase.admin.vacuum import DAY, Vacuum, VacuumReport
from simhbase.drawers.scheme import Scheme
from simhbase.index import open_index
from simhbase.profile.profile import Profile
from simhbase.stores.base import Store, now
from tests.content import content


def in_two_days() -> int:
    """A clock by which all that is stored is old, also what a clock that was an hour ahead has written."""
    return now() + 2 * DAY * 1000


def vacuumed(store: Store, scheme: Scheme) -> VacuumReport:
    """A vacuum of everything that is obsolete."""
    return Vacuum(store, scheme, clock=in_two_days).run()


def repaired(store: Store, scheme: Scheme) -> CheckReport:
    """A repair that removes all garbage, too."""
    return Checker(store, scheme, repair=True, clock=in_two_days).check()


def rows_of(store: Store) -> dict[str, object]:
    """What is in the tables of documents."""
    found = content(store)
    del found["meta"]  # a profile names the moment when its tables were made
    obsolete = [key for batch in store.records("obsolete").iterate() for key, _ in batch]
    return {**found, "obsolete": obsolete}


def rows_for(
    profile: Profile, documents: dict[str, int], tags: Mapping[str, str] | None = None
) -> dict[str, object]:
    """What they hold where these documents, with these tags, were written once, and nothing else."""
    with open_index("memory:", create=profile) as index:
        values = np.fromiter(documents.values(), np.uint64)
        index.add_fingerprints(list(documents), values, [tags or {}] * len(documents))
        found = content(index.store)
    del found["meta"]
    return {**found, "obsolete": []}
