"""`python -m polymap` is the command line."""

import sys

from polymap.cli import main

if __name__ == "__main__":
    sys.exit(main())
