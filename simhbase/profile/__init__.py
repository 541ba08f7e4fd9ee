"""The parameters that fingerprints depend on."""
