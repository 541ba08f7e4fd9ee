"""An index: one profile over one store."""

from simhbase.index.index import Index, open_index

__all__ = ["Index", "open_index"]
