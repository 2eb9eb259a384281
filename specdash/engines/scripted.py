"""A shipped fake: a target file of JSON that says how fast, how well and how badly it runs.

Token ids, step traces and times are computed from the script, the prompt and the arm; nothing is
slept unless the script says so. The same arm on the same prompt gives the same tokens and counters
each time, and times that differ by the script's ``noise``.
"""

import heapq
import math
import os
import random
import signal
import sys
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from specdash.domain.arms import Arm
from specdash.domain.calibration import Calibration, CalibrationPlan
from specdash.domain.counters import Step, counters_from_steps
from specdash.domain.workload import Prompt, content_hash
from specdash.engines.base import (
    ArmReadiness,
    GenerationSettings,
    ModelFile,
    PreparedPrompt,
    RunRecord,
    SplitFacts,
    Sweep,
)
from specdash.engines.flags import run_flags
from specdash.engines.room import room_for
from specdash.errors import EngineError, ModelError

_EOS = 0
_FIRST_WORD = 10
_FREE = 1e-9
_WRONG = 9  # proposed in place of a token the target will not choose
_SENTENCE = (
    "the record shows a total of seven items and each one has its own price while "
    "every line keeps name place date amount as they were given so that nothing gets lost "
    "between first reading second look final answer which then repeats what came before"
)
_WORDS = tuple(_SENTENCE.split())


class _Script(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class MethodScript(_Script):
    """How one method does. ``speed_up`` replaces the time that follows from the steps."""

    acceptance: float = Field(default=0.6, ge=0, le=1)
    acceptance_by_category: dict[str, float] = {}
    coverage: float = Field(default=0.8, ge=0, le=1)
    draft_cost: float = Field(default=0.0, ge=0)
    """Time of one draft token over that of one target token."""
    speed_up: float | None = Field(default=None, gt=0)
    speed_up_by_category: dict[str, float] = {}
    unsupported: str | None = None
    inactive: str | None = None
    diverge_at: int | None = Field(default=None, ge=0)


class SplitScript(_Script):
    """What the control says about every text that parts from the plain one."""

    control_flips: bool = False
    margin: float = 0.1
    other_rank: int = 2
    largest_logit_change: float = 0.2


class SlowStretch(_Script):
    """Runs that other work slows down, by the number of the run from 0; ``to_run`` is excluded."""

    from_run: int
    to_run: int
    factor: float = Field(gt=0)


class Failure(_Script):
    """What goes wrong before run number ``at_run`` (from 0); -1: while loading."""

    kind: Literal["raise", "bug", "abort", "kill", "hang", "exit"]
    at_run: int = 0


class TargetScript(_Script):
    """Content of a ``*.scripted.json`` target."""

    off_tok_s: float = Field(default=100.0, gt=0)
    prefill_tok_s: float = Field(default=1000.0, gt=0)
    n_tokens: int = Field(default=160, ge=1)
    """Length of a natural answer; the token cap comes on top."""
    verify_cost: float = Field(default=0.1, ge=0)
    """Extra time per draft token in a target pass, over that of a one-token pass."""
    parallel_cost: float = Field(default=0.2, ge=0)
    """Time that each further request in flight adds to every pass, over that of one alone."""
    parallel_draft_cost: float = Field(default=0.15, ge=0)
    """The same on top where drafts are verified: there is no idle compute left for them."""
    most_parallel: int | None = Field(default=None, ge=1)
    """Requests in flight that it can serve; ``None``: any number."""
    noise: float = Field(default=0.01, ge=0)
    """Standard deviation of the logarithm of a run's time."""
    methods: dict[str, MethodScript] = {}
    slow: tuple[SlowStretch, ...] = ()
    degenerate: bool = False
    degenerate_categories: tuple[str, ...] = ()
    split: SplitScript | None = None
    """``None``: an engine without logits."""
    load_s: float = Field(default=0.0, ge=0)
    run_s: float = Field(default=0.0, ge=0)
    """Real seconds slept in each run."""
    stdout_noise: str = ""
    """Printed on file descriptor 1 in each run, as native libraries do."""
    failure: Failure | None = None


class ScriptedEngine:
    """The fake behind the engine protocol; drafts are not opened."""

    name = "scripted"

    def __init__(self) -> None:
        self._script = TargetScript()
        self._settings = GenerationSettings()
        self._hashes: dict[str, str] = {}
        self._runs_started = 0
        self._repeats: Counter[tuple[str, str]] = Counter()

    def load(
        self, target: ModelFile, drafts: Mapping[str, ModelFile], settings: GenerationSettings
    ) -> Mapping[str, object]:
        """Read the script; :class:`ModelError` when it is missing or not a script."""
        self._script = _read_script(target)
        self._settings = settings
        self._hashes = {ref: file.content_hash for ref, file in drafts.items()}
        if self._script.load_s:
            time.sleep(self._script.load_s)
        self._maybe_fail(-1)
        return {
            "name": self.name,
            "version": "1",
            "commit": None,
            "build": "none",
            "chat_template_hash": content_hash("scripted")[:16],
        }

    def prepare(self, prompt: Prompt, max_tokens: int) -> PreparedPrompt:
        """Word ids of the text; :class:`UsageError` when the prompt does not fit the context."""
        text = prompt.text
        if text is None:
            text = "\n".join(m.content for m in prompt.messages)
        ids = tuple(_FIRST_WORD + len(word) % len(_WORDS) for word in text.split()) or (1,)
        most, flags = room_for(prompt.key, len(ids), self._settings.n_ctx, max_tokens)
        return PreparedPrompt(prompt.key, prompt.category, ids, most, flags)

    def check_arm(self, arm: Arm) -> ArmReadiness:
        """Ready unless the script says why not."""
        for call in arm.calls:
            reason = self._method(call.method).unsupported
            if reason is not None:
                return ArmReadiness(False, reason, "scripted")
        hashes = {ref: self._hashes.get(ref, ref) for ref in arm.draft_models}
        return ArmReadiness(True, resolved={"calls": arm.canonical(hashes)})

    def run(self, arm: Arm, prompt: PreparedPrompt) -> RunRecord:
        """One fake generation; the same arm and prompt give the same tokens and counters."""
        script = self._script
        self._runs_started += 1
        self._maybe_fail(self._runs_started - 1)
        if script.stdout_noise:
            os.write(1, script.stdout_noise.encode())
        if script.run_s:
            time.sleep(script.run_s)

        method = self._method(arm.calls[0].method)
        ids, stop_reason = self._answer(arm, method, prompt)
        steps, draft_s = self._steps(arm, method, prompt, ids)
        decode_s = sum(s.seconds for s in steps)
        wanted_s = self._wanted_decode_s(method, prompt.category, len(ids), decode_s)
        factor = (
            self._slowness()
            * self._noise_factor(arm, prompt)
            * (wanted_s / decode_s if decode_s else 1.0)
        )
        steps = [
            Step(s.n_drafted, s.n_accepted, s.seconds * factor, s.drafter, s.proposed)
            for s in steps
        ]
        verify_s = sum(s.seconds for s in steps if s.n_drafted)
        counters = counters_from_steps(
            steps,
            n_generated=len(ids),
            n_max=None if arm.is_off else arm.n_max,
            n_prompt=len(prompt.token_ids),
            prefill_s=len(prompt.token_ids) / script.prefill_tok_s,
            decode_s=decode_s * factor,
            n_discarded=0,
            draft_s=draft_s * factor,
            verify_s=verify_s - draft_s * factor,
            plain_s=sum(s.seconds for s in steps if not s.n_drafted),
            other_s=0.0,
        )
        texts = tuple(_token_text(i) for i in ids)
        return RunRecord(
            counters=counters,
            token_ids=ids,
            text="".join(texts),
            token_texts=texts,
            refused_texts={i: _token_text(i) for s in steps if (i := s.refused) is not None},
            stop_reason=stop_reason,
            steps=tuple(steps),
            proof=None if arm.is_off else method.inactive is None,
            proof_reason=None if arm.is_off else method.inactive,
            flags=prompt.flags + run_flags(counters, is_off=arm.is_off),
        )

    def sweep(self, arm: Arm, prompts: Sequence[PreparedPrompt], n_parallel: int) -> Sweep:
        """Fake generations on ``n_parallel`` places, each slower for the company it has."""
        script = self._script
        if script.most_parallel is not None and n_parallel > script.most_parallel:
            raise EngineError(
                f"The scripted engine serves at most {script.most_parallel} requests at once."
            )
        slower = 1 + script.parallel_cost * (n_parallel - 1)
        if not arm.is_off:
            slower *= 1 + script.parallel_draft_cost * (n_parallel - 1)
        records = tuple(_slowed(self.run(arm, prompt), slower) for prompt in prompts)
        ends = [0.0] * n_parallel
        for record in records:
            counters = record.counters
            taken = (counters.prefill_s or 0.0) + (counters.decode_s or 0.0)
            heapq.heapreplace(ends, ends[0] + taken)
        return Sweep(records, max(ends))

    def calibrate(
        self, text: Sequence[int], plan: CalibrationPlan, progress: Callable[[float], None]
    ) -> Calibration:
        """What the script says passes cost; drafts cost what it says of ``draft-simple``."""
        pass_s = 1 / self._script.off_tok_s
        row = {n: pass_s * (1 + self._script.verify_cost * (n - 1)) for n in plan.widths}
        draft_s = pass_s * max(self._method("draft-simple").draft_cost, _FREE)
        progress(1.0)
        return Calibration(
            verify_s=dict.fromkeys(plan.depths, row),
            draft_s={h: {min(plan.depths): {1: draft_s}} for h in self._hashes.values()},
            spread=self._script.noise,
            n_repeats=plan.repeats,
        )

    def replay(
        self, arm: Arm, prompt: PreparedPrompt, output_ids: Sequence[int]
    ) -> Sequence[tuple[int, int]]:
        """The passes a run of the arm would have."""
        method = self._method(arm.calls[0].method)
        steps, _ = self._steps(arm, method, prompt, tuple(output_ids))
        return [(s.n_drafted, s.n_accepted) for s in steps]

    def explain_split(
        self, prompt: PreparedPrompt, off_ids: Sequence[int], on_ids: Sequence[int], chunk: int
    ) -> SplitFacts | None:
        """The script's own answer, whatever the texts are."""
        split = self._script.split
        return None if split is None else SplitFacts(**split.model_dump())

    def close(self) -> None:
        """Nothing is held."""

    def _method(self, name: str) -> MethodScript:
        return self._script.methods.get(name, MethodScript())

    def _answer(
        self, arm: Arm, method: MethodScript, prompt: PreparedPrompt
    ) -> tuple[tuple[int, ...], str]:
        natural = self._script.n_tokens
        n = min(natural, prompt.max_tokens)
        if self._script.degenerate or prompt.category in self._script.degenerate_categories:
            ids = [_FIRST_WORD] * n
        else:
            rng = random.Random(f"answer/{prompt.key}/{len(prompt.token_ids)}")
            ids = [_FIRST_WORD + rng.randrange(len(_WORDS)) for _ in range(n)]
        if not arm.is_off and method.diverge_at is not None:
            for i in range(method.diverge_at, n):
                ids[i] = _FIRST_WORD + (ids[i] - _FIRST_WORD + 1) % len(_WORDS)
        stops = natural <= prompt.max_tokens and not self._settings.ignore_eos
        if stops:
            ids[-1] = _EOS
        return tuple(ids), "eos" if stops else "limit"

    def _steps(
        self, arm: Arm, method: MethodScript, prompt: PreparedPrompt, ids: tuple[int, ...]
    ) -> tuple[list[Step], float]:
        """The trace and the seconds of it spent on drafting, before any scaling."""
        pass_s = 1 / self._script.off_tok_s
        rng = random.Random(f"steps/{prompt.key}/{arm.full_text().partition('#')[0]}")
        acceptance = method.acceptance_by_category.get(prompt.category, method.acceptance)
        steps: list[Step] = []
        draft_s = 0.0
        position = 1
        while position < len(ids):
            n_drafted = min(arm.n_max, len(ids) - position - 1)
            if n_drafted <= 0 or rng.random() >= method.coverage:
                steps.append(Step(0, 0, pass_s))
                position += 1
                continue
            accepted = 0
            while accepted < n_drafted and rng.random() < acceptance:
                accepted += 1
            proposed = list(ids[position : position + n_drafted])
            proposed[accepted:] = [_WRONG] * (n_drafted - accepted)
            step_draft_s = n_drafted * method.draft_cost * pass_s
            seconds = pass_s * (1 + self._script.verify_cost * n_drafted) + step_draft_s
            steps.append(Step(n_drafted, accepted, seconds, 0, tuple(proposed)))
            draft_s += step_draft_s
            position += accepted + 1
        return steps, draft_s

    def _wanted_decode_s(
        self, method: MethodScript, category: str, n_generated: int, decode_s: float
    ) -> float:
        speed_up = method.speed_up_by_category.get(category, method.speed_up)
        if speed_up is None:
            return decode_s
        return (n_generated - 1) / self._script.off_tok_s / speed_up

    def _noise_factor(self, arm: Arm, prompt: PreparedPrompt) -> float:
        key = (arm.full_text(), prompt.key)
        repeat = self._repeats[key]
        self._repeats[key] += 1
        rng = random.Random(f"noise/{key}/{repeat}")
        return math.exp(rng.gauss(0.0, self._script.noise))

    def _slowness(self) -> float:
        run = self._runs_started - 1
        return math.prod(s.factor for s in self._script.slow if s.from_run <= run < s.to_run)

    def _maybe_fail(self, run: int) -> None:
        failure = self._script.failure
        if failure is None or failure.at_run != run:
            return
        print(f"scripted failure: {failure.kind}", file=sys.stderr, flush=True)  # noqa: T201
        match failure.kind:
            case "raise":
                raise EngineError("The scripted engine was told to fail.", "Change the script.")
            case "bug":
                raise RuntimeError("scripted bug")
            case "abort":
                os.abort()
            case "kill":
                os.kill(os.getpid(), signal.SIGKILL)
            case "hang":
                while True:
                    time.sleep(3600)
            case "exit":
                os._exit(7)


def _slowed(record: RunRecord, factor: float) -> RunRecord:
    def slower(seconds: float | None) -> float | None:
        return None if seconds is None else seconds * factor

    counters = replace(
        record.counters,
        prefill_s=slower(record.counters.prefill_s),
        decode_s=slower(record.counters.decode_s),
        draft_s=slower(record.counters.draft_s),
        verify_s=slower(record.counters.verify_s),
        plain_s=slower(record.counters.plain_s),
        other_s=slower(record.counters.other_s),
    )
    steps = record.steps and tuple(replace(s, seconds=s.seconds * factor) for s in record.steps)
    return replace(record, counters=counters, steps=steps)


def _read_script(target: ModelFile) -> TargetScript:
    path = Path(target.path)
    try:
        return TargetScript.model_validate_json(path.read_bytes())
    except OSError as error:
        raise ModelError(
            f"Cannot read {path}: {error.strerror}.", "The file may have been moved or deleted."
        ) from error
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(p) for p in first["loc"]) or "file"
        raise ModelError(
            f"{path} is no script for the scripted engine: {where}: {first['msg']}.",
            "It is a JSON object with the fields of TargetScript.",
        ) from error


def _token_text(token: int) -> str:
    return "" if token == _EOS else " " + _WORDS[(token - _FIRST_WORD) % len(_WORDS)]
