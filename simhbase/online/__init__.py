"""Answers to many who ask at once: lookups that share reads, the service, its client."""
