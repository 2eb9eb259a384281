"""The machine around one job: it is waited for, and looked at before, in and after the runs."""

import os
from collections.abc import Callable

from specdash.worker.cpu_use import ForeignCpu
from specdash.worker.place import Place
from specdash.worker.protocol import PhaseEvent

WAITING = "waiting for a quiet machine"


class Surroundings:
    """Snapshots of one job's machine; every one is ``None`` where that is another machine."""

    def __init__(
        self,
        place: Place,
        send: Callable[[PhaseEvent], None],
        *,
        wait_s: float,
        foreign: ForeignCpu | None = None,
    ) -> None:
        """``wait_s``: the longest wait for other programs; 0: their use is not looked at."""
        self._place = place
        self._send = send
        self._wait_s = wait_s
        self._foreign = foreign
        if foreign is None and place.is_here and wait_s > 0:
            # The worker stores what was measured before; it and all it started are ours.
            self._foreign = ForeignCpu([os.getppid()])
        self.start = place.snapshot()
        self.warm: dict[str, object] | None = None
        self.end: dict[str, object] | None = None

    def wait(self) -> float:
        """Wait until other programs are quiet; the seconds this took."""
        if self.start is None or self._foreign is None:
            return 0.0
        used, waited_s = self._foreign.wait_until_quiet(
            self._wait_s, lambda: self._send(PhaseEvent(phase=WAITING))
        )
        self.start |= {"foreign_cpus": used, "waited_s": round(waited_s, 1)}
        return waited_s

    def look_warm(self) -> None:
        """After the warm-up: the clock and the heat of a machine that computes."""
        self.warm = self._place.snapshot()
        if self._foreign is not None:
            self._foreign.restart()

    def look_measured(self) -> None:
        """Right after the last run."""
        self.end = self._place.snapshot()
        # What a server that somebody else started used was for us, and cannot be told apart.
        if self.end is not None and self._foreign is not None and not self._place.is_server:
            self.end["foreign_cpus"] = self._foreign.read()
