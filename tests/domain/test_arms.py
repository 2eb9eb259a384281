"""Arm texts: parsing, quoting, identity, replicas."""

import contextlib

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from specdash.domain.arms import OFF_ARM, Arm, make_call, parse_arm, with_baseline
from specdash.domain.methods import METHODS, Param, ParamValue
from specdash.errors import UsageError


def test_short_text_shows_what_differs_and_full_text_everything() -> None:
    arm = Arm(parse_arm("ngram-simple:size_m=8").calls)
    assert arm.text() == "ngram-simple:size_m=8"
    assert arm.full_text() == "ngram-simple:size_n=12,size_m=8"
    assert parse_arm(" ngram-simple:size_m=8 ").text() == "ngram-simple:size_m=8"


def test_defaults_are_those_of_lm_studio() -> None:
    arm = parse_arm("draft-simple:model=tiny")
    assert arm.full_text() == "draft-simple:model=tiny,n_max=3,n_min=0,p_min=0"
    assert arm.n_max == 3
    assert arm.draft_models == ("tiny",)


def test_methods_chain_left_to_right() -> None:
    arm = parse_arm("ngram-mod+draft-simple:model=tiny,n_max=5")
    assert [c.method for c in arm.calls] == ["ngram-mod", "draft-simple"]
    assert arm.n_max == 64
    assert parse_arm(arm.full_text()) == arm


@pytest.mark.parametrize(
    ("text", "model"),
    [
        ('draft-simple:model="a,b=c+d:e.gguf"', "a,b=c+d:e.gguf"),
        ('draft-simple:model="my draft.gguf",n_max=2', "my draft.gguf"),
        (r'draft-simple:model="C:\models\tiny.gguf"', r"C:\models\tiny.gguf"),
        (r'draft-simple:model="say \"hi\".gguf"', 'say "hi".gguf'),
        ('draft-simple:model="build#2"', "build#2"),
        ("draft-simple:model=/models/tiny.gguf", "/models/tiny.gguf"),
    ],
)
def test_values_with_special_characters_are_quoted(text: str, model: str) -> None:
    arm = parse_arm(text)
    assert arm.draft_models == (model,)
    assert arm.replica == 1
    assert parse_arm(arm.full_text()) == arm


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "An arm is empty."),
        ("#2", "An arm is empty."),
        ("ngram", "Unknown method 'ngram'."),
        ("ngram-simple:n=3", "ngram-simple: unknown key 'n'. Allowed keys: size_n, size_m."),
        ("off:size_n=3", "off: unknown key 'size_n'. Allowed keys: none."),
        ("ngram-simple:size_n=0", "ngram-simple: size_n=0 is out of range. Allowed: 1 to 1024."),
        ("ngram-simple:size_n=x", "ngram-simple: size_n='x' is not a whole number."),
        ("ngram-simple:size_n=3.5", "ngram-simple: size_n='3.5' is not a whole number."),
        ("draft-simple:model=a,p_min=nan", "draft-simple: p_min=nan is out of range."),
        ("ngram-simple:size_n", "ngram-simple: 'size_n' has no value."),
        ("ngram-simple:size_n=3,size_n=4", "ngram-simple: 'size_n' is given twice."),
        ("draft-simple", "draft-simple needs 'model'."),
        ("draft-simple:model=a,n_min=4", "draft-simple: n_min=4 is above n_max=3."),
        ("off+ngram-simple", "Arm 'off+ngram-simple': 'off' cannot be chained with a method."),
        ("ngram-mod+ngram-mod", "a method may stand only once in a chain."),
        ('draft-simple:model="a', "a double quote is not closed."),
        ("off#0", "the number after '#' starts at 1."),
    ],
)
def test_wrong_arms_are_refused_in_words(text: str, message: str) -> None:
    with pytest.raises(UsageError) as caught:
        parse_arm(text)
    assert message in str(caught.value)


def test_identity_is_by_draft_content_and_not_by_its_name_or_replica() -> None:
    a = parse_arm("draft-simple:model=here,n_max=3")
    b = parse_arm("draft-simple:n_max=3,model=there#2")
    assert a.identity({"here": "abc"}) == b.identity({"there": "abc"})
    assert a.identity({"here": "abc"}) != a.identity({"here": "abd"})
    assert a.canonical({"here": "abc"}) == [
        {"method": "draft-simple", "model": "abc", "n_max": 3, "n_min": 0, "p_min": 0.0}
    ]


def test_whole_numbers_given_for_a_fraction_are_the_same_arm() -> None:
    by_form = Arm((make_call("draft-simple", {"model": "a", "p_min": 0}),))
    by_text = parse_arm("draft-simple:model=a,p_min=0.0")
    assert by_form.identity({"a": "x"}) == by_text.identity({"a": "x"})


@pytest.mark.parametrize(
    ("given_arms", "expected"),
    [
        ([], ["off"]),
        (["ngram-simple"], ["off", "ngram-simple"]),
        (["ngram-simple", "off"], ["off", "ngram-simple"]),
        (["off", "off"], ["off", "off#2"]),
        (["off#2"], ["off", "off#2"]),
        (["off#2", "off"], ["off", "off#2"]),
        (["ngram-simple", "ngram-simple"], ["off", "ngram-simple", "ngram-simple#2"]),
        (
            ["ngram-simple", "ngram-simple:size_n=12", "ngram-simple#2"],
            ["off", "ngram-simple", "ngram-simple:size_n=12#2", "ngram-simple#3"],
        ),
    ],
)
def test_baseline_comes_first_and_repeats_are_numbered(
    given_arms: list[str], expected: list[str]
) -> None:
    arms = with_baseline([parse_arm(text) for text in given_arms])
    assert [a.text() for a in arms] == expected
    assert arms[0] == OFF_ARM
    assert [a.is_baseline for a in arms] == [True] + [False] * (len(arms) - 1)


DRAFTING = [name for name in METHODS if name != "off"]
NAMES = st.text(st.sampled_from('ab/.:,=+ #"\\\n\tä'), min_size=1, max_size=12)
PIECES = ["off", "ngram-mod", "draft-simple", "model=", "n_max=", *':,+"\\ =#', "2", "x", "#2"]


def _value(param: Param) -> st.SearchStrategy[ParamValue]:
    if param.kind is str:
        return NAMES
    assert param.minimum is not None
    assert param.maximum is not None
    if param.kind is float:
        return st.floats(param.minimum, param.maximum)
    return st.integers(int(param.minimum), int(param.maximum))


@st.composite
def arms(draw: st.DrawFn) -> Arm:
    names = draw(
        st.lists(
            st.sampled_from([m for m in METHODS if m != "off"]), min_size=1, max_size=3, unique=True
        )
    )
    calls = []
    for name in names:
        given_params = {
            p.name: draw(_value(p))
            for p in METHODS[name].params
            if p.required or draw(st.booleans())
        }
        try:
            calls.append(make_call(name, given_params))
        except UsageError as error:
            assume("n_min" not in error.message)
            raise
    return Arm(tuple(calls), draw(st.integers(1, 12)))


@given(arms())
def test_full_and_short_text_parse_back_to_the_same_arm(arm: Arm) -> None:
    assert parse_arm(arm.full_text()) == arm
    assert parse_arm(arm.text()) == arm
    assert parse_arm(arm.full_text()).full_text() == arm.full_text()


@given(st.lists(st.sampled_from(PIECES), max_size=12).map("".join))
def test_any_text_is_an_arm_or_a_usage_error(text: str) -> None:
    with contextlib.suppress(UsageError):
        arm = parse_arm(text)
        assert parse_arm(arm.full_text()) == arm
