"""Sessions of commands, and of their plans."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from pyspark.sql import SparkSession

PARTITIONS = "spark.sql.shuffle.partitions"


def for_files(session: SparkSession, partitions: int | None) -> SparkSession:
    """A session with the settings of another, but without adaptive execution: here the plans say how many
    partitions there are, and it would make a job of each stage and plan again after each, which takes longer
    than most of the stages. partitions: of shuffles, None for one a core."""
    own = SparkSession(session.sparkContext, session._jsparkSession.cloneSession())
    own.conf.set("spark.sql.adaptive.enabled", "false")
    own.conf.set(PARTITIONS, f"{partitions or session.sparkContext.defaultParallelism}")
    return own


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
