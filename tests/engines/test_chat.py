"""Chat templates are rendered as the tools that ship them do, in a sandbox."""

import pytest

from specdash.domain.workload import Message
from specdash.engines.chat import render_chat
from specdash.errors import UsageError

MESSAGES = (Message("system", "Be brief."), Message("user", "Hi <b>"))
CHATML = (
    "{% for message in messages %}{{ '<|im_start|>' + message['role'] + '\\n' + "
    "message['content'] + '<|im_end|>' + '\\n' }}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}"
)


def render(template: str | None) -> str:
    return render_chat(template, MESSAGES, bos_token="<s>", eos_token="</s>")


def test_chatml_ends_where_the_answer_begins() -> None:
    assert render(CHATML) == (
        "<|im_start|>system\nBe brief.<|im_end|>\n<|im_start|>user\nHi <b><|im_end|>\n"
        "<|im_start|>assistant\n"
    )


def test_blocks_leave_no_lines_behind() -> None:
    template = (
        "{% for m in messages %}\n    {% if true %}\n{{ m.role }}\n    {% endif %}\n{% endfor %}"
    )
    assert render(template) == "system\nuser\n"


def test_special_tokens_are_at_hand() -> None:
    assert render("{{ bos_token }}x{{ eos_token }}") == "<s>x</s>"


def test_loops_may_break_and_text_is_not_escaped() -> None:
    template = (
        "{% for m in messages %}{% if m.role == 'user' %}{{ m.content }}{% break %}{% endif %}"
        "{% endfor %}"
    )
    assert render(template) == "Hi <b>"


def test_json_keeps_letters_of_all_languages() -> None:
    assert render("{{ {'a': 'ü<'} | tojson }}") == '{"a": "ü<"}'


def test_dates_do_not_move_token_ids() -> None:
    assert render("{{ strftime_now('%d %b %Y') }}") == "01 Jan 2025"


def test_without_a_template_the_texts_stand_one_after_the_other() -> None:
    assert render(None) == "Be brief.\n\nHi <b>"


def test_a_refusal_of_the_template_is_passed_on() -> None:
    with pytest.raises(UsageError, match="refuses the messages: System role not supported"):
        render("{{ raise_exception('System role not supported') }}")


@pytest.mark.parametrize(
    "template",
    [
        "{% for %}",
        "{{ messages[0].missing.deeper }}",
        "{{ ''.__class__.__mro__[1].__subclasses__() }}",
        "{{ messages.append(1) }}",
        "{{ 1 / 0 }}",
    ],
    ids=["syntax", "undefined", "sandbox", "mutation", "arithmetic"],
)
def test_a_broken_or_hostile_template_is_an_error_in_words(template: str) -> None:
    with pytest.raises(UsageError, match="chat template cannot be rendered"):
        render(template)
