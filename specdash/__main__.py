"""``python -m specdash``."""

import sys

from specdash.cli import main

if __name__ == "__main__":
    sys.exit(main())
