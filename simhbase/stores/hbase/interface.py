"""The Thrift interface: happybase's classes, extended for HBase 2."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import happybase  # it makes Hbase_thrift
import thriftpy2
from Hbase_thrift import (  # type: ignore[import-not-found]  # nor has it types
    BatchMutation,
    Hbase,
    IllegalArgument,
    IOError,  # noqa: A004  # its name there
    Mutation,
    TScan,
)
from thriftpy2.protocol import TCyBinaryProtocol
from thriftpy2.thrift import TClient, TType

__all__ = [
    "BatchMutation",
    "IllegalArgument",
    "Mutation",
    "Scan",
    "Thrift1",
    "client",
    "happybase",
    "thrift2",
]

thrift2: Any = thriftpy2.load(str(Path(__file__).with_name("thrift2.thrift")), "simhbase_thrift2_thrift")


class RetryingIOError(IOError):  # type: ignore[misc]  # it has no types
    """An error that states whether a retry may succeed."""

    thrift_spec = {**IOError.thrift_spec, 2: (TType.BOOL, "canRetry", False)}  # noqa: RUF012  # as thriftpy2 has it  # as it is there
    canRetry = False  # noqa: N815  # as it is there


class Scan(TScan):  # type: ignore[misc]  # it has no types
    """A scan that sets whether blocks stay in the servers' caches."""

    thrift_spec = {**TScan.thrift_spec, 10: (TType.BOOL, "cacheBlocks", False)}  # noqa: RUF012  # as it is there
    default_spec = [*TScan.default_spec, ("cacheBlocks", None)]  # noqa: RUF012


def _service() -> Any:
    """happybase's service, with results that hold RetryingIOError."""
    results = {}
    for name in (f"{method}_result" for method in Hbase.thrift_services):
        result = getattr(Hbase, name)
        spec = {
            number: tuple(RetryingIOError if part is IOError else part for part in field)
            for number, field in result.thrift_spec.items()
        }
        results[name] = type(result)(name, (result,), {"thrift_spec": spec})
    return type("Thrift1", (Hbase,), results)


Thrift1: Any = _service()


def client(service: Any, transport: Any) -> Any:
    """happybase's client with the binary protocol in C, and strings as bytes."""
    protocol: Any = TCyBinaryProtocol
    return TClient(service, protocol(transport, decode_response=False))
