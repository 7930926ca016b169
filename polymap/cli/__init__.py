"""The command line: words in, exit code out."""

from polymap.lazy import lazy

with lazy(__name__):
    from polymap.cli.command_line import main as main
