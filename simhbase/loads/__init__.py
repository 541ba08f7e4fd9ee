"""Loads of corpora into a store."""
