"""An index: one profile over one store."""

from simhbase.index.index import Index
from simhbase.index.opening import open_index

__all__ = ["Index", "open_index"]
