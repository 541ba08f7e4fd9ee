"""`spark-submit examples/spark/run.py dedup FILE` is `simhbase spark dedup FILE`: docs/spark.md."""

import sys

from simhbase.cli import main

if __name__ == "__main__":
    sys.argv[1:1] = ["spark"]
    main()
