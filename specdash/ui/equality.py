"""Whether texts are the same as without drafting, and what a difference comes from, in words."""

from collections.abc import Sequence

from specdash.domain.summary import ArmSummary
from specdash.store.views import RunView
from specdash.ui import format as fmt
from specdash.ui import nav, words
from specdash.ui.rows import Row

WHY_TEXTS_PART = (
    "A pass over several tokens computes with other rounding than one over a single token; where "
    "the two best tokens are almost tied the choice can flip, and the texts part. The control runs "
    "the plain text through the target again in chunks, without any draft: where it flips too, or "
    "the gap of the two best logits is within twice the change that chunks make or too small to "
    "tell, the difference is numeric."
)


def arm_sentence(arm: ArmSummary) -> str:
    """How many texts of the arm equal those of ``off``, and what the others come from."""
    name = fmt.code(arm.text)
    if not arm.n_compared:
        return f"{name}: no text could be compared."
    differing = arm.n_compared - arm.n_equal
    text = (
        f"{name}: **{fmt.out_of(arm.n_equal, arm.n_compared)}** texts equal those of off, token "
        "for token."
    )
    if not differing:
        return text
    explained = arm.n_numeric + arm.n_suspect + arm.n_unknown
    parts = [
        f"{fmt.count(n)} {word}"
        for n, word in (
            (arm.n_numeric, "numeric"),
            (arm.n_suspect, "**suspect**"),
            (arm.n_unknown + max(differing - explained, 0), "unknown"),
        )
        if n
    ]
    return f"{text} Of {fmt.plural(differing, 'difference')}: {fmt.listing(parts)}."


def difference_sentence(run: RunView) -> str:
    """What is behind the difference of one run, with the numbers it was judged by."""
    said = words.class_words(run)
    if said is None:
        return "The texts are the same."
    facts = []
    if run.split_margin is not None:
        facts.append(f"the two best logits of off lie {run.split_margin:.3g} apart there")
    if run.split_logit_change is not None:
        facts.append(f"chunks alone change a logit by up to {run.split_logit_change:.3g}")
    if run.split_rank is not None:
        facts.append(f"this run's token is number {run.split_rank} among the logits of off")
    if run.split_flips is not None:
        facts.append("the control flips too" if run.split_flips else "the control does not flip")
    if said == words.NOT_EXPLAINED:
        return "What the difference comes from was not examined."
    head = f"The difference is **{fmt.plain(said)}**."
    return f"{head} {fmt.listing(facts).capitalize()}." if facts else head


def difference_rows(runs: Sequence[RunView]) -> list[Row]:
    """Measured runs whose text is not that of ``off``."""
    return [
        {
            "Open": nav.run_url(r.run_id),
            "Class": words.class_words(r),
            "Arm": r.arm,
            "Prompt": r.prompt_key,
            "Round": r.round + 1,
            "First difference (token)": None
            if r.first_difference is None
            else r.first_difference + 1,
            "Tokens": r.n_generated,
            "Positions that agree (%)": None if r.agreement is None else 100 * r.agreement,
            "Gap of the two best logits": r.split_margin,
            "Largest change by chunks": r.split_logit_change,
            "Rank among off's logits": r.split_rank,
            "Control flips": r.split_flips,
        }
        for r in runs
        if r.equal_off is False and not r.is_warmup
    ]
