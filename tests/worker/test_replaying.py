"""Sharing replays out over texts and processes changes no number."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from specdash.domain.arms import parse_arm
from specdash.domain.calibration import Calibration
from specdash.drafting.model_replay import replay_with_tables
from specdash.drafting.prompt_lookup import LookupMemory
from specdash.worker import replaying
from specdash.worker.replaying import ArmOnText, PlainText, replay_arms, replay_shared_out

_FREE = Calibration(verify_s={64: {1: 0.010, 64: 0.010}})
_ARMS = [
    parse_arm(text)
    for text in (
        "prompt-lookup:max_ngram_size=2,num_pred_tokens=2",
        "ngram-simple:size_n=2,size_m=4",
        "prompt-lookup:max_ngram_size=3,num_pred_tokens=7",
        "prompt-lookup:max_ngram_size=2,num_pred_tokens=5",
        "ngram-cache",
    )
]
_ids = st.lists(st.integers(0, 3), min_size=1, max_size=40)


def _text(prompt: list[int], output: list[int], prompt_id: int = 1) -> PlainText:
    return PlainText(prompt_id, "one", tuple(prompt), tuple(output), len(output), is_ended=False)


def _counts(found: ArmOnText) -> tuple[int, ...]:
    return (found.n_drafted, found.n_accepted, found.n_verify_steps, found.n_plain_steps)


@settings(deadline=None)
@given(prompt=_ids, output=_ids)
def test_lookups_remembered_over_arms_give_what_each_arm_finds_itself(
    prompt: list[int], output: list[int]
) -> None:
    memory = LookupMemory(longest=7)
    limits: Any = {"n_predict": len(output), "n_ctx": 200, "eog_ids": ()}
    for arm in _ARMS:
        alone = replay_with_tables(prompt, output, arm, {}, **limits)
        shared = replay_with_tables(prompt, output, arm, {}, **limits, lookups=memory)
        assert shared == alone


def test_lookups_that_were_saved_are_counted_as_time() -> None:
    memory = LookupMemory(longest=7)
    output = [1, 2, 3, 1, 2, 4] * 10
    limits: Any = {"n_predict": 60, "n_ctx": 200, "eog_ids": (), "lookups": memory}
    replay_with_tables([1, 2], output, _ARMS[2], {}, **limits)
    memory.found = {key: (tokens, 1.0) for key, (tokens, _s) in memory.found.items()}
    again = replay_with_tables([1, 2], output, _ARMS[2], {}, **limits)
    n_passes = again.n_verify_steps + again.n_plain_steps
    assert again.drafting_s == pytest.approx(n_passes, abs=1.5)


def test_processes_give_every_text_its_own_answer_in_order(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(replaying, "_WORTH_A_PROCESS", 5)
    texts = [_text([1, 2, 3], [1, 2, 3] * (n + 2), n) for n in range(5)]
    alone = replay_arms(texts, _ARMS, _FREE, {}, lambda _s: None)
    shared = replay_shared_out(texts, _ARMS, _FREE, n_processes=3, progress=lambda _s: None)
    assert [[_counts(a) for a in row] for row in shared] == [
        [_counts(a) for a in row] for row in alone
    ]
    assert len({_counts(row[0]) for row in shared}) == 5


def test_no_text_and_no_arm_are_no_work() -> None:
    assert replay_shared_out([], _ARMS, _FREE, n_processes=2, progress=lambda _s: None) == []
    one = [_text([1], [1, 2])]
    assert replay_shared_out(one, [], _FREE, n_processes=2, progress=lambda _s: None) == [[]]


def test_end_token_ends_a_draft_only_where_the_text_ended_with_one() -> None:
    arm = parse_arm("ngram-simple:size_n=2,size_m=4")
    output = [5, 6, 7, 8, 9, 5, 6, 7, 8]
    capped = PlainText(1, "one", (1, 2, 3, 4), tuple(output), 64, is_ended=False)
    ended = PlainText(1, "one", (1, 2, 3, 4), tuple(output), 64, is_ended=True)
    counts = [
        replay_arms([t], [arm], _FREE, {}, lambda _s: None)[0][0].n_accepted
        for t in (capped, ended)
    ]
    assert counts == [2, 1]
