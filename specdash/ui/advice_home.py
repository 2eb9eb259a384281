"""The advisor on the home page: what it works on, its newest answers, the way to ask."""

from collections.abc import Sequence

import streamlit as st

from specdash.store.advices import AdviceView
from specdash.ui import advice_words as words
from specdash.ui import data, nav
from specdash.ui import format as fmt

_ANSWERS = 4


def show() -> None:
    """One line an advice under way or answered, then the link; nothing but the link without any."""
    found = newest(data.advices())
    if found:
        st.subheader("From the advisor")
    for advice in found:
        with st.container(horizontal=True, vertical_alignment="center"):
            st.markdown(line(advice), width="content")
            nav.advice_link(advice.advice_id, "Open")
    nav.advisor_link("Ask the advisor")


def newest(advices: Sequence[AdviceView]) -> list[AdviceView]:
    """Those under way, and of each workload, target and machine the newest answer."""
    active = [a for a in advices if a.is_active]
    answered: dict[tuple[str | None, ...], AdviceView] = {}
    for advice in advices:
        decision = words.decision_of(advice)
        if decision is not None:
            machine = decision.key_fields.get("machine_fingerprint")
            answered.setdefault((advice.workload, advice.target, machine), advice)
    return [*active, *answered.values()][:_ANSWERS]


def line(advice: AdviceView) -> str:
    """What is asked, then the answer with its age, or how far it is."""
    place = f"**{fmt.plain(advice.workload)}** :gray[· {fmt.plain(advice.target)}]"
    decision = words.decision_of(advice)
    if decision is None:
        step = next((s for s in words.steps(advice) if s.state != "done"), None)
        doing = step.title.lower() if step is not None else advice.state
        return f":material/explore: {place} · the advisor is at it: {doing}"
    arm = f" {fmt.code(decision.arm)}" if decision.arm else ""
    ratio = f", {words.ratio_words(decision.ratio)}" if decision.ratio is not None else ""
    badge = words.KINDS[decision.kind].markdown()
    hostname = decision.machine.hostname if decision.machine is not None else None
    where = f" · {fmt.plain(hostname)}" if hostname is not None else ""
    return f":material/explore: {place} {badge}{arm}{ratio}{where} · {fmt.ago(advice.finished_at)}"
