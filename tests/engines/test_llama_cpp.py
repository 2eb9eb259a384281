"""The embedded engine on tiny random models: loading, checks, counters, cold runs."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest

from specdash.domain.arms import OFF_ARM, parse_arm
from specdash.domain.counters import violations
from specdash.domain.workload import Message, Prompt
from specdash.engines import llama_cpp_draft, llama_cpp_memory
from specdash.engines.base import GenerationSettings, ModelFile
from specdash.engines.llama_cpp import LlamaCppEngine
from specdash.errors import ModelError, UsageError

ToFile = Callable[[Path], ModelFile]
PROMPT = Prompt("p", "a", text="abcabcabc the cat sat on the mat, the cat sat")
NGRAM = parse_arm("ngram-simple:size_n=2,size_m=4")
DRAFT = parse_arm("draft-simple:model=D,n_max=3")
DRAFT_WITH_P_MIN = parse_arm("draft-simple:model=D,n_max=8,n_min=2,p_min=0.2")
CHAINED = parse_arm("ngram-simple:size_n=2,size_m=4+draft-simple:model=D")


@pytest.fixture
def engine(
    tiny_llama: Path, tiny_draft: Path, tiny_settings: GenerationSettings, model_file: ToFile
) -> Iterator[LlamaCppEngine]:
    made = LlamaCppEngine()
    made.load(model_file(tiny_llama), {"D": model_file(tiny_draft)}, tiny_settings)
    yield made
    made.close()


@pytest.fixture
def load(
    tiny_settings: GenerationSettings, model_file: ToFile
) -> Iterator[Callable[..., LlamaCppEngine]]:
    made: list[LlamaCppEngine] = []

    def build(target: Path, drafts: dict[str, Path] | None = None, **changes: object):
        engine = LlamaCppEngine()
        made.append(engine)
        files = {ref: model_file(path) for ref, path in (drafts or {}).items()}
        engine.load(model_file(target), files, replace(tiny_settings, **changes))
        return engine

    yield build
    for engine in made:
        engine.close()


@pytest.mark.parametrize(
    "arm",
    [
        NGRAM,
        DRAFT,
        DRAFT_WITH_P_MIN,
        CHAINED,
        parse_arm("prompt-lookup"),
        parse_arm("ngram-mod:n_match=2,n_min=0,n_max=8"),
        parse_arm("ngram-map-k:size_n=2,size_m=4"),
        parse_arm("ngram-map-k4v:size_n=2,size_m=4"),
        parse_arm("ngram-cache"),
    ],
    ids=lambda a: a.text(),
)
def test_every_arm_gives_the_text_of_off_and_lawful_counters(engine, arm) -> None:
    prompt = engine.prepare(PROMPT, 100)
    off = engine.run(OFF_ARM, prompt)
    assert engine.check_arm(arm).ready
    on = engine.run(arm, prompt)
    assert on.token_ids == off.token_ids
    assert violations(on.counters) == ()
    c = on.counters
    assert c.n_generated - 1 == c.n_accepted + c.n_verify_steps + c.n_plain_steps
    # ngram-cache is right to find nothing likely enough in a random text.
    assert c.n_drafted > 0 or arm.text() == "ngram-cache"
    assert on.proof is True
    assert off.proof is None


@pytest.mark.parametrize("arm", [OFF_ARM, NGRAM, DRAFT, CHAINED], ids=lambda a: a.text())
def test_a_run_is_cold_every_time(engine, arm) -> None:
    prompt = engine.prepare(PROMPT, 60)
    engine.check_arm(arm)
    first = engine.run(arm, prompt)
    engine.run(CHAINED, prompt)
    again = engine.run(arm, prompt)
    assert again.token_ids == first.token_ids
    assert [(s.n_drafted, s.n_accepted, s.proposed) for s in again.steps] == [
        (s.n_drafted, s.n_accepted, s.proposed) for s in first.steps
    ]


@pytest.mark.parametrize("arm", [OFF_ARM, NGRAM, DRAFT], ids=lambda a: a.text())
def test_the_four_parts_sum_to_the_decode_time(engine, arm) -> None:
    c = engine.run(arm, engine.prepare(PROMPT, 100)).counters
    parts = c.draft_s + c.verify_s + c.plain_s + c.other_s
    assert parts == pytest.approx(c.decode_s, rel=1e-9)
    assert 0 <= c.other_s < 0.5 * c.decode_s
    assert min(c.draft_s, c.verify_s, c.plain_s) >= 0


def test_steps_cover_the_decode_time_and_name_the_proposer(engine) -> None:
    run = engine.run(CHAINED, engine.prepare(PROMPT, 100))
    assert sum(s.seconds for s in run.steps) == pytest.approx(run.counters.decode_s, rel=0.2)
    assert {s.drafter for s in run.steps if s.n_drafted} <= {0, 1}
    assert set(run.drafter_counters) == {"ngram-simple", "draft-simple"}
    total = sum(c.n_drafted for c in run.drafter_counters.values())
    assert total == run.counters.n_drafted


def test_one_token_is_the_one_from_the_prompts_own_logits(engine) -> None:
    run = engine.run(NGRAM, engine.prepare(PROMPT, 1))
    assert run.counters.n_generated == len(run.token_ids) == 1
    assert run.counters.decode_s == 0.0
    assert run.steps == ()
    assert set(run.flags) == {"short", "no_drafts"}


def test_a_draft_of_itself_is_accepted_almost_always(tiny_llama: Path, load) -> None:
    engine = load(tiny_llama, {"D": tiny_llama})
    run = engine.run(DRAFT, engine.prepare(PROMPT, 100))
    assert run.counters.n_accepted >= 0.9 * run.counters.n_drafted


def test_a_draft_below_the_minimum_length_is_counted_as_discarded(engine) -> None:
    arm = parse_arm("draft-simple:model=D,n_max=8,n_min=8,p_min=0.5")
    c = engine.run(arm, engine.prepare(PROMPT, 100)).counters
    assert c.n_discarded > 0
    assert all(k in (0, 8) for k, n in enumerate(c.drafted_histogram) if n)


def test_ignoring_the_end_reaches_the_token_limit(tiny_llama: Path, load) -> None:
    engine = load(tiny_llama, ignore_eos=True)
    run = engine.run(OFF_ARM, engine.prepare(PROMPT, 120))
    assert run.counters.n_generated == 120
    assert 2 not in run.token_ids
    assert run.stop_reason == "limit"


def test_a_prompt_longer_than_the_context_is_refused_before_any_run(engine) -> None:
    with pytest.raises(UsageError, match=r"Prompt 'p' has 301 tokens; the context holds 256\."):
        engine.prepare(Prompt("p", "a", text="x" * 300), 10)


def test_a_token_cap_beyond_the_context_is_cut_for_every_arm_and_noted(engine) -> None:
    prompt = engine.prepare(Prompt("p", "a", text="x" * 200), 1024)
    assert prompt.max_tokens == 256 - 201
    for arm in (OFF_ARM, NGRAM, DRAFT):
        run = engine.run(arm, prompt)
        assert run.counters.n_generated <= 55
        assert "capped" in run.flags
        assert run.stop_reason in ("context", "eos")


def test_the_context_is_never_longer_than_the_model_was_trained_for(tiny_llama, load) -> None:
    engine = load(tiny_llama, n_ctx=4096)
    with pytest.raises(UsageError, match="the context holds 256"):
        engine.prepare(Prompt("p", "a", text="x" * 300), 10)


def test_a_prompt_longer_than_a_batch_goes_in_pieces(tiny_llama: Path, load) -> None:
    whole = load(tiny_llama, n_batch=256)
    pieces = load(tiny_llama, n_batch=32, n_ubatch=32)
    prompt = Prompt("p", "a", text="many words in one long prompt " * 5)
    expected = whole.run(OFF_ARM, whole.prepare(prompt, 30)).token_ids
    assert pieces.run(OFF_ARM, pieces.prepare(prompt, 30)).token_ids == expected


def test_an_empty_prompt_is_refused(make_llama, tmp_path: Path, load) -> None:
    engine = load(make_llama(tmp_path / "no-bos.gguf", add_bos=False))
    with pytest.raises(UsageError, match="Prompt 'p' is empty"):
        engine.prepare(Prompt("p", "a", text=""), 10)


def test_bos_stands_once_when_template_and_tokeniser_both_add_it(
    make_llama, tmp_path: Path, load
) -> None:
    template = "{{ bos_token }}{% for m in messages %}[{{ m.role }}] {{ m.content }}{% endfor %}"
    engine = load(make_llama(tmp_path / "bos.gguf", template=template))
    prompt = engine.prepare(Prompt("p", "a", (Message("user", "hello"),)), 10)
    assert prompt.token_ids.count(1) == 1
    assert prompt.token_ids[0] == 1
    assert prompt.flags == ()


def test_without_a_template_texts_are_joined_and_it_is_noted(engine) -> None:
    messages = (Message("system", "a"), Message("user", "b"))
    prompt = engine.prepare(Prompt("p", "a", messages), 10)
    plain = engine.prepare(Prompt("p", "a", text="a\n\nb"), 10)
    assert prompt.token_ids == plain.token_ids
    assert prompt.flags == ("no_template",)


def test_token_texts_join_to_the_text_and_hold_whole_characters(engine) -> None:
    run = engine.run(OFF_ARM, engine.prepare(PROMPT, 100))
    assert "".join(run.token_texts) == run.text
    assert len(run.token_texts) == len(run.token_ids)


def test_peak_memory_is_that_of_this_process(engine) -> None:
    peak = engine.run(OFF_ARM, engine.prepare(PROMPT, 5)).peak_rss_bytes
    assert peak is None or 10 * 2**20 < peak < 8 * 2**30


def test_facts_hold_the_build_and_what_the_library_reported(
    tiny_llama: Path, tiny_settings, model_file: ToFile
) -> None:
    engine = LlamaCppEngine()
    facts = engine.load(model_file(tiny_llama), {}, tiny_settings)
    engine.close()
    assert facts["version"] == "0.3.36"
    assert facts["n_threads"] == facts["n_threads_batch"] == 1
    assert facts["chat_template_hash"] is None
    target = facts["target"]
    assert any("compute" in name for name in target["context_buffers_mib"])


def test_memory_is_looked_at_after_the_target_and_after_each_draft(
    tiny_llama: Path,
    tiny_draft: Path,
    tiny_settings,
    model_file: ToFile,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # Once when the meter is made, once a model, once at the end.
    free = iter([1000, 800, 750, 740])
    monkeypatch.setattr(llama_cpp_memory, "free_device_bytes", lambda: next(free))
    engine = LlamaCppEngine()
    try:
        facts = engine.load(model_file(tiny_llama), {"D": model_file(tiny_draft)}, tiny_settings)
        held = engine.held()
    finally:
        engine.close()
    stages = [facts["target"]["after_load"], facts["drafts"]["D"]["after_load"]]
    assert [s["device_bytes"] for s in stages] == [200, 250]
    assert all(s["rss_bytes"] > 10 * 2**20 for s in stages)
    assert (held.peak_rss_bytes or 0) >= (stages[-1]["peak_rss_bytes"] or 0)
    assert held.device_bytes == 260


def test_gpu_memory_that_others_gave_back_is_unknown_and_not_negative(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    free = iter([1000, 1100, None])
    monkeypatch.setattr(llama_cpp_memory, "free_device_bytes", lambda: next(free))
    meter = llama_cpp_memory.MemoryMeter()
    assert [meter.device_bytes(), meter.device_bytes()] == [None, None]


@pytest.mark.parametrize(("gpu_layers", "is_refused"), [(0, True), (-1, False)])
def test_a_draft_on_the_gpu_needs_no_host_memory(
    tiny_llama: Path,
    tiny_draft: Path,
    load,
    monkeypatch: pytest.MonkeyPatch,
    *,
    gpu_layers: int,
    is_refused: bool,
) -> None:
    monkeypatch.setattr(llama_cpp_draft, "supports_gpu", lambda: True)
    full = SimpleNamespace(virtual_memory=lambda: SimpleNamespace(available=1))
    monkeypatch.setattr(llama_cpp_draft, "psutil", full)
    engine = load(tiny_llama, {"D": tiny_draft}, draft_gpu_layers=gpu_layers)
    answer = engine.check_arm(DRAFT)
    assert answer.ready != is_refused
    assert is_refused == ("no memory for the draft" in (answer.reason or ""))


def test_a_missing_target_is_said_in_words(tmp_path: Path, load) -> None:
    with pytest.raises(ModelError, match="The model file of 'absent' is missing"):
        load(tmp_path / "absent.gguf")


def test_a_corrupt_target_is_refused_with_the_librarys_reason(tmp_path: Path, load) -> None:
    path = tmp_path / "broken.gguf"
    path.write_bytes(b"this is not a GGUF file at all")
    with pytest.raises(ModelError, match=r"llama\.cpp cannot load 'broken' .*invalid magic"):
        load(path)


def test_a_truncated_target_is_refused(tiny_llama: Path, tmp_path: Path, load) -> None:
    path = tmp_path / "half.gguf"
    path.write_bytes(tiny_llama.read_bytes()[: tiny_llama.stat().st_size // 2])
    with pytest.raises(ModelError, match=r"llama\.cpp cannot load 'half'"):
        load(path)


def test_a_draft_that_cannot_be_loaded_only_stops_its_own_arms(
    tiny_llama: Path, tmp_path: Path, load
) -> None:
    engine = load(tiny_llama, {"D": tmp_path / "gone.gguf"})
    answer = engine.check_arm(DRAFT)
    assert not answer.ready
    assert answer.failed_rule == "draft"
    assert "The model file of 'gone' is missing" in answer.reason
    assert engine.check_arm(NGRAM).ready


def test_a_draft_that_was_not_given_is_named(engine) -> None:
    answer = engine.check_arm(parse_arm("draft-simple:model=other"))
    assert answer.reason == "the draft 'other' was not given to the engine"


def test_a_draft_of_another_vocabulary_is_refused_by_the_failing_rule(
    tiny_llama: Path, make_llama, extended_tokens, tmp_path: Path, load
) -> None:
    bigger = make_llama(tmp_path / "bigger.gguf", tokens=extended_tokens(200))
    engine = load(tiny_llama, {"D": bigger})
    answer = engine.check_arm(DRAFT)
    assert (answer.ready, answer.failed_rule) == (False, "vocab_size")
    assert answer.reason.startswith("sizes differ by 200, at most 128 allowed")


def test_a_draft_with_100_more_tokens_works(
    tiny_llama: Path, make_llama, extended_tokens, tmp_path: Path, load
) -> None:
    bigger = make_llama(tmp_path / "bigger.gguf", tokens=extended_tokens(100))
    engine = load(tiny_llama, {"D": bigger})
    assert engine.check_arm(DRAFT).ready
    prompt = engine.prepare(PROMPT, 60)
    assert engine.run(DRAFT, prompt).token_ids == engine.run(OFF_ARM, prompt).token_ids


def test_a_draft_that_lacks_100_tokens_works(
    tiny_llama: Path, make_llama, extended_tokens, tmp_path: Path, load
) -> None:
    bigger = make_llama(tmp_path / "bigger.gguf", tokens=extended_tokens(100))
    engine = load(bigger, {"D": tiny_llama})
    assert engine.check_arm(DRAFT).ready
    prompt = engine.prepare(PROMPT, 60)
    off = engine.run(OFF_ARM, prompt)
    assert max(off.token_ids) >= 259
    assert engine.run(DRAFT, prompt).token_ids == off.token_ids


def test_one_different_token_is_named(make_llama, extended_tokens, tmp_path: Path, load) -> None:
    tokens = extended_tokens(3)
    other = [*tokens[:-1], "another"]
    target = make_llama(tmp_path / "a.gguf", tokens=tokens)
    engine = load(target, {"D": make_llama(tmp_path / "b.gguf", tokens=other)})
    answer = engine.check_arm(DRAFT)
    assert answer.failed_rule == "token_text"
    assert answer.reason == "token 261 differs: 'word2' / 'another'"


def test_a_recurrent_target_runs_off_only(tiny_mamba: Path, load) -> None:
    engine = load(tiny_mamba)
    assert engine.check_arm(OFF_ARM).ready
    answer = engine.check_arm(NGRAM)
    assert (answer.ready, answer.failed_rule) == (False, "memory")
    assert answer.reason.startswith("the recurrent target cannot drop part of its memory")
    run = engine.run(OFF_ARM, engine.prepare(PROMPT, 20))
    assert run.counters.n_plain_steps == run.counters.n_generated - 1


def test_a_recurrent_draft_is_refused(tiny_llama: Path, tiny_mamba: Path, load) -> None:
    answer = load(tiny_llama, {"D": tiny_mamba}).check_arm(DRAFT)
    assert answer.reason == "the draft 'D' cannot drop part of its memory"


def test_methods_of_other_engines_are_unsupported(engine) -> None:
    answer = engine.check_arm(parse_arm("draft-mtp"))
    assert answer.reason == "draft-mtp does not run in the llama-cpp engine"


def test_a_draft_longer_than_a_batch_is_unsupported(engine) -> None:
    answer = engine.check_arm(parse_arm("ngram-simple:size_n=2,size_m=500"))
    assert answer.reason == "a draft of 500 tokens and the last one do not fit a batch of 128"


def test_drafts_longer_than_usual_get_room_for_their_logits(engine) -> None:
    arm = parse_arm("ngram-simple:size_n=2,size_m=100")
    assert engine.check_arm(arm).ready
    prompt = engine.prepare(PROMPT, 150)
    assert engine.run(arm, prompt).token_ids == engine.run(OFF_ARM, prompt).token_ids


@pytest.mark.parametrize("kv_type", ["f32", "f16", "bf16", "q8_0", "q4_0"])
def test_kv_types_run(make_llama, tmp_path: Path, load, kv_type: str) -> None:
    engine = load(make_llama(tmp_path / "wide.gguf", width=64), kv_type=kv_type)
    assert engine.run(OFF_ARM, engine.prepare(PROMPT, 10)).counters.n_generated > 0


def test_a_kv_type_that_does_not_fit_the_heads_is_said_in_words(tiny_llama: Path, load) -> None:
    with pytest.raises(ModelError, match="q8_0 with block size 32 does not divide"):
        load(tiny_llama, kv_type="q8_0")


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"kv_type": "q8_0", "flash_attn": "off"}, "A q8_0 KV cache needs flash attention"),
        ({"kv_type": "q3"}, "Unknown KV cache type 'q3'"),
        ({"flash_attn": "maybe"}, "Unknown flash attention setting 'maybe'"),
        ({"temperature": 0.7}, "measures greedy decoding; temperature is 0.7"),
    ],
)
def test_settings_the_library_would_refuse_are_refused_first(
    tiny_llama: Path, load, changes: dict[str, object], message: str
) -> None:
    with pytest.raises(UsageError, match=message):
        load(tiny_llama, **changes)


def test_drafts_may_have_their_own_kv_type_and_threads(
    tiny_llama: Path, tiny_draft: Path, tiny_settings, model_file: ToFile
) -> None:
    engine = LlamaCppEngine()
    settings = replace(tiny_settings, draft_kv_type="f32", draft_threads=2)
    facts = engine.load(model_file(tiny_llama), {"D": model_file(tiny_draft)}, settings)
    run = engine.run(DRAFT, engine.prepare(PROMPT, 20))
    engine.close()
    draft = facts["drafts"]["D"]
    assert (draft["kv_type"], draft["n_threads"]) == ("f32", 2)
    assert run.counters.n_drafted > 0


def test_resolved_parameters_name_the_draft_by_its_content(engine) -> None:
    resolved = engine.check_arm(DRAFT).resolved
    assert resolved == {
        "calls": [
            {"method": "draft-simple", "model": "draft", "n_max": 3, "n_min": 0, "p_min": 0.0}
        ]
    }


def test_facts_are_what_the_library_made_of_the_settings(
    tiny_llama: Path, tiny_draft: Path, tiny_settings, model_file: ToFile
) -> None:
    """A context is no longer than the model was trained for, and a CPU build has no GPU layers."""
    engine = LlamaCppEngine()
    asked = replace(
        tiny_settings, n_ctx=8192, n_batch=9000, n_ubatch=9000, gpu_layers=33, draft_gpu_layers=33
    )
    facts = engine.load(model_file(tiny_llama), {"D": model_file(tiny_draft)}, asked)
    engine.close()
    trained = facts["target"]["n_ctx_train"]
    assert facts["n_ctx"] == trained < 8192
    assert trained <= facts["n_batch"] < 9000
    assert facts["n_ubatch"] <= facts["n_batch"]
    if not facts["supports_gpu"]:
        assert (facts["gpu_layers"], facts["drafts"]["D"]["gpu_layers"]) == (0, 0)
