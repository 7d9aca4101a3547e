"""``python -m numbatok``: the command line."""

import sys

from numbatok.cli import main

if __name__ == "__main__":
    sys.exit(main())
