"""Users' files: where they are, how they are compressed, what a record is, and what was rejected."""
