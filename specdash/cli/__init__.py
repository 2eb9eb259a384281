"""The command line: ``python -m specdash COMMAND``.

Answers go to standard output, everything else to standard error. Exit status: 0 done, 1 the work
failed, 2 wrong use.
"""

import os
import sys
from collections.abc import Sequence

from specdash.errors import SpecdashError

__all__ = ["main"]


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command and return its exit status; the one place that catches our errors."""
    from specdash.cli.app import build_app

    try:
        build_app()(args=list(argv) if argv is not None else None, prog_name="specdash")
        sys.stdout.flush()
    except SpecdashError as error:
        print(f"specdash: {error}", file=sys.stderr)  # noqa: T201
        return error.exit_status
    except OSError as error:
        if error.filename is not None:
            raise
        _close_output()
        print(f"specdash: the answer cannot be written: {error.strerror}.", file=sys.stderr)  # noqa: T201
        return 1
    except Exception as error:
        from sqlalchemy.exc import OperationalError  # a quarter of a second that most do not need

        if not isinstance(error, OperationalError):
            raise
        print(  # noqa: T201
            f"specdash: the database did not answer: {error.orig} "
            "Another program may hold it, or its disk may be full or read-only; try again.",
            file=sys.stderr,
        )
        return 1
    except SystemExit as stop:
        return stop.code if isinstance(stop.code, int) else int(stop.code is not None)
    return 0


def _close_output() -> None:
    """Let what is left in the buffer go nowhere; Python would fail on it again at the end."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, sys.stdout.fileno())
    os.close(nowhere)
