"""Raw counters of one run, and the rules they must keep (METHOD 1).

``None`` means unknown. It is never 0 and never enters a mean.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

_COUNTS = (
    "n_verify_steps",
    "n_plain_steps",
    "n_drafted",
    "n_accepted",
    "n_discarded",
    "n_rejected_steps",
)


@dataclass(frozen=True, slots=True)
class Step:
    """One target pass after the prompt: drafted (k), accepted (a), seconds, and what proposed.

    ``drafter`` is the index of the chained method that proposed; ``None`` for a plain pass.
    """

    n_drafted: int
    n_accepted: int
    seconds: float
    drafter: int | None = None
    proposed: tuple[int, ...] = ()

    @property
    def refused(self) -> int | None:
        """The id that the target did not take, where that was recorded."""
        return next(iter(self.proposed[self.n_accepted :]), None)


@dataclass(frozen=True, slots=True)
class RunCounters:
    """Counters and times of one generation, as METHOD 1 names them.

    ``n_drafted`` counts tested tokens only; the bonus token is in no draft counter.
    """

    n_generated: int
    prefill_s: float | None = None
    decode_s: float | None = None
    n_prompt: int | None = None
    n_verify_steps: int | None = None
    n_plain_steps: int | None = None
    n_drafted: int | None = None
    n_accepted: int | None = None
    n_discarded: int | None = None
    n_rejected_steps: int | None = None
    """Verify steps that ended in a rejection (R of METHOD 2)."""
    n_max: int | None = None
    accepted_histogram: tuple[int, ...] | None = None
    drafted_histogram: tuple[int, ...] | None = None
    full_histogram: tuple[int, ...] | None = None
    """Verify steps with exactly k draft tokens, all of them accepted."""
    draft_s: float | None = None
    verify_s: float | None = None
    plain_s: float | None = None
    other_s: float | None = None


def counters_from_steps(
    steps: Sequence[Step],
    *,
    n_generated: int,
    n_max: int | None,
    prefill_s: float | None = None,
    decode_s: float | None = None,
    n_prompt: int | None = None,
    n_discarded: int | None = None,
    draft_s: float | None = None,
    verify_s: float | None = None,
    plain_s: float | None = None,
    other_s: float | None = None,
) -> RunCounters:
    """Sum a step trace. Histograms are indexed by token count and cover 0..max drafted."""
    drafted_steps = [s for s in steps if s.n_drafted > 0]
    width = max((s.n_drafted for s in drafted_steps), default=0)
    accepted_histogram = [0] * (width + 1)
    drafted_histogram = [0] * (width + 1)
    full_histogram = [0] * (width + 1)
    for step in drafted_steps:
        accepted_histogram[step.n_accepted] += 1
        drafted_histogram[step.n_drafted] += 1
        full_histogram[step.n_drafted] += step.n_accepted == step.n_drafted
    return RunCounters(
        n_generated=n_generated,
        prefill_s=prefill_s,
        decode_s=decode_s,
        n_prompt=n_prompt,
        n_verify_steps=len(drafted_steps),
        n_plain_steps=len(steps) - len(drafted_steps),
        n_drafted=sum(s.n_drafted for s in drafted_steps),
        n_accepted=sum(s.n_accepted for s in drafted_steps),
        n_discarded=n_discarded,
        n_rejected_steps=sum(s.n_accepted < s.n_drafted for s in drafted_steps),
        n_max=n_max,
        accepted_histogram=tuple(accepted_histogram) if drafted_steps else (),
        drafted_histogram=tuple(drafted_histogram) if drafted_steps else (),
        full_histogram=tuple(full_histogram) if drafted_steps else (),
        draft_s=draft_s,
        verify_s=verify_s,
        plain_s=plain_s,
        other_s=other_s,
    )


def violations(c: RunCounters) -> tuple[str, ...]:
    """Names of the broken rules of METHOD 1; empty when all that is known agrees."""
    return speed_violations(c) + count_violations(c)


def count_violations(c: RunCounters) -> tuple[str, ...]:
    """Names of the broken rules that make the acceptance of a run invalid."""
    n, d, a = c.n_generated, c.n_drafted, c.n_accepted
    v, u, r = c.n_verify_steps, c.n_plain_steps, c.n_rejected_steps
    broken = [
        f"0 <= {name}" for name in _COUNTS if (value := getattr(c, name)) is not None and value < 0
    ]
    rules: list[tuple[str, bool]] = []
    if a is not None and d is not None:
        rules.append(("n_accepted <= n_drafted", a <= d))
    if d is not None and v is not None and c.n_max is not None:
        rules.append(("n_drafted <= n_max * n_verify_steps", d <= c.n_max * v))
    if a is not None and v is not None and u is not None:
        rules.append(
            ("n_generated - 1 <= n_accepted + n_verify_steps + n_plain_steps", n - 1 <= a + v + u)
        )
    if r is not None and v is not None:
        rules.append(("n_rejected_steps <= n_verify_steps", r <= v))
    for name, steps, tokens in (("accepted", v, a), ("drafted", v, d)):
        histogram: tuple[int, ...] | None = getattr(c, f"{name}_histogram")
        if histogram is None:
            continue
        if any(count < 0 for count in histogram):
            broken.append(f"0 <= {name}_histogram")
        if steps is not None:
            rules.append((f"sum({name}_histogram) = n_verify_steps", sum(histogram) == steps))
        if tokens is not None:
            total = sum(j * count for j, count in enumerate(histogram))
            rules.append((f"sum(j * {name}_histogram[j]) = n_{name}", total == tokens))
    if c.full_histogram is not None and c.n_verify_steps is not None:
        rules.append(
            (
                "sum(full_histogram) <= n_verify_steps",
                all(f >= 0 for f in c.full_histogram) and sum(c.full_histogram) <= c.n_verify_steps,
            )
        )
    if c.full_histogram is not None and c.accepted_histogram is not None:
        rules.append(
            (
                "full_histogram <= accepted_histogram",
                len(c.full_histogram) <= len(c.accepted_histogram)
                and all(
                    0 <= f <= h
                    for f, h in zip(c.full_histogram, c.accepted_histogram, strict=False)
                ),
            )
        )
    return (*broken, *(name for name, holds in rules if not holds))


def speed_violations(c: RunCounters) -> tuple[str, ...]:
    """Names of the broken rules that leave a run without a speed."""
    broken = [] if c.n_generated >= 1 else ["n_generated >= 1"]
    for name in ("prefill_s", "decode_s"):
        seconds: float | None = getattr(c, name)
        if seconds is not None and not 0 <= seconds < math.inf:
            broken.append(f"{name} >= 0")
    return tuple(broken)
