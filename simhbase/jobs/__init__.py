"""What jobs on whole corpora share, and learning of word lists and boilerplate."""
