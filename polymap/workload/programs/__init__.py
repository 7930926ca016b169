"""Programs written as einsums or as Python functions."""
