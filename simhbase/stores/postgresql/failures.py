"""Which failures of PostgreSQL and of connection poolers pass, and what to do about the others."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path

import psycopg
from psycopg.pq.abc import PGconn

from simhbase.errors import SimhbaseError, StoreBusy, StoreFailed, StoreUnreachable, TablesMissing
from simhbase.model.urls import without
from simhbase.process.plain_files import open_plain
from simhbase.stores.postgresql.url import Address

# Who refuses a connection says why in words only; these reasons pass.
_PASSING = (
    "starting up",
    "shutting down",
    "recovery",
    "too many",  # clients, or connections of a role or database; in Odyssey active clients of a pool
    "remaining connection slots",
    "terminating connection",
    "out of memory",
    # of PgBouncer
    "no more connections allowed",
    "client connections exceeded",
    "query_wait_timeout",
    "client_login_timeout",
    "server login has been failing",
    "admin forced disconnect",
    "suspend_timeout",
    "resources exhaustion",
    "is disabled",
    # of PgCat
    "could not get connection from the pool",
    "Pool down",
    # of Odyssey
    "failed to connect to remote server",
    "failed to get remote server connection",
    "dropped by Odyssey",
    "killed by Odyssey",
    "replication lag",
)
# Of TLS: these do not pass.
_INSECURE = ("does not support SSL", "certificate")
# Of PgBouncer, where it gives each statement to another session.
_PER_STATEMENT = "statement pooling"
_POOLING = "Use session pooling (PgBouncer: pool_mode = session)"
# States of a statement that failed for others' sake, or for the connection's; 08P01 is a fault of ours.
_PASSING_STATES = {
    "08000": "connection_exception",
    "08001": "sqlclient_unable_to_establish_sqlconnection",
    "08003": "connection_does_not_exist",
    "08004": "sqlserver_rejected_establishment_of_sqlconnection",
    "08006": "connection_failure",
    "08007": "transaction_resolution_unknown",
    "40001": "serialization_failure",
    "40003": "statement_completion_unknown",
    "40P01": "deadlock_detected",
    "53300": "too_many_connections",
}
_FILE_BYTES = 1 << 20
_OF_FILE = re.compile(r"(?:(?:[^\\:]|\\.)*:){4}((?:[^\\:]|\\.?)*)")  # the fifth field of a line
_ESCAPED = re.compile(r"\\(.)")
_MISSING = "{said}. Create the tables with 'simhbase tables create', or correct schema= in the URL"
_SHARED = "a connection pooler shares sessions without saying so ({said}). " + _POOLING
# By state, which the server has not ended the session for.
_REMEDIES: Mapping[str, tuple[type[SimhbaseError], str]] = {
    "42P01": (TablesMissing, _MISSING),
    "3F000": (TablesMissing, _MISSING),
    "55P03": (
        StoreBusy,
        "another transaction held a lock for {timeout:g} s ({said}). Try again later; pg_stat_activity shows "
        "who holds it",
    ),
    "25006": (StoreFailed, "the server is read-only, such as a standby ({said}). Name the primary"),
    "26000": (StoreFailed, _SHARED),  # a prepared statement is not there
    "42P05": (StoreFailed, _SHARED),  # or is there already
    "53100": (StoreFailed, "{said}. Make room on the server's disk, and repeat it"),
    "2BP01": (StoreFailed, "{said}: {detail}. Drop these first"),
    "42501": (StoreFailed, "{said}. Grant it to the role, or use another"),
    # An administrator has cancelled it, or the role's statement_timeout, which only VACUUM is subject to.
    "57014": (StoreFailed, "{said}. Repeat it; if statement_timeout ended it, raise that for the role"),
}


def translated(error: psycopg.Error, doing: str, address: Address, passwords: Iterable[str]) -> SimhbaseError:
    """The error of simhbase for one of psycopg. doing: what was done, and where; passwords: those that the
    server was given."""
    said = error.diag.message_primary or str(error) or type(error).__name__
    said = " ".join(without(said, passwords).split())
    if _PER_STATEMENT in said:
        return StoreFailed(
            f"{doing}: the connection pooler refuses transactions ({said}). {_POOLING}, or transactions"
        )
    # libpq's own errors have no state; in a pipeline psycopg makes a DatabaseError of them.
    if error.sqlstate is None and (
        isinstance(error, psycopg.OperationalError) or type(error) is psycopg.DatabaseError
    ):
        return _unreachable(said, doing)
    if _ends_session(error) or error.sqlstate in _PASSING_STATES:
        return StoreUnreachable(f"{doing}: {said}")
    kind, advice = _REMEDIES.get(error.sqlstate or "", (StoreFailed, "{said}"))
    detail = without(error.diag.message_detail or "", passwords)
    return kind(f"{doing}: {advice.format(said=said, timeout=address.timeout, detail=detail)}")


def password_of(connection: PGconn) -> str:
    """The password of a connection, which libpq may have from a file."""
    return connection.password.decode(errors="replace")


def passwords_in(file: Path) -> set[str]:
    """All passwords of a file of libpq: where several servers were tried, each may repeat its own."""
    with suppress(OSError), open_plain(file) as opened:
        lines = opened.read(_FILE_BYTES).decode(errors="replace").splitlines()
        return {_ESCAPED.sub(r"\1", found[1]) for line in lines if (found := _OF_FILE.match(line))}
    return set()


def _ends_session(error: psycopg.Error) -> bool:
    """True for what the server or a pooler has ended the session with: a timeout (25P03, 25P04, 57P05, in
    poolers 08P01 and 58000), a restart (57P0x), a crash. What does not pass refuses the next connection."""
    return (error.diag.severity_nonlocalized or error.diag.severity) in ("FATAL", "PANIC")


def _unreachable(said: str, doing: str) -> SimhbaseError:
    if any(reason in said for reason in _INSECURE):
        return StoreFailed(f"{doing}: {said}. Correct sslmode= and the certificates in the URL")
    refused = "FATAL" in said or "no password supplied" in said
    missing = "no such database" in said or ("does not exist" in said and "database" in said)
    if refused and missing:
        return TablesMissing(f"{doing}: {said}. Create the database, or correct the URL")
    if refused and not any(reason in said for reason in _PASSING):
        return StoreFailed(f"{doing}: the server refused the connection: {said}")
    return StoreUnreachable(f"{doing}: {said}")
