"""Counters from captured answers and captured ``/metrics``, exactly those they hold."""

from dataclasses import replace
from typing import Any

import pytest

from specdash.domain.counters import RunCounters, violations
from specdash.domain.metrics import decode_tok_s
from specdash.engines.base import PreparedPrompt
from specdash.engines.llama_server_client import Completion, read_completion
from specdash.engines.llama_server_metrics import Counted, count_run
from specdash.engines.prometheus import Scrape, parse_metrics
from tests.engines.fakes.llama_server import captured

PROMPT = PreparedPrompt("p", "c", tuple(range(228)), 120)


def chat_answer(case: str) -> Completion:
    """``chat.json`` is what the two captured metrics enclose; it has no ids."""
    body = captured(case, "completion.json")
    return read_completion({**body, "timings": captured(case, "chat.json")["timings"]})


def metrics(case: str, name: str) -> Scrape:
    return parse_metrics(captured(case, f"metrics_{name}.txt"), "llama-server")


def counted(case: str, n_max: int | None, **changes: Any) -> Counted:
    given: dict[str, Any] = {
        "is_off": n_max is None,
        "n_max": n_max,
        "n_batch": 2048,
        "speculates": n_max is not None,
        "before": metrics(case, "before"),
        "after": metrics(case, "after"),
        **changes,
    }
    return count_run(chat_answer(case), PROMPT, **given)


def test_off() -> None:
    assert counted("off", None).counters == RunCounters(
        n_generated=120,
        prefill_s=0.730441,
        decode_s=1.151163,
        n_prompt=228,
        n_verify_steps=0,
        n_plain_steps=119,
        n_drafted=0,
        n_accepted=0,
        accepted_histogram=(),
    )


def test_draft_simple_with_its_positions() -> None:
    found = counted("draft-simple", 3)
    assert found == Counted(
        RunCounters(
            n_generated=120,
            prefill_s=1.002688,
            decode_s=1.737722,
            n_prompt=228,
            n_verify_steps=30,
            n_plain_steps=0,
            n_drafted=90,
            n_accepted=89,
            n_max=3,
            accepted_histogram=(0, 0, 1, 29),
        )
    )
    assert violations(found.counters) == ()
    said = captured("draft-simple", "chat.json")["timings"]["predicted_per_second"]
    assert decode_tok_s(found.counters) == pytest.approx(said, abs=1e-9)


def test_ngram_mod_with_passes_that_had_no_draft() -> None:
    counters = counted("ngram-mod", 16).counters
    assert (counters.n_drafted, counters.n_accepted) == (115, 105)
    assert (counters.n_verify_steps, counters.n_plain_steps) == (8, 6)
    assert counters.accepted_histogram == (0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 1, 0, 1, 1, 0, 4)
    assert violations(counters) == ()


def test_synthetic_acceptance_is_counted_like_any_other() -> None:
    counters = counted("synth", 3).counters
    assert (counters.n_drafted, counters.n_accepted) == (151, 68)
    assert violations(counters) == ()


def test_a_draft_that_was_loaded_and_never_used_leaves_acceptance_unknown() -> None:
    counters = counted("md-without-spec-type", 3, speculates=False).counters
    assert (counters.n_drafted, counters.n_accepted) == (None, None)
    assert (counters.n_verify_steps, counters.n_plain_steps) == (None, None)
    assert counters.accepted_histogram is None
    assert counters.n_generated == 120


def test_an_ngram_method_that_found_nothing_drafted_zero() -> None:
    counters = counted("md-without-spec-type", 48, speculates=True).counters
    assert (counters.n_drafted, counters.n_verify_steps, counters.n_plain_steps) == (0, 0, 119)


def test_without_metrics_the_answer_still_tells_drafted_and_accepted() -> None:
    counters = counted("draft-simple", 3, before=None, after=None).counters
    assert (counters.n_drafted, counters.n_accepted) == (90, 89)
    assert counters.n_verify_steps is None
    assert counters.n_plain_steps is None
    assert counters.accepted_histogram is None


def test_counters_that_decrease_are_named_and_not_used() -> None:
    found = counted(
        "draft-simple",
        3,
        before=metrics("draft-simple", "after"),
        after=metrics("draft-simple", "before"),
    )
    assert found.flags == ("invalid:counters of a server never decrease",)
    assert (found.counters.n_drafted, found.counters.n_verify_steps) == (90, None)


def test_counters_that_somebody_else_moved_are_named_and_not_used() -> None:
    text = captured("draft-simple", "metrics_after.txt").replace(
        "spec_decode_num_draft_tokens_total 90", "spec_decode_num_draft_tokens_total 180"
    )
    found = counted("draft-simple", 3, after=parse_metrics(text, "llama-server"))
    assert found.flags == ("shared_server",)
    assert found.counters.n_verify_steps is None


def test_names_without_total_are_read_too() -> None:
    text = captured("draft-simple", "metrics_after.txt").replace("_total", "")
    counters = counted("draft-simple", 3, after=parse_metrics(text, "llama-server")).counters
    assert counters.accepted_histogram == (0, 0, 1, 29)


def test_a_cached_prompt_has_no_prefill_time() -> None:
    done = replace(chat_answer("off"), n_cached=200)
    found = count_run(
        done, PROMPT, is_off=True, n_max=None, n_batch=2048, speculates=False
    )  # fmt: skip
    assert found.counters.prefill_s is None
    assert found.flags == ("warm_cache",)


def stopped(n_generated: int, n_passes: int, **changes: Any) -> int | None:
    """Plain passes of a run that ended by itself: 5 drafts of 3, of which 8 were accepted."""
    done = replace(
        chat_answer("off"),
        stopped_by="eos",
        n_generated=n_generated,
        n_drafted=15,
        n_accepted=8,
        n_prompt=600,
    )
    before = parse_metrics("", "llama-server")
    after = parse_metrics(
        f"llamacpp:n_decode_total {n_passes}\n"
        "llamacpp:spec_decode_num_draft_tokens_total 15\n"
        "llamacpp:spec_decode_num_drafts_total 5\n",
        "llama-server",
    )
    given = {"n_batch": 512, "before": before, "after": after, **changes}
    return count_run(
        done, PROMPT, is_off=False, n_max=3, speculates=True, **given
    ).counters.n_plain_steps  # fmt: skip


def test_a_stop_inside_a_burst_does_not_hide_plain_passes() -> None:
    # 600 prompt tokens in batches of 512 are 2 passes; then 5 with a draft and 4 without.
    assert stopped(1 + 8 + 5 + 4, 2 + 5 + 4) == 4
    assert stopped(1 + 8 + 5 + 4 - 2, 2 + 5 + 4) == 4


def test_plain_passes_that_do_not_add_up_are_unknown() -> None:
    assert stopped(18, 2 + 5 + 9) is None
    assert stopped(18, 2 + 5 + 3) is None
    assert stopped(18, 11, before=None, after=None) is None
