"""LM Studio over real HTTP: settings read back, counters wherever they are, nothing left loaded."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import pytest

from specdash.domain.arms import OFF_ARM, parse_arm
from specdash.domain.counters import violations
from specdash.domain.metrics import decode_tok_s
from specdash.domain.workload import Message, Prompt
from specdash.engines.base import (
    GenerationSettings,
    ModelFile,
    ParallelEngine,
    PreparedPrompt,
    RunRecord,
    ServerAddress,
)
from specdash.engines.lm_studio import LmStudioEngine
from specdash.engines.lm_studio_answer import LmCounts, counts_of, times_of
from specdash.errors import EngineError, UsageError
from tests.engines.fakes.lm_studio import (
    DRAFT,
    STATS_0_4_24,
    TARGET,
    USAGE_0_4_24,
    FakeLmStudio,
)
from tests.engines.fakes.scripted_http import Reply

ARM = parse_arm("draft-simple:model=small,n_max=8,p_min=0.5")
PROMPT = Prompt("p1", "chat", (Message("user", "Tell me a story."),))
OLD = frozenset({"parallel"})  # takes no speculative settings over REST


@contextmanager
def engine_at(fake: FakeLmStudio, **settings: Any) -> Iterator[LmStudioEngine]:
    with fake:
        engine = LmStudioEngine(ServerAddress("desk", fake.url, token="s3cret"))
        try:
            engine.load(
                ModelFile("Qwen3 8B", TARGET, "t"),
                {"small": ModelFile("Qwen3 0.6B", DRAFT, "d")},
                GenerationSettings(**settings),
            )
            yield engine
        finally:
            engine.close()


def prepared(engine: LmStudioEngine) -> PreparedPrompt:
    return engine.prepare(PROMPT, 300)


def run(fake: FakeLmStudio, arm: str = ARM.full_text()) -> RunRecord:
    with engine_at(fake) as engine:
        return engine.run(parse_arm(arm), prepared(engine))


def loads(fake: FakeLmStudio) -> list[Mapping[str, Any]]:
    """Bodies of the loads that were meant: not the questions with a model that is not there."""
    return [r.body for r in fake.sent("/api/v1/models/load") if r.body["model"] == TARGET]


def test_it_serves_several_requests_at_once() -> None:
    assert isinstance(LmStudioEngine(ServerAddress("x", "http://x")), ParallelEngine)


def test_the_answer_of_0_4_24_gives_its_counters_and_its_speed() -> None:
    record = run(FakeLmStudio())
    c = record.counters
    assert (c.n_generated, c.n_prompt) == (300, 66)
    assert (c.n_drafted, c.n_accepted, c.n_discarded, c.n_max) == (492, 176, 0, 8)
    assert (c.n_verify_steps, c.accepted_histogram) == (None, None)
    assert c.prefill_s == 1.162136
    assert c.decode_s == pytest.approx(16.676864)
    assert decode_tok_s(c) == pytest.approx(17.929, abs=1e-3)
    assert violations(c) == ()
    assert (record.proof, record.proof_reason) == (True, None)
    assert (record.text, record.stop_reason, record.flags) == ("hm yes", "limit", ())
    assert record.token_ids == ()


def test_counters_in_stats_are_found_too() -> None:
    counts = {
        "total_draft_tokens_count": 35,
        "accepted_draft_tokens_count": 31,
        "rejected_draft_tokens_count": 0,
        "ignored_draft_tokens_count": 4,
    }
    c = run(FakeLmStudio(counts_in="stats", counts=counts)).counters
    assert (c.n_drafted, c.n_accepted, c.n_discarded) == (31, 31, 4)


def test_no_counters_though_asked_is_no_measured_arm_and_no_zero() -> None:
    record = run(FakeLmStudio(counts=None))
    assert record.proof is False
    assert "answered without any draft counter" in (record.proof_reason or "")
    assert (record.counters.n_drafted, record.counters.n_accepted) == (None, None)


def test_every_setting_is_sent_and_off_is_said_outright() -> None:
    fake = FakeLmStudio()
    with engine_at(fake, n_ctx=2048, flash_attn="on") as engine:
        engine.run(ARM, prepared(engine))
        engine.run(OFF_ARM, prepared(engine))
    first, second, third = loads(fake)
    common = {
        "model": TARGET,
        "context_length": 2048,
        "eval_batch_size": 2048,
        "flash_attention": True,
        "echo_load_config": True,
        "parallel": 1,
        "ttl_seconds": 3600,
    }
    off = {**common, "speculative_draft_simple": False, "speculative_draft_mtp": False}
    assert first == off
    assert second == {
        **common,
        "speculative_draft_simple": True,
        "speculative_draft_mtp": False,
        "speculative_draft_model": DRAFT,
        "speculative_draft_max_tokens": 8,
        "speculative_draft_min_tokens": 0,
        "speculative_draft_min_continue_probability": 0.5,
    }
    assert third == off


def test_a_setting_that_did_not_take_effect_is_no_measured_arm() -> None:
    record = run(FakeLmStudio(overrides={"speculative_draft_max_tokens": 3}))
    assert record.proof is False
    assert record.proof_reason == (
        "LM Studio was asked for speculative_draft_max_tokens = 8 and loaded the model with 3."
    )


def test_off_is_plain() -> None:
    record = run(FakeLmStudio(), "off")
    c = record.counters
    assert (c.n_drafted, c.n_accepted, c.n_verify_steps, c.n_plain_steps) == (0, 0, 0, 299)
    assert record.proof is None


def test_off_that_speculates_stops_the_job() -> None:
    fake = FakeLmStudio(usage={**USAGE_0_4_24, "total_draft_tokens_count": 7})
    with pytest.raises(EngineError, match="speculated in an 'off' run"):
        run(fake, "off")


def test_mtp_is_set_at_load_and_needs_no_draft() -> None:
    fake = FakeLmStudio()
    assert run(fake, "draft-mtp:n_max=2").proof is True
    body = loads(fake)[-1]
    assert body["speculative_draft_mtp"] is True
    assert body["speculative_draft_simple"] is False
    assert body["speculative_draft_max_tokens"] == 2
    assert "speculative_draft_model" not in body


@pytest.mark.parametrize(
    ("arm", "takes", "reason"),
    [
        ("draft-simple:model=other", None, "LM Studio has no model 'other'"),
        ("draft-mtp:model=small", None, "takes the MTP head from inside the target only"),
        ("draft-mtp", OLD, "takes no MTP setting when it loads a model; update it"),
        ("ngram-simple", None, "LM Studio has no ngram-simple"),
    ],
)
def test_what_it_cannot_is_unsupported(arm: str, takes: frozenset[str] | None, reason: str) -> None:
    with engine_at(FakeLmStudio(takes=takes)) as engine:
        readiness = engine.check_arm(parse_arm(arm))
    assert not readiness.ready
    assert reason in (readiness.reason or "")


def test_a_pair_it_refuses_to_load_is_unsupported_in_its_own_words() -> None:
    said = (
        "Load-time draft-model speculative decoding is only supported by the llama.cpp engine "
        "protocol runtime"
    )
    with engine_at(FakeLmStudio(load_error=said)) as engine:
        readiness = engine.check_arm(ARM)
        assert engine.check_arm(OFF_ARM).ready
    assert readiness.reason == f"LM Studio does not load it: {said}"


def test_a_ready_arm_says_what_it_resolves_to() -> None:
    with engine_at(FakeLmStudio()) as engine:
        assert engine.check_arm(ARM).resolved == {
            "calls": [
                {"method": "draft-simple", "model": "d", "n_max": 8, "n_min": 0, "p_min": 0.5}
            ]
        }


def test_same_arms_share_a_load_and_only_ours_is_unloaded() -> None:
    fake = FakeLmStudio(loaded={"somebody-elses": {"context_length": 1}})
    with engine_at(fake) as engine:
        engine.run(ARM, prepared(engine))
        engine.run(ARM, prepared(engine))
        assert list(fake.loaded) == ["somebody-elses", f"{TARGET}:2"]
    assert len(loads(fake)) == 2
    assert list(fake.loaded) == ["somebody-elses"]
    assert fake.unloaded == [TARGET, f"{TARGET}:2"]


def test_requests_go_to_the_instance_of_ours() -> None:
    fake = FakeLmStudio()
    run(fake)
    (request,) = fake.asked()
    assert request.body["model"] == f"{TARGET}:2"
    assert request.headers["authorization"] == "Bearer s3cret"
    assert request.body["stream"] is False


def test_a_prompt_is_not_remembered_from_the_run_before() -> None:
    fake = FakeLmStudio()
    with engine_at(fake) as engine:
        for _ in range(3):
            engine.run(OFF_ARM, prepared(engine))
    sent = [r.body["max_tokens"] for r in fake.requests if r.path.endswith("completions")]
    assert sent[-6:] == [1, 300, 1, 300, 1, 300]


def test_a_broken_off_load_is_unloaded_when_it_ends_after_all() -> None:
    fake = FakeLmStudio(loaded={"somebody-elses": {"context_length": 1}})
    with engine_at(fake) as engine:
        fake.on("POST", "/api/v1/models/load", lambda r: _loads_but_breaks(fake, r))
        with pytest.raises(EngineError):
            engine.run(ARM, prepared(engine))
        assert "late" in fake.loaded
    assert list(fake.loaded) == ["somebody-elses"]


def _loads_but_breaks(fake: FakeLmStudio, request: Any) -> Any:
    fake.loaded["late"] = {k: v for k, v in request.body.items() if k != "model"}
    return Reply({"instance_id": "late"}, cut_at=3)


def test_an_older_version_is_told_the_draft_with_each_request() -> None:
    """0.3.10 and newer, with the model loaded on demand and forgotten by itself."""
    fake = FakeLmStudio(v1=False, counts_in="stats")
    with engine_at(fake) as engine:
        assert engine.check_arm(ARM).resolved["limits"] == (
            "those of LM Studio; this version takes only the draft model"
        )
        on = engine.run(ARM, prepared(engine))
        off = engine.run(OFF_ARM, prepared(engine))
    first, second = fake.asked()
    assert first.body["draft_model"] == DRAFT
    assert first.body["ttl"] == 3600
    assert "draft_model" not in second.body
    assert (on.proof, on.counters.n_drafted, on.counters.n_max) == (True, 492, None)
    assert (off.proof, off.counters.n_drafted) == (None, 0)


def test_a_version_that_loads_but_takes_no_draft_there_is_told_with_each_request() -> None:
    fake = FakeLmStudio(takes=OLD)
    with engine_at(fake) as engine:
        engine.run(ARM, prepared(engine))
        engine.run(OFF_ARM, prepared(engine))
    assert len(loads(fake)) == 1
    assert "speculative_draft_simple" not in loads(fake)[0]
    assert loads(fake)[0]["parallel"] == 1
    assert fake.asked()[0].body["draft_model"] == DRAFT


def test_a_version_that_takes_the_draft_in_neither_place_says_where_to_set_it() -> None:
    fake = FakeLmStudio(takes=OLD, draft_per_request=False)
    with pytest.raises(EngineError, match="wants the draft model when it loads the target") as e:
        run(fake)
    assert "My Models" in (e.value.hint or "")


def test_another_model_is_named() -> None:
    with FakeLmStudio() as fake:
        engine = LmStudioEngine(ServerAddress("desk", fake.url))
        with pytest.raises(EngineError, match=rf"has '{TARGET}', '{DRAFT}', not 'llama'"):
            engine.load(ModelFile("l", "llama", "h"), {}, GenerationSettings())


def test_an_instance_that_is_not_listed_stops_the_job() -> None:
    fake = FakeLmStudio()
    with engine_at(fake) as engine:
        fake.on("POST", "/api/v1/models/load", Reply({"instance_id": "ghost"}))
        with pytest.raises(EngineError, match=f"loaded '{TARGET}' as 'ghost', but does not list"):
            engine.run(ARM, prepared(engine))


def test_ignoring_the_end_of_a_text_is_refused() -> None:
    with (
        pytest.raises(UsageError, match="cannot be told to go on"),
        engine_at(FakeLmStudio(), ignore_eos=True),
    ):
        pass


def test_a_text_prompt_is_completed() -> None:
    fake = FakeLmStudio()
    with engine_at(fake) as engine:
        record = engine.run(OFF_ARM, engine.prepare(Prompt("t", "x", text="Once"), 9))
    (request,) = fake.asked()
    assert (request.path, request.body["prompt"]) == ("/api/v0/completions", "Once")
    assert record.text == "yes"


def test_an_answer_that_was_given_up_is_an_error() -> None:
    fake = FakeLmStudio()
    with engine_at(fake) as engine:
        fake._stats = {**STATS_0_4_24, "stop_reason": "modelUnloaded"}
        with pytest.raises(EngineError, match=r"gave up .* \(modelUnloaded\)"):
            engine.run(OFF_ARM, prepared(engine))


def test_a_sweep_loads_for_as_many_requests_at_once() -> None:
    fake = FakeLmStudio()
    with engine_at(fake) as engine:
        sweep = engine.sweep(ARM, [prepared(engine)] * 4, 4)
    assert loads(fake)[-1]["parallel"] == 4
    assert [r.counters.n_accepted for r in sweep.records] == [176] * 4


def test_facts_say_what_ran_and_how_arms_change() -> None:
    with FakeLmStudio() as fake:
        engine = LmStudioEngine(ServerAddress("desk", fake.url, token="s3cret"))
        facts = engine.load(ModelFile("q", TARGET, "t"), {}, GenerationSettings())
        engine.close()
    assert facts["version"] == "llama.cpp-linux-x86_64-avx2 2.15.0"
    assert (facts["n_ctx"], facts["n_parallel"]) == (4096, 1)
    assert (facts["arm_switch"], facts["speculative_settings"]) == ("reload", "at load")
    assert "s3cret" not in repr(facts)


def test_counters_that_do_not_add_up_are_kept_and_flagged() -> None:
    counts = {
        "total_draft_tokens_count": 50,
        "accepted_draft_tokens_count": 31,
        "rejected_draft_tokens_count": 0,
        "ignored_draft_tokens_count": 4,
    }
    record = run(FakeLmStudio(counts=counts))
    assert "unsound_counts" in record.flags
    assert record.counters.n_drafted == 31


@pytest.mark.parametrize(
    ("counts", "drafted", "discarded", "adds_up"),
    [
        (LmCounts(7, 4, 3, 0), 7, 0, True),
        (LmCounts(492, 176, 316, None), 492, 0, True),
        (LmCounts(500, 176, 316, None), 492, None, True),
        (LmCounts(300, 120, None, 100), 200, 100, True),
        (LmCounts(None, 120, None, None), None, None, True),
        (LmCounts(300, 120, 80, 90), 200, 90, False),
    ],
)
def test_a_missing_count_is_zero_only_where_the_others_say_so(
    counts: LmCounts, drafted: int | None, discarded: int | None, adds_up: bool
) -> None:
    assert (counts.n_drafted, counts.n_discarded, counts.adds_up) == (drafted, discarded, adds_up)


def test_counters_split_over_both_places_are_put_together() -> None:
    found = counts_of(
        {
            "usage": {"total_draft_tokens_count": 7, "accepted_draft_tokens_count": 4},
            "stats": {"rejected_draft_tokens_count": 3, "accepted_draft_tokens_count": 99},
        }
    )
    assert found == LmCounts(7, 4, 3, None)
    assert counts_of({"usage": {}, "stats": None}) is None


@pytest.mark.parametrize(
    ("n", "first_s", "total_s", "own_tok_s", "wall_s", "decode_s", "is_clear"),
    [
        (300, 1.162136, 17.839, 17.93, 18.0, 16.676864, True),  # time from the prompt's start
        (101, 0.5, 10.0, 10.0, 11.0, 10.0, True),  # time from the first token, (N-1)/t
        (100, 0.5, 10.0, 10.0, 11.0, 10.0, True),  # the same, N/t
        (101, 0.5, 10.5, None, 10.6, 10.0, True),  # told apart by the length of the request
        (101, 0.5, 10.0, None, 10.6, 10.0, True),
        (53, 0.111, 0.954, 51.437, 1.2, 0.954, False),  # the vendor's example fits no meaning
        (1, 0.5, 0.5, 2.0, 0.6, 0.0, True),
        (9, None, 2.0, None, 2.1, 2.0, True),
        (9, 0.5, None, None, 2.1, None, True),
    ],
)
def test_what_the_times_mean(
    n: int,
    first_s: float | None,
    total_s: float | None,
    own_tok_s: float | None,
    *,
    wall_s: float,
    decode_s: float | None,
    is_clear: bool,
) -> None:
    stats = {
        "time_to_first_token": first_s,
        "generation_time": total_s,
        "tokens_per_second": own_tok_s,
    }
    times = times_of(n, stats, wall_s)
    assert times.decode_s == (None if decode_s is None else pytest.approx(decode_s))
    assert times.is_clear is is_clear
