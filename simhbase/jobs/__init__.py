"""Work on whole corpora: load, dedup, match, learn; on Spark."""
