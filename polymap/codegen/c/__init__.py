"""C as data, and its text."""
