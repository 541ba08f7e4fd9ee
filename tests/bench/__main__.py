"""Runs benchmarks: python -m tests.bench [--json FILE] [--scale X] [fingerprints|minhash|store ...]"""

from __future__ import annotations

import argparse
import sys
from importlib import import_module
from pathlib import Path

from tests.bench import older
from tests.bench.report import Table, changes, render, to_json

PARTS = (
    "start",
    "fingerprints",
    "minhash",
    "store",
    "migrate",
    "groups",
    "scopes",
    "load",
    "serve",
    "dedup",
    "jobs",
    "growth",
    "scale",
    "stored",
    "quality",
)
WITHIN = ("weights", "short", "lengths", "heldout")  # their tables are among those of quality
OF_KINDS = ("kinds", "beside", "thresholds", "changes", "containment", "regrouped", "scripts")
WITH_SERVERS = (
    "hbase",
    "blocks",
    "layouts",
    "claims",
    "hfiles",
    "shared",
    "fleet",
    "postgresql",
    "redis",
    "lookups",
    "spark",
    "peers",
)
HELP = (
    f"of {', '.join(PARTS)}, which is all without any; {', '.join(WITHIN)}, parts of quality; "
    f"{', '.join(OF_KINDS)}, of texts of many kinds; and "
    f"{', '.join(WITH_SERVERS)}, which start servers"
)


def main() -> None:
    parser = argparse.ArgumentParser(prog="scripts/bench", description=__doc__.partition(":")[0])
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write the figures as JSON")
    parser.add_argument("--csv", type=Path, metavar="FOLDER", help="also write each table as a CSV file")
    parser.add_argument(
        "--against",
        metavar="FOLDER|COMMIT",
        help="print what differs from the CSV files in this folder, to stderr; or measure this older state "
        "of the source, too, where a part does (jobs, lookups, regrouped)",
    )
    parser.add_argument(
        "--scale", type=float, default=1.0, help="so many times the usual amounts (10: 10M documents)"
    )
    parser.add_argument("parts", nargs="*", metavar="PART", help=HELP)
    options = parser.parse_args()
    there = (*PARTS, *WITHIN, *OF_KINDS, *WITH_SERVERS)
    if unknown := set(options.parts).difference(there):
        parser.error(f"no part {', '.join(sorted(unknown))}: there are {', '.join(there)}")
    before = Path(options.against) if options.against and Path(options.against).is_dir() else None
    if options.against and before is None:
        older.build(options.against)
    tables: list[Table] = []
    for part in options.parts or PARTS:
        for table in import_module(f"tests.bench.{part}").measure(options.scale):
            tables.append(table)
            if options.csv:  # at once: some parts take an hour
                options.csv.mkdir(parents=True, exist_ok=True)
                (options.csv / table.file_name).write_text(table.csv(), "utf-8")
    if before:
        print("\n".join(changes(before, tables)), file=sys.stderr)
    if options.json:
        options.json.write_bytes(to_json(tables))
    print(render(tables))


if __name__ == "__main__":
    main()
