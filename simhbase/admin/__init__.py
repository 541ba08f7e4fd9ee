"""A store from its creation to its end: tables, sizes, checks, vacuum, migration, copies."""

from simhbase.admin.administrator import Administrator

__all__ = ["Administrator"]
