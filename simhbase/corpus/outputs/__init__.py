"""Files that jobs write."""
