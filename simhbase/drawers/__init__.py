"""Drawers: which ones a fingerprint is in, and which fingerprints found there match."""
