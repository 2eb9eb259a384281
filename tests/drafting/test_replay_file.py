import json
from pathlib import Path

import pytest

from specdash.domain.arms import parse_arm
from specdash.drafting.replay_file import RecordedText, read_texts, replay_file
from specdash.errors import NotFoundError, UsageError

_RECORD = {
    "prompt_ids": [0, 1, 2, 10, 11, 12, 9, 9, 1],
    "output_ids": [2, 10, 11, 13],
    "n_predict": 256,
    "n_ctx": 4096,
    "eog_ids": [5],
}
_SIMPLE = parse_arm("ngram-simple:size_n=2,size_m=2")


def _write(path: Path, *records: object) -> Path:
    path.write_text("\n".join(json.dumps(r) for r in records), encoding="utf-8")
    return path


@pytest.fixture
def tokens(tmp_path: Path) -> Path:
    return tmp_path / "tokens.jsonl"


def test_one_object_gives_a_row_per_arm(tokens: Path) -> None:
    assert replay_file(_write(tokens, _RECORD), [parse_arm("off"), _SIMPLE]) == [
        {
            "arm": "off",
            "n_drafted": 0,
            "n_accepted": 0,
            "n_verify_steps": 0,
            "n_plain_steps": 3,
            "accepted_histogram": [],
        },
        {
            "arm": "ngram-simple:size_n=2,size_m=2",
            "n_drafted": 2,
            "n_accepted": 2,
            "n_verify_steps": 1,
            "n_plain_steps": 0,
            "accepted_histogram": [0, 0, 1],
        },
    ]


def test_an_arm_in_a_line_replaces_the_arms_of_the_command(tokens: Path) -> None:
    path = _write(tokens, {**_RECORD, "arm": "off"}, _RECORD)
    assert [row["arm"] for row in replay_file(path, [_SIMPLE])] == [
        "off",
        "ngram-simple:size_n=2,size_m=2",
    ]


def test_an_object_may_span_lines_and_lines_may_be_empty(tokens: Path) -> None:
    tokens.write_text(json.dumps(_RECORD, indent=1), encoding="utf-8")
    assert len(read_texts(tokens)) == 1
    tokens.write_text(f"\n{json.dumps(_RECORD)}\n\n{json.dumps(_RECORD)}\n", encoding="utf-8")
    assert [number for number, _ in read_texts(tokens)] == [2, 4]


def test_limits_have_defaults(tokens: Path) -> None:
    path = _write(tokens, {"prompt_ids": [1], "output_ids": [3]})
    assert read_texts(path) == [
        (1, RecordedText((1,), (3,), n_predict=256, n_ctx=4096, eog_ids=()))
    ]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"prompt_ids": None}, "tokens.jsonl line 2: 'prompt_ids' is not a list."),
        ({"prompt_ids": [1, "a"]}, "tokens.jsonl line 2: prompt_ids[1] is 'a', not a token id."),
        ({"output_ids": [True]}, "tokens.jsonl line 2: output_ids[0] is True, not a token id."),
        ({"output_ids": [-1]}, "tokens.jsonl line 2: output_ids[0] is -1, not a token id."),
        ({"output_ids": []}, "tokens.jsonl line 2: 'output_ids' is empty."),
        ({"n_predict": "x"}, "tokens.jsonl line 2: 'n_predict' is 'x'."),
        ({"n_predict": 0}, "tokens.jsonl line 2: 'n_predict' is 0."),
        ({"n_ctx": -1}, "tokens.jsonl line 2: 'n_ctx' is -1."),
        (
            {"n_predict": 3},
            "tokens.jsonl line 2: 'output_ids' has 4 tokens, over 'n_predict' (3).",
        ),
        ({"eog_ids": 2}, "tokens.jsonl line 2: 'eog_ids' is not a list."),
        ({"arm": 5}, "tokens.jsonl line 2: 'arm' is not text."),
        ({"arm": "ngram-foo"}, "tokens.jsonl line 2: Unknown method 'ngram-foo'."),
    ],
)
def test_a_wrong_field_is_named_with_its_line(
    tokens: Path, change: dict[str, object], message: str
) -> None:
    with pytest.raises(UsageError) as caught:
        replay_file(_write(tokens, _RECORD, {**_RECORD, **change}), [_SIMPLE])
    assert caught.value.message == message
    assert caught.value.hint


def test_a_missing_field_is_named_with_its_line(tokens: Path) -> None:
    with pytest.raises(UsageError, match="line 1: 'output_ids' is missing"):
        read_texts(_write(tokens, {"prompt_ids": [1]}))


def test_a_line_that_is_not_json_is_named(tokens: Path) -> None:
    tokens.write_text(json.dumps(_RECORD) + "\n{oops\n", encoding="utf-8")
    with pytest.raises(UsageError, match="line 2 is not JSON"):
        read_texts(tokens)


def test_a_line_that_is_no_object_is_named(tokens: Path) -> None:
    with pytest.raises(UsageError, match="line 1 is not a JSON object"):
        read_texts(_write(tokens, [1, 2]))


def test_a_line_without_any_arm_is_named(tokens: Path) -> None:
    with pytest.raises(UsageError, match="line 2 names no arm"):
        replay_file(_write(tokens, {**_RECORD, "arm": "off"}, _RECORD), [])


def test_an_empty_and_a_missing_file_are_told_apart(tokens: Path) -> None:
    with pytest.raises(NotFoundError, match="cannot be read"):
        read_texts(tokens)
    tokens.write_text(" \n", encoding="utf-8")
    with pytest.raises(UsageError, match="is empty"):
        read_texts(tokens)
