"""Users' files: finding, decompressing and parsing them, rejects, output files."""
