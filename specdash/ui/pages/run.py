"""Run: the text of one generation, every token coloured by how it came to be."""

import streamlit as st

from specdash.domain import flag_words
from specdash.domain.arms import parse_arm
from specdash.store.views import RunDetail, RunView
from specdash.ui import charts, components, data, equality, nav, tokens, words
from specdash.ui import format as fmt

_STEPS_SHOWN = 400
_LETTERS_BEFORE = 120


def _headline(detail: RunDetail) -> str:
    run = detail.run
    text = (
        f"{fmt.code(run.arm)} wrote {fmt.plural(run.n_generated, 'token')} at "
        f"**{fmt.tok_s(run.decode_tok_s)}**"
    )
    if run.n_drafted and not run.invalid:
        text += (
            f"; {fmt.plural(run.n_drafted, 'token')} drafted, how many were accepted is not known"
            if run.n_accepted is None
            else f"; {fmt.out_of(run.n_accepted, run.n_drafted)} drafted tokens were accepted "
            f"(acceptance rate {fmt.percent(run.acceptance_rate)})"
        )
    return f"{text}."


def _broken_rules(run: RunView) -> None:
    """Raw counters that contradict each other, as they came."""
    if not run.invalid:
        return
    raw = words.raw_counts(
        {
            "A": run.n_accepted,
            "D": run.n_drafted,
            "V": run.n_verify_steps,
            "U": run.n_plain_steps,
            "N": run.n_generated,
            "n_max": run.n_max,
        }
    )
    st.warning(
        f"**Acceptance is invalid:** {fmt.plain(raw)} break "
        f"{fmt.listing([fmt.code(rule) for rule in run.invalid])}. The counters are shown as they "
        "came: A accepted, D drafted, V passes with a draft, U passes without, N tokens.",
        icon=":material/rule:",
    )


def _same(detail: RunDetail) -> str | None:
    run = detail.run
    if run.equal_off is None:
        return None
    if run.equal_off:
        unit = "token for token" if detail.token_ids else "to the letter"
        return f"The text is the same as without drafting, {unit}."
    if run.first_difference is None:
        return "The text differs from the one without drafting."
    return (
        f"The text parts from the one without drafting at token {run.first_difference + 1}; "
        f"{fmt.percent(run.agreement)} of the positions agree."
    )


def _facts(detail: RunDetail) -> None:
    run = detail.run
    with st.container(horizontal=True):
        st.metric("Decode speed", fmt.tok_s(run.decode_tok_s))
        st.metric("Time to first token", fmt.seconds(run.prefill_s))
        st.metric("Tokens per target pass", fmt.number(run.tokens_per_target_pass, 2))
        st.metric("Prompt", fmt.plural(run.n_prompt, "token") if run.n_prompt else fmt.DASH)
        st.metric("Peak memory", fmt.size(run.peak_rss_bytes))
    for flag in run.flags:
        st.caption(f":material/flag: {flag_words.flag(flag)}")


def _text(detail: RunDetail) -> None:
    marked = tokens.trace_tokens(detail.token_texts, detail.steps)
    names = detail.refused_texts
    methods = [c.method for c in parse_arm(detail.run.arm).calls]
    st.subheader("How the text came to be")
    drafted = any(s.n_drafted for s in detail.steps or ())
    if detail.steps is None:
        st.caption("The engine gives no step trace, so nothing is known about single tokens.")
    elif not drafted:
        st.caption(
            f"{fmt.plural(len(detail.steps), 'target pass', 'target passes')}, none drafted."
        )
    else:
        st.html(tokens.legend_html(marked))
        st.caption("Point at a coloured token to see what was proposed.")
    with st.container(border=True):
        if marked:
            st.html(tokens.tokens_html(marked, names, methods))
        else:
            st.html(tokens.plain_html(detail.text))
    if detail.steps and drafted:
        steps = detail.steps[:_STEPS_SHOWN]
        components.show_figure(charts.steps_figure(steps), key="run_steps")
        if len(steps) < len(detail.steps):
            st.caption(f"The first {_STEPS_SHOWN} of {len(detail.steps)} passes are drawn.")
    replaced = [t for t in marked if t.origin is tokens.Origin.REPLACED]
    if replaced:
        with st.expander(f"Refused drafts as a list ({len(replaced)})"):
            st.dataframe(
                [
                    {
                        "Token": t.index + 1,
                        "Pass": t.step,
                        "Proposed": tokens.proposed_name(t.proposed, names),
                        "By": tokens.method_name(t, methods) or methods[0],
                        "Written instead": tokens.visible(t.text),
                    }
                    for t in replaced
                ],
                hide_index=True,
                alt="Refused draft tokens and what was written instead",
            )


def _side_by_side(detail: RunDetail) -> None:
    if detail.run.equal_off is not False:
        return
    split = detail.run.first_difference
    if not detail.token_texts or not detail.off_token_texts:
        _whole_texts(detail)
        return
    if split is None:
        return
    st.subheader("Where the texts part")
    st.markdown(equality.difference_sentence(detail.run))
    st.caption(equality.WHY_TEXTS_PART)
    left, right = st.columns(2)
    with left:
        st.markdown("**Without drafting**")
        st.html(tokens.difference_html(detail.off_token_texts, split))
    with right:
        st.markdown(f"**With** {fmt.code(detail.run.arm)}")
        st.html(tokens.difference_html(detail.token_texts, split))


def _whole_texts(detail: RunDetail) -> None:
    """Without tokens: both texts letter by letter from where they part."""
    if detail.off_text is None:
        return
    split = tokens.first_letter(detail.off_text, detail.text)
    st.subheader("Where the texts part")
    left, right = st.columns(2)
    for column, title, text in (
        (left, "**Without drafting**", detail.off_text),
        (right, f"**With** {fmt.code(detail.run.arm)}", detail.text),
    ):
        with column:
            st.markdown(title)
            st.html(tokens.difference_html(text, split, context=_LETTERS_BEFORE))


def _prompt(detail: RunDetail) -> None:
    with st.expander("The prompt", icon=":material/chat:"):
        for message in detail.messages:
            st.caption(fmt.plain(message.get("role", "")))
            st.code(message.get("content", ""), language=None, wrap_lines=True)
        if detail.prompt_text:
            st.code(detail.prompt_text, language=None, wrap_lines=True)


def _page() -> None:
    run_id = nav.id_param()
    if run_id is None:
        st.title("Run")
        components.empty_state(
            "No run is named in the address.", "Open one from the table of an experiment."
        )
        st.page_link(nav.HISTORY, label="Look in the history", icon=":material/history:")
        return
    detail = data.run_detail(run_id)
    run = detail.run
    st.title(f"Run {run.run_id}")
    st.markdown(_headline(detail))
    _broken_rules(run)
    same = _same(detail)
    if same:
        st.markdown(same)
    warmup = ", warm-up (in no statistic)" if run.is_warmup else ""
    st.caption(
        fmt.plain(
            f"{detail.workload} · prompt {run.prompt_key} ({run.category}) · round {run.round + 1}"
            f"{warmup} · {detail.target} · {words.stop_reason(run.stop_reason)} · "
        )
        + fmt.plain(fmt.when(run.started_at, components.zone()))
    )
    with st.container(horizontal=True, vertical_alignment="center"):
        nav.experiment_link(run.experiment_id)
        # A link to the page one is on would be drawn as the current one.
        if detail.off_run_id is not None and st.button(
            "The same prompt without drafting",
            icon=":material/compare:",
            type="tertiary",
            key="run_off",
        ):
            st.switch_page(nav.RUN, query_params={"id": str(detail.off_run_id)})
    _facts(detail)
    _text(detail)
    _side_by_side(detail)
    _prompt(detail)


with components.page_guard():
    _page()
