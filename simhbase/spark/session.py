"""Sessions of commands, and of their plans."""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import lru_cache
from pathlib import Path
from tempfile import gettempdir

import pyspark
from py4j.protocol import Py4JError
from pyspark.sql import DataFrame, SparkSession

from simhbase.errors import SimhbaseError
from simhbase.process.temporary import TemporaryFolder

PARTITIONS = "spark.sql.shuffle.partitions"
# For a session on this machine. By default Spark listens on all addresses, and anybody who connects can read
# its web pages and end its jobs. Other users of the machine can connect in any case, and without
# authentication Spark accepts Java objects from them; it makes up the secret itself.
_ASKS = "spark.authenticate"
_LOCAL = {
    _ASKS: "true",
    "spark.ui.enabled": "false",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
    # Where a thread of it ends for want of memory, Python would wait for its rows for ever.
    "spark.driver.defaultJavaOptions": "-XX:+ExitOnOutOfMemoryError",
}
# Hadoop gives files and folders their modes by this, 022 by default, whatever the umask is.
_UMASK = "spark.hadoop.fs.permissions.umask-mode"
_HOME = "SPARK_HOME"
# Its processes of Python import nothing from the current folder, which may be a stranger's: with spark-submit
# they do not have the environment of this one.
_FOR_PYTHON = {"spark.executorEnv.PYTHONSAFEPATH": "1"}
# What may say that there is another master, which the executors of a cluster connect to.
_SET_UP = frozenset(("PYSPARK_GATEWAY_PORT", "PYSPARK_SUBMIT_ARGS", "SPARK_CONF_DIR", _HOME))


@lru_cache(maxsize=1)
def _scratch() -> TemporaryFolder:
    """Where Spark keeps texts until this process ends: others can read what it puts among temporary files,
    also what a killed one has left. Raises SimhbaseError."""
    try:
        return TemporaryFolder("spark")
    except OSError as error:
        raise SimhbaseError(
            f"cannot make a folder for Spark in {gettempdir()}: {error.strerror}. Set TMPDIR to another one"
        ) from error


def _umask() -> int:
    """The umask of this process, which tells it only when it is set."""
    mask = os.umask(0o077)
    os.umask(mask)
    return mask


@contextmanager
def _found() -> Iterator[None]:
    """Without SPARK_HOME, Spark is started from where PySpark is: PySpark looks first into the folder above
    the current one, where a stranger may have put programs of Spark's names."""
    if _HOME in os.environ:
        yield
        return
    package = Path(pyspark.__file__).parent
    places = (package / "spark-distribution", package, package.parents[1])
    os.environ[_HOME] = str(next((each for each in places if (each / "bin/spark-submit").exists()), package))
    try:
        yield
    finally:
        del os.environ[_HOME]


def for_files(session: SparkSession, partitions: int | None = None) -> SparkSession:
    """A session with the settings of another, but without adaptive execution: here the plans say how many
    partitions there are, and it would make a job of each stage and plan again after each, which takes longer
    than most of the stages. partitions: of shuffles, None for one a core."""
    own = session.newSession()
    for name, _ in session.sql("SET").collect():  # it hides values that are secret
        value = session.conf.get(name)
        # Those of the context, which is the same, cannot be set here.
        can_be_set = own.conf.isModifiable(name) or not name.startswith("spark.")
        if value is not None and value != own.conf.get(name, None) and can_be_set:
            own.conf.set(name, value)
    own.conf.set("spark.sql.adaptive.enabled", "false")
    own.conf.set(PARTITIONS, f"{partitions or session.sparkContext.defaultParallelism}")
    return own


def shuffle_as_read(df: DataFrame) -> None:
    """Give shuffles of a frame's session as many tasks as the frame is read by, if these are more: with
    Spark's settings one for 128 MB of a file."""
    settings = df.sparkSession.conf
    settings.set(PARTITIONS, f"{max(int(settings.get(PARTITIONS) or 1), df.rdd.getNumPartitions())}")


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
    is_local = master.startswith("local") if master else _SET_UP.isdisjoint(os.environ)
    own = dict(_LOCAL) if is_local and "spark.master" not in settings else {}
    if own:
        own[_UMASK] = f"{_umask():03o}"
    if own and _SET_UP.isdisjoint(os.environ):
        own["spark.local.dir"] = str(_scratch().path)
    if master and master.startswith("local-cluster"):
        # Its processes need a secret that is given, as a property, which lists of processes show.
        own.pop(_ASKS, None)
    for key, value in {**_FOR_PYTHON, **own, **settings}.items():
        builder = builder.config(key, value)
    with _found():
        session = builder.getOrCreate()
    session.sparkContext.setLogLevel(log_level)
    try:
        yield session
    finally:
        with suppress(Py4JError, ConnectionError):  # Java may have ended
            session.stop()
