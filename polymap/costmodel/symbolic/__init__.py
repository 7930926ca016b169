"""The closed form as expressions in the tiles of the mapping's loops."""
