"""Administration of stores: tables, statistics, checks, vacuum, migration, snapshots."""

from simhbase.admin.administrator import Administrator

__all__ = ["Administrator"]
