"""Whole files and whole corpora: sources of records, joins of a batch, output files."""
