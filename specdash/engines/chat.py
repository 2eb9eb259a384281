"""Chat messages to prompt text, by the Jinja template that stands in the model file.

Templates come from strangers, so they run in Jinja's sandbox.
"""

import json
from collections.abc import Sequence
from datetime import UTC, datetime

from jinja2 import TemplateError
from jinja2.sandbox import ImmutableSandboxedEnvironment

from specdash.domain.workload import Message
from specdash.errors import UsageError

# Some templates print today's date. A fixed one keeps token ids, and with them the results of one
# workload, the same on every day.
FIXED_NOW = datetime(2025, 1, 1, 12, tzinfo=UTC)


class _Refusal(TemplateError):
    """The template called ``raise_exception``."""


def render_chat(
    template: str | None, messages: Sequence[Message], *, bos_token: str, eos_token: str
) -> str:
    """The prompt up to where the answer begins; without a template the plain texts, joined.

    :class:`UsageError` carries what the template says against the messages.
    """
    if template is None:
        return "\n\n".join(m.content for m in messages)
    environment = ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=["jinja2.ext.loopcontrols"]
    )
    environment.filters["tojson"] = _to_json
    environment.globals["raise_exception"] = _raise
    environment.globals["strftime_now"] = FIXED_NOW.strftime
    try:
        return environment.from_string(template).render(
            messages=[{"role": m.role, "content": m.content} for m in messages],
            bos_token=bos_token,
            eos_token=eos_token,
            add_generation_prompt=True,
        )
    except _Refusal as error:
        raise UsageError(
            f"The model's chat template refuses the messages: {error.message}.",
            "Other roles or another order of the messages may be needed.",
        ) from error
    except (TemplateError, TypeError, ValueError, ArithmeticError) as error:
        raise UsageError(
            f"The model's chat template cannot be rendered: {error}.",
            "Give the prompt as plain text, or use another file of this model.",
        ) from error


def _raise(message: str) -> None:
    raise _Refusal(str(message).rstrip("."))


def _to_json(value: object, indent: int | None = None, **_options: object) -> str:
    return json.dumps(value, ensure_ascii=False, indent=indent)
