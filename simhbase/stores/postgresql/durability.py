"""Settings of a PostgreSQL by which acknowledged writes may be lost, or damage be read as nothing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from simhbase.stores.postgresql.client import Client

_NAMES = (
    "fsync",
    "full_page_writes",
    "synchronous_commit",
    "synchronous_standby_names",
    "data_checksums",
    "ignore_checksum_failure",
    "zero_damaged_pages",
)
# Parameters: names of settings, and of the schema. Who may not see a standby's state sees that there is one.
_QUESTION = """
    SELECT
        ARRAY(SELECT ARRAY[name, current_setting(name, true)] FROM unnest(%b::text[]) AS name),
        ARRAY(
            SELECT coalesce(nullif(application_name, ''), 'a standby') FROM pg_stat_replication AS standby
            WHERE coalesce(state, 'streaming') <> 'backup'
                AND coalesce(sync_state, 'async') IN ('async', 'potential')
                AND NOT EXISTS (
                    SELECT FROM pg_replication_slots WHERE active_pid = standby.pid AND slot_type = 'logical'
                )
            ORDER BY 1
        ),
        ARRAY(
            SELECT relname::text FROM pg_class JOIN pg_namespace ON pg_namespace.oid = relnamespace
            WHERE nspname = %b::text AND relkind = 'r' AND relpersistence = 'u' ORDER BY 1
        )"""
# A setting, its value, and what may happen.
_LOSSY = (
    ("fsync", "off", "when the machine crashes, the database may be damaged or empty. Set fsync = on"),
    (
        "full_page_writes",
        "off",
        "when the machine crashes, pages that were half written are damaged. Set full_page_writes = on",
    ),
    (
        "data_checksums",
        "off",
        "a page that the disk has damaged is read as it is. Switch checksums on with pg_checksums --enable",
    ),
    (
        "ignore_checksum_failure",
        "on",
        "a page that the disk has damaged is read as it is. Set ignore_checksum_failure = off",
    ),
    (
        "zero_damaged_pages",
        "on",
        "a damaged page is read as an empty one, without an error. Set zero_damaged_pages = off",
    ),
)
# With synchronous standbys: a setting of synchronous_commit, and what may happen.
_UNCONFIRMED = {
    "local": "no standby is waited for: a failover loses what was acknowledged shortly before",
    "remote_write": "a standby confirms before it is on its disk: a failover to one whose machine crashed, "
    "too, loses what was acknowledged shortly before",
}


def warnings(client: Client) -> Sequence[str]:
    """What may be lost and by which setting, for the administrator."""
    doing = "asking for the settings of"
    ((settings, standbys, unlogged),) = client.rows(doing, _QUESTION, [list(_NAMES), client.address.schema])
    return lossy(dict(settings), standbys, unlogged)


def lossy(settings: Mapping[str, str | None], standbys: Sequence[str], unlogged: Sequence[str]) -> list[str]:
    """standbys: that are not waited for; unlogged: tables that a crash empties."""
    found = [f"{name} is {bad}: {risk}" for name, bad, risk in _LOSSY if settings[name] == bad]
    commit = settings["synchronous_commit"] or ""
    if settings["synchronous_standby_names"] and commit in _UNCONFIRMED:
        found.append(f"synchronous_commit is {commit}: {_UNCONFIRMED[commit]}. Set synchronous_commit = on")
    if standbys:
        found.append(
            f"{', '.join(standbys)} follows later: a failover to it loses what was acknowledged shortly "
            "before. Name it in synchronous_standby_names"
        )
    if unlogged:
        found.append(
            f"{', '.join(unlogged)}: a crash of the server empties unlogged tables. Use ALTER TABLE ... SET "
            "LOGGED"
        )
    return found
