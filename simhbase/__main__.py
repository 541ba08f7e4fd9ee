"""`python -m simhbase` is the command line."""

from simhbase.cli import main

if __name__ == "__main__":
    main()
