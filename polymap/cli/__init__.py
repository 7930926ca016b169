"""The command line: words in, exit code out."""

from polymap.lazy import lazy

with lazy(__name__):
    from polymap.cli.command_line import guarded as guarded, main as main
    from polymap.cli.output import Document as Document, write_documents as write_documents
