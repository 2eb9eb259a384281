"""Is the machine still as fast as at the start? Short runs of ``off`` that no statistic sees."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from statistics import median

from specdash.domain.arms import OFF_ARM
from specdash.domain.metrics import decode_tok_s
from specdash.domain.plan import PlannedRun
from specdash.engines.base import Engine, PreparedPrompt
from specdash.worker.protocol import AnchorEvent, MarkEvent

ANCHOR_TOKENS = 32
ANCHOR_LIMIT = 0.05
"""Relative change of speed from which other work, heat or a lower clock is suspected."""
FIRST_LOOK_RUNS = 3
_MOST_REPEATS = 2


class Anchors:
    """Compares the speed of the shortest prompt with the first time.

    The first is the median of three runs. Later one run is enough while it is within 5 %; when it
    is not, the median of three decides, for a single short run moves that far by chance.
    """

    def __init__(
        self,
        engine: Engine,
        prepared: Sequence[PreparedPrompt],
        send: Callable[[AnchorEvent], None],
    ) -> None:
        shortest = min(prepared, key=lambda p: len(p.token_ids))
        self._prompt = replace(shortest, max_tokens=min(ANCHOR_TOKENS, shortest.max_tokens))
        self._engine = engine
        self._send = send
        self._first: float | None = None
        self._last: float | None = None
        self._number = 0

    def start(self) -> None:
        """Take the reference."""
        self._first = self._last = self._median([])
        self._tell(moved=False)

    def has_moved(self) -> bool:
        """Look again; ``False`` where an anchor has no speed."""
        speed = self._speed()
        if speed is not None and self._change(speed) > ANCHOR_LIMIT:
            speed = self._median([speed])
        self._last = speed
        moved = speed is not None and self._change(speed) > ANCHOR_LIMIT
        self._tell(moved=moved)
        return moved

    def accept(self) -> None:
        """The machine stays as it is now: compare with the last look from here on."""
        self._first = self._last

    def _change(self, speed: float) -> float:
        return abs(speed / self._first - 1) if self._first else 0.0

    def _median(self, known: list[float]) -> float | None:
        speeds = [*known, *(self._speed() for _ in range(FIRST_LOOK_RUNS - len(known)))]
        usable = [s for s in speeds if s is not None]
        return median(usable) if usable else None

    def _speed(self) -> float | None:
        return decode_tok_s(self._engine.run(OFF_ARM, self._prompt).counters)

    def _tell(self, *, moved: bool) -> None:
        self._send(
            AnchorEvent(
                number=self._number,
                decode_tok_s=self._last,
                change=self._last / self._first - 1 if self._last and self._first else None,
                moved=moved,
            )
        )
        self._number += 1


class Watch:
    """Looks every few blocks; after a bad look the blocks since the last good one run again.

    A block is run again at most twice, and in all at most as many blocks as were planned. Where
    that does not help, its last runs count, marked, and the machine is taken as it is then.
    """

    def __init__(
        self, anchors: Anchors, send: Callable[[MarkEvent], None], *, every: int, n_blocks: int
    ) -> None:
        self._anchors = anchors
        self._send = send
        self._every = every
        self._repeats_left = n_blocks
        self._started = False
        self._since_good: list[list[PlannedRun]] = []
        self._disturbed: set[int] = set()

    @property
    def disturbed(self) -> frozenset[int]:
        """Order indices of the runs that left the statistic."""
        return frozenset(self._disturbed)

    def start(self) -> None:
        """Before the first measured run; later calls do nothing."""
        if not self._started:
            self._started = True
            self._anchors.start()

    def after(self, run: PlannedRun, rest: Sequence[PlannedRun]) -> list[PlannedRun]:
        """Take note of a run; what is to be run again before ``rest``, mostly nothing."""
        if self._since_good and _block(self._since_good[-1][0]) == _block(run):
            self._since_good[-1].append(run)
        else:
            self._since_good.append([run])
        block_goes_on = bool(rest) and _block(rest[0]) == _block(run)
        if block_goes_on or (rest and len(self._since_good) < self._every):
            return []
        blocks, self._since_good = self._since_good, []
        if not self._anchors.has_moved():
            return []
        indices = [r.order_index for block in blocks for r in block]
        if run.repeat >= _MOST_REPEATS or len(blocks) > self._repeats_left:
            self._send(MarkEvent(order_indices=indices, flag="unsteady"))
            self._anchors.accept()
            return []
        self._repeats_left -= len(blocks)
        self._disturbed.update(indices)
        self._send(MarkEvent(order_indices=indices, flag="disturbed"))
        return [replace(r, repeat=r.repeat + 1) for block in blocks for r in block]


def _block(run: PlannedRun) -> tuple[int, int, int]:
    return (run.prompt, run.round, run.repeat)
