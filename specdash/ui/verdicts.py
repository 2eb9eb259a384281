"""The answer of an arm on a page: the sentence, its badge, what else must be known."""

import streamlit as st

from specdash.domain.summary import ArmSummary
from specdash.domain.verdict import sentence
from specdash.ui import format as fmt
from specdash.ui import words

_SAID_ELSEWHERE = frozenset({"partial"})


def verdict_line(arm: ArmSummary, workload: str) -> None:
    """Badge and sentence first, then advice and flags in words."""
    mark = words.arm_badge(arm.status, arm.verdict, is_baseline=arm.is_baseline)
    st.markdown(f"{mark.markdown()}  \n{sentence(arm, workload)}")
    if arm.advice:
        st.caption(f":material/lightbulb: {fmt.plain(arm.advice)}")
    for flag in arm.flags:
        if flag not in _SAID_ELSEWHERE:
            st.caption(f":material/flag: {words.flag(flag)}")


def equality(arm: ArmSummary) -> str:
    """How many outputs equal those of ``off``."""
    if arm.is_baseline or not arm.n_compared:
        return "not compared"
    return f"{fmt.out_of(arm.n_equal, arm.n_compared)} outputs equal"
