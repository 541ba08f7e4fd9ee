"""Formats of files that are read."""
