"""Text: bytes to text, its normal form, its features; what to leave out and how to weigh."""
