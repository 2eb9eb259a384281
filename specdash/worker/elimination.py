"""Successive elimination while a job runs: looks after each block, and says who leaves and why."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from specdash.domain.arms import Arm
from specdash.worker.protocol import SpecElimination

if TYPE_CHECKING:
    from specdash.domain.blocks import BlockRun


@dataclass(frozen=True, slots=True)
class Leaver:
    """An arm, by its index in the job, that runs no more."""

    arm: int
    reason: str


class Elimination:
    """Who is still in; ``off`` and the leader never leave."""

    def __init__(
        self,
        spec: SpecElimination,
        arms: Mapping[int, Arm],
        categories: Mapping[int, str],
        weights: Mapping[str, float],
    ) -> None:
        self._from_prompts = spec.from_prompts
        self._arms = dict(arms)
        self._baseline = next(index for index, arm in arms.items() if arm.is_baseline)
        self._categories = categories
        self._weights = weights or None
        self._from_blocks = spec.from_prompts

    def look(self, runs: "Sequence[BlockRun]") -> list[Leaver]:
        """Arms that leave after a block; ``runs`` are all measured so far, arms as indices."""
        # scipy takes memory and time that only this needs.
        from specdash.domain.blocks import arrange
        from specdash.domain.elimination import leaving, next_look

        blocks = arrange(runs)
        speeds = {arm: blocks.log_speeds(arm) for arm in self._arms}
        plain = speeds[self._baseline]
        n_prompts = len({prompt for prompt, _ in plain})
        if n_prompts < self._from_prompts or len(plain) < self._from_blocks:
            return []
        self._from_blocks = next_look(len(plain))
        found = leaving(speeds, self._categories, self._weights, reference=self._baseline)
        leavers = []
        for one in found:
            ratio = self._ratio(speeds, one.arm)
            if one.rival == self._baseline:
                below = "clearly slower than off"
            else:
                leader = self._arms[one.rival].text()
                below = f"clearly below {self._ratio(speeds, one.rival):.2f}x of {leader}"
            reason = f"It left the search after {one.n_prompts} prompts: {ratio:.2f}x, {below}."
            leavers.append(Leaver(one.arm, reason))
        return leavers

    def forget(self, arm: int) -> None:
        """The arm runs no more: it is compared with nobody from here on."""
        if arm != self._baseline:
            self._arms.pop(arm, None)

    def _ratio(self, speeds: Mapping[int, Mapping[tuple[int, int], float]], arm: int) -> float:
        from specdash.domain.multiple import paired_samples
        from specdash.domain.statistics import estimate

        samples = paired_samples(speeds[arm], speeds[self._baseline], self._categories)
        result = estimate(samples, self._weights)
        assert result is not None  # it was compared with the leader on the same blocks
        return result.ratio
