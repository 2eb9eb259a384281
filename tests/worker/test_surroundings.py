"""What is looked at around the runs, and where nothing can be."""

from typing import cast

from specdash.worker.cpu_use import ForeignCpu
from specdash.worker.place import Place
from specdash.worker.protocol import PhaseEvent, SpecServer
from specdash.worker.surroundings import WAITING, Surroundings


class _Foreign:
    """Busy for one wait; then 0.25 CPUs on average."""

    def __init__(self) -> None:
        self.restarts = 0

    def wait_until_quiet(self, wait_s: float, tell) -> tuple[float, float]:  # type: ignore[no-untyped-def]
        tell()
        return 0.05, wait_s

    def restart(self) -> None:
        self.restarts += 1

    def read(self) -> float:
        return 0.25


def _around(server: SpecServer | None, sent: list[PhaseEvent]) -> Surroundings:
    foreign = cast("ForeignCpu", _Foreign())
    return Surroundings(Place(server), sent.append, wait_s=7.0, foreign=foreign)


def test_the_wait_is_told_recorded_and_handed_back() -> None:
    sent: list[PhaseEvent] = []
    around = _around(None, sent)
    assert around.wait() == 7.0
    assert [e.phase for e in sent] == [WAITING]
    assert around.start is not None
    assert (around.start["foreign_cpus"], around.start["waited_s"]) == (0.05, 7.0)
    around.look_warm()
    around.look_measured()
    assert around.end is not None
    assert around.end["foreign_cpus"] == 0.25


def test_what_a_server_of_others_uses_is_not_told_apart_from_what_it_does_for_us() -> None:
    around = _around(SpecServer(name="a", url="http://127.0.0.1:1"), [])
    around.wait()
    around.look_measured()
    assert around.start is not None
    assert around.start["foreign_cpus"] == 0.05
    assert around.end is not None
    assert "foreign_cpus" not in around.end


def test_another_machine_is_neither_waited_for_nor_looked_at() -> None:
    sent: list[PhaseEvent] = []
    around = _around(SpecServer(name="a", url="http://gpu-box:1"), sent)
    assert around.wait() == 0.0
    around.look_warm()
    around.look_measured()
    assert (around.start, around.warm, around.end, sent) == (None, None, None, [])


def test_without_a_wait_other_programs_are_not_looked_at() -> None:
    around = Surroundings(Place(None), lambda _: None, wait_s=0.0)
    assert around.wait() == 0.0
    assert around.start is not None
    assert "foreign_cpus" not in around.start
