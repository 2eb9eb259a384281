"""The one place where numbers, units and times become text. ``None`` is shown as a dash."""

import re
from collections.abc import Sequence
from datetime import UTC, datetime, tzinfo

DASH = "–"
_MARKDOWN = re.compile(r"([\\`*_{}\[\]()#+\-.!|~<>$:&=])")


def number(value: float | None, digits: int = 1) -> str:
    """Fixed decimals, thin-spaced thousands."""
    if value is None:
        return DASH
    return f"{value:,.{digits}f}".replace(",", "\u202f")


def count(value: int | None) -> str:
    return number(value, 0)


def plural(n: int, noun: str, many: str | None = None) -> str:
    """``1 prompt``, ``3 prompts``."""
    return f"{count(n)} {noun if n == 1 else many or noun + 's'}"


def ratio(value: float | None, low: float | None = None, high: float | None = None) -> str:
    """A speed ratio with no more digits than its interval justifies: ``1.25x``."""
    if value is None:
        return DASH
    return f"{value:.{ratio_digits(low, high)}f}x"


def ratio_digits(low: float | None, high: float | None) -> int:
    """3 decimals only when the interval is narrower than 0.02, 1 when it is wider than 1."""
    if low is None or high is None:
        return 2
    width = high - low
    return 3 if width < 0.02 else 2 if width <= 1 else 1


def interval(low: float | None, high: float | None) -> str:
    """``1.18x to 1.33x``."""
    if low is None or high is None:
        return "no interval"
    digits = ratio_digits(low, high)
    return f"{low:.{digits}f}x to {high:.{digits}f}x"


def tok_s(value: float | None) -> str:
    return DASH if value is None else f"{number(value)} tokens/s"


def percent(share: float | None, digits: int = 0) -> str:
    """A share of 1 as per cent: ``64 %``, with a space that does not break."""
    return DASH if share is None else f"{share * 100:.{digits}f}\u00a0%"


def out_of(part: int, whole: int) -> str:
    return f"{count(part)} of {count(whole)}"


def seconds(value: float | None) -> str:
    """``0.42 s``, ``12 s``, ``3 min 20 s``, ``2 h 05 min``."""
    if value is None:
        return DASH
    if value < 1:
        return f"{value:.2f} s"
    if value < 10:
        return f"{value:.1f} s"
    whole = round(value)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60:02d} s"
    return f"{whole // 3600} h {whole % 3600 // 60:02d} min"


def size(n_bytes: int | None) -> str:
    """Binary units: ``92.4 MiB``."""
    if n_bytes is None:
        return DASH
    value = float(n_bytes)
    for unit in ("B", "KiB", "MiB"):
        if value < 1024:
            return f"{value:.0f} {unit}" if unit == "B" else f"{value:.1f} {unit}"
        value /= 1024
    return f"{value:.2f} GiB"


def parameters(n: int | None) -> str:
    """Model size in parameters: ``135 M``, ``7.2 B``."""
    if n is None:
        return DASH
    return f"{n / 1e9:.1f} B" if n >= 1e9 else f"{n / 1e6:.0f} M"


def ago(moment: datetime | None, now: datetime | None = None) -> str:
    """Age in one unit: ``just now``, ``40 s ago``, ``3 days ago``."""
    if moment is None:
        return "never"
    elapsed = int(((now or datetime.now(UTC)) - moment).total_seconds())
    if elapsed < 5:
        return "just now"
    if elapsed < 60:
        return f"{elapsed} s ago"
    if elapsed < 3600:
        return f"{elapsed // 60} min ago"
    if elapsed < 86_400:
        return f"{elapsed // 3600} h ago"
    return f"{plural(elapsed // 86_400, 'day')} ago"


def when(moment: datetime | None, zone: tzinfo = UTC) -> str:
    """Minute precision with the zone named: ``2026-03-01 14:05 CET``."""
    if moment is None:
        return DASH
    return moment.astimezone(zone).strftime("%Y-%m-%d %H:%M %Z")


def listing(words: Sequence[str]) -> str:
    """``a``, ``a and b``, ``a, b and c``."""
    if len(words) < 2:
        return "".join(words)
    return f"{', '.join(words[:-1])} and {words[-1]}"


def plain(text: str) -> str:
    """Text of a person or a file, shown literally where Markdown is read."""
    return _MARKDOWN.sub(r"\\\1", text).replace("\n", " ")


def code(text: str) -> str:
    """Inline code that no backtick inside can end."""
    flat = text.replace("\n", " ")
    fence = "`" * (max((len(run) for run in re.findall(r"`+", flat)), default=0) + 1)
    pad = " " if flat.startswith("`") or flat.endswith("`") else ""
    return f"{fence}{pad}{flat}{pad}{fence}"
