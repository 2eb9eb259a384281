"""How far an advice is and what it says, in the dashboard's vocabulary. Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import median
from typing import Literal

from specdash.advisor.decision import Candidate, Decision, Kind, Ratio, Rung, RungState
from specdash.domain.arms import parse_arm
from specdash.store.advices import AdviceView, PredictedArm
from specdash.ui import format as fmt
from specdash.ui.words import JOB_STATES, Badge

StepState = Literal["done", "running", "waiting", "skipped", "stopped"]

KINDS: dict[Kind, Badge] = {
    "use": Badge("use it", ":material/arrow_upward:", "green"),
    "not-worth-it": Badge("not worth it", ":material/equal:", "gray"),
    "leave-off": Badge("leave it off", ":material/arrow_downward:", "red"),
    "not-resolved": Badge("not resolved", ":material/help:", "orange"),
    "not-measured": Badge("not measured", ":material/radio_button_unchecked:", "gray"),
}
RUNG_STATES: dict[RungState, Badge] = {
    "open": Badge("to be measured", ":material/schedule:", "blue"),
    "measured": Badge("measured", ":material/check_circle:", "green"),
    "not-reached": Badge("not reached in time", ":material/schedule:", "gray"),
    "not-worth-it": Badge("not worth it", ":material/stop_circle:", "gray"),
    "too-large": Badge("does not fit", ":material/memory:", "orange"),
    "missing": Badge("nothing on offer", ":material/radio_button_unchecked:", "gray"),
    "unsupported": Badge("not supported here", ":material/block:", "gray"),
}
WAITING = Badge("waiting", ":material/schedule:", "gray")
_CANDIDATES = {
    "measured": "measured",
    "partial": "left the search",
    "open": "to be measured",
    "not reached": "not reached in time",
    "skipped": "predicted only",
    "inactive": "speculation did not run",
    "unsupported": "not supported here",
    "failed": "failed",
}
_STEPS = (
    ("Calibrate", "what passes over several tokens, and each draft, cost on this machine"),
    ("Baseline", "part of the prompts with drafting off; all predictions rest on these texts"),
    ("Predict", "hundreds of settings, replayed on these texts and priced by the calibration"),
    ("Search", "the most promising in interleaved blocks; what falls clearly behind leaves"),
    ("Confirm", "off and up to three finalists on prompts that had no part in finding them"),
)
_PREDICTING = frozenset({"predicting"})
_MEASURING = frozenset({"warm-up", "measuring", "comparing"})
_MARKS: dict[StepState, str] = {
    "done": ":green[:material/check_circle:]",
    "running": ":blue[:material/play_circle:]",
    "waiting": ":gray[:material/radio_button_unchecked:]",
    "skipped": ":gray[:material/remove_circle_outline:]",
    "stopped": ":orange[:material/pause_circle:]",
}


@dataclass(frozen=True, slots=True)
class StepMark:
    """One of the five steps and how far it is."""

    title: str
    what: str
    state: StepState

    def markdown(self) -> str:
        """Icon, name and word: never colour alone."""
        word = "" if self.state == "done" else f" · {self.state}"
        return f"{_MARKS[self.state]} **{self.title}**{word}: {self.what}"

    def plain(self) -> str:
        """Without a state, for what is yet to be asked."""
        return f"**{self.title}**: {self.what}"


def steps(advice: AdviceView) -> tuple[StepMark, ...]:
    """The five steps of an advice in order."""
    if advice.result is not None:
        made = (
            True,
            True,
            True,
            bool(advice.search_experiment_id),
            bool(advice.confirm_experiment_id),
        )
        states: list[StepState] = ["done" if m else "skipped" for m in made]
    else:
        at = _current(advice)
        is_begun = advice.state == "running" and not waits(advice)
        now: StepState = "running" if is_begun else "waiting"
        if not advice.is_active:
            now = "stopped"
        done: list[StepState] = ["done"] * at
        waiting: list[StepState] = ["waiting"] * (len(_STEPS) - at - 1)
        states = [*done, now, *waiting]
    return tuple(StepMark(t, w, s) for (t, w), s in zip(_STEPS, states, strict=True))


def waits(advice: AdviceView) -> bool:
    """Whether its next job waits behind others."""
    return advice.is_active and advice.job is not None and advice.job.state == "queued"


def plan_steps() -> tuple[StepMark, ...]:
    """What the advisor will do, before it was asked."""
    return tuple(StepMark(title, what, "waiting") for title, what in _STEPS)


def state_badge(advice: AdviceView) -> Badge:
    """Its answer where there is one, else its state."""
    decision = decision_of(advice)
    if decision is not None:
        return KINDS[decision.kind]
    return WAITING if waits(advice) else JOB_STATES[advice.state]


def decision_of(advice: AdviceView) -> Decision | None:
    return None if advice.result is None else Decision.from_json(advice.result)


def answer(decision: Decision) -> str:
    """The sentence as Markdown, with its arms as code."""
    text = fmt.plain(decision.sentence)
    arms = {decision.arm, decision.considered_arm, *(c.arm for c in decision.candidates)}
    # The longest first: one arm's text may begin with another's.
    for arm in sorted((a for a in arms if a), key=len, reverse=True):
        if fmt.plain(arm) in text:
            return text.replace(fmt.plain(arm), fmt.code(arm))
    return text


def ratio_words(ratio: Ratio | None) -> str:
    """``1.42x (1.31x to 1.53x)``."""
    if ratio is None:
        return fmt.DASH
    text = fmt.ratio(ratio.value, ratio.low, ratio.high)
    return text if ratio.low is None else f"{text} ({fmt.interval(ratio.low, ratio.high)})"


def rung_words(rung: Rung) -> str:
    """Best arm of a rung with what was predicted and measured, and its memory price."""
    parts = []
    if rung.best_arm is not None:
        parts.append(f"best {fmt.code(rung.best_arm)}")
    if rung.predicted is not None:
        parts.append(f"predicted {ratio_words(rung.predicted)}")
    if rung.measured is not None:
        parts.append(f"measured {ratio_words(rung.measured)}")
    if rung.best_arm is not None:
        parts.append(memory_words(rung.memory_bytes))
    return " · ".join(parts)


def memory_words(n_bytes: int | None) -> str:
    """The memory on top of the target."""
    if n_bytes is None:
        return "memory unknown"
    if n_bytes < 2**20:
        return "no memory beyond the target's"
    return f"{fmt.size(n_bytes)} more memory"


def mix_words(mix: Mapping[str, float]) -> str:
    """Shares of the categories in per cent; all alike without a mix."""
    total = sum(mix.values())
    if not total:
        return "all categories weigh alike"
    return fmt.listing([f"{c} {fmt.percent(w / total)}" for c, w in mix.items() if w > 0])


def source_words(decision: Decision) -> str:
    """Which prompts its ratio is from, and what that means for it."""
    if not decision.is_confirmed:
        return "from the prompts that chose it, which flatters it"
    if decision.n_finalists == 1:
        return "from prompts that were not used to choose it"
    return (
        f"from prompts that were not used to choose the {decision.n_finalists} finalists; the best "
        "of them is taken, and the interval allows for that"
    )


def status_words(candidate: Candidate) -> str:
    return _CANDIDATES.get(candidate.status, candidate.status)


def prediction_error(candidates: Sequence[Candidate]) -> float | None:
    """Median distance of predicted from measured ratios, as a share; ``None`` without a pair."""
    errors = [
        abs(c.predicted.value / c.measured.value - 1)
        for c in candidates
        if c.predicted is not None and c.measured is not None and c.measured.value > 0
    ]
    return median(errors) if errors else None


def rank(candidate: Candidate) -> tuple[bool, float]:
    """Sorts measured arms first, the fastest before the others, then by prediction."""
    best = candidate.measured or candidate.predicted
    return candidate.measured is None, -(best.value if best else 0.0)


def candidate_rows(candidates: Sequence[Candidate]) -> list[dict[str, object]]:
    """Every arm that was considered: predicted beside measured."""
    return [
        {
            "Arm": c.arm,
            "Became": status_words(c),
            "Predicted": c.predicted.value if c.predicted else None,
            "Predicted low": c.predicted.low if c.predicted else None,
            "Predicted high": c.predicted.high if c.predicted else None,
            "Measured": c.measured.value if c.measured else None,
            "Measured low": c.measured.low if c.measured else None,
            "Measured high": c.measured.high if c.measured else None,
            "Prompts": c.measured.n_prompts if c.measured else None,
            "Confirmed": c.confirmed.value if c.confirmed else None,
            "Confirmed low": c.confirmed.low if c.confirmed else None,
            "Confirmed high": c.confirmed.high if c.confirmed else None,
            "Tied with the fastest": c.is_tied,
            "Memory on top (MiB)": None if c.memory_bytes is None else c.memory_bytes / 2**20,
            "Why": c.reason,
        }
        for c in sorted(candidates, key=rank)
    ]


def prediction_rows(predictions: Sequence[PredictedArm]) -> list[dict[str, object]]:
    """Every predicted setting, the best first; those without a prediction say why."""
    ordered = sorted(predictions, key=lambda p: (p.ratio is None, -(p.ratio or 0.0)))
    return [
        {
            "Arm": replace(parse_arm(p.arm), written=None).text(),
            "Predicted": p.ratio,
            "Predicted low": p.ratio_low,
            "Predicted high": p.ratio_high,
            "Prompts": len(p.by_prompt),
            "Why": p.reason,
        }
        for p in ordered
    ]


def _current(advice: AdviceView) -> int:
    """Index of the step that runs or comes next."""
    job = advice.job
    is_done = job is not None and job.state == "succeeded"
    if advice.confirm_experiment_id is not None:
        return 4
    if advice.search_experiment_id is not None:
        return 4 if is_done else 3
    if is_done:
        return 3
    phase = (job.phase if job is not None else None) or ""
    if phase in _PREDICTING:
        return 2
    return 1 if phase in _MEASURING else 0
