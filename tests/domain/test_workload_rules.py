import pytest
from hypothesis import given
from hypothesis import strategies as st

from specdash.domain.workload import Message, Prompt, Workload
from specdash.domain.workload_rules import NAME_PATTERN, check_weights, check_workload, slug
from specdash.errors import UsageError


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("My prompts (2)", "my-prompts-2"),
        ("Überprüfung", "uberprufung"),
        ("2024", "workload-2024"),
        ("日本語", "workload"),
        ("", "workload"),
        ("code_edit.v2", "code_edit.v2"),
        ("a" * 80, "a" * 64),
    ],
)
def test_a_name_is_made_of_any_text(text: str, expected: str) -> None:
    assert slug(text) == expected


@given(st.text())
def test_a_made_name_is_valid_and_stays(text: str) -> None:
    name = slug(text)
    assert NAME_PATTERN.fullmatch(name)
    assert slug(name) == name


@pytest.mark.parametrize("name", ["", "12", "A", "a b", "a@1", "-a", "a" * 65, "a\n"])
def test_a_name_that_could_be_an_id_or_a_version_is_refused(name: str) -> None:
    prompt = Prompt("p", "c", (Message("user", "Hi"),))
    with pytest.raises(UsageError) as error:
        check_workload(Workload(name, (prompt,)))
    assert error.value.message == f"'{name}' is no name for a workload."


@pytest.mark.parametrize(
    ("prompt", "message"),
    [
        (Prompt("p", "c"), "the prompt is empty"),
        (Prompt("", "c", text="a"), "the key must have 1 to 100 characters"),
        (Prompt("p", "c" * 101, text="a"), "the category must have 1 to 100 characters"),
        (Prompt("p", "c", text="a", max_tokens=0), "max_tokens is 0; it must be 1 to 32768"),
        (Prompt("p", "c", (Message("system", "a"),)), "there is no message of the user"),
        (
            Prompt("p", "c", (Message("user", "a"), Message("assistant", "b"))),
            "the last message is of the assistant; it must be the user's turn",
        ),
        (
            Prompt("p", "c", (Message("system", "a"), Message("user", " "))),
            "the last message is empty",
        ),
        (
            Prompt("p", "c", (Message("robot", "a"), Message("user", "b"))),
            "the role 'robot' is not one of system, user, assistant, tool",
        ),
        (
            Prompt("p", "c", tuple(Message("user", "a") for _ in range(201))),
            "there are 201 messages; the most is 200",
        ),
    ],
)
def test_an_unfit_prompt_is_named_with_the_reason(prompt: Prompt, message: str) -> None:
    with pytest.raises(UsageError) as error:
        check_workload(Workload("w", (prompt,)))
    assert error.value.message == f"Prompt '{prompt.key}' of 'w': {message}."


def test_two_prompts_with_one_key_are_refused() -> None:
    prompts = (Prompt("p", "c", text="a"), Prompt("p", "c", text="b"))
    with pytest.raises(UsageError) as error:
        check_workload(Workload("w", prompts))
    assert error.value.message == "Prompt 'p' of 'w': another prompt has the same key."


@pytest.mark.parametrize(
    ("weights", "message"),
    [
        (
            {"a": 1e308, "b": 1e308},
            "The weight of 'a' is 1e+308; above 0 it must be 1e-06 to 1e+06.",
        ),
        (
            {"a": 1.0, "b": 1e-300},
            "The weight of 'b' is 1e-300; above 0 it must be 1e-06 to 1e+06.",
        ),
        ({"a": float("nan")}, "The weight of 'a' is nan; it must be 0 or more."),
        ({"a": -1.0}, "The weight of 'a' is -1.0; it must be 0 or more."),
        ({"a": 0.0}, "All weights are 0."),
    ],
)
def test_a_weight_that_sums_could_not_hold_is_refused(
    weights: dict[str, float], message: str
) -> None:
    with pytest.raises(UsageError) as error:
        check_weights(weights, ("a", "b"))
    assert error.value.message == message


def test_weights_may_be_0_and_far_apart() -> None:
    check_weights({"a": 1e6, "b": 1e-6, "c": 0.0}, ("a", "b", "c"))
