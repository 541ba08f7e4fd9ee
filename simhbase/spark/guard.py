"""Checks that an executor has what the driver has, before anything of this package is unpickled there."""

from __future__ import annotations

import platform
from collections.abc import Callable, Iterable, Iterator
from functools import lru_cache
from importlib.metadata import version

import pyarrow as pa
from pyspark import cloudpickle

from simhbase.profile.profile import Profile

Work = Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]

TEXT = "the quick brown fox jumps over the lazy dog"


def guarded(work: Work) -> Work:
    """A function of tasks that first checks their executor; one that joins later is checked, too. It fails
    with a RuntimeError, which `raised_clearly` turns into a SimhbaseError."""
    payload: bytes = cloudpickle.dumps(work)  # type: ignore[attr-defined, no-untyped-call]  # of PySpark
    return checking(payload, version("simhbase"), platform.machine(), TEXT, _digest())


@lru_cache(maxsize=1)
def _digest() -> list[int]:
    found: list[int] = (
        Profile(scheme="minhash").fingerprinter().fingerprint_many([TEXT]).fingerprints.values.tolist()
    )
    return found


def checking(payload: bytes, wanted: str, machine: str, text: str, digest: list[int]) -> Work:
    """Pickled by value, as any inner function, so it uses no name of this module, and imports what it needs.

    payload: the pickled work. A zip with a compiled module is imported as an empty package, so a fingerprint
    is computed, too.
    """

    def run(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        import pickle
        import platform
        import socket
        import sys
        from importlib.metadata import version

        where = f"the executor on {socket.gethostname()} ({sys.executable})"
        how = ": send it with the job (docs/spark.md, On a cluster)"
        here = platform.machine()
        if here != machine:
            how = f": its processor is {here}, the driver's {machine}. Send simhbase for {here}"
        try:
            import simhbase  # noqa: F401  # to see whether it is there
        except ImportError as error:
            raise RuntimeError(f"{where} has no simhbase ({error}){how}") from None
        if (found := version("simhbase")) != wanted:
            raise RuntimeError(f"{where} has simhbase {found}, the driver {wanted}{how}")
        try:
            from simhbase.profile.profile import Profile

            made = Profile(scheme="minhash").fingerprinter().fingerprint_many([text])
            same = made.fingerprints.values.tolist() == digest
        except Exception as error:
            said = f"{type(error).__name__}: {str(error)[:200]}"
            raise RuntimeError(f"{where} cannot compute a fingerprint ({said}){how}") from None
        if not same:
            raise RuntimeError(f"{where} computes other fingerprints than the driver{how}")
        yield from pickle.loads(payload)(batches)

    return run
