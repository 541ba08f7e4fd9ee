"""Near-duplicates in a Spark DataFrame (PySpark 3.5; extra `spark`), with the same results as on one machine.

    from simhbase import spark

    found = spark.dedup(df, id_column="id", text_column="text")
    found.unique.write.parquet("unique")

  fingerprint          Fingerprints texts.
  pairs                Finds all pairs of fingerprints that match, by a join on drawers.
  dedup                Groups near-duplicates like `simhbase.dedup`, and returns a Deduplicated.
  dedup_files          Does this with files, as the command `simhbase spark dedup`.
  unique_load          Loads what has no near-duplicate into a store, like `simhbase.load` with unique_only.
  load_files           Does this with files, as the command `simhbase spark load`.
  find_files           Looks up files in a store, as the command `simhbase spark find`.
  match_files          Looks up files among others, as the command `simhbase spark match`.
  hfile_input          Writes HFiles for HBase's bulk load tool, and returns their HFileInput.

The executors' Python needs simhbase with this extra, too.
"""

from __future__ import annotations

try:
    import pyspark as _pyspark  # noqa: F401  # check that it is installed
except ImportError as error:
    raise ImportError("PySpark is not installed: pip install 'simhbase[spark]'") from error

from simhbase.loads.hfile_input import HFileInput
from simhbase.spark.answer_files import AnswersReport, find_files, match_files
from simhbase.spark.dedup import Deduplicated, SparkReport, dedup
from simhbase.spark.dedup_files import dedup_files
from simhbase.spark.drawers import pairs
from simhbase.spark.fingerprints import fingerprint
from simhbase.spark.hfile_input import hfile_input
from simhbase.spark.load_files import load_files
from simhbase.spark.unique import SparkLoadReport, UniqueLoad, unique_load

__all__ = [
    "AnswersReport",
    "Deduplicated",
    "HFileInput",
    "SparkLoadReport",
    "SparkReport",
    "UniqueLoad",
    "dedup",
    "dedup_files",
    "find_files",
    "fingerprint",
    "hfile_input",
    "load_files",
    "match_files",
    "pairs",
    "unique_load",
]
