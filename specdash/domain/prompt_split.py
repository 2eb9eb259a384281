"""Which prompts choose the winner and which confirm it (METHOD 6): the same split every time."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

SPLIT_FROM_PROMPTS = 6
"""Fewer prompts cannot be shared: each side needs three for an interval."""


@dataclass(frozen=True, slots=True)
class PromptSplit:
    """Keys in the order they run; without ``is_split`` both sides are all prompts."""

    search: tuple[str, ...]
    confirm: tuple[str, ...]
    is_split: bool


def split_prompts(categories: Mapping[str, str]) -> PromptSplit:
    """Half of each category for either side; ``categories`` is key -> category, in order.

    Odd ones out go to the two sides in turn. On each side categories take turns, so that a search
    that ends early has seen them all.
    """
    if len(categories) < SPLIT_FROM_PROMPTS:
        everything = alternate(categories)
        return PromptSplit(everything, everything, is_split=False)
    sides: tuple[dict[str, str], dict[str, str]] = ({}, {})
    turn = 0
    for keys in _by_category(categories).values():
        for key in keys:
            sides[turn % 2][key] = categories[key]
            turn += 1
    return PromptSplit(alternate(sides[0]), alternate(sides[1]), is_split=True)


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
