"""The counts of one mapping by integer sets: exact for every nest, also where the closed form does not reach."""
