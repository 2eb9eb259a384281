"""The control of a differing text, on tiny random models and on the demo model."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import numpy as np
import pytest

from specdash.domain.arms import OFF_ARM
from specdash.domain.workload import Prompt
from specdash.engines.base import GenerationSettings, ModelFile, PreparedPrompt
from specdash.engines.llama_cpp import LlamaCppEngine
from specdash.engines.llama_cpp_context import LlamaContext
from specdash.engines.llama_cpp_split import PlainRows, explain_split
from specdash.engines.scripted import ScriptedEngine

ToFile = Callable[[Path], ModelFile]


@pytest.fixture
def engine(
    tiny_llama: Path, tiny_settings: GenerationSettings, model_file: ToFile
) -> Iterator[LlamaCppEngine]:
    made = LlamaCppEngine()
    made.load(model_file(tiny_llama), {}, tiny_settings)
    yield made
    made.close()


@pytest.fixture
def prompt(engine: LlamaCppEngine) -> PreparedPrompt:
    return engine.prepare(Prompt("p", "a", text="the cat sat on the mat"), 40)


@pytest.fixture
def off_ids(engine: LlamaCppEngine, prompt: PreparedPrompt) -> tuple[int, ...]:
    return engine.run(OFF_ARM, prompt).token_ids


def _logits(engine: LlamaCppEngine, tokens: tuple[int, ...], n_prompt: int) -> np.ndarray:
    """Of the token after ``tokens``: the prompt at once, the rest one by one."""
    context = engine._loaded_context()
    context.clear()
    context.decode(tokens[:n_prompt], 0, all_outputs=False)
    row = context.logits(-1).copy()
    for position in range(n_prompt, len(tokens)):
        context.decode([tokens[position]], position, all_outputs=True)
        row = context.logits(0).copy()
    return row


@pytest.mark.parametrize(("split", "chunk", "rank"), [(0, 4, 3), (1, 1, 2), (8, 4, 2), (13, 5, 7)])
def test_margin_and_rank_are_those_of_plain_decoding(
    engine: LlamaCppEngine,
    prompt: PreparedPrompt,
    off_ids: tuple[int, ...],
    *,
    split: int,
    chunk: int,
    rank: int,
) -> None:
    row = _logits(engine, prompt.token_ids + off_ids[:split], len(prompt.token_ids))
    order = np.argsort(row)[::-1]
    on_ids = (*off_ids[:split], int(order[rank - 1]), 5, 6)
    facts = engine.explain_split(prompt, off_ids, on_ids, chunk)
    assert facts is not None
    assert order[0] == off_ids[split]
    assert facts.margin == pytest.approx(float(row[order[0]] - row[order[1]]))
    assert facts.other_rank == rank
    assert facts.control_flips is False
    assert 0 <= facts.largest_logit_change < 1e-3


def test_a_chunk_of_one_token_changes_nothing(
    engine: LlamaCppEngine, prompt: PreparedPrompt, off_ids: tuple[int, ...]
) -> None:
    facts = engine.explain_split(prompt, off_ids, (*off_ids[:9], 4), 1)
    assert facts is not None
    assert facts.largest_logit_change == 0.0


def test_a_text_that_only_stops_earlier_is_not_explained(
    engine: LlamaCppEngine, prompt: PreparedPrompt, off_ids: tuple[int, ...]
) -> None:
    assert engine.explain_split(prompt, off_ids, off_ids[:9], 4) is None
    assert engine.explain_split(prompt, off_ids, off_ids, 4) is None


def test_the_next_run_is_as_if_nothing_had_been_explained(
    engine: LlamaCppEngine, prompt: PreparedPrompt, off_ids: tuple[int, ...]
) -> None:
    engine.explain_split(prompt, off_ids, (*off_ids[:9], 4), 4)
    assert engine.run(OFF_ARM, prompt).token_ids == off_ids


def test_tokens_that_are_never_chosen_are_not_in_the_margin(
    tiny_llama: Path, tiny_settings: GenerationSettings, model_file: ToFile
) -> None:
    engine = LlamaCppEngine()
    engine.load(model_file(tiny_llama), {}, replace(tiny_settings, ignore_eos=True))
    prompt = engine.prepare(Prompt("p", "a", text="the cat sat"), 12)
    off_ids = engine.run(OFF_ARM, prompt).token_ids
    facts = engine.explain_split(prompt, off_ids, (*off_ids[:5], 2), 4)
    engine.close()
    assert facts is not None
    assert facts.other_rank == 259  # the end-of-text token stands behind all others
    assert 0 <= facts.margin < 100
    assert facts.largest_logit_change < 1e-3


def test_a_scripted_target_says_what_its_script_says(tmp_path: Path) -> None:
    path = tmp_path / "a.scripted.json"
    path.write_text('{"split": {"margin": 3.5, "other_rank": 4}}')
    engine = ScriptedEngine()
    engine.load(ModelFile("a", str(path), "a"), {}, GenerationSettings())
    prompt = engine.prepare(Prompt("p", "a", text="x"), 8)
    facts = engine.explain_split(prompt, (1, 2), (1, 3), 4)
    assert facts is not None
    assert (facts.margin, facts.other_rank, facts.control_flips) == (3.5, 4, False)
    path.write_text("{}")
    engine.load(ModelFile("a", str(path), "a"), {}, GenerationSettings())
    assert engine.explain_split(prompt, (1, 2), (1, 3), 4) is None


@pytest.mark.real_model
def test_chunks_change_logits_of_the_demo_model_little_or_not(
    demo_path: Path, model_file: ToFile
) -> None:
    engine = LlamaCppEngine()
    engine.load(model_file(demo_path), {}, GenerationSettings(n_ctx=256, n_batch=64, n_threads=1))
    prompt = engine.prepare(Prompt("p", "a", text="One, two, three,"), 12)
    off_ids = engine.run(OFF_ARM, prompt).token_ids
    facts = engine.explain_split(prompt, off_ids, (*off_ids[:8], off_ids[8] + 1), 4)
    engine.close()
    assert facts is not None
    assert 0 <= facts.largest_logit_change < 5  # 0 where kernels take rows one by one
    assert facts.margin > 0
    assert facts.other_rank > 1


class _WidthDependent:
    """A target whose token 1 gains by the width of a pass: 0.1 for each further token."""

    def __init__(self, gain: Callable[[int], float] = lambda width: 0.1 * (width - 1)) -> None:
        self.model = SimpleNamespace(n_vocab=4)
        self._width = 1
        self._gain = gain
        self.widths: list[int] = []

    def clear(self) -> None:
        self._width = 1

    def decode(self, tokens: Sequence[int], position: int, *, all_outputs: bool) -> None:
        self._width = len(tokens) if all_outputs else 1
        self.widths.append(self._width)

    def logits(self, _index: int) -> np.ndarray:
        return np.array([2.0, 1.75 + self._gain(self._width), 1.0, 0.0], dtype=np.float32)


@pytest.mark.parametrize(
    ("chunk", "flips", "change"), [(1, False, 0.0), (3, False, 0.2), (5, True, 0.4)]
)
def test_what_the_width_of_a_pass_changes_is_seen(chunk: int, flips: bool, change: float) -> None:
    target = cast("LlamaContext", _WidthDependent())
    facts = explain_split(target, [7], [0] * 12, split=4, other=1, chunk=chunk)
    assert facts.control_flips is flips
    assert facts.margin == pytest.approx(0.25)
    assert facts.other_rank == 2
    assert facts.largest_logit_change == pytest.approx(change)


def test_narrower_passes_are_tried_where_the_widest_explains_nothing() -> None:
    target = _WidthDependent(lambda width: 0.3 if width == 4 else 0.0)
    facts = explain_split(cast("LlamaContext", target), [7], [0] * 12, split=8, other=1, chunk=9)
    assert facts.control_flips is True
    assert facts.largest_logit_change == pytest.approx(0.3)
    # The flip of chunks of 4 explains it; 2 is no longer needed.
    assert [w for w in target.widths if w > 1] == [9, 8, 4, 4]


def test_the_plain_pass_of_a_text_is_made_once_for_all_that_part_from_it() -> None:
    target, remembered = _WidthDependent(), PlainRows()
    fresh, known = (
        [
            explain_split(
                cast("LlamaContext", target), [7], [0] * 12, split=n, other=1, chunk=3, **more
            )
            for n in (8, 4)
        ]
        for more in ({}, {"remembered": remembered})
    )
    assert known == fresh
    n_plain = sum(width == 1 for width in target.widths)
    # Every pass of one token is plain or reads the prompt: per call 1 + n, and one for the chunks.
    assert n_plain == (1 + 8 + 1) + (1 + 4 + 1) + (1 + 8 + 1) + 1


def test_rows_of_the_text_used_longest_ago_are_forgotten() -> None:
    row = np.zeros(4, dtype=np.float32)
    rows = PlainRows(most_bytes=3 * row.nbytes)
    texts = [((7,), (n,)) for n in range(3)]
    rows.put(texts[0], {0: row})
    rows.put(texts[1], {0: row})
    assert rows.get(texts[0], range(1)) is not None
    assert rows.get(texts[0], range(2)) is None
    rows.put(texts[2], {0: row, 1: row})
    assert [rows.get(text, range(1)) is not None for text in texts] == [True, False, True]


def test_two_tokens_that_tie_are_both_first() -> None:
    target = _WidthDependent(lambda _width: 0.25)
    facts = explain_split(cast("LlamaContext", target), [7], [0] * 12, split=4, other=1, chunk=4)
    assert (facts.margin, facts.other_rank, facts.largest_logit_change) == (0.0, 1, 0.0)
