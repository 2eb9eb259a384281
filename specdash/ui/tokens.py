"""How each token of a run came to be, and that as readable text.

The first token comes from the prompt's own logits. A pass that drafted k tokens and had a of them
accepted emits those a and one of the target's own: in place of the refused draft when a < k.
"""

import html
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import TypeAlias

from specdash.domain.counters import Step
from specdash.ui import format as fmt
from specdash.ui.palette import ACCEPTED_COLOR, REPLACED_COLOR


class Origin(Enum):
    """Why a token stands in the text."""

    PLAIN = "plain"
    ACCEPTED = "accepted"
    REPLACED = "replaced"


_Mark: TypeAlias = tuple[Origin, int | None, int | None, int | None]
_UNKNOWN: _Mark = (Origin.PLAIN, None, None, None)


@dataclass(frozen=True, slots=True)
class Token:
    """One emitted token; ``proposed`` is the refused draft it stands in for."""

    index: int
    text: str
    origin: Origin
    step: int | None
    """Target pass from 1; ``None`` for the token of the prompt's own logits."""
    proposed: int | None = None
    drafter: int | None = None
    """Which of the chained methods proposed, from 0."""


def trace_tokens(texts: Sequence[str], steps: Sequence[Step] | None) -> tuple[Token, ...]:
    """One record a token; without a step trace all are plain."""
    marks: list[_Mark] = [_UNKNOWN]
    for number, step in enumerate(steps or (), start=1):
        marks += [(Origin.ACCEPTED, number, None, step.drafter)] * step.n_accepted
        if step.n_accepted < step.n_drafted:
            marks.append((Origin.REPLACED, number, step.refused, step.drafter))
        else:
            marks.append((Origin.PLAIN, number, None, None))
    # A stop inside a burst cuts the text, so there may be more marks than tokens.
    marks += [_UNKNOWN] * (len(texts) - len(marks))
    return tuple(
        Token(index, text, *mark)
        for index, (text, mark) in enumerate(zip(texts, marks, strict=False))
    )


def proposed_name(token_id: int | None, names: Mapping[int, str]) -> str:
    """What was proposed, as text where that is known."""
    if token_id is None:
        return "not recorded"
    text = names.get(token_id)
    return f"token {token_id}" if text is None else f"“{visible(text)}”"


def visible(text: str) -> str:
    """White space that can be seen."""
    return text.replace("\n", "⏎").replace("\t", "⇥").replace(" ", "␣")


_BOX = "white-space:pre-wrap;overflow-wrap:anywhere;font-family:monospace;line-height:1.75"
# Inline colours let the theme's own text colour through, so they read on light and on dark.
_STYLES = {
    Origin.ACCEPTED: f"background:{ACCEPTED_COLOR}38;border-bottom:2px solid {ACCEPTED_COLOR}",
    Origin.REPLACED: f"background:{REPLACED_COLOR}38;border-bottom:2px dashed {REPLACED_COLOR}",
}


def tokens_html(
    tokens: Sequence[Token], names: Mapping[int, str], methods: Sequence[str] = ()
) -> str:
    """Coloured text; all content is escaped. Runs of plain tokens share one text node.

    ``methods`` are those of a chained arm, for the hint which of them proposed.
    """
    parts: list[str] = []
    for token in tokens:
        text = html.escape(token.text)
        style = _STYLES.get(token.origin)
        if style is None:
            parts.append(text)
            continue
        # A lone line break would leave nothing to see.
        shown = text if token.text.strip("\n") else f"⏎{text}"
        hint = html.escape(_hint(token, names, methods), quote=True)
        parts.append(f'<span style="{style}" title="{hint}">{shown}</span>')
    return f'<div style="{_BOX}">{"".join(parts)}</div>'


def plain_html(text: str) -> str:
    """A text whose tokens are not known; escaped."""
    return f'<div style="{_BOX}">{html.escape(text)}</div>'


def first_letter(one: str, other: str) -> int:
    """Index of the first letter in which two texts differ, or where the shorter ends."""
    pairs = enumerate(zip(one, other, strict=False))
    return next((i for i, (a, b) in pairs if a != b), min(len(one), len(other)))


def legend_html(tokens: Sequence[Token]) -> str:
    """What the colours mean, with counts."""
    total = {origin: sum(t.origin is origin for t in tokens) for origin in Origin}
    plain, accepted, replaced = (total[o] for o in (Origin.PLAIN, Origin.ACCEPTED, Origin.REPLACED))
    sample = "padding:0 .35em;margin-right:.4em"
    return (
        '<div style="display:flex;flex-wrap:wrap;gap:.2em 1.4em">'
        f'<span><span style="{sample};border-bottom:1px solid currentColor">abc</span>'
        f"plain, the target's own: {fmt.count(plain)}</span>"
        f'<span><span style="{sample};{_STYLES[Origin.ACCEPTED]}">abc</span>'
        f"drafted and accepted: {fmt.count(accepted)}</span>"
        f'<span><span style="{sample};{_STYLES[Origin.REPLACED]}">abc</span>'
        f"draft refused, replaced by the target's: {fmt.count(replaced)}</span></div>"
    )


def difference_html(texts: Sequence[str], split: int, context: int = 24) -> str:
    """A text around its first difference: a little of what is equal, then what is not, marked."""
    start = max(0, split - context)
    before = html.escape("".join(texts[start:split]))
    after = html.escape("".join(texts[split:]))
    lead = "… " if start else ""
    marked = (
        f'<span style="{_STYLES[Origin.REPLACED]}">{after}</span>'
        if after
        else "<em>(ends here)</em>"
    )
    return f'<div style="{_BOX}"><span style="opacity:.7">{lead}{before}</span>{marked}</div>'


def method_name(token: Token, methods: Sequence[str]) -> str | None:
    """The method that proposed this token, where several were tried."""
    if token.drafter is None or len(methods) < 2 or token.drafter >= len(methods):
        return None
    return methods[token.drafter]


def _hint(token: Token, names: Mapping[int, str], methods: Sequence[str]) -> str:
    place = f"token {token.index + 1}, pass {token.step}"
    method = method_name(token, methods)
    by = f" by {method}" if method else ""
    if token.origin is Origin.REPLACED:
        return f"{place}: proposed {proposed_name(token.proposed, names)}{by}, refused"
    return f"{place}: proposed{by} and accepted"
