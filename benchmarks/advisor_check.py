"""Does the advisor find what measuring everything finds, in a fifth of the time?

    python -m benchmarks.advisor_check [--workload extract] [--draft NAME] [--data FOLDER]

First the advisor is asked; then 20 configurations (and 3 of a draft, and the advisor's pick where
it is none of them) are measured on all prompts, 3 rounds, through the product's own queue, runner
and statistics. The pick (``off`` where the advisor says to leave it off) must be in the tie set of
that, the arms that Holm over all pairs cannot tell from the fastest. Over so many arms that set can
be wide, so the pick must also come within 10 % of the fastest, and a draft may not be picked where
``off`` is in the set. No less than 10 %: this is one draw, and the fastest of so many is so by luck
too; ``benchmarks.choice_check`` averages over many. Arms with suspect texts, and prompts with
repeating ones, are left out as the product leaves them out.

With ``--data FOLDER`` everything is kept there, and a run that was stopped goes on: the advisor
with its last step, the measurement with the next group of prompts (``--pieces N`` ends after so
many). Exit status 1 when a requirement is not met, or the advisor took more than a fifth.
"""

import argparse
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from sqlalchemy.engine import Engine
from sqlmodel import Session, col, select

from specdash.advisor.decision import Decision
from specdash.advisor.follow import follow_advice
from specdash.advisor.question import Wanted, make_question
from specdash.cli.common import open_store
from specdash.domain.arms import OFF, parse_arm
from specdash.domain.blocks import BlockRun, arrange
from specdash.domain.divergence import DifferenceClass
from specdash.domain.multiple import paired_samples, tie_set
from specdash.domain.statistics import across_prompts, estimate
from specdash.domain.summary import DEGENERATE, DISTURBED
from specdash.errors import SpecdashError
from specdash.settings import Settings, load_settings
from specdash.store.advices import ask, list_advices, resume_advice
from specdash.store.enqueue import queue_experiment
from specdash.store.experiment_request import ExperimentRequest
from specdash.store.jobs import retry
from specdash.store.models import resolve_model
from specdash.store.queries import get_workload, list_runs
from specdash.store.session import read_session
from specdash.store.tables import Experiment, Job
from specdash.store.views import RunView
from specdash.worker.scheduler import follow_job

ARMS = (
    *(
        f"ngram-simple:size_n={n},size_m={m}"
        for n, m in ((2, 4), (3, 8), (4, 16), (6, 24), (12, 48))
    ),
    *(f"ngram-map-k:size_n={n},size_m={m}" for n, m in ((2, 4), (3, 8), (4, 16), (8, 32))),
    *(f"ngram-map-k4v:size_n={n},size_m={m}" for n, m in ((2, 4), (3, 8), (4, 12))),
    *(
        f"ngram-mod:n_match={n},n_min={least},n_max={most}"
        for n, least, most in ((4, 0, 8), (6, 0, 16), (8, 4, 16), (16, 16, 64))
    ),
    "ngram-cache",
    *(
        f"prompt-lookup:max_ngram_size={n},num_pred_tokens={m}"
        for n, m in ((2, 3), (2, 10), (3, 8))
    ),
)
DRAFT_BUDGETS = (2, 4, 8)
ROUNDS = 3
PIECE_PROMPTS = 4
MOST_SHARE = 0.2
MOST_REGRET = 0.10
_TAG = "advisor-check"


def answer(store: Engine, settings: Settings, wanted: Wanted) -> tuple[Decision, float]:
    """The advisor's answer and the seconds its steps took; one that was stopped goes on."""
    question = make_question(store, settings, wanted)
    asked = question.to_json()
    with read_session(store) as session:
        same = [
            a
            for a in list_advices(session)
            if a.workload_id == question.workload_id and dict(a.request) == asked
        ]
    if same:
        advice_id = same[0].advice_id
        if not same[0].is_active and same[0].state != "succeeded":
            resume_advice(store, advice_id)
    else:
        advice_id = ask(
            store,
            target_model_id=question.target_model_id,
            workload_id=question.workload_id,
            request=asked,
        )
    advice = follow_advice(store, settings, advice_id)
    if advice.result is None:
        raise SpecdashError(f"Advice {advice_id} {advice.state}: {advice.error_text}")
    decision = Decision.from_json(advice.result)
    return decision, decision.used_s


def measure_pieces(
    store: Engine, settings: Settings, wanted: Wanted, arms: Sequence[str], most_pieces: int
) -> list[int] | None:
    """Experiments that together cover all prompts; ``None`` when some are still to be made."""
    question = make_question(store, settings, wanted)
    with read_session(store) as session:
        keys = [p.key for p in get_workload(session, question.workload_id).prompts]
        drafts = {ref: resolve_model(session, ref).model_id for ref in wanted.drafts or ()}
    groups = [tuple(keys[i : i + PIECE_PROMPTS]) for i in range(0, len(keys), PIECE_PROMPTS)]
    found: list[int] = []
    made = 0
    for number, group in enumerate(groups):
        request = ExperimentRequest(
            question.workload_id,
            question.target_model_id,
            tuple(parse_arm(text) for text in arms),
            drafts=drafts,
            rounds=ROUNDS,
            max_tokens=question.max_tokens,
            # As one long experiment would: arms are warmed up once.
            warmup=1 if number == 0 else 0,
            generation=question.generation,
            engine=question.engine,
            prompt_keys=group,
            tags=(_TAG,),
            requester=f"{_TAG}-{number}",
            allow_duplicate=True,
        )
        with read_session(store) as session:
            known = _piece(session, question.workload_id, request)
        if known is not None and known[1] == "succeeded":
            found.append(known[0])
            continue
        if made >= most_pieces:
            return None
        made += 1
        job_id = _queue(store, request, known)
        print(f"piece {number + 1} of {len(groups)}: job {job_id}", flush=True)
        job = follow_job(store, settings, job_id)
        if job.state != "succeeded":
            raise SpecdashError(f"Job {job.job_id} {job.state}: {job.error_text}")
        found.append(job.experiment_id)
    return found


def _queue(store: Engine, request: ExperimentRequest, known: tuple[int, str, int] | None) -> int:
    if known is None:
        return queue_experiment(store, request).job_id
    _, state, job_id = known
    if state not in ("queued", "running"):
        retry(store, job_id)
    return job_id


def _piece(
    session: Session, workload_id: int, request: ExperimentRequest
) -> tuple[int, str, int] | None:
    """Experiment, state and job of a piece that was queued before."""
    rows = session.exec(
        select(Experiment, Job)
        .join(Job, col(Job.experiment_id) == col(Experiment.id))
        .where(Experiment.workload_id == workload_id, Experiment.requester == request.requester)
        .order_by(col(Experiment.id).desc())
    ).all()
    for experiment, job in rows:
        wanted = (list(request.prompt_keys or ()), request.max_tokens)
        protocol = experiment.protocol
        if (protocol.get("prompt_keys"), protocol["max_tokens"]) == wanted:
            assert experiment.id is not None
            assert job.id is not None
            return experiment.id, job.state, job.id
    return None


@dataclass(frozen=True, slots=True)
class Row:
    """One arm of the exhaustive measurement; ``is_tied`` with the fastest."""

    arm: str
    ratio: float
    low: float | None
    high: float | None
    is_tied: bool


@dataclass(frozen=True, slots=True)
class Outcome:
    """What everything says, the fastest first, and how far the pick is from that."""

    rows: Sequence[Row]
    pick: str
    excluded: Mapping[str, str]
    """Arms that may not win, with the reason."""
    n_prompts_left_out: int
    """Some text on them only repeats itself."""

    @property
    def tied(self) -> Sequence[str]:
        return [row.arm for row in self.rows if row.is_tied]

    @property
    def regret(self) -> float | None:
        """By what share the fastest arm is faster; ``None`` where the pick may not win."""
        mine = next((row.ratio for row in self.rows if row.arm == self.pick), None)
        return None if mine is None else self.rows[0].ratio / mine - 1

    def failures(self) -> list[str]:
        """Rules that the pick breaks."""
        if self.regret is None:
            return [f"the pick may not win: {self.excluded.get(self.pick, 'it was not measured')}"]
        broken = []
        if self.pick not in self.tied:
            broken.append("the pick is not in the tie set")
        if self.regret > MOST_REGRET:
            broken.append(f"the pick is {self.regret:.1%} behind the fastest")
        if self.pick != OFF and OFF in self.tied:
            broken.append("a draft is picked although off ties with the fastest")
        return broken


def assess(runs: Sequence[RunView], pick: str) -> Outcome:
    """Ties and ratios over all runs, without what the product leaves out of a ranking as well.

    An arm with a suspect text may not win, and prompts on which a text only repeats itself count
    for no arm.
    """
    counted = [
        r
        for r in runs
        if not r.is_warmup and r.decode_tok_s is not None and DISTURBED not in r.flags
    ]
    suspect = {r.arm for r in counted if r.split_class == DifferenceClass.SUSPECT.value}
    repeating = {r.prompt_id for r in counted if DEGENERATE in r.flags}
    texts = {text: i for i, text in enumerate(dict.fromkeys(r.arm for r in counted))}
    categories = {r.prompt_id: r.category for r in counted}
    blocks = arrange(
        BlockRun(
            r.run_id, texts[r.arm], r.prompt_id, r.round, i, r.n_generated - 1, r.decode_tok_s or 0
        )
        for i, r in enumerate(counted)
    )
    speeds = {
        arm: {b: s for b, s in blocks.log_speeds(arm).items() if b[0] not in repeating}
        for text, arm in texts.items()
        if text not in suspect
    }
    ties = tie_set(speeds, texts[OFF], categories)
    if ties is None:
        raise SpecdashError("Nothing was measured.")
    rows = []
    for text, arm in texts.items():
        if text in suspect:
            continue
        result = estimate(paired_samples(speeds[arm], speeds[texts[OFF]], categories))
        if result is not None:
            rows.append(Row(text, result.ratio, *across_prompts(result), arm in ties.tied))
    return Outcome(
        sorted(rows, key=lambda row: row.ratio, reverse=True),
        pick,
        dict.fromkeys(sorted(suspect), "a text of it differs from off by more than rounding"),
        len(repeating),
    )


def compare(
    store: Engine, experiments: Sequence[int], decision: Decision, advisor_s: float
) -> bool:
    """Print both; whether the pick is among the best and came in time."""
    runs: list[RunView] = []
    seconds = 0.0
    with read_session(store) as session:
        for experiment_id in experiments:  # pieces follow each other in time
            runs += sorted(list_runs(session, experiment_id), key=lambda r: r.order_index)
            job = session.exec(select(Job).where(Job.experiment_id == experiment_id)).one()
            assert job.started_at is not None
            assert job.finished_at is not None
            seconds += (job.finished_at - job.started_at).total_seconds()
    found = assess(runs, decision.arm or OFF)
    print(f"\n{'arm':58s} ratio    low   high  ties with the fastest")
    for row in found.rows:
        known = row.low is not None and row.high is not None
        limits = f"{row.low:6.3f} {row.high:6.3f}" if known else " " * 13
        mark = "  <- the advisor's pick" if row.arm == found.pick else ""
        print(f"{row.arm:58s} {row.ratio:5.3f} {limits}  {'yes' if row.is_tied else 'no'}{mark}")
    for arm, reason in found.excluded.items():
        print(f"{arm:58s} left out: {reason}")
    share = advisor_s / seconds
    regret = "unknown" if found.regret is None else f"{found.regret:.1%}"
    failures = found.failures()
    if share > MOST_SHARE:
        failures.append(f"the advisor took more than a share of {MOST_SHARE:g}")
    print(f"\nadvisor: {decision.sentence}")
    print(f"advisor {advisor_s:.0f} s, everything {seconds:.0f} s: a share of {share:.2f}")
    print(
        f"tie set: {len(found.tied)} of {len(found.rows)} arms; regret {regret} (at most "
        f"{MOST_REGRET:.0%}); prompts left out for repeating texts: {found.n_prompts_left_out}"
    )
    print("\n".join(f"FAILED: {words}" for words in failures) or "all requirements hold")
    return not failures


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--workload", default="extract")
    parser.add_argument("--target", default="demo")
    parser.add_argument("--draft", action="append", default=[], help="a draft on offer; repeat it")
    parser.add_argument("--tokens", type=int, default=128)
    parser.add_argument("--budget", type=float, default=10.0, help="the advisor's, in minutes")
    parser.add_argument("--data", type=Path, help="keep everything there, and go on from it")
    parser.add_argument("--pieces", type=int, default=1000, help="end after so many groups")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        data = given.data or Path(folder)
        settings = load_settings().model_copy(update={"data_dir": data.absolute()})
        store = open_store(settings)
        try:
            return check(store, settings, given)
        finally:
            store.dispose()


def check(store: Engine, settings: Settings, given: argparse.Namespace) -> int:
    """Both measurements, as far as the pieces asked for go."""
    with read_session(store) as session:
        drafts = tuple(resolve_model(session, ref).name for ref in given.draft)
    wanted = Wanted(
        given.target,
        given.workload,
        drafts,
        budget_s=60 * given.budget,
        max_tokens=given.tokens,
    )
    decision, advisor_s = answer(store, settings, wanted)
    print(f"advisor: {decision.sentence} ({advisor_s:.0f} s)", flush=True)
    arms = [*ARMS]
    for name in drafts:
        arms += [f'draft-simple:model="{name}",n_max={n}' for n in DRAFT_BUDGETS]
    if decision.arm is not None and not any(
        parse_arm(a).calls == parse_arm(decision.arm).calls for a in arms
    ):
        arms.append(decision.arm)
    experiments = measure_pieces(store, settings, wanted, arms, given.pieces)
    if experiments is None:
        print("Stopped after the pieces asked for; run it again with the same --data to go on.")
        return 0
    return 0 if compare(store, experiments, _renamed(decision, arms), advisor_s) else 1


def _renamed(decision: Decision, arms: Sequence[str]) -> Decision:
    """With the pick in the words of the list, which may spell the same arm otherwise."""
    if decision.arm is None:
        return decision
    pick = parse_arm(decision.arm).calls
    return replace(decision, arm=next(a for a in arms if parse_arm(a).calls == pick))


if __name__ == "__main__":
    sys.exit(main())
