from hypothesis import given
from hypothesis import strategies as st

from specdash.domain.counters import Step
from specdash.store.traces import Trace, pack_trace, unpack_trace

_ids = st.integers(0, 300_000)
_steps = st.builds(
    Step,
    n_drafted=st.integers(0, 64),
    n_accepted=st.integers(0, 64),
    seconds=st.integers(0, 10**9).map(lambda n: n / 10**7),
    drafter=st.none() | st.integers(0, 3),
    proposed=st.lists(_ids, max_size=4).map(tuple),
)


@given(st.lists(_ids), st.lists(st.text()), st.none() | st.lists(_steps, max_size=20))
def test_a_trace_comes_back_as_it_was_stored(
    ids: list[int], texts: list[str], steps: list[Step] | None
) -> None:
    expected = Trace(tuple(ids), tuple(texts), None if steps is None else tuple(steps))
    assert unpack_trace(pack_trace(ids, texts, steps)) == expected


def test_no_trace_is_an_empty_one() -> None:
    assert unpack_trace(None) == Trace((), (), None)


def test_a_long_trace_stays_small() -> None:
    steps = [Step(8, 3, 0.01, 0, tuple(range(8)))] * 500
    blob = pack_trace(list(range(2000)), [" word"] * 2000, steps)
    assert len(blob) < 12_000
