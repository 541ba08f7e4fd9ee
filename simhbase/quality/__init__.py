"""Measurements: exact truth, recall and precision of schemes, and what follows for the parameters."""
