"""Acceptance and speed from raw counters (METHOD 2, 3)."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Acceptance:
    """The seven quantities of METHOD 2, each with its own name; ``None`` where undefined."""

    n_drafted: int | None
    n_accepted: int | None
    n_verify_steps: int | None
    n_plain_steps: int | None
    acceptance_rate: float | None
    mean_prompt_acceptance_rate: float | None
    """Unweighted mean over prompts, shown beside the pooled rate."""
    per_position: tuple[float, ...] | None
    conditional: tuple[float, ...] | None
    per_token_alpha: float | None
    acceptance_length: float | None
    tokens_per_target_pass: float | None
    draft_coverage: float | None
    invalid: tuple[str, ...] = ()
    """Names of broken rules; the metric is then shown as invalid with its raw values."""
