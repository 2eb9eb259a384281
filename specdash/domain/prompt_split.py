"""Which prompts find the finalists and which confirm them (METHOD 6): the same split always."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from specdash.domain.statistics import MIN_PROMPTS, mix_shares

SPLIT_FROM_PROMPTS = 2 * MIN_PROMPTS
"""Fewer prompts cannot be shared: each side needs three for an interval."""
SEARCH_SHARE = 1 / 3
"""Of the prompts. The confirmation decides and pays for every prompt it lacks; a search that errs
picks an arm that is nearly as good. docs/statistics.md has both in numbers."""


@dataclass(frozen=True, slots=True)
class PromptSplit:
    """Keys in the order they run; without ``is_split`` both sides are all prompts."""

    search: tuple[str, ...]
    confirm: tuple[str, ...]
    is_split: bool

    @property
    def n_prompts(self) -> int:
        """Prompts on any side."""
        return len({*self.search, *self.confirm})


def split_prompts(
    categories: Mapping[str, str], mix: Mapping[str, float] | None = None
) -> PromptSplit:
    """About a third of the prompts to search with; ``categories`` is key -> category, in order.

    Prompts of categories that have no part in the mix are on neither side: nothing rests on them.
    The category with most left gives the next one to the search. Once the search has three, every
    category that can keeps three for the confirmation. On each side categories take turns, so that
    a search that ends early has seen them all.
    """
    shares = mix_shares(dict.fromkeys(categories.values()), mix)
    categories = {key: c for key, c in categories.items() if shares[c] > 0}
    if len(categories) < SPLIT_FROM_PROMPTS:
        everything = alternate(categories)
        return PromptSplit(everything, everything, is_split=False)
    groups = _by_category(categories)
    n_given = dict.fromkeys(groups, 0)
    wanted = max(MIN_PROMPTS, round(SEARCH_SHARE * len(categories)))
    while (n := sum(n_given.values())) < wanted:
        left = {c: len(keys) - n_given[c] for c, keys in groups.items()}
        giver = max(groups, key=lambda c: (left[c], -n_given[c]))
        if n >= MIN_PROMPTS and left[giver] <= MIN_PROMPTS:
            break
        n_given[giver] += 1
    searched = {
        keys[i * len(keys) // n_given[c]] for c, keys in groups.items() for i in range(n_given[c])
    }
    search = {key: c for key, c in categories.items() if key in searched}
    confirm = {key: c for key, c in categories.items() if key not in searched}
    return PromptSplit(alternate(search), alternate(confirm), is_split=True)


def alternate(categories: Mapping[str, str]) -> tuple[str, ...]:
    """Keys with their categories taking turns, in the order given within each."""
    groups = [list(keys) for keys in _by_category(categories).values()]
    longest = max(map(len, groups), default=0)
    return tuple(keys[i] for i in range(longest) for keys in groups if i < len(keys))


def _by_category(categories: Mapping[str, str]) -> dict[str, Sequence[str]]:
    found: dict[str, list[str]] = {}
    for key, category in categories.items():
        found.setdefault(category, []).append(key)
    return dict(found)
