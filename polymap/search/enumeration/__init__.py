"""Every legal canonical loop tree, scored exactly: small spaces, and the referee of the search."""
