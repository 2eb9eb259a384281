"""The engine at addresses that somebody else looks after."""

from typing import Any

import pytest

from specdash.domain.arms import parse_arm
from specdash.domain.workload import Message, Prompt
from specdash.engines.base import (
    GenerationSettings,
    ModelFile,
    ParallelEngine,
    PreparedPrompt,
    RunRecord,
    ServerAddress,
)
from specdash.engines.llama_server import LlamaServerEngine
from specdash.errors import EngineError, UsageError
from tests.engines.fakes.llama_server import FakeLlamaServer, answering, captured
from tests.engines.fakes.scripted_http import Reply

NAME = "SmolLM2-135M-Instruct.Q4_1"
TARGET = ModelFile(NAME, "/models/SmolLM2-135M-Instruct.Q4_1.gguf", "t")
PROMPT = PreparedPrompt("json_rows", "extract", (1, 2, 3), 60)
ON = parse_arm("server:label=draft")
OFF = parse_arm("off")


def connected(
    on: FakeLlamaServer, off: FakeLlamaServer | None = None, **settings: Any
) -> LlamaServerEngine:
    engine = LlamaServerEngine(ServerAddress("box", on.url, off.url if off else None))
    engine.load(TARGET, {}, GenerationSettings(**settings))
    return engine


def run(engine: LlamaServerEngine, text: str) -> RunRecord:
    arm = parse_arm(text)
    assert engine.check_arm(arm).ready
    return engine.run(arm, PROMPT)


def test_it_is_an_engine_that_serves_several_requests() -> None:
    assert isinstance(LlamaServerEngine(ServerAddress("box", "http://127.0.0.1:1")), ParallelEngine)


def test_facts_name_the_server_and_what_it_holds() -> None:
    with FakeLlamaServer("draft-simple") as fake:
        engine = LlamaServerEngine(ServerAddress("box", fake.url))
        facts = engine.load(TARGET, {}, GenerationSettings(n_ctx=8192))
        engine.close()
    assert facts["mode"] == "url"
    assert facts["server"] == "box"
    assert facts["version"] == "b0-unknown"
    assert facts["n_ctx"] == 4096
    assert facts["n_parallel"] == 1
    assert facts["target"] == {
        "name": NAME,
        "served_as": "/models/SmolLM2-135M-Instruct.Q4_1.gguf",
        "n_params": 134515008,
        "size_bytes": 96576768,
        "n_ctx_train": 8192,
        "n_vocab": 49152,
    }


def test_both_sides_of_a_pair_give_exactly_what_was_captured() -> None:
    with FakeLlamaServer("draft-simple") as on, FakeLlamaServer("off") as off:
        on.on("POST", "/completion", answering("draft-simple"))
        engine = connected(on, off)
        plain, drafted = run(engine, "off"), run(engine, "server:label=draft")
        engine.close()
    assert plain.proof is None
    assert (plain.counters.n_drafted, plain.counters.n_max) == (0, None)
    assert drafted.proof is True
    assert (drafted.counters.n_drafted, drafted.counters.n_accepted) == (90, 89)
    assert (drafted.counters.n_verify_steps, drafted.counters.n_plain_steps) == (30, 0)
    assert drafted.counters.accepted_histogram == (0, 0, 1, 29)
    assert drafted.token_ids == plain.token_ids
    assert drafted.text == plain.text
    assert drafted.steps is None
    assert (drafted.stop_reason, drafted.flags) == ("limit", ())
    # The probe for what it drafts with, then the run.
    assert [r.body["n_predict"] for r in on.sent("/completion")] == [1, 60]


def test_what_the_server_says_it_drafts_with_belongs_to_the_arm() -> None:
    with FakeLlamaServer("ngram-mod") as fake:
        engine = connected(fake)
        answer = engine.check_arm(ON)
        record = engine.run(ON, PROMPT)
        engine.close()
    assert answer.resolved == {
        "calls": [{"method": "server", "label": "draft"}],
        "spec_types": ["ngram-mod"],
    }
    assert "warm_pool" in record.flags


def test_a_server_that_does_not_speculate_is_inactive_with_the_reason() -> None:
    with FakeLlamaServer("md-without-spec-type") as fake:
        engine = connected(fake)
        record = run(engine, "server:label=draft")
        engine.close()
    assert record.proof is False
    assert record.proof_reason is not None
    assert "does not speculate: its /slots say so" in record.proof_reason
    assert record.counters.n_accepted is None


def test_missing_counters_on_a_build_that_does_not_say_prove_nothing() -> None:
    with FakeLlamaServer("off") as fake:
        body = captured("off", "completion.json")
        del body["generation_settings"]
        fake.on("POST", "/completion", Reply(body)).without("/slots", "/metrics")
        engine = connected(fake)
        record = run(engine, "server:label=draft")
        engine.close()
    assert record.proof is False
    assert record.proof_reason is not None
    assert record.proof_reason.startswith("Nothing proves that it ran")
    assert record.counters.n_drafted is None


def test_a_drafter_that_found_nothing_is_proof_enough() -> None:
    with FakeLlamaServer("ngram-mod") as fake:
        body = captured("ngram-mod", "completion.json")
        for key in ("draft_n", "draft_n_accepted"):
            del body["timings"][key]
        fake.on("POST", "/completion", Reply(body))
        fake.on("GET", "/metrics", Reply(captured("ngram-mod", "metrics_before.txt")))
        engine = connected(fake)
        record = run(engine, "server:label=ngrams")
        engine.close()
    assert record.proof is True
    assert (record.counters.n_drafted, record.counters.n_verify_steps) == (0, 0)
    assert "no_drafts" in record.flags


def test_off_needs_a_server_without_speculation() -> None:
    with FakeLlamaServer("draft-simple") as fake:
        engine = connected(fake)
        answer = engine.check_arm(OFF)
        engine.close()
    assert (answer.ready, answer.failed_rule) == (False, "baseline")
    assert answer.reason is not None
    assert "start a second one without" in answer.reason


def test_a_baseline_that_drafts_after_all_stops_the_job() -> None:
    with FakeLlamaServer("off") as fake:
        fake.on("POST", "/completion", Reply(captured("draft-simple", "completion.json")))
        engine = connected(fake)
        with pytest.raises(EngineError, match="'off' drafted 44 tokens"):
            run(engine, "off")
        engine.close()


@pytest.mark.parametrize("text", ["ngram-mod", "draft-simple:model=D"])
def test_a_server_of_somebody_else_cannot_be_told_what_to_run(text: str) -> None:
    with FakeLlamaServer("draft-simple") as fake:
        engine = connected(fake)
        answer = engine.check_arm(parse_arm(text))
        engine.close()
    assert (answer.ready, answer.failed_rule) == (False, "method")


def test_another_model_behind_the_address_stops_the_job_and_names_both() -> None:
    other = ModelFile("Qwen2-0.5B", "/models/qwen2.gguf", "q")
    with FakeLlamaServer("off") as fake:
        engine = LlamaServerEngine(ServerAddress("box", fake.url))
        with pytest.raises(EngineError, match=r"SmolLM2.*'Qwen2-0\.5B'"):
            engine.load(other, {}, GenerationSettings())
        engine.close()


def test_two_servers_of_different_files_stop_the_job() -> None:
    with FakeLlamaServer("draft-simple") as on, FakeLlamaServer("off") as off:
        models = captured("off", "models.json")
        models["data"][0]["meta"]["size"] = 1
        off.on("GET", "/v1/models", Reply(models))
        with pytest.raises(EngineError, match="The two servers differ"):
            connected(on, off)


def test_a_death_in_the_middle_of_an_answer_is_told() -> None:
    body = captured("draft-simple", "completion.json")
    with FakeLlamaServer("draft-simple") as fake:
        fake.on("POST", "/completion", Reply(body), Reply(body, cut_at=40))
        engine = connected(fake)
        assert engine.check_arm(ON).ready
        with pytest.raises(EngineError, match="broke off its answer"):
            engine.run(ON, PROMPT)
        engine.close()


def test_a_server_that_still_loads_is_told() -> None:
    with FakeLlamaServer("off") as fake:
        loading = {"error": {"code": 503, "message": "Loading model", "type": "unavailable_error"}}
        fake.on("GET", "/props", Reply(loading, 503))
        with pytest.raises(EngineError, match="Loading model"):
            connected(fake)


def test_a_token_goes_to_the_server_and_nowhere_else() -> None:
    with FakeLlamaServer("off") as fake:
        address = ServerAddress("box", fake.url, token="secret-1")
        engine = LlamaServerEngine(address)
        facts = engine.load(TARGET, {}, GenerationSettings())
        engine.close()
        assert {r.headers.get("authorization") for r in fake.requests} == {"Bearer secret-1"}
    assert "secret-1" not in repr(facts) + repr(address)


def test_prompts_are_rendered_and_tokenised_by_the_server() -> None:
    with FakeLlamaServer("off") as fake:
        engine = connected(fake)
        chat = engine.prepare(Prompt("p", "c", (Message("user", "Hi"),)), 60)
        plain = engine.prepare(Prompt("q", "c", (), "AB"), 60)
        engine.close()
    assert chat.token_ids[:2] == (1, 100 + ord("s"))
    assert plain.token_ids == (1, 165, 166)
    assert (plain.max_tokens, plain.flags) == (60, ())


def test_a_prompt_longer_than_the_slot_is_refused_and_a_long_answer_capped() -> None:
    slots = [{"id": 0, "n_ctx": 64, "speculative": False, "is_processing": False}]
    with FakeLlamaServer("off") as fake:
        fake.on("GET", "/slots", Reply(slots))
        engine = connected(fake)
        capped = engine.prepare(Prompt("p", "c", (), "x" * 40), 60)
        with pytest.raises(UsageError, match="the context holds 64"):
            engine.prepare(Prompt("p", "c", (), "x" * 80), 60)
        engine.close()
    assert (capped.max_tokens, capped.flags) == (64 - 41, ("capped",))


def test_a_sweep_keeps_as_many_requests_in_flight_as_asked() -> None:
    prompts = [PreparedPrompt(f"p{i}", "c", (1, i), 60) for i in range(6)]
    with FakeLlamaServer("draft-simple") as fake:
        body = captured("draft-simple", "completion.json")
        fake.on("POST", "/completion", Reply(body, delay_s=0.15))
        engine = connected(fake)
        sweep = engine.sweep(ON, prompts, 3)
        engine.close()
        assert fake.most_in_flight == 3
    assert len(sweep.records) == 6
    assert 0.3 <= sweep.wall_s < 0.9
    assert [r.body["prompt"][1] for r in sorted(fake.sent("/completion"), key=_second)] == [
        0,
        1,
        2,
        3,
        4,
        5,
    ]
    first = sweep.records[0]
    assert (first.counters.n_drafted, first.counters.n_accepted) == (44, 44)
    assert first.counters.n_verify_steps is None
    assert first.proof is True


def _second(request: Any) -> int:
    return int(request.body["prompt"][1])


def test_nothing_at_the_address_is_an_error_in_words() -> None:
    engine = LlamaServerEngine(ServerAddress("box", "http://127.0.0.1:9"))
    with pytest.raises(EngineError, match="cannot be reached"):
        engine.load(TARGET, {}, GenerationSettings())
    engine.close()
