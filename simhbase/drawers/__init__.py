"""Which drawers a fingerprint is in, and which of the fingerprints found there match."""
