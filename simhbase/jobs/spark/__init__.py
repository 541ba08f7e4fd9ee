"""Near-duplicates of a Spark DataFrame (PySpark 3.5; extra `spark`), with the answers of one machine.

    from simhbase.jobs import spark

    found = spark.dedup(df, id_column="id", text_column="text")
    found.unique.write.parquet("unique")

  fingerprint          The fingerprint of each text, or why it has none.
  pairs                All pairs of fingerprints that match, joined by drawers.
  dedup                Groups near-duplicates as `simhbase.dedup` does; Deduplicated is what it returns.
  hfile_input          Rows of documents for HBase's own tools; HFileInput is what they are.

The executors' Python needs simhbase with this extra, too.
"""

from __future__ import annotations

try:
    import pyspark as _pyspark  # noqa: F401  # is it there?
except ImportError as error:
    raise ImportError("Spark is spoken to by PySpark: pip install 'simhbase[spark]'") from error

from simhbase.jobs.hfile_input import HFileInput
from simhbase.jobs.spark.dedup import Deduplicated, SparkReport, dedup
from simhbase.jobs.spark.drawers import pairs
from simhbase.jobs.spark.fingerprints import fingerprint
from simhbase.jobs.spark.hfile_input import hfile_input

__all__ = ["Deduplicated", "HFileInput", "SparkReport", "dedup", "fingerprint", "hfile_input", "pairs"]
