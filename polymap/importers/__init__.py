"""Models of other tools as networks; their packages are extras, imported when used."""
