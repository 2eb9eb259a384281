"""Several requests in flight, for engines behind HTTP."""

import time
from collections.abc import Callable, Sequence
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from typing import TypeVar

_Item = TypeVar("_Item")
_Result = TypeVar("_Result")


def in_flight(
    work: Callable[[_Item], _Result],
    items: Sequence[_Item],
    n_parallel: int,
    *,
    clock: Callable[[], float] = time.perf_counter,
) -> tuple[tuple[_Result, ...], float]:
    """Results in the order of ``items``, and seconds from the first start to the last end.

    The first error is raised once the others in flight have ended; what waits is not begun.
    """
    began = clock()
    with ThreadPoolExecutor(n_parallel, thread_name_prefix="in-flight") as pool:
        futures = [pool.submit(work, item) for item in items]
        done, _ = wait(futures, return_when=FIRST_EXCEPTION)
        wall_s = clock() - began
        failed = next((error for f in done if (error := f.exception()) is not None), None)
        if failed is not None:
            pool.shutdown(cancel_futures=True)
            raise failed
    return tuple(f.result() for f in futures), wall_s
