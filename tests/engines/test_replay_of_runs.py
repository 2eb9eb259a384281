"""Replay against measured runs on their own ids: every pass, for every kind of arm."""

from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest

pytest.importorskip("llama_cpp")

from specdash.domain.arms import Arm, parse_arm
from specdash.domain.workload import Message, Prompt
from specdash.drafting.model_replay import replay_with_tables
from specdash.drafting.replay_file import RecordedText
from specdash.engines.base import GenerationSettings, ModelFile, PreparedPrompt, RunRecord
from specdash.engines.draft_replay import prepare_draft_replay
from specdash.engines.llama_cpp import LlamaCppEngine
from tests.helpers.draft_tables import build_tables

_ARMS = [
    "ngram-simple:size_n=2,size_m=6",
    "ngram-map-k:size_n=2,size_m=8",
    "ngram-map-k4v:size_n=2,size_m=5,min_hits=1",
    "ngram-mod:n_match=1,n_min=0,n_max=6",
    "ngram-cache",
    "prompt-lookup:max_ngram_size=3,num_pred_tokens=6",
    "draft-simple:model=d,n_max=4",
    "draft-simple:model=d,n_max=8,p_min=0.2",
    "draft-simple:model=d,n_max=6,n_min=3,p_min=0.35",
    "ngram-simple:size_n=2,size_m=3+draft-simple:model=d,n_max=4",
]
_TEXTS = ["abc abc abc", "one two one two one", "x", "the same, the same, the"]
_Run = tuple[PreparedPrompt, RunRecord]


@pytest.fixture(scope="module")
def settings() -> GenerationSettings:
    """All in 32 bits, so that no choice hangs on rounding."""
    return GenerationSettings(
        n_ctx=160, n_batch=128, n_ubatch=128, n_threads=1, kv_type="f32", flash_attn="off"
    )


@pytest.fixture(scope="module")
def draft_path(make_llama: Callable[..., Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The target's own weights in a file of its own: most drafts are right, some are not."""
    return make_llama(tmp_path_factory.mktemp("gguf") / "twin.gguf")


@pytest.fixture(scope="module")
def engine(
    tiny_llama: Path, draft_path: Path, settings: GenerationSettings
) -> Iterator[LlamaCppEngine]:
    made = LlamaCppEngine()
    with closing(made):
        made.load(
            ModelFile("t", str(tiny_llama), "t"),
            {"d": ModelFile("d", str(draft_path), "d")},
            settings,
        )
        yield made


def _runs(engine: LlamaCppEngine, arm: Arm, max_tokens: int) -> list[_Run]:
    found = []
    for text in _TEXTS:
        prompt = engine.prepare(Prompt(text, "one", (), text), max_tokens)
        found.append((prompt, engine.run(arm, prompt)))
    return found


@pytest.mark.parametrize("max_tokens", [60, 500], ids=["capped", "to-the-end-of-the-context"])
@pytest.mark.parametrize("arm_text", _ARMS)
def test_replay_of_a_run_on_its_own_ids_has_its_passes(
    engine: LlamaCppEngine,
    draft_path: Path,
    settings: GenerationSettings,
    arm_text: str,
    max_tokens: int,
) -> None:
    arm = parse_arm(arm_text)
    runs = _runs(engine, arm, max_tokens)
    texts = [(prompt.token_ids, record.token_ids) for prompt, record in runs]
    calls = [c for c in arm.calls if c.draft_model]
    tables = build_tables(draft_path, texts, calls, settings, lambda _s: None) if calls else []
    n_passes = 0
    for index, (prompt, record) in enumerate(runs):
        replayed = replay_with_tables(
            prompt.token_ids,
            record.token_ids,
            arm,
            {"d": tables[index]} if calls else {},
            n_predict=prompt.max_tokens,
            # As predictions do: the cap was fitted into the context when it was prepared.
            n_ctx=len(prompt.token_ids) + prompt.max_tokens,
            eog_ids=record.token_ids[-1:] if record.stop_reason == "eos" else (),
        )
        assert record.steps is not None
        measured = [(s.n_drafted, s.n_accepted, s.drafter) for s in record.steps]
        assert [tuple(s) for s in replayed.steps] == measured, prompt.key
        assert replayed.n_discarded == (record.counters.n_discarded or 0)
        n_passes += sum(s.n_drafted > 0 for s in record.steps)
    assert n_passes > 0


_REAL_ARMS = [
    "draft-simple:model=d,n_max=3",
    "draft-simple:model=d,n_max=8,p_min=0.75",
    "draft-simple:model=d,n_max=8,n_min=2,p_min=0.6",
    "ngram-simple:size_n=4,size_m=16+draft-simple:model=d,n_max=3",
]
_QUESTION = "Write five short lines about a garden in spring. Name a different flower in each line."


@pytest.mark.real_model
@pytest.mark.parametrize("n_threads", [1, 2])
def test_a_real_draft_drafts_again_what_it_drafted_in_the_run(
    demo_path: Path, q4_0_draft: Path, n_threads: int
) -> None:
    """With flash attention and 16-bit memory, where near ties fall by the shape of a pass."""
    settings = GenerationSettings(n_ctx=512, n_threads=n_threads)
    jobs, measured = [], []
    with closing(LlamaCppEngine()) as engine:
        engine.load(
            ModelFile("t", str(demo_path), "t"),
            {"d": ModelFile("d", str(q4_0_draft), "d")},
            settings,
        )
        prompt = engine.prepare(Prompt("garden", "one", (Message("user", _QUESTION),)), 64)
        for arm in map(parse_arm, _REAL_ARMS):
            run = engine.run(arm, prompt)
            ended = run.token_ids[-1:] if run.stop_reason == "eos" else ()
            jobs.append(
                (RecordedText(prompt.token_ids, run.token_ids, prompt.max_tokens, 512, ended), arm)
            )
            assert run.steps is not None
            measured.append([(s.n_drafted, s.n_accepted, s.drafter) for s in run.steps])
    replayer = prepare_draft_replay(jobs, lambda _ref: q4_0_draft, n_threads)
    replayed = [[tuple(s) for s in replayer(text, arm).steps] for text, arm in jobs]
    assert replayed == measured
