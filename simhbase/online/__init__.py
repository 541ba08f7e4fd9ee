"""Answers to many who ask at once: lookups that share reads, the service, its client."""

from simhbase.online.client import Client

__all__ = ["Client"]
