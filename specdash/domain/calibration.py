"""What passes of a target and its drafts cost on one machine with one set of settings (METHOD 4).

Seconds are kept, not ratios: how a pass grows with its width changes with the depth of the text
before it, and so does the unit that the cost model counts in.
"""

import math
from bisect import bisect_left
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeAlias, cast

import numpy as np
import numpy.typing as npt

from specdash.domain.speedup import Cost, CostModel, measured
from specdash.domain.workload import content_hash
from specdash.errors import UsageError

PassTimes: TypeAlias = Mapping[int, Mapping[int, float]]
"""Depth (tokens in memory before the pass) -> width (tokens of the pass) -> seconds."""

STEADY_DRIFT = 0.05
"""A larger change between the first and the last look at one point makes it unsteady."""
STEADY_SPREAD = 0.10
"""More scatter than this between repeats means that something else used the machine."""
FAR = 1.25
"""A line through two depths is trusted up to so many times the deeper one."""
_QUARTILE_ERROR = 1.3626  # standard error of a quartile over that of a mean, normal values

CALIBRATION_KEY_FIELDS = (
    "target_hash",
    "machine_fingerprint",
    "gpu_driver",
    "engine",
    "engine_version",
    "engine_commit",
    "build_flags",
    "n_ctx",
    "n_batch",
    "n_ubatch",
    "kv_type",
    "flash_attn",
    "gpu_layers",
    "n_threads",
    "draft_gpu_layers",
    "draft_kv_type",
    "draft_threads",
)
"""What the cost of a pass depends on; a calibration holds as long as all of it stays the same."""


@dataclass(frozen=True, slots=True)
class CalibrationPlan:
    """What to measure: passes of every width at every depth, each ``repeats`` times."""

    widths: tuple[int, ...] = (*range(1, 17), 17, 25, 33, 49, 64)
    """Those that drafts of the advisor's grids take: the draft and the last token."""
    between: tuple[int, ...] = (20, 24, 28, 32, 40, 48, 56)
    """Measured too where ``widths`` leave half of the time: kernels step between them."""
    depths: tuple[int, ...] = (64, 640)
    """Those that the context cannot hold are left out; the job adds the deepest it reaches."""
    repeats: int = 5
    """Of narrow passes, at most; wider ones take fewer."""
    budget_s: float = 40.0
    """No repeat after the second begins later than this."""

    def __post_init__(self) -> None:
        if 1 not in self.widths or len(set(self.widths)) < 2 or min(self.widths) < 1:
            raise UsageError("A calibration measures passes of 1 token and of one more width.")
        if not self.depths or min(self.depths) < 1:
            raise UsageError("A calibration needs a depth of at least 1 token.")
        if self.repeats < 1:
            raise UsageError("A calibration needs at least one repeat.")
        if self.budget_s <= 0:
            raise UsageError("The time for a calibration must be more than 0 s.")

    def reaching(self, depth: int) -> "CalibrationPlan":
        """With this depth too, where it lies well beyond the deepest one."""
        if depth <= FAR * max(self.depths):
            return self
        return replace(self, depths=(*self.depths, depth))


@dataclass(frozen=True, slots=True)
class Calibration:
    """Measured seconds of passes, each the lower quartile of its repeats, with all logits read."""

    verify_s: PassTimes
    """Of the target."""
    draft_s: Mapping[str, PassTimes] = field(default_factory=dict)
    """Of each draft model by content hash. Width 1 is one draft token with its choice, wider ones
    are the pass by which ``draft-simple`` takes in what the target checked."""
    overhead_s: float | None = None
    """o: what a step takes beyond its passes and its drafting, where no model drafts.

    ``None`` until speculative runs were measured.
    """
    draft_overhead_s: Mapping[str, float] = field(default_factory=dict)
    """The same of steps in which a draft model drafts, by its content hash: taking turns with
    another model costs the target some of its cache."""
    spread: float = 0.0
    """Scatter of repeats of one point, as a share of it: standard deviation, typical point."""
    drift: float = 0.0
    """Last over first look at the same point, less 1."""
    n_repeats: int = 1
    plain_ratio: float | None = None
    """Measured seconds of plain decoding over what these numbers give for it."""
    key_fields: Mapping[str, object] = field(default_factory=dict)

    def __post_init__(self) -> None:
        _check("target", self.verify_s, least_widths=2)
        for draft_hash, times in self.draft_s.items():
            _check(f"draft {draft_hash[:8]}", times, least_widths=1)

    @property
    def is_steady(self) -> bool:
        return self.unsteadiness is None

    @property
    def relative_error(self) -> float:
        """Standard error of a ratio of two points: their scatter, and half of the drift."""
        scatter = math.sqrt(2 / self.n_repeats) * _QUARTILE_ERROR * self.spread
        return math.hypot(scatter, self.drift / 2)

    @property
    def unsteadiness(self) -> str | None:
        """What was not steady, in words; ``None`` where all was."""
        if abs(self.drift) > STEADY_DRIFT:
            return f"the machine drifted by {abs(self.drift) * 100:.0f} % while calibrating"
        if self.spread > STEADY_SPREAD:
            return f"repeats scattered by {self.spread * 100:.0f} % while calibrating"
        return None

    @property
    def key(self) -> str:
        return calibration_key(self.key_fields)

    def covers(self, draft_hashes: Collection[str]) -> bool:
        """Whether every one of these drafts was calibrated too."""
        return all(h in self.draft_s for h in draft_hashes)

    def differences(self, fields: Mapping[str, object]) -> tuple[str, ...]:
        """Names of the key fields in which the given ones differ from those of then."""
        then = self.key_fields
        return tuple(name for name, value in fields.items() if then.get(name) != value)

    def reaches(self, depth: int) -> bool:
        """Whether that depth does not lie far beyond the deepest one that was measured."""
        return depth <= FAR * max(self.verify_s)

    def overhead_of(self, draft_hash: str | None) -> float | None:
        """o in seconds with that draft model, or without one; a draft's own where it is known."""
        return self.draft_overhead_s.get(draft_hash or "", self.overhead_s)

    def verify_at(self, depth: int) -> dict[int, float]:
        """Seconds by measured width of a target pass at any depth."""
        return _at(self.verify_s, depth)

    def draft_at(self, draft_hash: str, depth: int) -> dict[int, float]:
        """Seconds by measured width of a pass of that draft at any depth."""
        return _at(self._draft(draft_hash), depth)

    def costs(self, draft_hash: str | None, depth: int) -> CostModel:
        """The cost model of METHOD 4 at a depth, in units of a 1-token target pass there.

        :class:`UsageError` for a draft that was not calibrated.
        """
        target = self.verify_at(depth)
        unit_s = target[1]
        draft = self.draft_at(draft_hash, depth) if draft_hash is not None else {}
        wide = len(draft) > 1
        return CostModel(
            verify=measured({n: s / unit_s for n, s in target.items()}),
            draft_token=draft[1] / unit_s if draft else 0.0,
            overhead=(self.overhead_of(draft_hash) or 0.0) / unit_s,
            draft_verify=measured({n: s / draft[1] for n, s in draft.items()}) if wide else None,
        )

    def verify_seconds(
        self, depths: npt.NDArray[np.intp], widths: npt.NDArray[np.intp]
    ) -> npt.NDArray[np.float64]:
        """Seconds of many target passes at once."""
        return _seconds(self.verify_s, depths, widths)

    def draft_seconds(
        self, draft_hash: str, depths: npt.NDArray[np.intp], widths: npt.NDArray[np.intp]
    ) -> npt.NDArray[np.float64]:
        """Seconds of many passes of a draft at once; :class:`UsageError` when it is unknown."""
        return _seconds(self._draft(draft_hash), depths, widths)

    def takes_in(self, draft_hash: str) -> bool:
        """Whether that draft decodes what the target checked: wider passes of it were measured."""
        return any(len(row) > 1 for row in self._draft(draft_hash).values())

    def to_json(self) -> dict[str, object]:
        """Plain data that :meth:`from_json` reads back without loss."""
        return {
            "verify_s": _times_to_json(self.verify_s),
            "draft_s": {h: _times_to_json(t) for h, t in self.draft_s.items()},
            "overhead_s": self.overhead_s,
            "draft_overhead_s": dict(self.draft_overhead_s),
            "spread": self.spread,
            "drift": self.drift,
            "n_repeats": self.n_repeats,
            "plain_ratio": self.plain_ratio,
            "key_fields": dict(self.key_fields),
        }

    @classmethod
    def from_json(cls, data: Mapping[str, object]) -> "Calibration":
        """:class:`UsageError` when the data are not those of a calibration."""
        try:
            drafts = cast("Mapping[str, Mapping[str, Mapping[str, float]]]", data["draft_s"])
            return cls(
                verify_s=_times(cast("Mapping[str, Mapping[str, float]]", data["verify_s"])),
                draft_s={h: _times(t) for h, t in drafts.items()},
                overhead_s=_optional(data["overhead_s"]),
                # Calibrations that were stored before it was known do not hold it.
                draft_overhead_s={
                    h: float(s)
                    for h, s in cast(
                        "Mapping[str, float]", data.get("draft_overhead_s", {})
                    ).items()
                },
                spread=float(cast("float", data["spread"])),
                drift=float(cast("float", data["drift"])),
                n_repeats=int(cast("int", data["n_repeats"])),
                plain_ratio=_optional(data["plain_ratio"]),
                key_fields=dict(cast("Mapping[str, object]", data["key_fields"])),
            )
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise UsageError(
                f"This is no calibration: {type(error).__name__}: {error}.",
                "Calibrate again: python -m specdash calibrate.",
            ) from error

    def _draft(self, draft_hash: str) -> PassTimes:
        if draft_hash not in self.draft_s:
            raise UsageError(
                f"Draft {draft_hash[:8]} is not in this calibration.",
                "Calibrate again with this draft named.",
            )
        return self.draft_s[draft_hash]


def calibration_key(fields: Mapping[str, object]) -> str:
    """Hash of :data:`CALIBRATION_KEY_FIELDS`; a field that is absent is unknown (``None``)."""
    unknown = sorted(set(fields) - set(CALIBRATION_KEY_FIELDS))
    if unknown:
        raise ValueError(f"not fields of this key: {', '.join(unknown)}")
    return content_hash({name: fields.get(name) for name in CALIBRATION_KEY_FIELDS})[:16]


def _check(name: str, times: PassTimes, *, least_widths: int) -> None:
    if not times:
        raise ValueError(f"{name}: no depth was measured")
    widths = {frozenset(row) for row in times.values()}
    if len(widths) != 1 or any(1 not in row or len(row) < least_widths for row in widths):
        raise ValueError(
            f"{name}: every depth needs the same widths, 1 and {least_widths - 1} more at least"
        )
    if not all(0 < s < math.inf for row in times.values() for s in row.values()):
        raise ValueError(f"{name}: seconds must be above 0")


def _at(times: PassTimes, depth: int) -> dict[int, float]:
    """Straight lines between depths, and on beyond the ends; one depth holds everywhere."""
    depths = sorted(times)
    if len(depths) == 1:
        return dict(times[depths[0]])
    low, high = _neighbours(depths, depth)
    share = (depth - low) / (high - low)
    return {n: s + share * (times[high][n] - s) for n, s in times[low].items()}


def _neighbours(knots: Sequence[int], value: int) -> tuple[int, int]:
    right = min(max(bisect_left(knots, value), 1), len(knots) - 1)
    return knots[right - 1], knots[right]


def _seconds(
    times: PassTimes, depths: npt.NDArray[np.intp], widths: npt.NDArray[np.intp]
) -> npt.NDArray[np.float64]:
    if len(widths) == 0:
        return np.zeros(0)
    knots = sorted(times)
    curves = np.array([_curve(times[d], int(widths.max())) for d in knots])
    if len(knots) == 1:
        return np.asarray(curves[0, widths])
    right = np.clip(np.searchsorted(knots, depths), 1, len(knots) - 1)
    low, high = np.array(knots)[right - 1], np.array(knots)[right]
    share = (depths - low) / (high - low)
    return np.asarray((1 - share) * curves[right - 1, widths] + share * curves[right, widths])


def _curve(points: Mapping[int, float], widest: int) -> list[float]:
    """Seconds of widths 0 (none) to ``widest``."""
    cost: Cost = measured(points) if len(points) > 1 else lambda _n: points[1]
    return [0.0, *(cost(n) for n in range(1, widest + 1))]


def _times_to_json(times: PassTimes) -> dict[str, dict[str, float]]:
    return {str(d): {str(n): s for n, s in row.items()} for d, row in times.items()}


def _times(data: Mapping[str, Mapping[str, float]]) -> dict[int, dict[int, float]]:
    return {int(d): _row(row.items()) for d, row in data.items()}


def _row(items: Iterable[tuple[str, float]]) -> dict[int, float]:
    return {int(n): float(s) for n, s in items}


def _optional(value: object) -> float | None:
    return None if value is None else float(cast("float", value))
