"""Features to SimHash fingerprints or MinHash sketches, whole batches at a time."""
