"""Claims: of near documents, one is stored."""

TIMEOUT = 30.0  # seconds until a claim is undecided
