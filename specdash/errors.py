"""Errors whose text is shown to a person.

::

    SpecdashError               kind, message, hint; exit status 1
      UsageError                wrong use: an argument, a field, a file's row; exit status 2
      NotFoundError             no such id, name or file
      SchemaError               the database is older or newer than the code
      ModelError                a GGUF that cannot be read or loaded
      PairError                 target and draft do not fit; names the failed rule
      UnsupportedError          the engine or target cannot do what an arm asks
      EngineError               the engine failed while it ran

One place per entry point catches :class:`SpecdashError`; nothing else is swallowed.
"""


class SpecdashError(Exception):
    """Base class: what happened, and (``hint``) the likely cause and next step."""

    kind = "error"
    exit_status = 1

    def __init__(self, message: str, hint: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint

    def __str__(self) -> str:
        return f"{self.message} {self.hint}" if self.hint else self.message


class UsageError(SpecdashError):
    """The request itself is wrong; nothing was started."""

    kind = "usage"
    exit_status = 2


class NotFoundError(SpecdashError):
    """No such id, name or file."""

    kind = "not_found"


class SchemaError(SpecdashError):
    """The database schema is not the one this code knows."""

    kind = "schema"


class ModelError(SpecdashError):
    """A model file is missing, corrupt or refused by the library."""

    kind = "model"


class PairError(SpecdashError):
    """Target and draft cannot work together; ``failed_rule`` names the test."""

    kind = "pair"

    def __init__(self, message: str, failed_rule: str, hint: str | None = None) -> None:
        super().__init__(message, hint)
        self.failed_rule = failed_rule


class UnsupportedError(SpecdashError):
    """The engine or the target cannot do what the arm asks."""

    kind = "unsupported"


class EngineError(SpecdashError):
    """The engine failed while it ran."""

    kind = "engine"
