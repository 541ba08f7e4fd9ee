"""Sessions of commands."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from pyspark.sql import SparkSession


@contextmanager
def session_of(
    name: str, master: str | None, settings: Mapping[str, str], log_level: str
) -> Iterator[SparkSession]:
    """A session that ends with the block, or the one that this process has. master: None for that of
    spark-submit, or all cores of this machine; settings: properties of Spark; log_level: of its messages."""
    if (running := SparkSession.getActiveSession()) is not None:
        yield running
        return
    # PySpark 4 says this of pandas 3 wherever it asks for it. Tasks hand Arrow's batches over, not pandas.
    warnings.filterwarnings("ignore", "PySpark does not yet fully support pandas", FutureWarning)
    builder = SparkSession.builder.appName(name).config("spark.ui.showConsoleProgress", "false")
    if master is not None:
        builder = builder.master(master)
    for key, value in settings.items():
        builder = builder.config(key, value)
    session = builder.getOrCreate()
    session.sparkContext.setLogLevel(log_level)
    try:
        yield session
    finally:
        session.stop()
