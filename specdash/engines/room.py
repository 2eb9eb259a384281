"""How much of an answer fits into the context behind its prompt."""

from specdash.errors import UsageError

CAPPED = "capped"
"""Flag: the context cuts the answer short, in every arm alike."""


def room_for(
    prompt_key: str, n_prompt: int, n_ctx: int | None, max_tokens: int, *, is_ours: bool = True
) -> tuple[int, tuple[str, ...]]:
    """Most tokens of the answer, and the flags of its runs.

    ``n_ctx`` is ``None`` where it is not known; ``is_ours`` is false where somebody else set it.
    :class:`UsageError` for a prompt that does not fit.
    """
    if n_ctx is None:
        return max_tokens, ()
    room = n_ctx - n_prompt
    if room < 1:
        holder = "context" if is_ours else "server"
        longer = "Raise the context length" if is_ours else "Start the server with a longer context"
        raise UsageError(
            f"Prompt '{prompt_key}' has {n_prompt} tokens; the {holder} holds {n_ctx}.",
            f"{longer} or shorten the prompt.",
        )
    return min(max_tokens, room), (CAPPED,) if room < max_tokens else ()
