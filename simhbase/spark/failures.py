"""Failures of Spark's tasks, as the errors of this package that caused them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager

from py4j.protocol import Py4JError

from simhbase import errors
from simhbase.errors import SimhbaseError
from simhbase.model.urls import without_passwords

_RAISED = re.compile(r"^[ \t]*(?:simhbase\.[\w.]+\.)(\w+): (.+)$", re.MULTILINE)
_CAUSE = re.compile(r"^(?:Caused by: )?([\w.$]+(?:Exception|Error)): (.+)$", re.MULTILINE)
_GUARD = re.compile(r"RuntimeError: (the executor on .+)")
# PySpark 3.5 says (3, 9), or 3.9; 4 has colons.
_OTHER_PYTHON = re.compile(
    r"worker has different version:? \(?(\d+)(?:\.|, )(\d+)\)? than that in driver:? ([\d.]+\d)"
)
_NO_PYTHON = re.compile(r'Cannot run program "([^"]+)"')
_SHOWN = 300  # characters
_ENDED = (
    "the Java process of Spark has ended, or does not answer. It may have had too little memory, as for one "
    "very long line, which it reads whole: set spark.driver.memory, or see its messages"
)


@contextmanager
def raised_clearly() -> Iterator[None]:
    """Raise the error of a task as on one machine, and other failures of Spark in one sentence."""
    try:
        yield
    except SimhbaseError:
        raise
    except Exception as error:
        said = str(error)
        if isinstance(error, (Py4JError, ConnectionError)) and not _is_of_spark(error):
            raise SimhbaseError(_ENDED) from error
        if not _is_of_spark(error):
            raise
        if sentence := _of_an_executor(said):
            raise SimhbaseError(sentence) from error
        if found := _RAISED.findall(said):
            name, message = found[-1]
            kind = getattr(errors, name, SimhbaseError)
            raise kind(message) from error
        causes = _CAUSE.findall(said)
        name, message = causes[-1] if causes else ("", said.split("\n")[0])
        shown = without_passwords(message)[:_SHOWN]
        raise SimhbaseError(
            f"Spark failed: {name.rpartition('.')[2]}: {shown}. Its messages say more: set its "
            "log level to ERROR, or read the executors' logs"
        ) from error


def _of_an_executor(said: str) -> str | None:
    """What an executor lacks: see guard.py; Spark itself compares versions of Python."""
    if found := _GUARD.search(said):
        return found[1]
    if found := _OTHER_PYTHON.search(said):
        return (
            f"executors have Python {found[1]}.{found[2]}, the driver {found[3]}: name a Python {found[3]} "
            "of the executors in PYSPARK_PYTHON"
        )
    if found := _NO_PYTHON.search(said):
        return (
            f"executors have no {found[1]}: PYSPARK_PYTHON must name a Python that every executor has, "
            "or one that is sent with the job"
        )
    return None


def _is_of_spark(error: Exception) -> bool:
    from pyspark.errors import PySparkException

    return isinstance(error, PySparkException) or hasattr(error, "java_exception")
