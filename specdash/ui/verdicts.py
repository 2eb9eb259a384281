"""The answer of an arm on a page: the sentence, its badge, what else must be known."""

from collections.abc import Collection

import streamlit as st

from specdash.domain import flag_words
from specdash.domain.metrics import Acceptance
from specdash.domain.records import SUSPECT
from specdash.domain.sentences import sentence
from specdash.domain.summary import ArmSummary
from specdash.domain.verdict import Verdict
from specdash.ui import format as fmt
from specdash.ui import words

_SAID_ELSEWHERE = frozenset({"partial", SUSPECT})


def verdict_line(
    arm: ArmSummary,
    workload: str,
    *,
    settled: bool = True,
    brief: bool = False,
    said: Collection[str] = (),
) -> None:
    """Badge and sentence first, then flags in words, unless more runs are still to come.

    ``brief``: all flags in one line, their sentences behind it. ``said``: flags that the page
    speaks of elsewhere.
    """
    marks = " ".join(badge.markdown() for badge in words.arm_badges(arm))
    st.markdown(f"{marks}  \n{sentence(arm, workload)}")
    if not settled:
        return
    # An unresolved case's sentence ends with its advice; equal arms need none.
    if arm.advice and arm.verdict is not Verdict.NOT_RESOLVED and not arm.is_replica:
        st.caption(f":material/lightbulb: {fmt.plain(arm.advice)}")
    flags = [f for f in arm.flags if f not in _SAID_ELSEWHERE and f not in said]
    if flags and brief:
        with st.expander(
            f"To know: {fmt.plain(flag_words.flag_line(flags))}", icon=":material/flag:"
        ):
            for flag in flags:
                st.caption(fmt.plain(flag_words.arm_flag(flag, arm)))
        return
    for flag in flags:
        st.caption(f":material/flag: {fmt.plain(flag_words.arm_flag(flag, arm))}")


def numbers(arm: ArmSummary, off: ArmSummary | None, *, settled: bool = True) -> None:
    """The measured numbers behind the sentence, each with its name; ratios only when settled."""
    if arm.decode_tok_s is None:
        return
    parts = [fmt.tok_s(arm.decode_tok_s)]
    if off is not None and off.decode_tok_s is not None:
        parts[0] += f" against {fmt.tok_s(off.decode_tok_s)} off"
    parts[0] += f", over {fmt.plural(arm.n_runs, 'run')}"
    if settled and arm.total_time_ratio is not None:
        parts.append(f"total decode time of off / on {fmt.ratio(arm.total_time_ratio)}")
    if settled and arm.bootstrap_low is not None:
        parts.append(
            f"two-stage bootstrap {fmt.interval(arm.bootstrap_low, arm.bootstrap_high)}, shown only"
        )
    if arm.acceptance is not None:
        parts += _acceptance_parts(arm.acceptance)
    if arm.n_compared:
        parts.append(f"{fmt.out_of(arm.n_equal, arm.n_compared)} outputs equal to off")
    st.caption(" · ".join(parts))


def _acceptance_parts(accepted: Acceptance) -> list[str]:
    """Each quantity by its name with what it is a share of."""
    if accepted.invalid:
        return [_invalid(accepted)]
    parts = []
    if accepted.n_drafted is not None and accepted.n_accepted is not None:
        rate = (
            f"acceptance rate {fmt.percent(accepted.acceptance_rate)} "
            f"({fmt.out_of(accepted.n_accepted, accepted.n_drafted)} drafted tokens"
        )
        if accepted.mean_prompt_acceptance_rate is not None:
            rate += f"; mean over prompts {fmt.percent(accepted.mean_prompt_acceptance_rate)}"
        parts.append(f"{rate})")
    if accepted.n_known < accepted.n_runs:
        parts.append(f"acceptance known for {fmt.out_of(accepted.n_known, accepted.n_runs)} runs")
    if accepted.tokens_per_target_pass is not None:
        text = f"{fmt.number(accepted.tokens_per_target_pass, 2)} tokens per target pass"
        if accepted.n_verify_steps is not None and accepted.n_plain_steps is not None:
            passes = accepted.n_verify_steps + accepted.n_plain_steps
            text += f" ({fmt.plural(passes, 'pass', 'passes')})"
        parts.append(text)
    return parts


def _invalid(accepted: Acceptance) -> str:
    """The raw sums by name, and the rules that single runs break."""
    raw = words.raw_counts(
        {
            "A": accepted.n_accepted,
            "D": accepted.n_drafted,
            "V": accepted.n_verify_steps,
            "U": accepted.n_plain_steps,
        }
    )
    return (
        f"acceptance invalid: {raw} over {fmt.plural(accepted.n_runs, 'run')}, among them some "
        f"that break {fmt.plain(fmt.listing(accepted.invalid))}"
    )
