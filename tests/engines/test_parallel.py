"""Several requests in flight: order, number and errors."""

import threading
import time

import pytest

from specdash.engines.parallel import in_flight


def test_results_come_in_the_order_of_the_items() -> None:
    def work(n: int) -> int:
        time.sleep(0.02 * (3 - n))
        return n * n

    results, wall_s = in_flight(work, [0, 1, 2], 3)
    assert results == (0, 1, 4)
    assert wall_s >= 0.06


@pytest.mark.parametrize("n_parallel", [1, 3])
def test_so_many_are_in_flight_and_no_more(n_parallel: int) -> None:
    lock = threading.Lock()
    now = most = 0

    def work(_item: int) -> None:
        nonlocal now, most
        with lock:
            now += 1
            most = max(most, now)
        time.sleep(0.05)
        with lock:
            now -= 1

    in_flight(work, range(6), n_parallel)
    assert most == n_parallel


def test_the_first_error_is_raised_and_what_waits_is_not_begun() -> None:
    begun: list[int] = []

    def work(n: int) -> None:
        begun.append(n)
        time.sleep(0.05)
        if n == 0:
            raise ValueError("first")

    with pytest.raises(ValueError, match="first"):
        in_flight(work, list(range(100)), 2)
    assert len(begun) < 10


def test_no_items_take_no_time() -> None:
    assert in_flight(str, [], 2)[0] == ()
