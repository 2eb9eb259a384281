"""vLLM over real HTTP: captured answers, older versions, shared and mistaken servers."""

import json
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
from specdash.engines.vllm import VllmEngine
from specdash.errors import EngineError, UsageError
from tests.engines.fakes.scripted_http import Events, Reply
from tests.engines.fakes.vllm import FakeVllm, captured, streamed

ON_ARM = parse_arm('server:label="ngram, 5 tokens"')
TARGET = ModelFile("smol", "smol", "hash")
PROMPT = Prompt("p1", "json", (Message("user", "List the rows."),), max_tokens=160)


def engine_at(on: FakeVllm | None, off: FakeVllm | None, **settings: Any) -> VllmEngine:
    if on is None:
        assert off is not None
        address = ServerAddress("gpu", off.url, arm_text="off", token="s3cret")
    else:
        address = ServerAddress("gpu", on.url, off.url if off else None, ON_ARM.text(), "s3cret")
    engine = VllmEngine(address)
    engine.load(TARGET, {}, GenerationSettings(**settings))
    return engine


def run_on(on: FakeVllm, prompt: Prompt = PROMPT) -> RunRecord:
    with on:
        engine = engine_at(on, None)
        record = engine.run(ON_ARM, engine.prepare(prompt, 160))
        engine.close()
    return record


def run_off(off: FakeVllm) -> RunRecord:
    with off:
        engine = engine_at(None, off)
        record = engine.run(OFF_ARM, engine.prepare(PROMPT, 160))
        engine.close()
    return record


def chat_of(folder: str, **changes: Any) -> Events:
    chat = json.loads(captured(folder, "chat.json"))
    chat["metrics"] |= changes
    return Events(streamed(chat), gap_s=0.02)


def without_counters() -> Events:
    return chat_of("vllm_ngram", speculative_decoding=None)


def test_it_serves_several_requests_at_once() -> None:
    assert isinstance(VllmEngine(ServerAddress("x", "http://x")), ParallelEngine)


def test_the_captured_answer_gives_its_counters() -> None:
    record = run_on(FakeVllm("vllm_ngram", answer=chat_of("vllm_ngram")))
    c = record.counters
    assert (c.n_generated, c.n_prompt) == (160, 228)
    assert (c.n_verify_steps, c.n_drafted, c.n_accepted, c.n_max) == (35, 175, 125, 5)
    assert c.accepted_histogram == (4, 5, 2, 2, 0, 22)
    assert c.drafted_histogram == (0, 0, 0, 0, 0, 35)
    assert c.full_histogram == (0, 0, 0, 0, 0, 22)
    assert c.n_rejected_steps == 13
    assert c.n_plain_steps is None
    assert violations(c) == ()
    assert record.proof is True
    assert record.proof_reason is None
    assert record.stop_reason == "limit"
    assert record.flags == ()


def test_metrics_alone_give_the_same_counters() -> None:
    """Before 0.29, or without the option, answers carry no counters."""
    c = run_on(FakeVllm("vllm_ngram", answer=without_counters())).counters
    assert (c.n_verify_steps, c.n_drafted, c.n_accepted, c.n_max) == (35, 175, 125, 5)
    assert c.accepted_histogram == (4, 5, 2, 2, 0, 22)
    assert c.full_histogram == (0, 0, 0, 0, 0, 22)
    assert c.n_rejected_steps == 13


def test_names_without_total_and_several_engines_are_read_too() -> None:
    def older(text: str) -> str:
        return text.replace("_total{", "{").replace('engine="0"', 'engine="3"')

    fake = FakeVllm("vllm_ngram", answer=without_counters(), change_metrics=older)
    c = run_on(fake).counters
    assert (c.n_verify_steps, c.n_drafted, c.n_accepted) == (35, 175, 125)


def test_metrics_that_come_late_are_waited_for() -> None:
    fake = FakeVllm("vllm_ngram", answer=without_counters(), late_metrics=3)
    assert run_on(fake).counters.n_drafted == 175


def test_the_plain_server_has_no_drafts() -> None:
    record = run_off(FakeVllm("vllm_off", answer=chat_of("vllm_off")))
    c = record.counters
    assert (c.n_drafted, c.n_accepted, c.n_verify_steps, c.n_plain_steps) == (0, 0, 0, 159)
    assert violations(c) == ()
    assert (record.proof, record.flags) == (None, ())


def test_both_arms_are_timed_by_the_same_clock() -> None:
    """The captured server counted 5.48 s; its chunks came here within half a second."""
    c = run_off(FakeVllm("vllm_off", answer=chat_of("vllm_off"))).counters
    assert c.decode_s is not None
    assert c.decode_s < 5


def test_where_chunks_are_gathered_the_servers_own_times_stand() -> None:
    chat = json.loads(captured("vllm_off", "chat.json"))
    whole = Events(streamed(chat, pieces=[(chat["choices"][0]["message"]["content"], 160)]))
    record = run_off(FakeVllm("vllm_off", answer=whole))
    c = record.counters
    assert c.prefill_s == pytest.approx(0.17492349)
    assert c.decode_s == pytest.approx(5.479080778)
    # vLLM's own 28.30 tokens/s are all tokens over both times.
    assert decode_tok_s(c) == pytest.approx(29.01946, abs=1e-5)
    assert record.flags == ("server_clock",)


def test_a_server_without_speculation_is_no_measured_arm() -> None:
    record = run_on(FakeVllm("vllm_off", answer=chat_of("vllm_off")))
    assert record.proof is False
    assert record.proof_reason is not None
    assert "runs without speculation: its metrics have no spec_decode counters" in (
        record.proof_reason
    )
    assert record.counters.n_drafted is None


def test_without_any_counter_nothing_is_proved() -> None:
    record = run_on(FakeVllm("vllm_ngram", answer=without_counters(), metrics=False))
    assert record.proof is False
    assert "nothing proves that it speculates" in (record.proof_reason or "")
    assert record.counters.n_drafted is None


def test_counters_with_the_answer_need_no_metrics() -> None:
    record = run_on(FakeVllm("vllm_ngram", answer=chat_of("vllm_ngram"), metrics=False))
    assert record.proof is True
    assert record.counters.n_drafted == 175


def test_a_drafter_that_found_nothing_is_said_so() -> None:
    """n-gram speculation may honestly propose nothing; that is no 0 % acceptance."""

    def nothing_drafted(text: str) -> str:
        lines = captured("vllm_ngram", "metrics_before.txt").splitlines()
        before = {line.split(" ")[0]: line for line in lines if "spec_decode" in line}
        return "\n".join(before.get(line.split(" ")[0], line) for line in text.splitlines()) + "\n"

    fake = FakeVllm("vllm_ngram", answer=without_counters(), change_metrics=nothing_drafted)
    record = run_on(fake)
    assert record.proof is True
    assert (record.counters.n_drafted, record.counters.accepted_histogram) == (0, ())
    assert "no_drafts" in record.flags


def test_a_baseline_that_speculates_cannot_be_off() -> None:
    with FakeVllm("vllm_ngram") as on, FakeVllm("vllm_ngram") as off:
        readiness = engine_at(on, off).check_arm(OFF_ARM)
    assert not readiness.ready
    assert readiness.reason == (
        f"the baseline server at {off.url} speculates: start it without --speculative-config"
    )


def test_without_a_baseline_off_is_unsupported_with_the_reason() -> None:
    with FakeVllm("vllm_ngram") as on:
        readiness = engine_at(on, None).check_arm(OFF_ARM)
    assert not readiness.ready
    assert (readiness.reason or "").startswith("no baseline server registered: 'gpu' speculates")


@pytest.mark.parametrize(
    ("arm", "words"),
    [
        ("draft-simple:model=d", "write the arm as server:label=WHAT-IT-RUNS"),
        ("server:label=eagle", "registered as server:label="),
    ],
)
def test_an_arm_the_server_does_not_run_is_unsupported(arm: str, words: str) -> None:
    with FakeVllm("vllm_ngram") as on:
        readiness = engine_at(on, None).check_arm(parse_arm(arm))
    assert not readiness.ready
    assert words in (readiness.reason or "")


def test_each_arm_goes_to_its_own_server() -> None:
    on, off = (
        FakeVllm("vllm_ngram", answer=chat_of("vllm_ngram")),
        FakeVllm("vllm_off", answer=chat_of("vllm_off")),
    )
    with on, off:
        engine = engine_at(on, off, seed=7)
        prepared = engine.prepare(PROMPT, 160)
        assert engine.check_arm(OFF_ARM).ready
        assert engine.check_arm(ON_ARM).ready
        engine.run(OFF_ARM, prepared)
        engine.run(ON_ARM, prepared)
        engine.run(ON_ARM, prepared)
        engine.close()
    (plain,) = off.sent("/v1/chat/completions")
    first, second = on.sent("/v1/chat/completions")
    assert plain.headers["authorization"] == "Bearer s3cret"
    assert plain.body["messages"] == [{"role": "user", "content": "List the rows."}]
    assert (plain.body["temperature"], plain.body["seed"]) == (0.0, 7)
    assert (plain.body["max_tokens"], plain.body["ignore_eos"]) == (160, False)
    assert first.body["cache_salt"] != second.body["cache_salt"]


def test_another_model_stops_the_job_and_names_both() -> None:
    with FakeVllm("vllm_ngram") as on:
        engine = VllmEngine(ServerAddress("gpu", on.url))
        with pytest.raises(EngineError, match=r"serves 'smol', not 'Qwen/Qwen3-8B'"):
            engine.load(ModelFile("q", "Qwen/Qwen3-8B", "h"), {}, GenerationSettings())
        engine.close()


def test_another_model_on_the_baseline_stops_the_job_too() -> None:
    with FakeVllm("vllm_ngram") as on, FakeVllm("vllm_off") as off:
        off.on("GET", "/v1/models", Reply({"data": [{"id": "other"}]}))
        with pytest.raises(EngineError, match=rf"at {off.url} serves 'other', not 'smol'"):
            engine_at(on, off)


def test_an_echo_of_the_right_name_proves_nothing() -> None:
    """The answer calls itself ``smol``; the list says what is really there."""
    with FakeVllm("vllm_ngram", answer=chat_of("vllm_ngram")) as on:
        on.on("GET", "/v1/models", Reply({"data": [{"id": "other"}]}))
        with pytest.raises(EngineError, match="serves 'other', not 'smol'"):
            engine_at(on, None)


def test_two_servers_that_read_a_prompt_differently_stop_the_job() -> None:
    with FakeVllm("vllm_ngram") as on, FakeVllm("vllm_off") as off:
        off.on("POST", "/tokenize", Reply({"tokens": [1, 2, 3, 4]}))
        engine = engine_at(on, off)
        with pytest.raises(EngineError, match="read prompt 'p1' differently"):
            engine.prepare(PROMPT, 160)


def test_a_server_that_does_not_tokenise_gives_no_ids() -> None:
    with FakeVllm("vllm_ngram", tokenizes=False) as on:
        prepared = engine_at(on, None).prepare(PROMPT, 160)
    assert prepared.token_ids == ()
    assert prepared.messages == PROMPT.messages


def test_a_long_prompt_caps_the_answer_or_is_refused() -> None:
    with FakeVllm("vllm_ngram") as on:
        engine = engine_at(on, None)
        on.on("POST", "/tokenize", Reply({"tokens": list(range(2000))}))
        prepared = engine.prepare(PROMPT, 160)
        assert (prepared.max_tokens, prepared.flags) == (48, ("capped",))
        on.on("POST", "/tokenize", Reply({"tokens": list(range(2048))}))
        with pytest.raises(UsageError, match="has 2048 tokens; the server holds 2048"):
            engine.prepare(PROMPT, 160)


def test_a_text_prompt_is_sent_as_it_is() -> None:
    on = FakeVllm("vllm_ngram", answer=chat_of("vllm_ngram"))
    run_on(on, Prompt("t", "x", text="Once upon"))
    assert on.sent("/tokenize")[0].body == {"model": "smol", "prompt": "Once upon"}
    (request,) = on.sent("/v1/completions")
    assert request.body["prompt"] == "Once upon"
    assert "messages" not in request.body


def test_a_shared_server_is_flagged_and_its_metrics_are_nobodys() -> None:
    def busy(text: str) -> str:
        return text.replace('finished_reason="length",model_name="smol"} 1.0', _TWO)

    _TWO = 'finished_reason="length",model_name="smol"} 2.0'
    fake = FakeVllm("vllm_ngram", answer=without_counters(), change_metrics=busy)
    record = run_on(fake)
    assert "shared_server" in record.flags
    assert record.counters.n_drafted is None
    assert record.proof is True


def test_more_tokens_than_ours_are_somebody_elses() -> None:
    def busy(text: str) -> str:
        return text.replace(
            'generation_tokens_total{engine="0",model_name="smol"} 160.0',
            'generation_tokens_total{engine="0",model_name="smol"} 170.0',
        )

    fake = FakeVllm("vllm_ngram", answer=chat_of("vllm_ngram"), change_metrics=busy)
    record = run_on(fake)
    assert "shared_server" in record.flags
    assert record.counters.n_drafted == 175  # these came with the answer


def test_without_a_count_of_requests_nobody_knows_who_else_was_there() -> None:
    def renamed(text: str) -> str:
        return text.replace("request_success", "request_done")

    fake = FakeVllm("vllm_ngram", answer=without_counters(), change_metrics=renamed)
    record = run_on(fake)
    assert "shared_server" not in record.flags
    assert (record.proof, record.counters.n_drafted) == (True, None)


def test_remembered_prompt_tokens_are_flagged() -> None:
    def hits(text: str) -> str:
        return text.replace(
            'prompt_tokens_cached_total{engine="0",model_name="smol"} 0.0',
            'prompt_tokens_cached_total{engine="0",model_name="smol"} 128.0',
        )

    fake = FakeVllm("vllm_ngram", answer=chat_of("vllm_ngram"), change_metrics=hits)
    assert run_on(fake).flags == ("warm_cache",)


def test_death_in_the_middle_of_an_answer_is_an_error() -> None:
    chat = json.loads(captured("vllm_ngram", "chat.json"))
    fake = FakeVllm("vllm_ngram", answer=Events(streamed(chat), die_after=2))
    with pytest.raises(EngineError, match="broke off its answer to /v1/chat/completions after 2"):
        run_on(fake)


def test_a_restart_between_two_looks_is_an_error() -> None:
    def restarted(text: str) -> str:
        return text.replace("prompt_tokens_total", "other").replace(
            'generation_tokens_total{engine="0",model_name="smol"} 160.0',
            'generation_tokens_total{engine="0",model_name="smol"} -5.0',
        )

    fake = FakeVllm("vllm_ngram", answer=chat_of("vllm_ngram"), change_metrics=restarted)
    with pytest.raises(EngineError, match=r"fell from 0 to -5.*restarted in between"):
        run_on(fake)


def test_a_server_that_is_still_loading_says_so() -> None:
    with FakeVllm("vllm_ngram") as on:
        on.on("GET", "/v1/models", Reply({"error": {"message": "loading"}}, 503))
        with pytest.raises(EngineError, match=r"503: loading.*still be loading its model"):
            engine_at(on, None)


def prompts(n: int) -> list[PreparedPrompt]:
    return [PreparedPrompt(f"p{i}", "x", (1,), 160, messages=PROMPT.messages) for i in range(n)]


def test_a_sweep_keeps_so_many_requests_in_flight() -> None:
    def four(text: str) -> str:
        return text.replace('"length",model_name="smol"} 1.0', '"length",model_name="smol"} 4.0')

    chat = json.loads(captured("vllm_ngram", "chat.json"))
    fake = FakeVllm("vllm_ngram", answer=Events(streamed(chat), gap_s=0.03), change_metrics=four)
    with fake:
        sweep = engine_at(fake, None).sweep(ON_ARM, prompts(4), 2)
    assert fake.most_in_flight == 2
    assert [r.counters.n_drafted for r in sweep.records] == [175] * 4
    assert sweep.wall_s > max(r.counters.decode_s or 0 for r in sweep.records)


def test_a_sweep_without_counters_in_answers_attributes_none() -> None:
    def two(text: str) -> str:
        return text.replace('"length",model_name="smol"} 1.0', '"length",model_name="smol"} 2.0')

    fake = FakeVllm("vllm_ngram", answer=without_counters(), change_metrics=two)
    with fake:
        sweep = engine_at(fake, None).sweep(ON_ARM, prompts(2), 2)
    assert [r.counters.n_drafted for r in sweep.records] == [None, None]
    assert [r.proof for r in sweep.records] == [True, True]


def test_an_error_in_a_sweep_ends_it() -> None:
    fake = FakeVllm("vllm_ngram", answer=Reply({"message": "out of memory"}, 500))
    with fake:
        engine = engine_at(fake, None)
        with pytest.raises(EngineError, match="out of memory"):
            engine.sweep(ON_ARM, prompts(50), 2)
    assert len(fake.sent("/v1/chat/completions")) < 50


def test_facts_name_both_servers_and_no_token() -> None:
    with FakeVllm("vllm_ngram") as on, FakeVllm("vllm_off") as off:
        address = ServerAddress("gpu", on.url, off.url, None, "s3cret")
        facts = VllmEngine(address).load(TARGET, {}, GenerationSettings())
    assert facts["version"] == "0.32.0"
    assert facts["n_ctx"] == 2048
    assert facts["servers"] == {
        "on": {
            "url": on.url,
            "version": "0.32.0",
            "models": [{"id": "smol", "root": "hfout", "n_ctx": 2048}],
            "metrics": True,
            "speculates": True,
        },
        "off": {
            "url": off.url,
            "version": "0.32.0",
            "models": [{"id": "smol", "root": "hfout", "n_ctx": 2048}],
            "metrics": True,
            "speculates": False,
        },
    }
    assert "s3cret" not in repr(facts)
