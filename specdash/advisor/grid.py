"""Which configurations are worth a prediction: parameter grids of every method with a replay.

Text copied from the prompt pays most with short patterns and long copies, text that only resembles
it with short copies, and a machine whose wide passes are dear with shorter ones still; the grids
span all of that. Values repeat in no arm: each configuration stands once, by identity.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import permutations, product

from specdash.domain.arms import Arm, make_call
from specdash.domain.methods import ParamValue

_PATTERNS = (2, 3, 4, 5, 6, 8, 12)
_COPIES = (2, 3, 4, 5, 6, 8, 12, 16, 24, 32, 48)
_DRAFTS = (1, 2, 3, 4, 5, 6, 7, 8, 10, 12, 16)
_PROBABILITIES = (0.0, 0.4, 0.6, 0.75, 0.9)


def ngram_grid() -> tuple[Arm, ...]:
    """About 300 arms that need no model, every method among them."""
    return _distinct(
        [
            # A copy shorter than its pattern is never proposed by ngram-simple.
            *_arms("ngram-simple", size_n=_PATTERNS, size_m=_COPIES, keep=_copies_enough),
            *_arms("ngram-map-k", size_n=_PATTERNS, size_m=_COPIES),
            *_arms("ngram-map-k4v", size_n=(2, 3, 4, 6, 8), size_m=_COPIES[1::2], min_hits=(1, 2)),
            *_arms(
                "ngram-mod",
                n_match=(3, 4, 6, 8, 12, 16),
                n_max=(4, 8, 16, 32, 64),
                n_min=(0, 4, 16),
                keep=_above_minimum,
            ),
            *_arms("ngram-cache"),
            *_arms("prompt-lookup", max_ngram_size=(1, 2, 3, 4), num_pred_tokens=_COPIES[:9]),
        ]
    )


def draft_grid(reference: str) -> tuple[Arm, ...]:
    """Arms of one draft model of the target's vocabulary, by budget and probability."""
    return _distinct(
        [
            *_arms("draft-simple", model=(reference,), n_max=_DRAFTS, p_min=_PROBABILITIES),
            *_arms(
                "draft-simple",
                model=(reference,),
                n_max=(4, 8, 16),
                n_min=(2, 3),
                p_min=_PROBABILITIES[2:],
            ),
        ]
    )


def chains(
    ngram_arms: Sequence[Arm], draft_arms: Sequence[Arm], *, best: int = 3
) -> tuple[Arm, ...]:
    """The best n-gram arms, each of another method, in pairs and before each draft's best arms.

    Both sequences come best first. Of a chain the first method that proposes anything counts, so
    the two orders of a pair are two arms.
    """
    lookups = _firsts(ngram_arms, lambda a: a.calls[0].method, each=1)[:best]
    drafts = _firsts(draft_arms, lambda a: a.draft_models[0], each=best)
    pairs = [*permutations(lookups, 2), *product(lookups, drafts)]
    return _distinct(Arm((*first.calls, *second.calls)) for first, second in pairs)


def _firsts(arms: Sequence[Arm], group: Callable[[Arm], str], *, each: int) -> list[Arm]:
    seen: dict[str, int] = {}
    kept = []
    for arm in arms:
        name = group(arm)
        seen[name] = seen.get(name, 0) + 1
        if seen[name] <= each:
            kept.append(arm)
    return kept


def _arms(
    method: str,
    *,
    keep: Callable[[Mapping[str, ParamValue]], bool] = lambda _p: True,
    **values: Sequence[ParamValue],
) -> list[Arm]:
    points = (dict(zip(values, point, strict=True)) for point in product(*values.values()))
    return [Arm((make_call(method, point),)) for point in points if keep(point)]


def _above_minimum(point: Mapping[str, ParamValue]) -> bool:
    return int(point["n_min"]) < int(point["n_max"])


def _copies_enough(point: Mapping[str, ParamValue]) -> bool:
    return int(point["size_m"]) >= int(point["size_n"])


def _distinct(arms: Iterable[Arm]) -> tuple[Arm, ...]:
    found: dict[str, Arm] = {}
    for arm in arms:
        # References stand in for hashes: within one grid they mean different drafts.
        found.setdefault(arm.identity({ref: ref for ref in arm.draft_models}), arm)
    return tuple(found.values())
