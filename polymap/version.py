"""The version of polymap, which answers in files carry."""

__version__ = "0.1.0"
