"""Keeps one document of each group of near-duplicates, as `simhbase dedup` does: docs/spark.md."""

from __future__ import annotations

import argparse
import dataclasses
import json
import sys

from pyspark.sql import DataFrame, SparkSession

from simhbase.errors import SimhbaseError
from simhbase.jobs import spark
from simhbase.profile_file import read_parameters


def main() -> None:
    options = parsed()
    session = SparkSession.builder.appName("simhbase dedup").getOrCreate()
    try:
        found = spark.dedup(
            spread(session.read.format(options.format).load(options.inputs)),
            read_parameters(options.profile),
            id_column=options.id_column,
            text_column=options.text_column,
            order_column=options.order_column,
            min_similarity=options.min_similarity,
            min_containment=options.min_containment,
            keep=options.keep,
            chains=options.chains,
        )
    except SimhbaseError as error:
        sys.exit(f"Error: {error}")
    outputs = {"unique": found.unique, "duplicates": found.duplicates, "rejects": found.rejects}
    for name, frame in outputs.items():
        if folder := getattr(options, name):
            frame.write.format(options.format).save(folder)
    print(json.dumps(dataclasses.asdict(found.report())))
    session.stop()


def parsed() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("inputs", nargs="+", help="files or folders, of any file system that Spark reads")
    parser.add_argument(
        "--format", default="parquet", help="of inputs and outputs: parquet (default), json, orc"
    )
    parser.add_argument("--unique", metavar="FOLDER", help="for the rows of the documents that are kept")
    parser.add_argument(
        "--duplicates", metavar="FOLDER", help="for the ids of the others, and what is kept for each"
    )
    parser.add_argument("--rejects", metavar="FOLDER", help="for the ids of what cannot be used, and why")
    parser.add_argument("--id-column", default="id")
    parser.add_argument("--text-column", default="text")
    parser.add_argument(
        "--order-column", help="what input order is by: the least comes first (default: the ids)"
    )
    parser.add_argument("--keep", default="first", help="first, longest, newest, oldest, COLUMN or -COLUMN")
    parser.add_argument("--chains", action="store_true", help="a group is a connected component of matches")
    parser.add_argument("--min-similarity", type=float, help="as of simhbase dedup")
    parser.add_argument("--min-containment", type=float, help="as of simhbase dedup")
    parser.add_argument("--profile", default="complete", help="a preset or a profile file")
    return parser.parse_args()


def spread(rows: DataFrame) -> DataFrame:
    """The same for all cores: a file that is packed by gzip is one partition, and one core's work."""
    cores = rows.sparkSession.sparkContext.defaultParallelism
    return rows.repartition(2 * cores) if rows.rdd.getNumPartitions() < cores else rows


if __name__ == "__main__":
    main()
