"""Near-duplicates within one corpus, or of one in another."""
