"""``python -m specdash.worker``: the worker without the rest of the command line."""

import sys

from specdash.worker.scheduler import main

if __name__ == "__main__":
    sys.exit(main())
