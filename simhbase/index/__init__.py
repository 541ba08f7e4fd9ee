"""One profile over one store: writing, reading, removing what is obsolete, checking."""

from simhbase.index.index import Index, open_index

__all__ = ["Index", "open_index"]
