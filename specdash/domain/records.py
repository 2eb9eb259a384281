"""What summaries are made from and what they say; plain records without behaviour."""

from dataclasses import dataclass

from specdash.domain.counters import RunCounters
from specdash.domain.divergence import DifferenceClass
from specdash.domain.metrics import Acceptance
from specdash.domain.power import Spread
from specdash.domain.verdict import Verdict

SUSPECT = DifferenceClass.SUSPECT.value
"""Flag of an arm with a text that rounding does not explain; it is never recommended."""


@dataclass(frozen=True, slots=True)
class RunFacts:
    """What the statistics need of one stored run."""

    run_id: int
    arm_id: int
    prompt_id: int
    prompt_key: str
    category: str
    round: int
    order_index: int
    is_warmup: bool
    counters: RunCounters
    equal_off: bool | None = None
    split_class: str | None = None
    """As :func:`~specdash.domain.divergence.class_text` writes it, where the texts differ."""
    flags: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class ArmFacts:
    """One arm of the experiment as stored."""

    arm_id: int
    text: str
    is_baseline: bool
    status: str
    reason: str | None = None


@dataclass(frozen=True, slots=True)
class PromptRatio:
    """One prompt of one arm against ``off``: the paired point of the charts.

    ``ratio`` = exp of the mean over rounds of ln(on/off); limits over rounds need 2 rounds.
    """

    prompt_id: int
    prompt_key: str
    category: str
    ratio: float
    ratio_low: float | None
    ratio_high: float | None
    off_tok_s: float
    on_tok_s: float
    acceptance_rate: float | None
    n_rounds: int
    is_degenerate: bool


@dataclass(frozen=True, slots=True)
class CategoryRatio:
    """One category's own estimate; ``n`` prompts, ``share`` of the total (0: not in the mix)."""

    category: str
    ratio: float
    ratio_low: float | None
    ratio_high: float | None
    n: int
    share: float


@dataclass(frozen=True, slots=True)
class ArmSummary:
    """Everything a verdict line, a table row or the JSON of ``run`` says about one arm."""

    arm_id: int
    text: str
    is_baseline: bool
    status: str
    reason: str | None
    verdict: Verdict | None
    """``None`` for the baseline, an arm that is not ``measured``, and where ``off`` never ran."""
    ratio: float | None
    """Typical prompt: geometric mean of per-prompt ratios; 1 for the baseline."""
    ratio_low: float | None
    ratio_high: float | None
    bootstrap_low: float | None
    bootstrap_high: float | None
    total_time_ratio: float | None
    """This batch: total decode time off / on, per token."""
    decode_tok_s: float | None
    """sum(N-1) / sum(t_g) over measured runs."""
    end_to_end_tok_s: float | None
    prefill_s: float | None
    """Mean time to first token."""
    acceptance: Acceptance | None
    """Pooled over measured runs; ``None`` for the baseline."""
    draft_s: float | None
    verify_s: float | None
    plain_s: float | None
    other_s: float | None
    n_runs: int
    n_warmup: int
    n_prompts: int
    n_rounds: int
    n_equal: int
    n_compared: int
    flags: tuple[str, ...]
    prompts: tuple[PromptRatio, ...]
    categories: tuple[CategoryRatio, ...]
    advice: str | None
    """What more would settle an unresolved case, in one sentence."""
    excluded_run_ids: tuple[int, ...] = ()
    """Runs that left with a block that was disturbed or marked as warm-up; they stay visible."""
    outlier_run_ids: tuple[int, ...] = ()
    """Runs unusually far from the others of their arm; flagged and kept."""
    tied_with_best: bool | None = None
    """Not separable from the fastest arm (Holm over all pairs).

    ``None`` without a ratio, and for an arm with a suspect run, which takes no part.
    """
    p_difference: float | None = None
    """Two-sided p of "no more than a practical difference to the baseline"; not adjusted."""
    drift: float | None = None
    """Relative change of speed over the whole experiment; clear and over 2 % it is flagged."""
    n_numeric: int = 0
    """Compared runs whose text differs from ``off`` by rounding alone."""
    n_suspect: int = 0
    """Compared runs whose difference is no rounding; one of them and the arm is not recommended."""
    n_unknown: int = 0
    """Compared runs that differ and were not, or could not be, explained."""
    clean_total_time_ratio: float | None = None
    """``total_time_ratio`` over prompts without a repeating text; 1 for the baseline."""
    spread: Spread | None = None
    """Of ln(on/off) between prompts and between rounds; ``None`` where no two prompts compare."""
    is_fastest: bool = False
    """The leader of the arms that rank, on prompts without a repeating text."""
    is_replica: bool = False
    """``off`` measured again (A/A): its ratio tells of the machine, not of drafting."""

    @property
    def is_suspect(self) -> bool:
        return SUSPECT in self.flags
