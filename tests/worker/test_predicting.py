"""Predictions in the order in which they are known; drafts are asked once, and not for ever."""

from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from specdash.domain.arms import MethodCall, parse_arm
from specdash.domain.calibration import Calibration
from specdash.drafting.model_replay import DraftTable, Guess
from specdash.engines.scripted import ScriptedEngine
from specdash.worker.predicting import Predictor
from specdash.worker.protocol import PredictionRow, SpecModel
from specdash.worker.replaying import PlainText
from tests.helpers.job_specs import scripted_spec

_NGRAM = parse_arm("ngram-simple:size_n=2,size_m=3")
_FIRST = parse_arm("draft-simple:model=first,n_max=2")
_SECOND = parse_arm("draft-simple:model=second,n_max=2")
_CHAIN = parse_arm("ngram-simple:size_n=2,size_m=3+draft-simple:model=first,n_max=2")
_ROW = {1: 0.010, 4: 0.012}
_CALIBRATION = Calibration(
    {64: _ROW}, {"1" * 64: {64: {1: 0.001, 4: 0.002}}, "2" * 64: {64: {1: 0.001, 4: 0.002}}}
)


class _Asked(ScriptedEngine):
    """An engine whose drafts are always right, and that takes ``text_s`` of its clock a text."""

    name = "asked"

    def __init__(self, text_s: float = 1.0) -> None:
        super().__init__()
        self.now = 0.0
        self.asked: list[tuple[str, tuple[MethodCall, ...]]] = []
        self._text_s = text_s

    def draft_tables(
        self,
        reference: str,
        texts: Sequence[tuple[Sequence[int], Sequence[int]]],
        calls: Sequence[MethodCall],
        progress: Callable[[float], None],
    ) -> list[DraftTable]:
        self.asked.append((reference, tuple(calls)))
        tables = []
        for number, (prompt, output) in enumerate(texts, start=1):
            self.now += self._text_s
            guesses = tuple(Guess(token, 0.9) for token in (*output[1:], 0))
            tables.append(DraftTable(len(prompt), tuple(output), guesses, {}, 0, 1.0))
            progress(number / len(texts))
        return tables


def _predictor(folder: Path, engine: ScriptedEngine, drafts_s: float | None = None) -> Predictor:
    drafts = {
        name: SpecModel(name=name, path=f"{name}.gguf", content_hash=digit * 64)
        for name, digit in (("first", "1"), ("second", "2"))
    }
    output = tuple(range(20, 50))
    texts = [PlainText(n, "one", (1, 2, 3), output, 30, is_ended=False) for n in range(4)]
    return Predictor(
        scripted_spec(folder / "t.json", ["off"], drafts=drafts),
        engine,
        texts,
        _CALIBRATION,
        n_processes=1,
        drafts_s=drafts_s,
        clock=lambda: engine.now,  # type: ignore[attr-defined]
    )


def _shown(groups: Sequence[Sequence[PredictionRow]]) -> list[list[str]]:
    return [[row.arm for row in group] for group in groups]


def test_lookups_come_before_any_draft_is_asked_and_each_draft_for_itself(tmp_path: Path) -> None:
    engine = _Asked()
    shares: list[float] = []
    arms = [_FIRST, _SECOND, _NGRAM, _CHAIN]
    rows = _predictor(tmp_path, engine).rows(arms, shares.append)
    assert _shown([next(rows)]) == [[_NGRAM.full_text()]]
    assert engine.asked == []
    assert _shown(list(rows)) == [
        [_FIRST.full_text(), _CHAIN.full_text()],
        [_SECOND.full_text()],
    ]
    assert [ref for ref, _ in engine.asked] == ["first", "second"]
    assert shares == sorted(shares)
    assert shares[-1] == 1.0


def test_draft_that_was_asked_is_not_asked_again_for_its_chains(tmp_path: Path) -> None:
    engine = _Asked()
    predictor = _predictor(tmp_path, engine)
    list(predictor.rows([_NGRAM, _FIRST], lambda _share: None))
    ((row,),) = predictor.rows([_CHAIN], lambda _share: None)
    assert row.ratio is not None
    assert [ref for ref, _ in engine.asked] == ["first"]


def test_slow_draft_has_a_reason_and_takes_nothing_from_the_others(tmp_path: Path) -> None:
    # Four texts take 4 s; the first of two drafts has half of 5 s.
    engine = _Asked()
    arms = [_NGRAM, _FIRST, _SECOND, _CHAIN]
    predictor = _predictor(tmp_path, engine, drafts_s=5.0)
    rows = {r.arm: r for group in predictor.rows(arms, lambda _share: None) for r in group}
    assert rows[_NGRAM.full_text()].ratio is not None
    for arm, name in ((_FIRST, "first"), (_CHAIN, "first"), (_SECOND, "second")):
        row = rows[arm.full_text()]
        assert row.ratio is None
        assert row.reason is not None
        assert row.reason.startswith(f"The draft '{name}' could not be asked about all texts")
    assert engine.now < 10.0


def test_draft_that_ends_in_its_time_is_predicted(tmp_path: Path) -> None:
    engine = _Asked(text_s=0.5)
    rows = list(_predictor(tmp_path, engine, 6.0).rows([_FIRST, _SECOND], lambda _share: None))
    assert all(row.ratio is not None for group in rows for row in group)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("draft-simple:model=third", "The draft 'third' was not given to this job."),
        ("draft-eagle3:model=first", "draft-eagle3 drafts from the target's hidden states"),
    ],
)
def test_arm_that_cannot_be_replayed_has_its_reason_at_once(
    tmp_path: Path, text: str, reason: str
) -> None:
    engine = _Asked()
    first = next(_predictor(tmp_path, engine).rows([parse_arm(text)], lambda _share: None))
    assert first[0].ratio is None
    assert (first[0].reason or "").startswith(reason)


def test_engine_that_cannot_ask_its_drafts_says_so(tmp_path: Path) -> None:
    class Mute(ScriptedEngine):
        name = "mute"
        now = 0.0

    rows = list(_predictor(tmp_path, Mute()).rows([_FIRST], lambda _share: None))
    assert "mute engine cannot be asked" in (rows[0][0].reason or "")
