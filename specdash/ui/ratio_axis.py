"""How far an axis of ratios reaches: every point, and intervals as far as they leave room."""

from collections.abc import Iterable

_FARTHEST = 1.75
"""An interval that goes so many times beyond all points runs off the edge; the rest stays legible.
Its limits are in words at the pointer and in the table."""


def ratio_range(
    points: Iterable[tuple[float | None, float | None, float | None]],
) -> tuple[float, float]:
    """Lower and upper end for (ratio, low, high) and the line at 1, with room on both sides."""
    known = [p for p in points if p[0] is not None]
    values = [1.0, *(value for value, _, _ in known if value is not None)]
    least, most = min(values) / _FARTHEST, max(values) * _FARTHEST
    ends = [*values]
    ends += [max(low, least) for _, low, _ in known if low is not None]
    ends += [min(high, most) for _, _, high in known if high is not None]
    room = 0.08 * max(max(ends) - min(ends), 0.25)
    return min(ends) - room, max(ends) + room
