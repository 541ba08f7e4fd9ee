"""One lookup as one statement, which is a snapshot of its own: no transaction begins or ends."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

from simhbase.stores.base import Cell, DrawerHits, NearLimits, NearRows, Row
from simhbase.stores.postgresql.arrays import integers
from simhbase.stores.postgresql.client import Client
from simhbase.stores.postgresql.drawers import INDEX, PostgresDrawers
from simhbase.stores.postgresql.records import END_BYTES

MOST = (1 << 31) - 2  # rows of a drawer: an array has no more
_NUMBERS = "(%(numbers)b::int8[])"
_VALUE, _BITS, _DRAWER, _LISTED, _ROWS, _DRAWERS = range(1, 7)  # places among the numbers


def near(
    client: Client, drawers: PostgresDrawers, value: int, prefixes: Sequence[bytes], limits: NearLimits
) -> NearRows:
    """The answer of `Store.near`. A drawer without a limit is read up to MOST rows."""
    most = MOST if limits.drawer is None else limits.drawer
    expressions, values = zip(*map(drawers.asked, prefixes), strict=True)
    table = client.address.table
    documents = None if limits.document_key is None else table("documents")
    statement = _statement(expressions, table(INDEX), table("fingerprints"), documents)
    rows = MOST if limits.enough is None else limits.enough + 1
    numbers = integers([_signed(value), limits.bits, most, limits.listed, rows, *values])
    hidden = integers(list(map(_signed, limits.hidden)))
    given = {"numbers": numbers, "hidden": hidden, "of": limits.of}
    found = client.rows("reading", statement, given)
    bits: dict[int, int] = {}
    listed: dict[int, list[Row]] = {}
    cells: dict[bytes, Row | None] = {}
    for _, _, signed, key, content, document, stored, version in found:
        if signed is None:
            break
        fingerprint = signed & 0xFFFFFFFFFFFFFFFF
        bits[fingerprint] = (fingerprint ^ value).bit_count()
        of_one = listed.setdefault(fingerprint, [])
        if key is not None:
            of_one.append((key, Cell(content, 0)))
            cells[key] = None if document is None else (document, Cell(stored, version))
    read, largest = found[0][:2]
    hits = DrawerHits(bits, largest > most, read, min(largest, most))
    return NearRows(hits, listed, cells if documents else {})


def _signed(fingerprint: int) -> int:
    return fingerprint - (1 << 64) if fingerprint >> 63 else fingerprint


@lru_cache
def _statement(expressions: tuple[str, ...], index: str, fingerprints: str, documents: str | None) -> str:
    """Its columns: the number of drawer rows, the largest drawer's (up to one more than the limit), a near
    fingerprint, key and value of a row of fingerprints, key, value and version of its document; what
    there is none of is NULL, and last. Each drawer's rows become an array, so that one behind the limit is
    counted and left out."""
    arrays = ", ".join(
        f"(ARRAY(SELECT fingerprint FROM {index} WHERE {expression} = {_NUMBERS}[{place}] "
        f"ORDER BY fingerprint LIMIT {_NUMBERS}[{_DRAWER}] + 1))"
        for place, expression in enumerate(expressions, _DRAWERS)
    )
    document = "NULL::bytea, NULL::bytea, NULL::int8"
    joined = ""
    if documents is not None:
        document = "document.key, document.value, document.version"
        joined = f"LEFT JOIN {documents} AS document ON substr(document.key, 5) = substr(listing.key, 9)"
    return f"""
        WITH drawer(rows) AS MATERIALIZED (VALUES {arrays}),
        near AS MATERIALIZED (
            SELECT DISTINCT fingerprint
            FROM drawer, unnest(rows[:{_NUMBERS}[{_DRAWER}]]) AS fingerprint
            WHERE bit_count((fingerprint # {_NUMBERS}[{_VALUE}])::bit(64)) <= {_NUMBERS}[{_BITS}]
            AND fingerprint <> ALL (%(hidden)b::int8[])
        )
        SELECT size.read::int8, size.largest, near.fingerprint, listing.key, listing.value, {document}
        FROM (
            SELECT sum(least(cardinality(rows), {_NUMBERS}[{_DRAWER}])) AS read,
                max(cardinality(rows)) AS largest
            FROM drawer
        ) AS size
        LEFT JOIN near ON true
        LEFT JOIN LATERAL (
            SELECT key, value FROM {fingerprints}
            WHERE key >= int8send(near.fingerprint) || %(of)b
                AND key < int8send(near.fingerprint) || %(of)b || decode(repeat('ff', {END_BYTES}), 'hex')
            ORDER BY key LIMIT {_NUMBERS}[{_LISTED}]
        ) AS listing ON true
        {joined}
        ORDER BY listing.key LIMIT {_NUMBERS}[{_ROWS}]"""
