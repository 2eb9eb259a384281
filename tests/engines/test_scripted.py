"""The shipped fake: deterministic tokens, lawful counters, the failures it is told to have."""

import json
from pathlib import Path

import pytest

from specdash.domain.arms import OFF_ARM, parse_arm
from specdash.domain.counters import violations
from specdash.domain.workload import Prompt
from specdash.engines.base import GenerationSettings, ModelFile
from specdash.engines.scripted import ScriptedEngine
from specdash.errors import EngineError, ModelError, UsageError

NGRAM = parse_arm("ngram-simple:size_n=4,size_m=16")
PROMPT = Prompt("p", "code", text="one two three")


def load(tmp_path: Path, script: object, **settings: object) -> ScriptedEngine:
    path = tmp_path / "fake.scripted.json"
    path.write_text(script if isinstance(script, str) else json.dumps(script))
    engine = ScriptedEngine()
    engine.load(ModelFile("fake", str(path), "f"), {}, GenerationSettings(**settings))
    return engine


def test_the_same_run_gives_the_same_tokens_and_counters_and_other_times(tmp_path: Path) -> None:
    engine = load(tmp_path, {})
    prompt = engine.prepare(PROMPT, 128)
    first, second = engine.run(NGRAM, prompt), engine.run(NGRAM, prompt)
    assert first.token_ids == second.token_ids
    assert first.counters.accepted_histogram == second.counters.accepted_histogram
    assert first.counters.decode_s != second.counters.decode_s


@pytest.mark.parametrize("arm", [OFF_ARM, NGRAM], ids=lambda a: a.text())
def test_counters_keep_the_rules_and_the_identity(tmp_path: Path, arm) -> None:
    engine = load(tmp_path, {"methods": {"ngram-simple": {"draft_cost": 0.05}}})
    run = engine.run(arm, engine.prepare(PROMPT, 128))
    c = run.counters
    assert violations(c) == ()
    assert c.n_generated - 1 == c.n_accepted + c.n_verify_steps + c.n_plain_steps
    assert c.draft_s + c.verify_s + c.plain_s + c.other_s == pytest.approx(c.decode_s)
    assert sum(s.seconds for s in run.steps) == pytest.approx(c.decode_s)


def test_off_runs_at_the_speed_of_the_script(tmp_path: Path) -> None:
    engine = load(tmp_path, {"off_tok_s": 50, "noise": 0})
    c = engine.run(OFF_ARM, engine.prepare(PROMPT, 128)).counters
    assert (c.n_generated - 1) / c.decode_s == pytest.approx(50)


def test_a_stated_speed_up_holds_whatever_the_steps_and_may_depend_on_the_category(
    tmp_path: Path,
) -> None:
    script = {
        "off_tok_s": 100,
        "noise": 0,
        "methods": {
            "ngram-simple": {"speed_up": 0.9, "speed_up_by_category": {"code": 1.5}},
        },
    }
    engine = load(tmp_path, script)
    code = engine.run(NGRAM, engine.prepare(PROMPT, 128)).counters
    prose = engine.run(NGRAM, engine.prepare(Prompt("q", "prose", text="x"), 128)).counters
    assert (code.n_generated - 1) / code.decode_s == pytest.approx(150)
    assert (prose.n_generated - 1) / prose.decode_s == pytest.approx(90)


def test_texts_can_part_at_a_stated_token(tmp_path: Path) -> None:
    engine = load(tmp_path, {"methods": {"ngram-simple": {"diverge_at": 7}}})
    prompt = engine.prepare(PROMPT, 128)
    off, on = engine.run(OFF_ARM, prompt), engine.run(NGRAM, prompt)
    pairs = zip(off.token_ids, on.token_ids, strict=True)
    differing = [i for i, (a, b) in enumerate(pairs) if a != b]
    assert differing[0] == 7


def test_a_natural_end_and_a_cut_are_told_apart(tmp_path: Path) -> None:
    engine = load(tmp_path, {"n_tokens": 100})
    ended = engine.run(OFF_ARM, engine.prepare(PROMPT, 128))
    cut = engine.run(OFF_ARM, engine.prepare(PROMPT, 64))
    assert (ended.stop_reason, ended.counters.n_generated) == ("eos", 100)
    assert (cut.stop_reason, cut.counters.n_generated) == ("limit", 64)


def test_a_degenerate_text_repeats_one_token(tmp_path: Path) -> None:
    engine = load(tmp_path, {"degenerate": True, "n_tokens": 500})
    run = engine.run(OFF_ARM, engine.prepare(PROMPT, 128))
    assert len(set(run.token_ids)) == 1


def test_one_token_has_no_decode_time(tmp_path: Path) -> None:
    run = load(tmp_path, {}).run(OFF_ARM, load(tmp_path, {}).prepare(PROMPT, 1))
    assert (run.counters.n_generated, run.counters.decode_s, run.steps) == (1, 0, ())


def test_methods_can_be_unsupported_or_inactive(tmp_path: Path) -> None:
    script = {
        "methods": {"ngram-mod": {"unsupported": "no"}, "ngram-simple": {"inactive": "silent"}}
    }
    engine = load(tmp_path, script)
    assert engine.check_arm(parse_arm("ngram-mod")).reason == "no"
    run = engine.run(NGRAM, engine.prepare(PROMPT, 128))
    assert (run.proof, run.proof_reason) == (False, "silent")


def test_it_raises_at_the_stated_run(tmp_path: Path) -> None:
    engine = load(tmp_path, {"failure": {"kind": "raise", "at_run": 1}})
    prompt = engine.prepare(PROMPT, 128)
    engine.run(OFF_ARM, prompt)
    with pytest.raises(EngineError):
        engine.run(OFF_ARM, prompt)


def test_a_missing_or_wrong_script_is_a_model_error(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match="is no script for the scripted engine"):
        load(tmp_path, "GGUF....")
    with pytest.raises(ModelError, match="off_tok_s"):
        load(tmp_path, {"off_tok_s": -1})
    with pytest.raises(ModelError, match="Cannot read"):
        ScriptedEngine().load(
            ModelFile("gone", str(tmp_path / "gone.json"), "g"), {}, GenerationSettings()
        )


def test_a_prompt_that_does_not_fit_is_refused_and_a_cap_is_noted(tmp_path: Path) -> None:
    engine = load(tmp_path, {}, n_ctx=10)
    with pytest.raises(UsageError, match="has 12 tokens; the context holds 10"):
        engine.prepare(Prompt("p", "a", text="w " * 12), 5)
    capped = engine.prepare(Prompt("p", "a", text="w " * 8), 5)
    assert (capped.max_tokens, capped.flags) == (2, ("capped",))
