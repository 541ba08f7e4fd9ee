"""Hooks of schemathesis: how it sends JSON lines, which are text to it."""

import schemathesis


@schemathesis.serializer("application/x-ndjson")
def as_bytes(context: schemathesis.SerializationContext, value: object) -> bytes:
    return value if isinstance(value, bytes) else str(value).encode(errors="surrogatepass")
