"""SGLang over real HTTP: counters under every name they had, cold caches, older versions."""

import json
from collections.abc import Callable
from typing import Any

import pytest

from specdash.domain.arms import OFF_ARM, parse_arm
from specdash.domain.counters import violations
from specdash.domain.metrics import acceptance
from specdash.domain.workload import Message, Prompt
from specdash.engines.base import (
    GenerationSettings,
    ModelFile,
    ParallelEngine,
    RunRecord,
    ServerAddress,
)
from specdash.engines.sglang import SglangEngine
from specdash.engines.sglang_server import read_generate
from specdash.errors import EngineError
from tests.engines.fakes.scripted_http import Events, Reply
from tests.engines.fakes.sglang import IDS, OPTIONS, SPEC, FakeSglang, generated

ON_ARM = parse_arm("server:label=eagle3")
TARGET = ModelFile("llama", "llama", "hash")
PROMPT = Prompt("p1", "chat", (Message("user", "Hello"),))


def ticking(*times: float) -> Callable[[], float]:
    left = iter(times)
    return lambda: next(left)


def run(fake: FakeSglang, *, off: bool = False, prompt: Prompt = PROMPT) -> RunRecord:
    with fake:
        address = ServerAddress("gpu", fake.url, arm_text="off" if off else None)
        engine = SglangEngine(address)
        engine.load(TARGET, {}, GenerationSettings())
        record = engine.run(OFF_ARM if off else ON_ARM, engine.prepare(prompt, 64))
        engine.close()
    return record


def test_it_serves_several_requests_at_once() -> None:
    assert isinstance(SglangEngine(ServerAddress("x", "http://x")), ParallelEngine)


def test_an_answer_gives_its_counters_and_the_bonus_token_is_in_none() -> None:
    record = run(FakeSglang(options=OPTIONS))
    c = record.counters
    assert (c.n_generated, c.n_prompt, c.n_verify_steps) == (64, 3, 20)
    assert (c.n_drafted, c.n_accepted, c.n_max) == (60, 44, 3)
    assert acceptance([c]).acceptance_rate == pytest.approx(0.7333333)
    assert acceptance([c]).acceptance_length == pytest.approx(3.2)
    assert c.accepted_histogram == (2, 2, 6, 10)
    assert c.drafted_histogram == (0, 0, 0, 20)
    assert c.full_histogram == (0, 0, 0, 10)
    assert c.n_rejected_steps == 10
    assert violations(c) == ()
    assert record.token_ids == IDS
    assert record.text == "".join(f" {i}" for i in IDS)
    assert record.stop_reason == "limit"
    assert (record.proof, record.flags) == (True, ())


@pytest.mark.parametrize(
    ("accepted", "drafted", "histogram"),
    [
        ("spec_accepted_drafts", "spec_proposed_drafts", "spec_accept_histogram"),
        ("spec_accept_token_num", "spec_draft_token_num", None),
    ],
)
def test_older_names_of_the_counters_are_read(
    accepted: str, drafted: str, histogram: str | None
) -> None:
    spec: dict[str, Any] = {"spec_verify_ct": 20, accepted: 44, drafted: 60}
    if histogram:
        spec[histogram] = [2, 2, 6, 10]
    c = run(FakeSglang(options=OPTIONS, answer=Events(generated(spec), gap_s=0.02))).counters
    assert (c.n_verify_steps, c.n_drafted, c.n_accepted) == (20, 60, 44)
    assert c.accepted_histogram == ((2, 2, 6, 10) if histogram else None)


def test_tree_drafts_leave_the_other_histograms_unknown() -> None:
    options = {**OPTIONS, "speculative_eagle_topk": 4, "speculative_num_draft_tokens": 16}
    spec = {**SPEC, "spec_num_proposed_drafts": 300}
    c = run(FakeSglang(options=options, answer=Events(generated(spec), gap_s=0.02))).counters
    assert (c.n_drafted, c.n_max) == (300, 15)
    assert c.accepted_histogram == (2, 2, 6, 10)
    assert (c.drafted_histogram, c.full_histogram, c.n_rejected_steps) == (None, None, None)
    assert violations(c) == ()


@pytest.mark.parametrize("incremental", [False, True])
def test_chunks_hold_all_so_far_or_what_is_new(incremental: bool) -> None:
    events = generated(None, incremental=incremental)
    lines = [e if isinstance(e, str) else json.dumps(e) for e in events]
    answer = read_generate(lines, 0.0, "SGLang", clock=ticking(0.5, 1.0, 2.25, 2.3))
    assert answer.token_ids == IDS
    assert answer.text == "".join(f" {i}" for i in IDS)
    assert (answer.prefill_s, answer.decode_s, answer.n_first) == (0.5, 1.75, 1)


def test_off_without_counters_is_plain() -> None:
    record = run(FakeSglang(), off=True)
    c = record.counters
    assert (c.n_drafted, c.n_verify_steps, c.n_plain_steps) == (0, 0, 63)
    assert record.proof is None


def test_off_that_speculates_stops_the_job() -> None:
    fake = FakeSglang(answer=Events(generated(SPEC), gap_s=0.02))
    with pytest.raises(EngineError, match="speculated in an 'off' run"):
        run(fake, off=True)


def test_a_baseline_started_with_speculation_is_refused() -> None:
    with FakeSglang(options=OPTIONS) as fake:
        engine = SglangEngine(ServerAddress("gpu", fake.url, arm_text="off"))
        engine.load(TARGET, {}, GenerationSettings())
        readiness = engine.check_arm(OFF_ARM)
    assert not readiness.ready
    assert "speculates (EAGLE3)" in (readiness.reason or "")


def test_no_counters_though_asked_is_no_measured_arm() -> None:
    record = run(FakeSglang(options=OPTIONS, answer=Events(generated(None), gap_s=0.02)))
    assert record.proof is False
    assert "started with EAGLE3, but its answer carries no spec_verify_ct" in (
        record.proof_reason or ""
    )
    assert record.counters.n_drafted is None


def test_a_server_without_speculation_is_no_measured_arm() -> None:
    record = run(FakeSglang())
    assert record.proof is False
    assert "runs without speculation" in (record.proof_reason or "")


def test_the_options_it_was_started_with_are_resolved() -> None:
    with FakeSglang(options=OPTIONS, info_path="/get_server_info") as fake:
        engine = SglangEngine(ServerAddress("gpu", fake.url))
        facts = engine.load(TARGET, {}, GenerationSettings())
        resolved = engine.check_arm(ON_ARM).resolved
    assert facts["version"] == "0.5.23"
    assert facts["n_ctx"] == 4096
    assert resolved["speculative_num_steps"] == 3
    assert resolved["speculative_num_draft_tokens"] == 4


def test_every_run_begins_with_an_empty_cache() -> None:
    fake = FakeSglang(options=OPTIONS, busy=2)
    record = run(fake)
    assert [r.path for r in fake.requests][-4:] == [*["/flush_cache"] * 3, "/generate"]
    assert "warm_cache" not in record.flags


def test_remembered_tokens_are_flagged() -> None:
    answer = Events(generated(SPEC, cached=2), gap_s=0.02)
    assert run(FakeSglang(options=OPTIONS, answer=answer)).flags == ("warm_cache",)


def test_a_server_that_others_use_is_flagged_where_it_counts_requests() -> None:
    assert run(FakeSglang(options=OPTIONS, requests_total=(5, 7))).flags == ("shared_server",)
    assert run(FakeSglang(options=OPTIONS, requests_total=(5, 6))).flags == ()


def test_messages_are_sent_as_the_ids_the_server_made_of_them() -> None:
    fake = FakeSglang(options=OPTIONS)
    run(fake)
    assert fake.sent("/v1/tokenize")[0].body == {
        "model": "llama",
        "messages": [{"role": "user", "content": "Hello"}],
        "add_generation_prompt": True,
    }
    assert fake.sent("/generate")[0].body == {
        "input_ids": [1, 2, 3],
        "sampling_params": {
            "max_new_tokens": 64,
            "temperature": 0.0,
            "top_p": 1.0,
            "repetition_penalty": 1.0,
            "ignore_eos": False,
        },
        "stream": True,
    }


def test_an_older_server_is_asked_for_a_chat() -> None:
    events = [
        {"choices": [{"delta": {"content": "a"}}], "usage": {"completion_tokens": 1}},
        {
            "choices": [{"delta": {"content": "b"}, "finish_reason": "stop"}],
            "usage": {"completion_tokens": 64},
        },
        {"choices": [], "sglext": {"spec_tokens_details": SPEC}},
        {"choices": [], "usage": {"prompt_tokens": 3, "completion_tokens": 64}},
        "[DONE]",
    ]
    fake = FakeSglang(options=OPTIONS, answer=Events(events, gap_s=0.02), tokenizes=False)
    record = run(fake)
    assert fake.sent("/v1/chat/completions")[0].body["return_spec_tokens_details"] is True
    assert (record.counters.n_generated, record.counters.n_drafted) == (64, 60)
    assert (record.text, record.stop_reason, record.proof) == ("ab", "eos", True)


def test_a_text_prompt_reaches_generate_untouched_where_no_ids_are_made() -> None:
    fake = FakeSglang(options=OPTIONS, tokenizes=False)
    run(fake, prompt=Prompt("t", "x", text="Once upon"))
    assert fake.sent("/generate")[0].body["text"] == "Once upon"


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (Events(generated(SPEC), die_after=1), "broke off its answer to /generate after 1"),
        (Events(generated(SPEC)[:1]), "ended its answer early"),
        (Events([{"error": {"message": "out of memory"}}]), "out of memory"),
        (Events(["nonsense"]), "not JSON"),
        (Reply({"error": {"message": "too long"}}, 400), "400: too long"),
    ],
)
def test_what_goes_wrong_is_said(answer: Events | Reply, words: str) -> None:
    with pytest.raises(EngineError, match=words):
        run(FakeSglang(options=OPTIONS, answer=answer))


def test_another_model_is_named() -> None:
    with FakeSglang() as fake:
        engine = SglangEngine(ServerAddress("gpu", fake.url))
        with pytest.raises(EngineError, match="serves 'llama', not 'qwen'"):
            engine.load(ModelFile("q", "qwen", "h"), {}, GenerationSettings())


def test_a_sweep_counts_every_request_by_itself() -> None:
    fake = FakeSglang(options=OPTIONS)
    with fake:
        engine = SglangEngine(ServerAddress("gpu", fake.url))
        engine.load(TARGET, {}, GenerationSettings())
        prompts = [engine.prepare(PROMPT, 64)] * 4
        sweep = engine.sweep(ON_ARM, prompts, 4)
    assert [r.counters.n_accepted for r in sweep.records] == [44] * 4
    assert fake.most_in_flight == 4
    assert len(fake.sent("/flush_cache")) == 1
