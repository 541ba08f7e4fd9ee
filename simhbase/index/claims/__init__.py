"""Claims: of near documents, one is stored."""
