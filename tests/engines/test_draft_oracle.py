"""The draft oracle, on tiny random models, against the drafter that decodes token by token."""

import gzip
import json
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("llama_cpp")

from specdash.domain.arms import parse_arm
from specdash.drafting.base import Chain
from specdash.drafting.draft_simple import DraftSimple, draft_parameters
from specdash.drafting.factory import make_chain
from specdash.drafting.model_replay import Branch, DraftTable, build_table, replay_with_tables
from specdash.drafting.replay import ReplayCounters, replay_chain
from specdash.drafting.replay_file import RecordedText, replay_file
from specdash.engines.base import DraftAskingEngine, GenerationSettings, ModelFile
from specdash.engines.draft_oracle import LlamaDraftOracle, tables_of
from specdash.engines.draft_replay import prepare_draft_replay
from specdash.engines.llama_cpp import LlamaCppEngine
from specdash.engines.llama_cpp_context import LlamaContext
from specdash.engines.llama_cpp_library import start_library
from specdash.engines.llama_cpp_model import LlamaModel
from specdash.errors import EngineError, UnsupportedError, UsageError
from tests.helpers.draft_tables import build_tables

_ARMS = [
    "draft-simple:model=d",
    "draft-simple:model=d,n_max=8,p_min=0.2",
    "draft-simple:model=d,n_max=5,n_min=2,p_min=0.35",
    "ngram-simple:size_n=2,size_m=3+draft-simple:model=d,n_max=4",
]


@pytest.fixture
def tiny_settings() -> GenerationSettings:
    """All in 32 bits, so that no probability falls on the other side of a limit by rounding."""
    return GenerationSettings(
        n_ctx=256, n_batch=128, n_ubatch=128, n_threads=1, kv_type="f32", flash_attn="off"
    )


@pytest.fixture
def draft(tiny_draft: Path) -> Iterator[LlamaModel]:
    start_library()
    with closing(LlamaModel(str(tiny_draft), name="d")) as model:
        yield model


@pytest.fixture(scope="module")
def recorded() -> dict[str, Any]:
    path = Path(__file__).parents[1] / "drafting" / "data" / "llama_cpp_counters.json.gz"
    return json.loads(gzip.decompress(path.read_bytes()))


def _own_text(model: LlamaModel, settings: GenerationSettings) -> list[int]:
    """A greedy text of the draft itself with every seventh token changed."""
    ids = [1, 70, 80, 90]
    with closing(LlamaContext(model, settings)) as context:
        context.decode(ids, 0, all_outputs=False)
        while len(ids) < 80:
            token = context.best_token(-1)
            ids.append((token + 1) % 250 + 3 if len(ids) % 7 == 0 else token)
            context.decode(ids[-1:], len(ids) - 1, all_outputs=False)
    return ids


def _walk_live(
    model: LlamaModel, settings: GenerationSettings, arm_text: str, text: RecordedText
) -> ReplayCounters:
    """The arm with the draft model really drafting in every pass."""
    arm = parse_arm(arm_text)
    with closing(LlamaContext(model, settings)) as context:
        chain: Chain = make_chain(
            arm,
            lambda call: DraftSimple(
                context,
                draft_parameters(call),
                n_vocab_target=model.n_vocab,
                n_vocab_draft=model.n_vocab,
            ),
        )
        return replay_chain(
            text.prompt_ids,
            text.output_ids,
            arm,
            chain,
            n_predict=text.n_predict,
            n_ctx=text.n_ctx,
            eog_ids=text.eog_ids,
        )


@pytest.mark.parametrize("arm_text", _ARMS)
def test_the_table_replays_what_the_draft_does_token_by_token(
    arm_text: str, draft: LlamaModel, tiny_settings: GenerationSettings
) -> None:
    ids = _own_text(draft, tiny_settings)
    text = RecordedText(tuple(ids[:10]), tuple(ids[10:]), n_predict=100, n_ctx=256)
    calls = [c for a in _ARMS for c in parse_arm(a).calls if c.draft_model]
    with closing(LlamaDraftOracle(draft, tiny_settings, longest_text=80, depth=7)) as oracle:
        table = build_table(oracle, text.prompt_ids, text.output_ids, calls)

    replayed = replay_with_tables(
        text.prompt_ids,
        text.output_ids,
        parse_arm(arm_text),
        {"d": table},
        n_predict=100,
        n_ctx=256,
        eog_ids=(),
    )
    live = _walk_live(draft, tiny_settings, arm_text, text)

    assert live.n_accepted > 0
    # The passes of the draft are known to the table alone: one for each token it drafted at least.
    assert replace(replayed, draft_passes=()) == live
    last = len(parse_arm(arm_text).calls) - 1
    drafted = [s.n_drafted if s.drafter == last else 0 for s in live.steps]
    assert len(replayed.draft_passes) == len(live.steps)
    assert all(n >= k for n, k in zip(replayed.draft_passes, drafted, strict=True))


def test_roll_outs_beyond_the_parallel_ones_equal_those_asked_alone(
    draft: LlamaModel, tiny_settings: GenerationSettings
) -> None:
    ids = _own_text(draft, tiny_settings)
    branches = [Branch(position, 40 + position) for position in range(10, 80)]
    with closing(LlamaDraftOracle(draft, tiny_settings, longest_text=80, depth=5)) as oracle:
        oracle.guesses(ids, 10)
        together = oracle.roll_outs(branches, 5, 0.05)
        alone = [oracle.roll_outs([branch], 5, 0.05)[0] for branch in branches]

    assert [[g.token for g in r] for r in together] == [[g.token for g in r] for r in alone]
    assert all(len(r) == 5 or r[-1].probability < 0.05 for r in together)


def test_engine_asks_the_weights_it_has_loaded_with_the_settings_they_draft_with(
    tiny_llama: Path, tiny_draft: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = GenerationSettings(
        n_ctx=256,
        n_batch=128,
        n_ubatch=128,
        n_threads=1,
        kv_type="f32",
        flash_attn="off",
        draft_kv_type="f16",
        draft_threads=2,
        draft_gpu_layers=3,
    )
    calls = parse_arm(_ARMS[1]).calls
    text = ([1, 70, 80], [90, 91, 92, 93])
    asked: list[tuple[str, GenerationSettings]] = []

    def spy(model: LlamaModel, *rest: Any) -> list[DraftTable]:
        asked.append((model.name, rest[2]))
        return tables_of(model, *rest)

    monkeypatch.setattr("specdash.engines.llama_cpp_draft.tables_of", spy)
    engine = LlamaCppEngine()
    with closing(engine):
        drafts = {"d": ModelFile("small", str(tiny_draft), "d")}
        engine.load(ModelFile("t", str(tiny_llama), "t"), drafts, settings)
        assert isinstance(engine, DraftAskingEngine)
        found = engine.draft_tables("d", [text], calls, lambda _share: None)
        with pytest.raises(UnsupportedError, match="'other' cannot draft here"):
            engine.draft_tables("other", [text], calls, lambda _share: None)
    ((name, used),) = asked
    assert name == "small"
    assert (used.kv_type, used.n_threads, used.gpu_layers) == ("f16", 2, 3)
    alone = build_tables(tiny_draft, [text], calls, used, lambda _share: None)
    assert [t.guesses for t in found] == [t.guesses for t in alone]


def test_what_progress_raises_ends_the_asking(
    tiny_draft: Path, tiny_settings: GenerationSettings
) -> None:
    seen: list[float] = []

    def stop(share: float) -> None:
        seen.append(share)
        raise EngineError("no more time")

    calls = parse_arm("draft-simple:model=d").calls
    with pytest.raises(EngineError, match="no more time"):
        build_tables(tiny_draft, [([1], [5, 6])] * 4, calls, tiny_settings, stop)
    assert seen == [0.25]


def test_ids_outside_the_draft_s_vocabulary_are_refused(
    tiny_draft: Path, tiny_settings: GenerationSettings
) -> None:
    calls = parse_arm("draft-simple:model=d").calls
    with pytest.raises(UsageError, match="Token 99999 is not in the vocabulary"):
        build_tables(tiny_draft, [([1], [5, 99999])], calls, tiny_settings, lambda _share: None)


def test_a_draft_that_cannot_branch_is_refused(
    tiny_mamba: Path, tiny_settings: GenerationSettings
) -> None:
    calls = parse_arm("draft-simple:model=d").calls
    with pytest.raises(UnsupportedError, match="cannot branch"):
        build_tables(tiny_mamba, [([1], [5, 6])], calls, tiny_settings, lambda _share: None)


def test_a_file_is_replayed_with_one_child_for_the_draft(
    tiny_draft: Path, draft: LlamaModel, tiny_settings: GenerationSettings, tmp_path: Path
) -> None:
    ids = _own_text(draft, tiny_settings)
    record = {"prompt_ids": ids[:10], "output_ids": ids[10:], "n_predict": 100, "n_ctx": 256}
    tokens = tmp_path / "tokens.jsonl"
    tokens.write_text(json.dumps(record), encoding="utf-8")
    asked: list[str] = []
    shares: list[float] = []

    def find(reference: str) -> Path:
        asked.append(reference)
        return tiny_draft

    arms = [_ARMS[0], _ARMS[3]]
    rows = replay_file(
        tokens,
        [parse_arm(a) for a in arms],
        lambda jobs: prepare_draft_replay(jobs, find, 1, shares.append),
    )

    text = RecordedText(tuple(ids[:10]), tuple(ids[10:]), n_predict=100, n_ctx=256)
    live = [_walk_live(draft, tiny_settings, a, text) for a in arms]
    assert [(r["arm"], r["n_drafted"], r["n_accepted"]) for r in rows] == [
        (a, c.n_drafted, c.n_accepted) for a, c in zip(arms, live, strict=True)
    ]
    assert (asked, shares) == (["d"], [0.5, 1.0])


def test_a_head_inside_the_target_cannot_be_replayed(tmp_path: Path) -> None:
    jobs = [(RecordedText((1,), (2,)), parse_arm("draft-eagle3:model=head"))]
    with pytest.raises(UnsupportedError, match="draft-eagle3 cannot be replayed"):
        prepare_draft_replay(jobs, lambda _ref: tmp_path, 1)


@pytest.mark.real_model
@pytest.mark.parametrize("flash_attn", ["auto", "off"])
def test_the_real_draft_is_replayed_as_it_drafts_token_by_token(
    q4_0_draft: Path, recorded: dict[str, Any], flash_attn: str
) -> None:
    """Without flash attention one row is computed otherwise than several, and near ties flip."""
    settings = GenerationSettings(n_ctx=512, n_threads=1, flash_attn=flash_attn)
    run = next(
        r
        for r in recorded["runs"]
        if r["config"] == "draft-simple Q4_0 max=3 min=0 p=0.75" and r["prompt"] == "summary"
    )
    arm_text = "draft-simple:model=d,p_min=0.75"
    text = RecordedText(
        tuple(recorded["prompts"]["summary"]["ids"]),
        tuple(run["output"]),
        eog_ids=tuple(recorded["eog_ids"]),
    )
    calls = parse_arm(arm_text).calls
    start_library()
    [table] = build_tables(
        q4_0_draft, [(text.prompt_ids, text.output_ids)], calls, settings, lambda _share: None
    )
    replayed = replay_with_tables(
        text.prompt_ids,
        text.output_ids,
        parse_arm(arm_text),
        {"d": table},
        n_predict=text.n_predict,
        n_ctx=text.n_ctx,
        eog_ids=text.eog_ids,
    )
    with closing(LlamaModel(str(q4_0_draft), name="d")) as model:
        live = _walk_live(model, settings, arm_text, text)

    if flash_attn == "auto":
        assert replace(replayed, draft_passes=()) == live
    assert replayed.n_drafted == pytest.approx(live.n_drafted, abs=6)
    assert replayed.n_accepted == pytest.approx(live.n_accepted, abs=4)
    assert live.n_accepted == pytest.approx(run["draft_n_accepted"], abs=6)
