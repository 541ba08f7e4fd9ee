"""What SQL users see beside the tables: a view of the documents, and functions."""

from __future__ import annotations

from collections.abc import Sequence

from simhbase.drawers.layout import Layout
from simhbase.stores.postgresql.drawers import Branch, branches_of

VIEW = "stored"
FUNCTIONS = ("near(int8, int4)", "fingerprint(text)")
COLUMNS = ("key bytea", "value bytea", "version bigint")
INDEX_COLUMNS = (("fingerprint bigint",), ("drawer bigint", "fingerprint bigint"))
# Parameter: names of tables. Those that exist, with their columns.
COLUMNS_OF = """
    SELECT name, array_agg(attname || ' ' || format_type(atttypid, NULL) ORDER BY attnum)
    FROM unnest(%b::text[]) AS name
    JOIN pg_attribute ON attrelid = to_regclass(name) AND attnum > 0 AND NOT attisdropped
    GROUP BY name"""
# Parameters: names of tables, and functions with their types. Those that exist.
TAKEN = """ARRAY(
    SELECT name FROM unnest(%b::text[]) AS name WHERE to_regclass(name) IS NOT NULL
    UNION ALL SELECT name FROM unnest(%b::text[]) AS name WHERE to_regprocedure(name) IS NOT NULL)"""
# Parameter: names of tables. What executes code of a table's owner with the rights of the role that reads or
# writes it, of which simhbase makes nothing. Tables of this role and of superusers are trusted, and so are
# access methods, such as those that encrypt: only superusers make some.
CODE = """ARRAY(
    SELECT name || ' of ' || rolname || CASE
        WHEN relkind <> 'r' THEN ' is no table'
        WHEN relhassubclass THEN ' has tables that inherit from it'
        WHEN relhasrules THEN ' has rules'
        WHEN EXISTS (SELECT FROM pg_trigger WHERE tgrelid = own.oid) THEN ' has triggers'
        ELSE ' has constraints, defaults, types or indexes with other functions' END
    FROM unnest(%b::text[]) AS name
    JOIN pg_class AS own ON own.oid = to_regclass(name)
    JOIN pg_roles ON pg_roles.oid = relowner
    WHERE rolname <> current_user AND NOT rolsuper AND (
        relkind <> 'r' OR relhassubclass OR relhasrules
        OR EXISTS (SELECT FROM pg_trigger WHERE tgrelid = own.oid)
        OR EXISTS (SELECT FROM pg_attrdef WHERE adrelid = own.oid)
        OR EXISTS (SELECT FROM pg_constraint WHERE conrelid = own.oid AND contype NOT IN ('p', 'n'))
        OR EXISTS (
            SELECT FROM pg_depend
            WHERE classid = 'pg_class'::regclass
                AND objid IN (SELECT own.oid UNION SELECT indexrelid FROM pg_index WHERE indrelid = own.oid)
                AND refclassid NOT IN (
                    'pg_class'::regclass, 'pg_namespace'::regclass, 'pg_constraint'::regclass,
                    'pg_am'::regclass
                )
        )
    )
    ORDER BY 1)"""
# Text in SQL has no zero byte: an id that has one is shown as PostgreSQL escapes bytes.
_TEXT = (
    "CASE WHEN position(decode('00', 'hex') IN {0}) = 0 THEN convert_from({0}, 'UTF8') "
    "ELSE encode({0}, 'escape') END"
)
_FINGERPRINT = "('x' || encode(substr(value, 1, 8), 'hex'))::bit(64)::int8"


def documents(schema: str) -> list[str]:
    """Statements that create the view `stored` and the function `fingerprint`. schema: in quotes."""
    return [
        f"CREATE INDEX ON {schema}.documents (substr(key, 5))",
        f"CREATE VIEW {schema}.{VIEW} AS SELECT {_TEXT.format('substr(key, 5)')} AS id, "
        f"{_FINGERPRINT} AS fingerprint, to_timestamp(version / 1000.0) AS written FROM {schema}.documents",
        f"COMMENT ON VIEW {schema}.{VIEW} IS 'The documents of simhbase, with their fingerprints.'",
        # Its names mean what they mean now, whatever the search_path of a caller.
        f"CREATE FUNCTION {schema}.fingerprint(id text) RETURNS int8 "
        "LANGUAGE sql STABLE PARALLEL SAFE RETURN "
        f"(SELECT {_FINGERPRINT} FROM {schema}.documents WHERE substr(key, 5) = convert_to($1, 'UTF8'))",
        f"COMMENT ON FUNCTION {schema}.{FUNCTIONS[1]} IS "
        "'The fingerprint of a document of simhbase, by its id.'",
    ]


def records(table: str) -> str:
    """The statement that creates a table of records. table: with its schema."""
    return f"CREATE TABLE {table} (key bytea PRIMARY KEY, value bytea NOT NULL, version int8 NOT NULL)"


def drop(schema: str, tables: Sequence[str]) -> list[str]:
    """Statements that drop all of a store; the schema, too, if nothing else is in it and this role may.
    tables: with their schema."""
    functions = ", ".join(f'"{schema}".{function}' for function in FUNCTIONS)
    return [
        f'DROP VIEW IF EXISTS "{schema}".{VIEW}',
        f"DROP FUNCTION IF EXISTS {functions}",
        f"DROP TABLE IF EXISTS {', '.join(tables)}",
        f"""
        DO $$ BEGIN
            IF '{schema}' <> 'public'
                AND pg_has_role((SELECT nspowner FROM pg_namespace WHERE nspname = '{schema}'), 'USAGE')
                AND NOT EXISTS (SELECT FROM pg_class WHERE relnamespace = '{schema}'::regnamespace)
                AND NOT EXISTS (SELECT FROM pg_proc WHERE pronamespace = '{schema}'::regnamespace)
                AND NOT EXISTS (SELECT FROM pg_type WHERE typnamespace = '{schema}'::regnamespace)
            THEN DROP SCHEMA "{schema}"; END IF;
        END $$""",
    ]


def _asked(branch: Branch, layout: Layout) -> list[str]:
    """The drawers of a table that a lookup reads, as expressions of its fingerprint."""
    own = branch.expression.format("$1")
    flipped = range(branch.width) if layout.flips else ()
    return [f"({own})", *(f"(({own}) # {1 << bit})" for bit in flipped)]


def near(schema: str, layout: Layout | None) -> list[str]:
    """Statements that create the function `near`, which a layout makes possible. Its answers are complete
    within the layout's guarantee. schema: in quotes."""
    if layout is None:
        return [f"DROP FUNCTION IF EXISTS {schema}.{FUNCTIONS[0]}"]
    drawers = " UNION ".join(
        f"SELECT i.fingerprint FROM {schema}.index AS i WHERE {branch.expression.format('i.fingerprint')} "
        f"= ANY (ARRAY[{', '.join(_asked(branch, layout))}])"
        for branch in branches_of(layout)
    )
    return [
        f"DROP FUNCTION IF EXISTS {schema}.{FUNCTIONS[0]}",
        f"""
        CREATE FUNCTION {schema}.near(fingerprint int8, k int DEFAULT {layout.guarantee})
        RETURNS TABLE (id text, found int8, distance int)
        LANGUAGE plpgsql STABLE PARALLEL SAFE ROWS 10
        SET search_path = pg_catalog, pg_temp SET plan_cache_mode = force_generic_plan
        SET enable_seqscan = off SET jit = off AS $$
        BEGIN
            IF k NOT BETWEEN 0 AND {layout.guarantee} THEN
                RAISE EXCEPTION 'k must be 0 to {layout.guarantee} with layout {layout.name}, not %', k;
            END IF;
            RETURN QUERY
                SELECT {_TEXT.format("substr(listing.key, 9)")}, candidate.fingerprint,
                    bit_count((candidate.fingerprint # $1)::bit(64))::int
                FROM ({drawers}) AS candidate, LATERAL (
                    SELECT key FROM {schema}.fingerprints
                    WHERE key >= int8send(candidate.fingerprint)
                        AND key < int8send(candidate.fingerprint) || decode('ff', 'hex')
                ) AS listing
                WHERE bit_count((candidate.fingerprint # $1)::bit(64)) <= $2
                ORDER BY 3, 1;
        END $$""",
        f"COMMENT ON FUNCTION {schema}.{FUNCTIONS[0]} IS "
        "'Documents of simhbase whose fingerprints differ in at most k bits.'",
    ]
