"""Figures of one experiment: ``(records) -> go.Figure``. Titles state the finding."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

import plotly.graph_objects as go
from plotly.subplots import make_subplots

from specdash.domain.counters import Step
from specdash.domain.metrics import Acceptance
from specdash.domain.summary import ArmSummary, PromptRatio
from specdash.store.views import RunView
from specdash.ui import format as fmt
from specdash.ui.palette import (
    ACCEPTED_COLOR,
    OFF_COLOR,
    OFF_STYLE,
    ROW_PX,
    arm_labels,
    arm_styles,
    label,
    layout,
    marker,
)

_FEW_RUNS = 12
_SEEN_SHARE = 0.01
"""Of drafted passes; positions that fewer reach would squeeze the others together."""
_TIME_PARTS = (
    ("draft_s", "drafting", "#8a68c6", "/"),
    ("verify_s", "verifying drafts", "#3b7fc0", ""),
    ("plain_s", "plain passes", OFF_COLOR, ""),
    ("other_s", "other", "#a97f1e", "x"),
)


def prompt_figure(
    arms: Sequence[ArmSummary],
    *,
    baseline: str = "off",
    names: Mapping[str, str] | None = None,
) -> go.Figure:
    """Decode speed of each prompt with and without drafting, joined per prompt."""
    styles = arm_styles([a.text for a in arms])
    shown_as = {a.text: (names or {}).get(a.text, a.text) for a in arms}
    labels = arm_labels([baseline, *shown_as.values()], 40)
    on_arms = [a for a in arms if a.prompts and not a.is_baseline]
    off = {p.prompt_key: p.off_tok_s for a in on_arms for p in a.prompts}
    figure = go.Figure()
    pairs = [(p.prompt_key, p.on_tok_s) for a in on_arms for p in a.prompts]
    figure.add_scatter(
        x=[x for key, on in pairs for x in (off[key], on, None)],
        y=[y for key, _ in pairs for y in (label(key), label(key), None)],
        mode="lines",
        line={"color": OFF_COLOR, "width": 1},
        hoverinfo="skip",
        showlegend=False,
    )
    figure.add_scatter(
        x=list(off.values()),
        y=[label(key) for key in off],
        mode="markers",
        name=labels[baseline],
        marker=marker(OFF_STYLE),
        hovertemplate=f"%{{y}}<br>{label(baseline)}: %{{x:.1f}} tokens/s<extra></extra>",
    )
    for arm in on_arms:
        figure.add_scatter(
            x=[p.on_tok_s for p in arm.prompts],
            y=[label(p.prompt_key) for p in arm.prompts],
            mode="markers",
            name=labels[shown_as[arm.text]],
            marker=marker(styles[arm.text]),
            customdata=[
                f"{label(shown_as[arm.text], 40)}<br>{_prompt_hover(p)}" for p in arm.prompts
            ],
            hovertemplate="%{y}<br>%{x:.1f} tokens/s<br>%{customdata}<extra></extra>",
        )
    figure.update_yaxes(autorange="reversed", title=None, automargin=True)
    figure.update_xaxes(title="Decode speed (tokens/s)", rangemode="tozero")
    return layout(figure, _prompts_title(on_arms), height=150 + 30 * max(len(off), 1))


def runs_figure(runs: Sequence[RunView], arms: Sequence[ArmSummary]) -> go.Figure:
    """Every run in order of execution: decode speed above, acceptance rate below.

    Pale runs are in no statistic: planned warm-up, or left out for looking like it.
    """
    styles = arm_styles([a.text for a in arms])
    labels = arm_labels([a.text for a in arms], 40)
    left_out = {i for a in arms for i in a.excluded_run_ids}
    left_out |= {r.run_id for r in runs if r.is_warmup}
    figure = make_subplots(rows=2, cols=1, shared_xaxes=True, vertical_spacing=0.08)
    for arm, style in styles.items():
        own = [r for r in runs if r.arm == arm]
        hover = [
            f"{label(arm, 40)}<br>{label(r.prompt_key)}, round {r.round + 1}"
            f"{', warm-up' if r.is_warmup else ''}"
            for r in own
        ]
        for row, values in ((1, [r.decode_tok_s for r in own]), (2, [_acceptance(r) for r in own])):
            if row == 2 and all(v is None for v in values):
                continue
            figure.add_scatter(
                x=[r.order_index + 1 for r in own],
                y=values,
                mode="markers",
                name=labels[arm],
                legendgroup=arm,
                showlegend=row == 1,
                marker=marker(style, opacity=[0.35 if r.run_id in left_out else 1 for r in own]),
                customdata=hover,
                hovertemplate="run %{x}: %{y:.1f}<br>%{customdata}<extra></extra>",
                row=row,
                col=1,
            )
    figure.update_yaxes(title="tokens/s", rangemode="tozero", row=1, col=1)
    figure.update_yaxes(title="Acceptance rate (%)", range=[-4, 104], row=2, col=1)
    # A few runs would get ticks at halves.
    tick = 1 if len(runs) <= _FEW_RUNS else None
    figure.update_xaxes(dtick=tick, tickformat="d")
    figure.update_xaxes(title="Order of execution", row=2, col=1)
    title = f"{fmt.plural(len(runs), 'run')} in order of execution"
    if left_out:
        title += f"; {len(left_out)} pale, warming up or disturbed, in no statistic"
    return layout(figure, title, height=420)


def times_are_known(arms: Sequence[ArmSummary]) -> bool:
    """Whether the engine told of any arm that drafts where its time went."""
    return any(_has_times(a) for a in arms if not a.is_baseline)


def _has_times(arm: ArmSummary) -> bool:
    return any(getattr(arm, field) for field, *_ in _TIME_PARTS)


def time_figure(arms: Sequence[ArmSummary]) -> go.Figure:
    """Where the decode time of each arm went, in seconds over all measured runs."""
    shown = [a for a in arms if _has_times(a)]
    labels = arm_labels([a.text for a in arms])
    figure = go.Figure()
    for field, name, color, pattern in _TIME_PARTS:
        values: list[float | None] = [getattr(a, field) for a in shown]
        if all(not v for v in values):
            continue
        figure.add_bar(
            y=[f"{labels[a.text]} (n={a.n_runs})" for a in shown],
            x=values,
            name=name,
            orientation="h",
            marker={"color": color, "pattern": {"shape": pattern, "fgcolor": "rgba(0,0,0,.35)"}},
            customdata=[label(a.text, 40) for a in shown],
            hovertemplate=f"%{{customdata}}<br>{name}: %{{x:.2f}} s<extra></extra>",
        )
    figure.update_layout(barmode="stack")
    figure.update_yaxes(autorange="reversed", automargin=True)
    figure.update_xaxes(title="Decode time of all n runs (s)")
    return layout(figure, _time_title(shown), height=150 + ROW_PX * max(len(shown), 1))


def position_figure(arms: Sequence[ArmSummary]) -> go.Figure:
    """How deep drafts are accepted: P_i as a line an arm, C_i at the pointer (METHOD 2).

    A single arm has a line of C_i too; more of them would hide each other.
    """
    styles = arm_styles([a.text for a in arms])
    labels = arm_labels([a.text for a in arms], 40)
    shown = [
        (a, a.acceptance, a.acceptance.per_position)
        for a in arms
        if a.acceptance is not None and a.acceptance.per_position
    ]
    figure = go.Figure()
    for arm, accepted, positions in shown:
        style = styles[arm.text]
        figure.add_scatter(
            x=list(range(1, len(positions) + 1)),
            y=[p * 100 for p in positions],
            mode="lines+markers",
            name=f"{labels[arm.text]} (n={fmt.count(accepted.n_verify_steps)})",
            line={"color": style.color, "dash": style.dash},
            marker=marker(style),
            customdata=_conditional_hover(arm.text, accepted),
            hovertemplate="at least %{x}: %{y:.0f} % of drafted passes<br>%{customdata}"
            "<extra></extra>",
        )
    if len(shown) == 1:
        arm, accepted, _ = shown[0]
        given = accepted.conditional or ()
        figure.add_scatter(
            x=list(range(1, len(given) + 1)),
            y=[c * 100 for c in given],
            mode="lines+markers",
            name="of the drafts accepted to i - 1 (conditional)",
            line={"color": styles[arm.text].color, "dash": "dot", "width": 1},
            marker=marker(replace(styles[arm.text], symbol="circle-open")),
            hovertemplate="%{x}, given %{x} - 1: %{y:.0f} %<extra></extra>",
        )
    title, deepest = "Draft position i", max((len(p) for _, _, p in shown), default=0)
    reached = [i for _, _, p in shown for i, share in enumerate(p, 1) if share >= _SEEN_SHARE]
    if reached and max(reached) < deepest:
        deepest = max(reached)
        title += f", to the last that {fmt.percent(_SEEN_SHARE)} reach"
        figure.update_xaxes(range=[0.5, deepest + 0.5])
    figure.update_xaxes(title=title, dtick=1 if deepest <= 16 else None)
    figure.update_yaxes(title="Accepted to i (% of n drafted passes)", range=[0, 104])
    return layout(figure, "How deep drafts are accepted", height=340)


def _conditional_hover(text: str, accepted: Acceptance) -> list[str]:
    """The whole arm, and C_i of each position where it is known."""
    given = [f"{fmt.percent(c)} of those accepted to i - 1" for c in accepted.conditional or ()]
    known = len(accepted.per_position or ())
    given += ["of those accepted to i - 1: unknown"] * (known - len(given))
    return [f"{item}<br>{label(text, 40)}" for item in given]


def steps_figure(steps: Sequence[Step]) -> go.Figure:
    """Drafted and accepted tokens of each target pass of one run."""
    index = list(range(1, len(steps) + 1))
    figure = go.Figure()
    figure.add_bar(
        x=index,
        y=[s.n_drafted for s in steps],
        name="drafted",
        marker={"color": "rgba(0,0,0,0)", "line": {"color": OFF_COLOR, "width": 1}},
        hovertemplate="pass %{x}: %{y} drafted<extra></extra>",
    )
    figure.add_bar(
        x=index,
        y=[s.n_accepted for s in steps],
        name="accepted",
        marker={"color": ACCEPTED_COLOR},
        hovertemplate="pass %{x}: %{y} accepted<extra></extra>",
    )
    figure.update_layout(barmode="overlay", bargap=0.1)
    figure.update_xaxes(title="Target pass")
    figure.update_yaxes(title="Draft tokens", rangemode="tozero")
    drafted, accepted = sum(s.n_drafted for s in steps), sum(s.n_accepted for s in steps)
    title = (
        f"{accepted} of {drafted} draft tokens accepted in {len(steps)} target passes"
        if drafted
        else f"{len(steps)} target passes, none with a draft"
    )
    return layout(figure, title, height=230)


def _acceptance(run: RunView) -> float | None:
    return None if run.acceptance_rate is None else run.acceptance_rate * 100


def _prompt_hover(prompt: PromptRatio) -> str:
    interval = (
        f" ({fmt.interval(prompt.ratio_low, prompt.ratio_high)})"
        if prompt.ratio_low is not None
        else ""
    )
    return (
        f"{fmt.ratio(prompt.ratio, prompt.ratio_low, prompt.ratio_high)} of the other{interval}, "
        f"{fmt.plural(prompt.n_rounds, 'round')}"
    )


def _prompts_title(on_arms: Sequence[ArmSummary]) -> str:
    drafting = [a for a in on_arms if not a.is_replica]
    prompts = drafting[0].prompts if len(drafting) == 1 else ()
    if any(a.status == "pending" for a in on_arms):
        return "The prompts so far, with and without drafting"
    if not prompts:
        n = fmt.plural(len({p.prompt_id for a in on_arms for p in a.prompts}), "prompt")
        return f"{n} with and without drafting" if drafting else f"Off twice on {n}"
    quicker = sum(p.ratio > 1 for p in prompts)
    title = f"Faster on {quicker} of {fmt.plural(len(prompts), 'prompt')}"
    return title if any(p.ratio_low is not None for p in prompts) else f"{title}, in one round each"


def _time_title(shown: Sequence[ArmSummary]) -> str:
    drafting = [
        (a.draft_s or 0) / total
        for a in shown
        if not (a.is_baseline or a.is_replica)
        and (total := sum(getattr(a, f) or 0 for f, *_ in _TIME_PARTS)) > 0
    ]
    if not drafting:
        return "Where the decode time went"
    if max(drafting) < 0.01:
        return "Drafting took less than 1 % of the decode time"
    return f"Drafting took up to {fmt.percent(max(drafting))} of the decode time"
