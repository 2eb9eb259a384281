"""What the check of the advisor against everything accepts."""

from collections.abc import Mapping
from datetime import UTC, datetime

import pytest

from benchmarks.advisor_check import assess
from specdash.store.views import RunView

NOW = datetime(2026, 1, 1, tzinfo=UTC)
RATIOS = {"off": 1.0, "a": 1.5, "b": 1.49, "c": 1.2}
SPREAD = (0.95, 0.97, 1.0, 1.02, 1.05, 1.01)


def _run(arm: str, prompt: int, speed: float, order: int, **changes: object) -> RunView:
    values: dict[str, object] = {
        "run_id": order,
        "experiment_id": 1,
        "experiment_arm_id": 1,
        "arm": arm,
        "prompt_id": prompt,
        "prompt_key": f"p{prompt}",
        "category": "x",
        "round": 0,
        "attempt": 1,
        "order_index": order,
        "is_warmup": False,
        "started_at": NOW,
        "n_prompt": 10,
        "n_generated": 101,
        "decode_tok_s": speed,
        "stop_reason": "length",
        "flags": (),
    }
    unknown = dict.fromkeys(
        (
            "prefill_s", "decode_s", "n_verify_steps", "n_plain_steps", "n_drafted", "n_accepted",
            "acceptance_rate", "tokens_per_target_pass", "draft_s", "verify_s", "plain_s",
            "other_s", "equal_off", "first_difference", "agreement", "peak_rss_bytes",
        )
    )  # fmt: skip
    return RunView(**{**unknown, **values, **changes})  # type: ignore[arg-type]


def _runs(
    ratios: Mapping[str, float] = RATIOS, spread: tuple[float, ...] = SPREAD, **marked: object
) -> list[RunView]:
    """``marked`` goes to the runs of ``a`` on the first prompt."""
    return [
        _run(
            arm,
            prompt,
            100 * ratio * (factor if arm != "off" else 1.0),
            len(ratios) * prompt + i,
            **(marked if (arm, prompt) == ("a", 0) else {}),
        )
        for prompt, factor in enumerate(spread)
        for i, (arm, ratio) in enumerate(ratios.items())
    ]


def test_a_pick_that_ties_and_is_close_to_the_fastest_holds() -> None:
    found = assess(_runs(), "b")
    assert (found.tied, found.failures()) == (["a", "b"], [])
    assert found.regret == pytest.approx(1.5 / 1.49 - 1)


def test_a_pick_that_is_clearly_slower_breaks_two_rules() -> None:
    assert assess(_runs(), "c").failures() == [
        "the pick is not in the tie set",
        "the pick is 25.0% behind the fastest",
    ]


def test_a_wide_tie_set_excuses_neither_a_slow_pick_nor_one_that_ties_with_off() -> None:
    wide = (0.5, 2.0, 0.6, 1.8, 0.7, 1.5)
    runs = [
        _run(arm, p, 100 * (1.3 if arm == "a" else 1.0) * (f if arm == "a" else 1 / f), 3 * p + i)
        if arm != "off"
        else _run(arm, p, 100, 3 * p + i)
        for p, f in enumerate(wide)
        for i, arm in enumerate(("off", "a", "b"))
    ]
    found = assess(runs, "b")
    assert len(found.tied) == 3
    failures = " ".join(found.failures())
    assert "behind the fastest" in failures
    assert "a draft is picked although off ties with the fastest" in failures
    assert "although off" not in " ".join(assess(runs, "off").failures())


def test_a_suspect_arm_may_not_win_and_repeating_prompts_count_for_nobody() -> None:
    suspect = assess(_runs(split_class="suspect"), "a")
    assert [row.arm for row in suspect.rows] == ["b", "c", "off"]
    assert suspect.regret is None
    assert suspect.failures() == [
        "the pick may not win: a text of it differs from off by more than rounding"
    ]
    assert assess(_runs(split_class="suspect"), "b").failures() == []
    repeating = assess(_runs(flags=("degenerate",)), "a")
    assert repeating.n_prompts_left_out == 1
