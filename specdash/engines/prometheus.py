"""Counters of a server's ``/metrics``, and what they grew by between two looks."""

from dataclasses import dataclass

from prometheus_client.parser import text_string_to_metric_families
from prometheus_client.samples import Sample

from specdash.errors import EngineError

_LARGEST = 2.0**53
"""Beyond it a float does not count one by one."""
_LAST_POSITION = 4095


class CounterFell(EngineError):
    """A counter stands lower than at an earlier look, which no counter of one server does."""


@dataclass(frozen=True, slots=True)
class Scrape:
    """One look. Values are summed over the engines (replicas) behind the address."""

    samples: tuple[Sample, ...]

    def value(self, name: str, **labels: str) -> float | None:
        """Sum of the series called ``name``, with or without ``_total``; ``None`` if there is none.

        Only series that carry ``labels`` with these values count.
        """
        found = [s.value for s in self._series(name) if labels.items() <= s.labels.items()]
        return _whole(name, sum(found)) if found else None

    def by_label(self, name: str, label: str) -> dict[str, float]:
        """Sums of ``name`` by the value of ``label``."""
        sums: dict[str, float] = {}
        for sample in self._series(name):
            if label in sample.labels:
                key = sample.labels[label]
                sums[key] = _whole(name, sums.get(key, 0.0) + sample.value)
        return sums

    def _series(self, name: str) -> list[Sample]:
        return [s for s in self.samples if s.name in (name, f"{name}_total")]


@dataclass(frozen=True, slots=True)
class Growth:
    """What counters grew by from one look to a later one."""

    before: Scrape
    after: Scrape
    server: str

    def count(self, name: str, **labels: str) -> int | None:
        """Growth of ``name``; a counter that appears only later began at 0.

        ``None`` if the later look does not have it; :class:`EngineError` if it became smaller.
        """
        after = self.after.value(name, **labels)
        if after is None:
            return None
        return self._grown(name, self.before.value(name, **labels) or 0.0, after)

    def by_position(self, name: str) -> tuple[int, ...] | None:
        """Growth by the label ``position``, from position 0 on; ``None`` if there is no series."""
        before = self.before.by_label(name, "position")
        after = self.after.by_label(name, "position")
        if not after:
            return None
        grown = {
            _position(position, self.server): self._grown(name, before.get(position, 0.0), value)
            for position, value in after.items()
        }
        return tuple(grown.get(i, 0) for i in range(max(grown) + 1))

    def _grown(self, name: str, before: float, after: float) -> int:
        if after < before:
            raise CounterFell(
                f"The counter {name} of {self.server} fell from {before:g} to {after:g}.",
                "It was restarted in between, or its address leads to more than one server.",
            )
        return round(after - before)


def _whole(name: str, value: float) -> float:
    if not abs(value) <= _LARGEST:  # false for NaN; below 0 it fell, which is said there
        raise EngineError(
            f"The counter {name} stands at {value:g}, which is no count.",
            "Something else than the server may answer /metrics.",
        )
    return value


def _position(label: str, server: str) -> int:
    if not (label.isascii() and label.isdecimal()) or len(label) > 9 or int(label) > _LAST_POSITION:
        raise EngineError(
            f"{server} counts accepted tokens at position {ascii(label)[:40]}, which is none.",
            "Something else than the server may answer /metrics.",
        )
    return int(label)


def parse_metrics(text: str, server: str) -> Scrape:
    """The samples of a Prometheus text; :class:`EngineError` when it is none."""
    try:
        families = list(text_string_to_metric_families(text))
    except (ArithmeticError, LookupError, TypeError, ValueError) as error:
        raise EngineError(
            f"{server} shows no readable metrics: {str(error).rstrip('.')}.",
            "Something else than the server may answer /metrics.",
        ) from error
    return Scrape(tuple(sample for family in families for sample in family.samples))


def histogram_from_positions(
    accepted_per_position: tuple[int, ...], n_verify_steps: int
) -> tuple[int, ...]:
    """Steps with exactly j accepted tokens, from the steps with more than i (METHOD 1, h[j])."""
    at_least = (n_verify_steps, *accepted_per_position)
    return tuple(
        count - (at_least[j + 1] if j + 1 < len(at_least) else 0)
        for j, count in enumerate(at_least)
    )
