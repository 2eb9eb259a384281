"""The demo of the empty history: one n-gram draft where it pays and where it does not."""

from collections.abc import Sequence

from sqlalchemy.engine import Engine

from specdash.errors import ModelError, NotFoundError
from specdash.settings import Settings
from specdash.store.enqueue import queue_experiment
from specdash.store.models import resolve_model
from specdash.store.session import read_session
from specdash.store.views import ModelView
from specdash.ui import data
from specdash.ui.drafts import targets
from specdash.worker.request import Wish, build_request

DEMO_ARM = "ngram-simple:size_n=4,size_m=16"
DEMO_WORKLOADS = ("extract", "chat")
_REQUESTER = "demo"


def demo_missing(engine: Engine) -> str | None:
    """Why the demo cannot run, with what to do; ``None`` when it can."""
    try:
        with read_session(engine) as session:
            found = resolve_model(session, "demo")
    except (NotFoundError, ModelError) as error:
        return str(error)
    return None if found.path else (found.problem or "The demo model is not on this machine.")


def models_or_demo(engine: Engine) -> Sequence[ModelView]:
    """The registered models; when none can be measured, the demo model is registered first."""
    found = data.models()
    if not targets(found) and demo_missing(engine) is None:
        return data.models()
    return found


def queue_demo(engine: Engine, settings: Settings) -> tuple[int, ...]:
    """Queue both experiments and return their ids; another click meanwhile finds the same ones."""
    return tuple(
        queue_experiment(
            engine,
            build_request(
                engine,
                settings,
                Wish(
                    target="demo",
                    workload=workload,
                    arms=(DEMO_ARM,),
                    rounds=2,
                    n_prompts=6,
                    max_tokens=128,
                    anchor_every=0,  # a newcomer waits two minutes, not five
                    tags=("demo",),
                    requester=_REQUESTER,
                ),
            ),
        ).experiment_id
        for workload in DEMO_WORKLOADS
    )
