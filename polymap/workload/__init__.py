"""Where loop nests come from: einsums, layers, networks, documents and C; and what they are, as data."""
