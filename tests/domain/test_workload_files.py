import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from specdash.domain.workload import Message, Prompt, Workload
from specdash.domain.workload_files import (
    FILE_SUFFIXES,
    MAX_FILE_BYTES,
    WorkloadFileError,
    dump_jsonl,
    dump_workload,
    parse_workload,
)
from specdash.errors import UsageError


def _user(text: str) -> tuple[Message, ...]:
    return (Message("user", text),)


def _problems(data: bytes, filename: str) -> list[str]:
    with pytest.raises(WorkloadFileError) as error:
        parse_workload(data, filename)
    return [str(p) for p in error.value.problems]


def test_yaml_in_the_shipped_shape() -> None:
    workload = parse_workload(
        b"""\
name: faq
title: Questions
description: Two of them.
weights: {short: 3, long: 1}
prompts:
- key: one
  category: short
  messages:
  - {role: system, content: Be brief.}
  - {role: user, content: "2024-01-01"}
- key: two
  category: long
  text: Once upon a time
  max_tokens: 64
""",
        "anything.yaml",
    )
    assert workload == Workload(
        "faq",
        (
            Prompt("one", "short", (Message("system", "Be brief."), Message("user", "2024-01-01"))),
            Prompt("two", "long", text="Once upon a time", max_tokens=64),
        ),
        "Questions",
        "Two of them.",
        {"short": 3.0, "long": 1.0},
    )


def test_yaml_scalars_stay_what_was_typed() -> None:
    workload = parse_workload(b"prompts: [{prompt: no, category: 1e3}, yes]", "w.yml")
    assert [(p.messages[0].content, p.category) for p in workload.prompts] == [
        ("no", "1e3"),
        ("yes", "general"),
    ]


def test_json_lines_with_prompts_and_messages() -> None:
    workload = parse_workload(
        b'{"prompt": "Hello\\u2028there", "category": "greet", "max_tokens": 32}\n'
        b"\n"
        b'{"messages": [{"role": "user", "content": "Hi"}], "key": "second", "model": "any"}\n',
        "My chat (1).jsonl",
    )
    assert workload.name == "my-chat-1"
    assert workload.prompts == (
        Prompt("p001", "greet", _user("Hello\u2028there"), max_tokens=32),
        Prompt("second", "general", _user("Hi")),
    )


def test_a_chat_log_ends_with_the_users_turn() -> None:
    turns = [
        {"role": "developer", "content": "Be kind."},
        {"role": "user", "content": [{"type": "text", "text": "What is "}, _text("2 + 2?")]},
        {"role": "assistant", "content": "4"},
        {"role": "user", "content": "And 3 + 3?"},
        {"role": "assistant", "content": "6"},
        {"role": "assistant", "content": "Six."},
    ]
    expected = (
        Message("system", "Be kind."),
        Message("user", "What is 2 + 2?"),
        Message("assistant", "4"),
        Message("user", "And 3 + 3?"),
    )
    for data, filename in (
        (json.dumps({"messages": turns}), "log.jsonl"),
        (json.dumps([{"messages": turns}]), "log.json"),
        (json.dumps(turns), "log.json"),
        (json.dumps({"messages": turns}, indent=2), "log.json"),
    ):
        (prompt,) = parse_workload(data.encode(), filename).prompts
        assert prompt.messages == expected


def _text(text: str) -> dict[str, str]:
    return {"type": "text", "text": text}


def test_json_in_the_shipped_shape() -> None:
    workload = parse_workload(
        b'{"name": "x", "weights": {"general": 2}, "prompts": ["a", {"text": "b"}]}', "w.json"
    )
    assert workload == Workload(
        "x",
        (Prompt("p001", "general", _user("a")), Prompt("p002", "general", text="b")),
        weights={"general": 2.0},
    )


def test_csv_with_quoted_lines() -> None:
    workload = parse_workload(
        b"\xef\xbb\xbfprompt,category,max_tokens\r\n"
        b'"two\r\nlines, one cell",a,16\r\n\r\nplain,,\r\n',
        "w.csv",
    )
    assert workload.prompts == (
        Prompt("p001", "a", _user("two\r\nlines, one cell"), max_tokens=16),
        Prompt("p002", "general", _user("plain")),
    )


def test_csv_with_a_system_message() -> None:
    workload = parse_workload(b"System,Prompt\nBe brief.,Hi\n,Ho\n", "w.csv")
    assert [p.messages for p in workload.prompts] == [
        (Message("system", "Be brief."), Message("user", "Hi")),
        _user("Ho"),
    ]


def test_text_in_blocks_or_whole() -> None:
    data = b"\n\nfirst line\n  second line\n\n \nanother\r\n"
    blocks = parse_workload(data, "w.txt")
    assert [p.messages for p in blocks.prompts] == [
        _user("first line\n  second line"),
        _user("another"),
    ]
    whole = parse_workload(data, "w.txt", whole_text=True)
    assert [p.messages for p in whole.prompts] == [_user("first line\n  second line\n\n \nanother")]


def test_a_given_name_wins_over_the_one_in_the_file() -> None:
    data = b"name: inside\nprompts: [a]"
    assert parse_workload(data, "outside.yaml").name == "inside"
    assert parse_workload(data, "outside.yaml", "given").name == "given"
    assert parse_workload(b"a", "2024 Fragen.txt").name == "workload-2024-fragen"


def test_every_bad_json_line_is_named_and_nothing_is_imported() -> None:
    data = b"""{"prompt": "fine"}
{"promt": "b"}
nope
{"prompt": ""}
{"prompt": "a", "messages": []}
{"prompt": 3}
[1]
{"prompt": "a", "max_tokens": 0}
{"prompt": "a", "max_tokens": 1.5}
{"prompt": "a", "key": "p001"}
{"messages": [{"role": "assistant", "content": "Hi"}]}
{"messages": [{"role": "robot", "content": "Hi"}]}
{"messages": [{"role": "user", "content": [{"type": "image_url"}]}]}
{"messages": [{"role": "user", "content": "a"}, {"role": "assistant", "tool_calls": [1]}]}
{"messages": [{"role": "user", "content": "a"}, {"role": "system", "content": "b"}]}
{"prompt": "\\ud800"}
{"prompt": "\\u0000"}
{"text": "a", "system": "b"}
"""
    assert _problems(data, "w.jsonl") == [
        "line 2: unknown field 'promt'; is 'prompt' meant?",
        "line 3: not JSON: Expecting value",
        "line 4: the prompt is empty",
        "line 5: exactly one of 'prompt', 'messages' and 'text' is needed;"
        " this has prompt and messages",
        "line 6: 'prompt' is not text",
        "line 7: neither an object nor text",
        "line 8: max_tokens is 0; it must be 1 to 32768",
        "line 9: 'max_tokens' is not a whole number",
        "line 10: the key 'p001' already stands on line 1",
        "line 11: the prompt is empty",
        "line 12: message 1: 'role' is not one of system, user, assistant, tool",
        "line 13: message 1: a part of 'content' is not text",
        "line 14: message 2: tool calls cannot be replayed",
        "line 15: the last message is of the system; it must be the user's turn",
        "line 16: there is half of a surrogate pair in the text",
        "line 17: there is a zero byte in the text",
        "line 18: 'system' goes with 'prompt' only",
    ]


def test_bad_rows_of_other_formats_are_named_by_line() -> None:
    assert _problems(b'prompt,category\n"two\nlines",y\n,z\nq,a,b\n', "w.csv") == [
        "line 4: the prompt is empty",
        "line 5: 3 cells under 2 columns",
    ]
    assert _problems(b"question\nHi\n", "w.csv") == [
        "line 1: unknown column 'question'; the first line of a CSV file names its columns, each"
        " once: prompt, and if wanted system, category, max_tokens, key"
    ]
    for head, words in (
        (b"prompt,prompt", "column 'prompt' stands twice;"),
        (b"prompt,,key", "column 2 is unnamed;"),
        (b"system,key", "there is no column 'prompt';"),
    ):
        (problem,) = _problems(head + b"\nHi,there,x\n", "w.csv")
        assert problem.startswith(f"line 1: {words}")
    assert _problems(b'prompt\n"open\n', "w.csv") == ["line 2: not CSV: unexpected end of data"]
    assert _problems(b'[\n {"prompt": "a"},\n\n {"prompt": " "}\n]', "w.json") == [
        "line 4: the prompt is empty"
    ]
    assert _problems(b'{"prompts":\n [\n  5]}', "w.json") == ["line 3: neither an object nor text"]
    assert _problems(b"prompts:\n- a\n- {category: x}\n", "w.yaml") == [
        "line 3: exactly one of 'prompt', 'messages' and 'text' is needed"
    ]
    assert _problems(b"prompts: [a]\nweigths: {general: 1}\n", "w.yaml") == [
        "line 1: unknown field 'weigths'; is 'weights' meant?"
    ]
    assert _problems(b"a\n\n" + b"x" * 100_001, "w.txt") == [
        "line 3: the prompt has 100001 characters; the most is 100000"
    ]


@pytest.mark.parametrize(
    ("data", "filename", "text"),
    [
        (b"a: [", "w.yaml", "line 2: not YAML: did not find expected node content"),
        (b"- a", "w.yaml", "line 1: a workload in YAML is a mapping with a list 'prompts'"),
        (b"prompts: a", "w.yaml", "line 1: a workload in YAML is a mapping with a list 'prompts'"),
        (b"", "w.yaml", "line 1: a workload in YAML is a mapping with a list 'prompts'"),
        (b"[" * 200_000, "w.json", "line 1: nested too deeply"),
        (b'{\n"a" 1}', "w.json", "line 2: not JSON: Expecting ':' delimiter"),
        (b"1" * 5000, "w.json", "line 1: not JSON: a number with too many digits"),
    ],
)
def test_what_cannot_be_read_at_all_says_where(data: bytes, filename: str, text: str) -> None:
    assert _problems(data, filename) == [text]


def test_deep_yaml_is_refused() -> None:
    for data in (b"[" * 200_000, b"{a: " * 200_000, b"a: &a [*a]\nprompts: [*a]"):
        with pytest.raises(WorkloadFileError):
            parse_workload(data, "w.yaml")


def test_the_message_lists_twenty_bad_rows_and_counts_the_rest() -> None:
    with pytest.raises(WorkloadFileError) as error:
        parse_workload(b"x\n" * 23, "w.jsonl")
    assert len(error.value.problems) == 23
    assert error.value.message.startswith("w.jsonl was not imported. line 1: not JSON")
    assert error.value.message.endswith("line 20: not JSON: Expecting value; and 3 more.")
    assert error.value.exit_status == 2


@pytest.mark.parametrize(
    ("data", "filename", "message"),
    [
        (b"", "w.txt", "w.txt holds no prompt. A workload needs at least one."),
        (b"prompt\n", "w.csv", "w.csv holds no prompt. A workload needs at least one."),
        (b"prompts: []", "w.yaml", "w.yaml holds no prompt. A workload needs at least one."),
        (b"[]", "w.json", "w.json holds no prompt. A workload needs at least one."),
        (
            b"ok\n\xe4",
            "w.txt",
            "w.txt is not UTF-8 text (byte 0xe4 on line 2). Save it as UTF-8 and import it again.",
        ),
        (
            "prompt".encode("utf-16"),
            "w.csv",
            "w.csv is not UTF-8 text (byte 0xff on line 1; it looks like UTF-16)."
            " Save it as UTF-8 and import it again.",
        ),
        (
            b"a" * (MAX_FILE_BYTES + 1),
            "w.txt",
            "w.txt has 8.0 MiB; the most is 8 MiB. Split it into several workloads.",
        ),
        (
            b"a",
            "w.pdf",
            "Files ending in '.pdf' are not read. Known endings: .csv, .json, .jsonl, .md,"
            " .ndjson, .txt, .yaml, .yml.",
        ),
        (
            b"prompts: [a]\nweights: {b: 1}",
            "w.yaml",
            "There is no category 'b' to weigh. Categories: general.",
        ),
        (
            b"prompts: [a]\nweights: {general: much}",
            "w.yaml",
            "The weight of 'general' in w.yaml is not a number.",
        ),
        (
            b"name: Two Words\nprompts: [a]",
            "w.yaml",
            "'Two Words' is no name for a workload. A name begins with a letter and has up to 64"
            " of a-z, 0-9, '.', '_' and '-'; for example 'two-words'.",
        ),
    ],
)
def test_a_file_that_is_refused_says_why(data: bytes, filename: str, message: str) -> None:
    with pytest.raises(UsageError) as error:
        parse_workload(data, filename)
    assert str(error.value) == message


def test_more_prompts_than_allowed_are_refused() -> None:
    assert _problems(b'"a"\n' * 2001, "w.jsonl") == ["line 2001: prompt 2001; the most is 2000"]


def test_yaml_is_written_for_people() -> None:
    workload = Workload(
        "faq",
        (Prompt("one", "x", (Message("user", "First line\n\n    indented: yes"),), None, 5),),
        "Questions",
        weights={"x": 2.0},
    )
    assert (
        dump_workload(workload)
        == """\
name: faq
title: Questions
weights:
  x: 2.0
prompts:
- key: one
  category: x
  messages:
  - role: user
    content: |-
      First line

          indented: yes
  max_tokens: 5
"""
    )


_labels = st.text(min_size=1, max_size=20).filter(lambda s: s == s.strip() and "\x00" not in s)
_texts = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\x00"), max_size=80)
_contents = _texts.filter(lambda s: s.strip() != "")
_chats = st.tuples(
    st.lists(st.builds(Message, st.sampled_from(["system", "user", "assistant"]), _texts)),
    st.builds(Message, st.just("user"), _contents),
).map(lambda parts: (*parts[0], parts[1]))


@st.composite
def _workloads(draw: st.DrawFn) -> Workload:
    keys = draw(st.lists(_labels, min_size=1, max_size=4, unique=True))
    prompts = []
    for key in keys:
        category = draw(_labels)
        limit = draw(st.none() | st.integers(1, 32_768))
        if draw(st.booleans()):
            prompts.append(Prompt(key, category, draw(_chats), None, limit))
        else:
            prompts.append(Prompt(key, category, (), draw(_contents), limit))
    categories = [p.category for p in prompts]
    shares = st.floats(0.001, 1e6)
    weights = draw(st.dictionaries(st.sampled_from(categories), shares))
    return Workload("w", tuple(prompts), draw(_texts), draw(_texts), weights)


@given(_workloads())
@settings(max_examples=80, deadline=None)
def test_yaml_gives_back_an_equal_workload(workload: Workload) -> None:
    again = parse_workload(dump_workload(workload).encode(), "w.yaml")
    assert again == workload
    assert again.version == workload.version


@given(_workloads())
@settings(max_examples=50, deadline=None)
def test_json_lines_give_back_the_same_version(workload: Workload) -> None:
    again = parse_workload(dump_jsonl(workload).encode(), "w.jsonl", workload.name)
    assert again.prompts == workload.prompts
    assert again.version == workload.version


_json = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=10),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(
            st.sampled_from(
                [
                    "prompts",
                    "prompt",
                    "messages",
                    "role",
                    "content",
                    "text",
                    "system",
                    "key",
                    "name",
                    "category",
                    "max_tokens",
                    "weights",
                    "title",
                    "type",
                    "tool_calls",
                ]
            ),
            inner | st.sampled_from(["user", "assistant", "text"]),
            max_size=4,
        )
    ),
    max_leaves=20,
)
_files = st.one_of(
    st.binary(max_size=200),
    st.text(max_size=200).map(lambda s: s.encode("utf-8", "surrogatepass")),
    _json.map(lambda v: json.dumps(v).encode()),
    st.lists(_json, max_size=4).map(lambda vs: "\n".join(map(json.dumps, vs)).encode()),
    _json.map(lambda v: json.dumps({"prompts": [v, v]}).encode()),
)


@given(_files, st.sampled_from(FILE_SUFFIXES), st.booleans())
@settings(max_examples=250, deadline=None)
def test_any_bytes_are_a_workload_or_an_error_in_words(
    data: bytes, suffix: str, whole: bool
) -> None:
    try:
        workload = parse_workload(data, f"w{suffix}", "w", whole_text=whole)
    except UsageError as error:
        words = error.message
    else:
        words = dump_workload(workload)
        assert parse_workload(words.encode(), "w.yaml") == workload
    assert words
