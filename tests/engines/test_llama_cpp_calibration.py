"""Calibration of tiny models: what is measured, what is left behind, and what is refused."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

pytest.importorskip("llama_cpp")

from specdash.domain.arms import parse_arm
from specdash.domain.calibration import CalibrationPlan
from specdash.domain.workload import Prompt
from specdash.engines.base import CalibratingEngine, GenerationSettings, ModelFile
from specdash.engines.llama_cpp import LlamaCppEngine
from specdash.engines.llama_cpp_context import LlamaContext
from specdash.errors import UnsupportedError, UsageError

_PLAN = CalibrationPlan(
    widths=(1, 2, 3, 24, 64), between=(), depths=(16, 100, 150, 4000), repeats=3
)
_ARM = parse_arm("draft-simple:model=d,n_max=4")
_MakeFile = Callable[[Path], ModelFile]


@pytest.fixture
def engine(
    tiny_llama: Path, tiny_draft: Path, model_file: _MakeFile, tiny_settings: GenerationSettings
) -> Iterator[LlamaCppEngine]:
    made = LlamaCppEngine()
    made.load(model_file(tiny_llama), {"d": model_file(tiny_draft)}, tiny_settings)
    yield made
    made.close()


def test_every_width_is_timed_at_every_depth_that_fits_the_context(engine: LlamaCppEngine) -> None:
    assert isinstance(engine, CalibratingEngine)
    shares: list[float] = []
    found = engine.calibrate([70, 80, 90], _PLAN, shares.append)
    assert {d: sorted(row) for d, row in found.verify_s.items()} == {
        16: [1, 2, 3, 24, 64],
        100: [1, 2, 3, 24, 64],
        150: [1, 2, 3, 24, 64],
    }
    # 24 lies between widths at which the draft is timed too.
    assert {h: sorted(t[16]) for h, t in found.draft_s.items()} == {"draft": [1, 2, 3, 64]}
    assert found.n_repeats == 3
    assert found.spread >= 0
    assert shares == sorted(shares)
    assert shares[-1] == 1.0


def test_widths_between_are_measured_where_the_others_leave_time(engine: LlamaCppEngine) -> None:
    plan = replace(_PLAN, depths=(16, 100), between=(32, 48, 200))
    roomy = engine.calibrate([70, 80, 90], replace(plan, budget_s=600.0), lambda _share: None)
    assert [sorted(row) for row in roomy.verify_s.values()] == [[1, 2, 3, 24, 32, 48, 64]] * 2
    assert roomy.n_repeats == 3
    hurried = engine.calibrate([70, 80, 90], replace(plan, budget_s=1e-6), lambda _share: None)
    assert [sorted(row) for row in hurried.verify_s.values()] == [[1, 2, 3, 24, 64]] * 2
    assert hurried.n_repeats == 2


def test_context_without_room_for_a_depth_is_measured_in_its_middle(
    tiny_llama: Path, model_file: _MakeFile
) -> None:
    small = LlamaCppEngine()
    small.load(model_file(tiny_llama), {}, GenerationSettings(n_ctx=128, n_batch=64, n_threads=1))
    found = small.calibrate([70, 80], CalibrationPlan(depths=(512,), repeats=1), lambda _s: None)
    small.close()
    assert list(found.verify_s) == [32]
    assert max(found.verify_s[32]) == 64


def test_runs_after_it_are_those_before_it(engine: LlamaCppEngine) -> None:
    prompt = engine.prepare(Prompt("p", "one", (), "abc abc abc"), 40)
    before = engine.run(_ARM, prompt)
    engine.calibrate([70, 80, 90], _PLAN, lambda _share: None)
    after = engine.run(_ARM, prompt)
    assert after.token_ids == before.token_ids
    assert after.counters.accepted_histogram == before.counters.accepted_histogram


def test_recurrent_target_is_refused_in_words(
    tiny_mamba: Path, model_file: _MakeFile, tiny_settings: GenerationSettings
) -> None:
    engine = LlamaCppEngine()
    engine.load(model_file(tiny_mamba), {}, tiny_settings)
    with pytest.raises(UnsupportedError, match="Calibration is not possible: the recurrent target"):
        engine.calibrate([70], _PLAN, lambda _share: None)
    engine.close()


def test_draft_that_does_not_fit_is_left_out(
    tiny_llama: Path,
    tiny_mamba: Path,
    model_file: _MakeFile,
    tiny_settings: GenerationSettings,
) -> None:
    engine = LlamaCppEngine()
    engine.load(model_file(tiny_llama), {"m": model_file(tiny_mamba)}, tiny_settings)
    assert engine.calibrate([70], _PLAN, lambda _share: None).draft_s == {}
    engine.close()


def test_empty_text_is_refused(engine: LlamaCppEngine) -> None:
    with pytest.raises(UsageError, match="needs a text"):
        engine.calibrate([], _PLAN, lambda _share: None)


def test_after_every_wider_pass_one_token_is_timed_again(
    engine: LlamaCppEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    from specdash.engines import llama_cpp_calibration

    widths: list[int] = []
    time_pass = llama_cpp_calibration._pass_s

    def spy(context: LlamaContext, tokens: Sequence[int], depth: int, *, all_rows: bool) -> float:
        if all_rows:  # the target's
            widths.append(len(tokens))
        return time_pass(context, tokens, depth, all_rows=all_rows)

    monkeypatch.setattr(llama_cpp_calibration, "_pass_s", spy)
    plan = replace(_PLAN, depths=(16,), repeats=1)
    engine.calibrate([70, 80, 90], plan, lambda _share: None)
    up = [1, 2, 1, 3, 1, 24, 1, 64, 1]
    warm_up = [3, 1, 2, 1, 1]  # leaves wide ones out
    assert widths[: len(warm_up) + len(up)] == [*warm_up, *up]
