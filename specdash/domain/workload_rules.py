"""What a workload must be like to be stored: names, bounds, and words for what is wrong."""

import math
import re
import unicodedata
from collections.abc import Mapping

from specdash.domain.workload import ROLES, Prompt, Workload
from specdash.errors import UsageError

DEFAULT_CATEGORY = "general"
MAX_PROMPTS = 2000
MAX_PROMPT_CHARS = 100_000
MAX_MESSAGES = 200
MAX_MAX_TOKENS = 32_768
MOST_WEIGHT = 1e6
"""Of a category; the least above 0 is its inverse, so that sums and shares stay exact."""
NAME_PATTERN = re.compile(r"[a-z][a-z0-9._-]{0,63}")
"""No ``@`` (it comes before a version) and never only digits (those are ids)."""

_MAX_LABEL_CHARS = 100


def slug(text: str) -> str:
    """A valid name made of any text: ``My prompts (2)`` gives ``my-prompts-2``."""
    ascii_text = unicodedata.normalize("NFKD", text).encode("ascii", "ignore").decode()
    words = re.sub(r"[^a-z0-9._]+", "-", ascii_text.lower()).strip("-._")
    if not words:
        return "workload"
    return (words if words[0].isalpha() else f"workload-{words}")[:64].rstrip("-._")


def check_workload(workload: Workload) -> None:
    """:class:`~specdash.errors.UsageError` when the workload cannot be stored, with the reason."""
    if not NAME_PATTERN.fullmatch(workload.name):
        raise UsageError(
            f"'{workload.name[:80]}' is no name for a workload.",
            "A name begins with a letter and has up to 64 of a-z, 0-9, '.', '_' and '-';"
            f" for example '{slug(workload.name)}'.",
        )
    if not workload.prompts:
        raise UsageError(
            f"The workload '{workload.name}' holds no prompt.", "Add at least one prompt."
        )
    if len(workload.prompts) > MAX_PROMPTS:
        raise UsageError(
            f"The workload '{workload.name}' holds {len(workload.prompts)} prompts;"
            f" the most is {MAX_PROMPTS}.",
            "Split it into several workloads.",
        )
    keys: set[str] = set()
    for prompt in workload.prompts:
        problem = prompt_problem(prompt)
        if problem is None and prompt.key in keys:
            problem = "another prompt has the same key"
        if problem:
            raise UsageError(f"Prompt '{prompt.key[:40]}' of '{workload.name}': {problem}.")
        keys.add(prompt.key)
    check_weights(workload.weights, workload.categories)


def check_weights(weights: Mapping[str, float], categories: tuple[str, ...]) -> None:
    """Weights are 0 or of a size that sums keep exact, not all 0, for categories that exist."""
    known = ", ".join(categories)
    for category, weight in weights.items():
        if category not in categories:
            raise UsageError(
                f"There is no category '{category[:40]}' to weigh.", f"Categories: {known}."
            )
        if not math.isfinite(weight) or weight < 0:
            raise UsageError(f"The weight of '{category}' is {weight}; it must be 0 or more.")
        if weight and not 1 / MOST_WEIGHT <= weight <= MOST_WEIGHT:
            raise UsageError(
                f"The weight of '{category}' is {weight:g}; above 0 it must be "
                f"{1 / MOST_WEIGHT:g} to {MOST_WEIGHT:g}.",
                "Only how weights relate to each other counts.",
            )
    if weights and not any(weights.values()):
        raise UsageError("All weights are 0.", "Give at least one category a weight above 0.")


def prompt_problem(prompt: Prompt) -> str | None:
    """What is wrong with one prompt, in words; ``None`` when nothing is."""
    for field, label in (("key", prompt.key), ("category", prompt.category)):
        if not 1 <= len(label) <= _MAX_LABEL_CHARS:
            return f"the {field} must have 1 to {_MAX_LABEL_CHARS} characters"
    if prompt.max_tokens is not None and not 1 <= prompt.max_tokens <= MAX_MAX_TOKENS:
        return f"max_tokens is {prompt.max_tokens}; it must be 1 to {MAX_MAX_TOKENS}"
    contents = [] if prompt.text is None else [prompt.text]
    contents += [m.content for m in prompt.messages]
    if not any(c.strip() for c in contents):
        return "the prompt is empty"
    if prompt.text is None and (problem := _messages_problem(prompt)):
        return problem
    if (size := sum(map(len, contents))) > MAX_PROMPT_CHARS:
        return f"the prompt has {size} characters; the most is {MAX_PROMPT_CHARS}"
    return _unstorable((prompt.key, prompt.category, *contents))


def _messages_problem(prompt: Prompt) -> str | None:
    if len(prompt.messages) > MAX_MESSAGES:
        return f"there are {len(prompt.messages)} messages; the most is {MAX_MESSAGES}"
    for message in prompt.messages:
        if message.role not in ROLES:
            return f"the role '{message.role[:40]}' is not one of {', '.join(ROLES)}"
    if not any(m.role == "user" for m in prompt.messages):
        return "there is no message of the user"
    last = prompt.messages[-1]
    if last.role not in ("user", "tool"):
        return f"the last message is of the {last.role}; it must be the user's turn"
    return "the last message is empty" if not last.content.strip() else None


def _unstorable(texts: tuple[str, ...]) -> str | None:
    for text in texts:
        if "\x00" in text:
            return "there is a zero byte in the text"
        if any("\ud800" <= c <= "\udfff" for c in text):
            return "there is half of a surrogate pair in the text"
    return None
