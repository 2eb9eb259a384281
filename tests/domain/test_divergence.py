"""Where outputs part, what class that is, and texts that only repeat (METHOD 7)."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from specdash.domain.divergence import (
    DifferenceClass,
    UnknownReason,
    class_text,
    classify,
    compare,
    is_degenerate,
)


def test_equal_outputs() -> None:
    found = compare([5, 6, 7], [5, 6, 7])
    assert (found.equal, found.first_difference, found.agreement) == (True, None, 1.0)
    assert not found.is_prefix


def test_first_difference_and_agreement_by_position() -> None:
    found = compare([5, 6, 9, 8, 1], [5, 6, 7, 8])
    assert (found.equal, found.first_difference, found.agreement) == (False, 2, 0.6)
    assert not found.is_prefix


def test_a_shorter_text_is_a_prefix() -> None:
    found = compare([5, 6], [5, 6, 7, 8])
    assert (found.equal, found.first_difference, found.agreement) == (False, 2, 0.5)
    assert found.is_prefix


def test_empty_outputs() -> None:
    assert compare([], []).equal
    assert compare([], [1]).first_difference == 0
    assert compare([], [1]).agreement == 0.0


@given(st.lists(st.integers(0, 3), max_size=20), st.lists(st.integers(0, 3), max_size=20))
def test_comparison_is_symmetric(a: list[int], b: list[int]) -> None:
    assert compare(a, b) == compare(b, a)
    assert 0 <= compare(a, b).agreement <= 1


@pytest.mark.parametrize(
    ("flips", "margin", "change", "rank", "expected"),
    [
        (True, 0.5, 0.01, 2, DifferenceClass.NUMERIC),
        (False, 0.02, 0.01, 2, DifferenceClass.NUMERIC),
        (False, 0.03, 0.01, 2, DifferenceClass.SUSPECT),
        (False, 0.01, 0.01, 3, DifferenceClass.SUSPECT),
        (False, 0.0, 0.0, 1, DifferenceClass.NUMERIC),
        (False, 0.01, 0.0, 2, DifferenceClass.NUMERIC),
        (False, 0.011, 0.0, 2, DifferenceClass.SUSPECT),
        (False, 0.01, 0.0, 3, DifferenceClass.SUSPECT),
    ],
)
def test_class_of_a_difference(
    flips: bool,
    margin: float,
    change: float,
    rank: int,
    expected: DifferenceClass,
) -> None:
    found = classify(
        control_flips=flips, margin=margin, largest_logit_change=change, other_rank=rank
    )
    assert found is expected
    assert class_text(found, UnknownReason.NO_TIME) == expected.value


def test_an_unknown_class_is_stored_with_its_reason() -> None:
    texts = [class_text(DifferenceClass.UNKNOWN, reason) for reason in UnknownReason]
    assert texts == ["unknown:logits", "unknown:time", "unknown:prefix"]
    assert max(map(len, texts)) <= 16  # the column


def _words(text: str) -> list[int]:
    """One id per word or mark: coarser than a real vocabulary, so repetition weighs more."""
    spaced = "".join(f" {c} " if not c.isalnum() else c for c in text)
    vocabulary: dict[str, int] = {}
    return [vocabulary.setdefault(w, len(vocabulary)) for w in spaced.split()]


JSON_LIST = json.dumps(
    [
        {"id": i, "city": city, "temperature_c": (7 * i) % 31, "humidity": 40 + (13 * i) % 50}
        for i, city in enumerate(
            ["Oslo", "Tunis", "Lima", "Bergen", "Quito", "Cairo", "Perth", "Turin", "Osaka", "Riga"]
        )
    ]
)
TABLE = "\n".join(
    f"| {name} | {price} | {price * 3} | in stock |"
    for name, price in zip(
        ["bolt", "nut", "washer", "screw", "hinge", "nail", "bracket", "hook", "rail", "clip"],
        [12, 7, 3, 9, 55, 2, 31, 14, 78, 5],
        strict=True,
    )
)
CODE = "\n".join(
    f"    def get_{name}(self):\n        return self._{name}\n"
    for name in ["id", "name", "price", "owner", "weight", "colour", "size", "label", "rank", "age"]
)
LIST = "\n".join(
    f"{i}. Check the {part} and note its pressure in the log."
    for i, part in enumerate(
        ["pump", "valve", "filter", "gauge", "boiler", "tank", "hose", "drain", "vent", "seal"], 1
    )
)


@pytest.mark.parametrize(
    "text", [JSON_LIST, TABLE, CODE, LIST], ids=["json", "table", "code", "list"]
)
def test_natural_repetition_is_not_degenerate(text: str) -> None:
    ids = _words(text)
    assert len(ids) >= 64
    assert not is_degenerate(ids, text)


@pytest.mark.parametrize(
    "text",
    [
        "the " * 100,
        "The answer is 42. " * 20,
        "First we read the question with care. Then it goes on. "
        + "            self.items.remove(name, quantity)\n" * 12,
        "I like it. " * 25 + "And that is the end of what I have to say.",
    ],
    ids=["token", "cycle", "loop to the end", "loop that ends"],
)
def test_repeated_text_is_degenerate(text: str) -> None:
    assert is_degenerate(_words(text), text)


def test_few_new_words_in_a_changing_order_are_degenerate() -> None:
    # Cycles of 33 tokens are longer than the cycle search looks, and nothing in them is new.
    ids = [i % 33 for i in range(400)]
    text = " ".join(f"w{i}" for i in ids)
    assert is_degenerate(ids, text)


def test_short_texts_are_not_judged() -> None:
    assert not is_degenerate([1] * 47, "a" * 47)
    assert is_degenerate([1] * 48, "a" * 48)
    assert not is_degenerate([], "")


def test_words_stand_for_tokens_that_are_not_known() -> None:
    assert is_degenerate([], "and so on " * 40)
    assert not is_degenerate([], " ".join(f"w{i}" for i in range(120)))
