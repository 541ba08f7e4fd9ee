"""Makes rows of documents for a store in HBase, which `simhbase load-hfiles FOLDER` loads then:
docs/spark.md."""

from __future__ import annotations

import argparse
import dataclasses
import json
import sys

from pyspark.sql import SparkSession

from simhbase import spark
from simhbase.errors import SimhbaseError


def main() -> None:
    options = parsed()
    builder = SparkSession.builder.appName("simhbase hfile input")
    # Python imports nothing from the current folder, which may be a stranger's.
    session = builder.config("spark.executorEnv.PYTHONSAFEPATH", "1").getOrCreate()
    try:
        made = spark.hfile_input(
            session.read.format(options.format).load(options.inputs),
            options.store,
            options.folder,
            id_column=options.id_column,
            text_column=options.text_column,
            fingerprint_column=options.fingerprint_column,
            order_column=options.order_column,
            partitions=options.partitions,
        )
    except SimhbaseError as error:
        sys.exit(f"Error: {error}")
    shown = ("added", "updated", "unchanged", "rejected")
    print(json.dumps({name: value for name, value in dataclasses.asdict(made).items() if name in shown}))
    session.stop()


def parsed() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("inputs", nargs="+", help="files or folders, of any file system that Spark reads")
    parser.add_argument("--store", required=True, help="the store's URL: hbase://HOST:PORT/PREFIX")
    parser.add_argument("--folder", required=True, help="a new folder for the rows, or its URI: hdfs://...")
    parser.add_argument("--format", default="parquet", help="of inputs: parquet (default), json, orc")
    parser.add_argument("--id-column", default="id")
    parser.add_argument("--text-column", default="text")
    parser.add_argument("--fingerprint-column", help="of fingerprints to take in place of texts")
    parser.add_argument("--order-column", help="of one id the row with the least value counts (default: any)")
    parser.add_argument("--partitions", type=int, help="files written at once (default: two for each core)")
    return parser.parse_args()


if __name__ == "__main__":
    main()
