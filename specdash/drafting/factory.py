"""From an arm to its chain of drafters."""

from collections.abc import Callable

from specdash.domain.arms import OFF, Arm, MethodCall
from specdash.drafting.base import Chain, Drafter
from specdash.drafting.ngram_cache import NgramCache
from specdash.drafting.ngram_map_k import NgramMapK
from specdash.drafting.ngram_map_k4v import NgramMapK4V
from specdash.drafting.ngram_mod import NgramMod
from specdash.drafting.ngram_simple import NgramSimple
from specdash.drafting.prompt_lookup import LookupMemory, PromptLookup, RememberedLookup
from specdash.errors import UnsupportedError

_BUILDERS: dict[str, Callable[[MethodCall], Drafter]] = {
    "ngram-simple": lambda c: NgramSimple(_int(c, "size_n"), _int(c, "size_m")),
    "ngram-map-k": lambda c: NgramMapK(_int(c, "size_n"), _int(c, "size_m")),
    "ngram-map-k4v": lambda c: NgramMapK4V(
        _int(c, "size_n"), _int(c, "size_m"), _int(c, "min_hits")
    ),
    "ngram-mod": lambda c: NgramMod(_int(c, "n_match"), _int(c, "n_min"), _int(c, "n_max")),
    "ngram-cache": lambda _c: NgramCache(),
    "prompt-lookup": lambda c: PromptLookup(_int(c, "max_ngram_size"), _int(c, "num_pred_tokens")),
}


def make_drafter(call: MethodCall) -> Drafter:
    """A new, cold drafter of a method that needs no model.

    :class:`UnsupportedError` for the others.
    """
    builder = _BUILDERS.get(call.method)
    if builder is None:
        raise UnsupportedError(
            f"{call.method} cannot draft from token ids alone.",
            f"Methods that can: {', '.join(_BUILDERS)}.",
        )
    return builder(call)


def make_chain(
    arm: Arm,
    make_model_drafter: Callable[[MethodCall], Drafter] | None = None,
    lookups: LookupMemory | None = None,
) -> Chain:
    """New, cold drafters for one generation; ``off`` gives an empty chain.

    ``make_model_drafter`` is called for every method that :func:`make_drafter` does not know.
    ``lookups`` holds what ``prompt-lookup`` found before on the same text, when it is replayed.
    """
    drafters: list[Drafter] = []
    for call in arm.calls:
        if call.method == OFF:
            continue
        if make_model_drafter is not None and call.method not in _BUILDERS:
            drafters.append(make_model_drafter(call))
        elif lookups is not None and call.method == "prompt-lookup":
            size, copied = _int(call, "max_ngram_size"), _int(call, "num_pred_tokens")
            drafters.append(RememberedLookup(size, copied, lookups))
        else:
            drafters.append(make_drafter(call))
    return Chain(drafters)


def _int(call: MethodCall, name: str) -> int:
    value = call.get(name)
    if not isinstance(value, int):
        raise TypeError(f"{call.method}: {name} is {value!r}, not a whole number")
    return value
