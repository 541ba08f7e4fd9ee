"""Which settings of a PostgreSQL lose acknowledged writes."""

from __future__ import annotations

import pytest

from simhbase.stores.postgresql.durability import lossy

SOUND = {
    "fsync": "on",
    "full_page_writes": "on",
    "synchronous_commit": "on",
    "synchronous_standby_names": "ANY 1 (a, b)",
    "data_checksums": "on",
    "ignore_checksum_failure": None,  # only superusers may ask
    "zero_damaged_pages": "off",
}


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({}, []),
        ({"synchronous_commit": "remote_apply"}, []),
        ({"synchronous_commit": "local", "synchronous_standby_names": ""}, []),  # there is no standby
        ({"synchronous_commit": "local"}, ["synchronous_commit is local"]),
        ({"synchronous_commit": "remote_write"}, ["synchronous_commit is remote_write"]),
        ({"fsync": "off", "full_page_writes": "off"}, ["fsync is off", "full_page_writes is off"]),
        ({"data_checksums": "off"}, ["data_checksums is off"]),
        ({"ignore_checksum_failure": "on"}, ["ignore_checksum_failure is on"]),
        ({"zero_damaged_pages": "on"}, ["zero_damaged_pages is on"]),
    ],
)
def test_each_setting_that_may_lose_something_is_named(changed: dict[str, str], said: list[str]) -> None:
    """A sound server is not warned of."""
    found = lossy(SOUND | changed, [], [])
    assert [warning.partition(":")[0] for warning in found] == said
