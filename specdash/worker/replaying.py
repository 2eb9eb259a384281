"""Replay of many arms on plain texts, priced by a calibration, shared out over processes.

    python -m specdash.worker.replaying < REQUEST > ANSWER

Texts are shared out, not arms: what one arm looked up on a text serves the others.
"""

import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import TypeAlias

from pydantic import TypeAdapter

from specdash.domain.arms import Arm, parse_arm
from specdash.domain.calibration import Calibration
from specdash.domain.prediction import PredictedTime, ReplayedText, predict_time
from specdash.drafting.model_replay import DraftTable, replay_with_tables
from specdash.drafting.prompt_lookup import LookupMemory
from specdash.errors import EngineError, SpecdashError
from specdash.settings import PROJECT_ROOT

_WORTH_A_PROCESS = 2000
"""Replays from which on another process saves more than its start takes."""
_MOST_PROCESSES = 8

Progress: TypeAlias = Callable[[float], None]


@dataclass(frozen=True, slots=True)
class PlainText:
    """One ``off`` generation; ``n_predict`` is its token cap."""

    prompt_id: int
    category: str
    prompt_ids: tuple[int, ...]
    output_ids: tuple[int, ...]
    n_predict: int
    is_ended: bool
    """Whether its last token is an end-of-generation token."""


@dataclass(frozen=True, slots=True)
class DraftRecord:
    """A draft model: its content hash, and what it says about each text, in order."""

    content_hash: str
    tables: Sequence[DraftTable] = field(default=(), repr=False)


@dataclass(frozen=True, slots=True)
class ArmOnText:
    """What an arm would do on one text and how long it would take; or why that is unknown."""

    time: PredictedTime | None = None
    n_drafted: int = 0
    n_accepted: int = 0
    n_verify_steps: int = 0
    n_plain_steps: int = 0
    reason: str | None = None


@dataclass(frozen=True, slots=True)
class _Request:
    texts: tuple[PlainText, ...]
    arms: tuple[str, ...]
    calibration: dict[str, object]


_REQUEST: TypeAdapter[_Request] = TypeAdapter(_Request)
_ANSWER: TypeAdapter[list[list[ArmOnText]]] = TypeAdapter(list[list[ArmOnText]])


def price(text: ReplayedText, calibration: Calibration, draft_hash: str | None) -> ArmOnText:
    """What an arm's passes on a text add up to."""
    drafted = [k for k, _ in text.steps if k]
    return ArmOnText(
        time=predict_time(text, calibration, draft_hash),
        n_drafted=sum(drafted),
        n_accepted=sum(a for _, a in text.steps),
        n_verify_steps=len(drafted),
        n_plain_steps=len(text.steps) - len(drafted),
    )


def replay_arms(
    texts: Sequence[PlainText],
    arms: Sequence[Arm],
    calibration: Calibration,
    drafts: Mapping[str, DraftRecord],
    progress: Progress,
) -> list[list[ArmOnText]]:
    """By text, then by arm. ``drafts`` are by reference and hold a table for each text."""
    found = []
    lookups = [int(c.get("num_pred_tokens") or 0) for a in arms for c in a.calls]
    for index, text in enumerate(texts):
        memory = LookupMemory(longest=max(lookups, default=0))
        tables = {ref: draft.tables[index] for ref, draft in drafts.items()}
        row = []
        for arm in arms:
            used = [drafts[ref].content_hash for ref in arm.draft_models]
            try:
                replayed = _replay(text, arm, tables, memory)
                row.append(price(replayed, calibration, next(iter(used), None)))
            except SpecdashError as error:
                row.append(ArmOnText(reason=str(error)))
        found.append(row)
        progress((index + 1) / len(texts))
    return found


def replay_shared_out(
    texts: Sequence[PlainText],
    arms: Sequence[Arm],
    calibration: Calibration,
    *,
    n_processes: int,
    progress: Progress,
) -> list[list[ArmOnText]]:
    """:func:`replay_arms` of arms that need no model, in several processes where it pays."""
    n = min(n_processes, _MOST_PROCESSES, 1 + len(texts) * len(arms) // _WORTH_A_PROCESS)
    shares = [texts[i::n] for i in range(n)]
    with ExitStack() as stack:
        children = [stack.enter_context(_Child(s, arms, calibration)) for s in shares[1:] if s]
        found = [replay_arms(shares[0], arms, calibration, {}, progress)]
        found += [child.answer() for child in children]
    return [found[i % n][i // n] for i in range(len(texts))]


class _Child:
    """Another process with its share of the texts; killed when it is left early."""

    def __init__(
        self, texts: Sequence[PlainText], arms: Sequence[Arm], calibration: Calibration
    ) -> None:
        self._request = _Request(
            tuple(texts), tuple(a.full_text() for a in arms), calibration.to_json()
        )
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> "_Child":
        process = self._process = subprocess.Popen(
            [sys.executable, "-m", "specdash.worker.replaying"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            cwd=PROJECT_ROOT,
        )
        if process.stdin is not None:
            process.stdin.write(_REQUEST.dump_json(self._request))
            process.stdin.close()
            process.stdin = None
        return self

    def answer(self) -> list[list[ArmOnText]]:
        if self._process is None:
            raise EngineError("The replay process was not started.")
        output, _ = self._process.communicate()
        if self._process.returncode != 0:
            raise EngineError(
                f"A process that replayed texts ended with status {self._process.returncode}.",
                "The log of the job holds the details.",
            )
        return _ANSWER.validate_json(output)

    def __exit__(self, *_error: object) -> None:
        if self._process is not None and self._process.poll() is None:
            self._process.kill()
            self._process.wait()


def _replay(
    text: PlainText,
    arm: Arm,
    tables: Mapping[str, DraftTable],
    memory: LookupMemory,
) -> ReplayedText:
    n_prompt = len(text.prompt_ids)
    counters = replay_with_tables(
        text.prompt_ids,
        text.output_ids,
        arm,
        tables,
        n_predict=text.n_predict,
        # The cap was fitted into the context when the prompt was prepared.
        n_ctx=n_prompt + text.n_predict,
        # An end token ends a text, so only the last can be one.
        eog_ids=text.output_ids[-1:] if text.is_ended else (),
        lookups=memory,
    )
    return ReplayedText(
        n_prompt=n_prompt,
        n_generated=len(text.output_ids),
        steps=[(s.n_drafted, s.n_accepted) for s in counters.steps],
        draft_passes=counters.draft_passes or None,
        drafting_s=counters.drafting_s or 0.0,
    )


def main() -> int:
    """Read a request, write the answer."""
    request = _REQUEST.validate_json(sys.stdin.buffer.read())
    found = replay_arms(
        request.texts,
        [parse_arm(text) for text in request.arms],
        Calibration.from_json(request.calibration),
        {},
        lambda _share: None,
    )
    sys.stdout.buffer.write(_ANSWER.dump_json(found))
    return 0


if __name__ == "__main__":
    sys.exit(main())
