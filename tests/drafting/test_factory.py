import pytest

from specdash.domain.arms import MethodCall, parse_arm
from specdash.drafting.base import Drafter, NgramDrafter
from specdash.drafting.factory import make_chain
from specdash.errors import UnsupportedError


def test_off_has_no_drafters() -> None:
    assert make_chain(parse_arm("off")).drafters == ()


@pytest.mark.parametrize(
    ("arm", "n_max"),
    [
        ("ngram-simple:size_m=8", 8),
        ("ngram-map-k:size_m=9", 9),
        ("ngram-map-k4v:size_m=10", 10),
        ("ngram-mod:n_max=64", 64),
        ("ngram-cache:n_max=3", 8),
        ("ngram-simple:size_m=8+ngram-mod:n_max=50", 50),
    ],
)
def test_the_longest_draft_of_an_arm_is_its_chain_s(arm: str, n_max: int) -> None:
    assert make_chain(parse_arm(arm)).n_max == parse_arm(arm).n_max == n_max


def test_the_methods_are_tried_in_the_order_of_the_arm() -> None:
    assert make_chain(parse_arm("ngram-mod+ngram-simple")).names == ("ngram-mod", "ngram-simple")


def test_every_chain_is_new() -> None:
    arm = parse_arm("ngram-mod")
    assert make_chain(arm).drafters[0] is not make_chain(arm).drafters[0]


def test_a_method_with_a_model_is_refused_where_no_model_is() -> None:
    with pytest.raises(UnsupportedError, match="draft-simple cannot draft from token ids alone"):
        make_chain(parse_arm("draft-simple:model=small"))


def test_a_method_with_a_model_comes_from_the_caller() -> None:
    asked: list[MethodCall] = []

    def make(call: MethodCall) -> Drafter:
        asked.append(call)
        return NgramDrafter(call.method, 3)

    chain = make_chain(parse_arm("ngram-mod+draft-simple:model=small"), make)

    assert chain.names == ("ngram-mod", "draft-simple")
    assert [c.draft_model for c in asked] == ["small"]
