"""How long an experiment will take, from the newest runs like it on this machine."""

import functools
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass

import humanize
import sqlalchemy as sa
from sqlmodel import Session, col, select

from specdash.domain.workload import Prompt
from specdash.engines.registry import DEFAULT_ENGINE
from specdash.store.experiment_request import ExperimentRequest, max_rounds
from specdash.store.records import known_id
from specdash.store.tables import Experiment, ExperimentArm, Job, Machine, Run
from specdash.worker.anchors import ANCHOR_TOKENS, FIRST_LOOK_RUNS
from specdash.worker.machine import machine_facts
from specdash.worker.memory_check import Check

_DECIDES_PACE = (
    "n_batch",
    "n_ubatch",
    "n_threads",
    "gpu_layers",
    "kv_type",
    "flash_attn",
)
"""Settings that change how fast the target is; the context counts only as far as it is filled."""
_EXPERIMENTS = 20
_RUNS = 100


@dataclass(frozen=True, slots=True)
class AnswerLength:
    """Tokens of one stored answer; ``is_ended``: it ended by itself, not at a limit."""

    n_generated: int
    is_ended: bool


@dataclass(frozen=True, slots=True)
class Pace:
    """The target alone with these settings on this machine, over stored runs."""

    decode_tok_s: float
    prefill_s: float | None
    load_s: float | None
    """From the start of a job to its first run."""
    answers: tuple[AnswerLength, ...]

    def tokens(self, cap: int, *, ignore_eos: bool) -> float:
        """Tokens of a run with this cap: an answer that was cut says only that it goes on."""
        if ignore_eos:
            return cap
        return statistics.fmean(
            min(a.n_generated, cap) if a.is_ended else cap for a in self.answers
        )


@dataclass(frozen=True, slots=True)
class Duration:
    """Least and most runs and seconds; ``None`` seconds are unknown."""

    least_runs: int
    most_runs: int
    least_s: float | None
    most_s: float | None


def time_check(request: ExperimentRequest, prompts: Sequence[Prompt], pace: Pace | None) -> Check:
    """Runs and time of a request in words; a warning where the time limit would end it."""
    found = duration(request, prompts, pace)
    runs = _between(str(found.least_runs), str(found.most_runs)) + " runs"
    if pace is None or found.least_s is None or found.most_s is None:
        return Check(
            "ok",
            "time",
            f"{runs}. How long they take is unknown: this machine has not measured this target "
            "with these settings yet.",
        )
    words = _between(humanize.naturaldelta(found.least_s), humanize.naturaldelta(found.most_s))
    text = (
        f"{runs}, about {words} at {pace.decode_tok_s:.3g} tokens/s, as in the newest runs of this "
        "target without drafting here with these settings, finished benchmark or not."
    )
    left_out = [
        name
        for name, seconds in (("loading", pace.load_s), ("reading the prompts", pace.prefill_s))
        if seconds is None
    ]
    if left_out:
        text += f" The time of {' and '.join(left_out)} is unknown and not in it."
    limit_s = request.time_limit_s
    if limit_s is None or found.most_s <= limit_s:
        return Check("ok", "time", text)
    may = "is" if found.least_s > limit_s else "may be"
    return Check(
        "warn",
        "time",
        f"{text} That {may} above the time limit of {humanize.naturaldelta(limit_s)}.",
    )


def duration(request: ExperimentRequest, prompts: Sequence[Prompt], pace: Pace | None) -> Duration:
    """At most: every round that precision may add, and every text differs from that of ``off``."""
    n_arms = len([a for a in request.arms if not a.is_baseline]) + 1
    least, most = (
        _n_runs(request, n_arms, len(prompts), rounds)
        for rounds in (request.rounds, max_rounds(request) or request.rounds)
    )
    if pace is None:
        return Duration(least, most, None, None)
    prefill_s = pace.prefill_s or 0.0  # told as left out where it is unknown
    caps = [min(p.max_tokens or request.max_tokens, request.max_tokens) for p in prompts]
    tokens = [pace.tokens(cap, ignore_eos=request.generation.ignore_eos) for cap in caps]
    run_s = prefill_s + (statistics.fmean(tokens) / pace.decode_tok_s if tokens else 0.0)
    anchor_s = prefill_s + ANCHOR_TOKENS / pace.decode_tok_s
    load_s = pace.load_s or 0.0
    # The control forces a text twice, about as long as two runs; texts part halfway on average.
    comparing_s = run_s * len(prompts) * (n_arms - 1) if request.engine == DEFAULT_ENGINE else 0.0
    least_s, most_s = (
        load_s + n_runs * run_s + _n_anchors(request, len(prompts), rounds) * anchor_s
        for n_runs, rounds in (
            (least, request.rounds),
            (most, max_rounds(request) or request.rounds),
        )
    )
    return Duration(least, most, least_s, most_s + comparing_s)


def read_pace(session: Session, request: ExperimentRequest) -> Pace | None:
    """From the newest ``off`` runs of this target, engine and settings on this machine.

    Lengths of answers are those of the same workload where it was measured.
    """
    experiments = _experiments_like(session, request)
    same = [e for e in experiments if e.workload_id == request.workload_id]
    for found in (same, experiments):
        runs = _off_runs(session, [known_id(e.id) for e in found])
        timed = [(s, n, p, stop) for s, n, p, stop in runs if s and n > 1]
        if timed:
            break
    else:
        return None
    prefill = [p for _, _, p, _ in timed if p is not None]
    loads = _load_seconds(session, [e for e in experiments if not e.protocol.get("calibration")])
    return Pace(
        decode_tok_s=sum(n - 1 for _, n, _, _ in timed) / sum(s for s, _, _, _ in timed),
        prefill_s=statistics.fmean(prefill) if prefill else None,
        load_s=statistics.median(loads) if loads else None,
        answers=tuple(AnswerLength(n, stop == "eos") for _, n, _, stop in timed),
    )


def _experiments_like(session: Session, request: ExperimentRequest) -> list[Experiment]:
    if request.server is not None:
        return []
    asked = _pace_settings(asdict(request.generation))
    statement = (
        select(Experiment)
        .join(Machine, col(Machine.id) == col(Experiment.machine_id))
        .where(
            Experiment.target_model_id == request.target_model_id,
            Experiment.engine == request.engine,
            Machine.fingerprint == _fingerprint(),
        )
        .order_by(col(Experiment.id).desc())
    )
    # Settings are JSON, which the two databases search differently; so they are matched here.
    like = (
        e
        for e in session.exec(statement)
        if e.server is None and _pace_settings(e.generation) == asked
    )
    return [e for e, _ in zip(like, range(_EXPERIMENTS), strict=False)]


def _pace_settings(generation: Mapping[str, object]) -> list[object]:
    return [generation.get(name) for name in _DECIDES_PACE]


def _off_runs(
    session: Session, experiment_ids: Sequence[int]
) -> Sequence[tuple[float | None, int, float | None, str]]:
    """Decode seconds, tokens, prompt seconds and stop reason, newest first."""
    return session.exec(
        select(Run.decode_s, Run.n_generated, Run.prefill_s, Run.stop_reason)
        .join(ExperimentArm, col(ExperimentArm.id) == col(Run.experiment_arm_id))
        .where(
            col(Run.experiment_id).in_(experiment_ids),
            ExperimentArm.text == "off",
            sa.not_(col(Run.is_warmup)),
            Run.n_parallel == 1,
        )
        .order_by(col(Run.id).desc())
        .limit(_RUNS)
    ).all()


def _load_seconds(session: Session, experiments: Sequence[Experiment]) -> list[float]:
    statement = (
        sa.select(col(Job.started_at), sa.func.min(col(Run.started_at)))
        .join(
            Run,
            sa.and_(
                col(Run.experiment_id) == col(Job.experiment_id),
                col(Run.attempt) == col(Job.attempt),
            ),
        )
        .where(col(Job.experiment_id).in_([known_id(e.id) for e in experiments]))
        .group_by(col(Job.id), col(Job.started_at))
    )
    return [
        (first - started).total_seconds()
        for started, first in session.execute(statement)
        if started is not None and first >= started
    ]


def _n_runs(request: ExperimentRequest, n_arms: int, n_prompts: int, rounds: int) -> int:
    """Requests in company count as runs one after the other, which is more than they take."""
    if not n_prompts:
        return 0
    blocks = n_prompts * (rounds + request.rounds * len(request.concurrency))
    return n_arms * (request.warmup + blocks)


def _n_anchors(request: ExperimentRequest, n_prompts: int, rounds: int) -> int:
    n_blocks = n_prompts * rounds
    if not 0 < request.anchor_every <= n_prompts * request.rounds:
        return 0
    return FIRST_LOOK_RUNS + n_blocks // request.anchor_every


def _between(least: str, most: str) -> str:
    return least if least == most else f"{least} to {most}"


@functools.cache
def _fingerprint() -> str:
    return str(machine_facts()["fingerprint"])
