"""Waiting for an advice, as its own worker wherever none lives."""

import time
from collections.abc import Callable
from contextlib import suppress

from sqlalchemy.engine import Engine

from specdash.advisor.orchestrate import advance
from specdash.errors import UsageError
from specdash.settings import Settings
from specdash.store.advices import AdviceView, cancel_advice, get_advice
from specdash.store.session import read_session
from specdash.store.tables import ACTIVE_JOB_STATES
from specdash.store.views import JobView
from specdash.worker.scheduler import follow_job

_WAIT_S = 0.3
_CANCEL_LIMIT_S = 30.0


def follow_advice(
    engine: Engine,
    settings: Settings,
    advice_id: int,
    on_advice: Callable[[AdviceView], None] = lambda _advice: None,
    on_job: Callable[[JobView], None] = lambda _job: None,
) -> AdviceView:
    """Until it is over. On KeyboardInterrupt it is cancelled first."""
    seen: AdviceView | None = None
    try:
        while True:
            advance(engine, settings, only=advice_id)
            advice = _read(engine, advice_id)
            if advice != seen:
                on_advice(advice)
                seen = advice
            if not advice.is_active:
                return advice
            job = advice.job
            if job is not None and job.state in ACTIVE_JOB_STATES:
                follow_job(engine, settings, job.job_id, on_job)
            else:
                time.sleep(_WAIT_S)
    except KeyboardInterrupt:
        _cancel_and_wait(engine, settings, advice_id)
        raise


def _cancel_and_wait(engine: Engine, settings: Settings, advice_id: int) -> None:
    if not _read(engine, advice_id).is_active:
        return
    with suppress(UsageError):  # another worker may have ended it just now
        cancel_advice(engine, advice_id)
    deadline = time.monotonic() + _CANCEL_LIMIT_S
    while _read(engine, advice_id).is_active and time.monotonic() < deadline:
        advance(engine, settings, only=advice_id)
        time.sleep(_WAIT_S)


def _read(engine: Engine, advice_id: int) -> AdviceView:
    with read_session(engine) as session:
        return get_advice(session, advice_id)
