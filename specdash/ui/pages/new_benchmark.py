"""New benchmark: what to measure, with the checks beside the fields."""

import uuid
from collections.abc import Sequence
from dataclasses import replace

import streamlit as st

from specdash.domain.arms import Arm, parse_arm
from specdash.domain.plan import STOP_FROM_PROMPTS
from specdash.engines.base import GenerationSettings
from specdash.errors import SpecdashError
from specdash.store.enqueue import DuplicateError, queue_experiment
from specdash.store.experiment_request import DEFAULT_MAX_ROUNDS, ExperimentRequest
from specdash.store.views import ModelView, WorkloadView
from specdash.ui import arms_form, checks, components, data, engine_form, nav, self_check
from specdash.ui import format as fmt
from specdash.ui.demo import models_or_demo
from specdash.ui.engine_form import EngineChoice
from specdash.worker.machine import allowed_cpus
from specdash.worker.request import default_n_ctx

_KV_TYPES = ("f16", "q8_0", "q4_0")
_SECOND_OFF = "off#2"
_CHECKED = "new_checked"
"""The request whose checks are on the page, where they forbid nothing."""
_CLICKED = "new_clicked"
_FLASH = ("auto", "on", "off")


def _target(choice: EngineChoice, models: Sequence[ModelView]) -> ModelView | None:
    usable = {m.name: m for m in models}
    if not usable:
        engine_form.no_target(choice)
        return None
    key = "new_target" if choice.server is None else f"new_target_{choice.server.name}"
    name = st.selectbox("Target model", list(usable), key=key, persist_state="session")
    model = usable[name]
    facts = [fmt.size(model.size_bytes), model.quantisation, fmt.parameters(model.n_params)]
    known = [f for f in facts if f and f != fmt.DASH]
    if known:
        st.caption(fmt.plain(" · ".join(known)))
    return model


def _workload() -> WorkloadView | None:
    found = {w.name: w for w in data.workloads()}
    if not found:
        components.empty_state("There is no workload.", "Write or import prompts first.")
        st.page_link(nav.WORKLOADS, label="Workloads", icon=":material/library_books:")
        return None
    name = st.selectbox("Workload", list(found), key="new_workload", persist_state="session")
    workload = found[name]
    st.caption(
        f"{fmt.plain(workload.title)} · {fmt.plural(workload.n_prompts, 'prompt')} in "
        f"{fmt.plain(fmt.listing(workload.categories))}"
    )
    return workload


def _protocol(workload: WorkloadView) -> tuple[int, int, int]:
    """Prompts, rounds, token cap."""
    prompts, rounds, cap = st.columns(3)
    with prompts:
        n_prompts = st.number_input(
            "Prompts",
            min_value=1,
            max_value=workload.n_prompts,
            value=workload.n_prompts,
            key=f"new_prompts_{workload.workload_id}",
            help="The first so many of the workload. Each prompt is one observation: 3 at least "
            "for an interval, 10 for a useful one.",
        )
    with rounds:
        n_rounds = st.number_input(
            "Rounds",
            min_value=1,
            max_value=50,
            value=3,
            key="new_rounds",
            help="How often each prompt is run in every arm, in alternating order.",
        )
    with cap:
        max_tokens = st.number_input(
            "Most tokens per answer",
            min_value=1,
            max_value=32_768,
            value=256,
            key="new_max_tokens",
            help="Answers may end earlier by themselves. Under 64 tokens a speed is uncertain.",
        )
    return n_prompts, n_rounds, max_tokens


def _precision(n_prompts: int, n_rounds: int) -> tuple[float | None, int | None]:
    """Half-width at which rounds end, as a share, and the most rounds; nothing when fixed."""
    if n_prompts < STOP_FROM_PROMPTS:
        st.caption(f"From {STOP_FROM_PROMPTS} prompts up, rounds can go on until it is precise.")
        return None, None
    wanted = st.toggle(
        "Add rounds until it is precise",
        key="new_precise",
        help="Rounds are added until every arm's interval is as narrow as asked. Only the width "
        "is looked at, never who leads, so this bends no verdict.",
    )
    if not wanted:
        return None, None
    left, right = st.columns(2)
    with left:
        percent = st.number_input(
            "Half-width of every interval (%)",
            min_value=0.1,
            max_value=100.0,
            value=3.0,
            step=0.5,
            key="new_precision",
        )
    with right:
        most = st.number_input(
            "At most so many rounds",
            min_value=n_rounds,
            max_value=50,
            value=max(n_rounds, DEFAULT_MAX_ROUNDS),
            key=f"new_max_rounds_{n_rounds}",
        )
    return percent / 100, most


def _replica() -> tuple[Arm, ...]:
    """A second ``off``, when it is wanted: what it differs by is this machine's own noise."""
    wanted = st.toggle(
        "Also measure off a second time (A/A)",
        key="new_aa",
        help="Two equal arms must come out equal. Where they do not, this machine is too unsteady "
        "for the other verdicts of the experiment.",
    )
    return (parse_arm(_SECOND_OFF),) if wanted else ()


def _server_generation(choice: EngineChoice, target: ModelView) -> GenerationSettings:
    """What a request can still say to a server that somebody else set up."""
    settings = GenerationSettings()
    if choice.info.name == "lm-studio":
        n_ctx = st.number_input(
            "Context (tokens)",
            min_value=64,
            max_value=1_048_576,
            value=default_n_ctx(target),
            key=f"new_ctx_{target.model_id}",
            help="The model is loaded with it, and unloaded afterwards.",
        )
        return replace(settings, n_ctx=n_ctx)
    return replace(settings, ignore_eos=_ignore_eos())


def _ignore_eos() -> bool:
    return st.toggle(
        "Fixed length (ignore the end token)",
        key="new_ignore_eos",
        help="Every answer runs to the token cap. Never compared with natural stops.",
    )


def _generation(target: ModelView) -> GenerationSettings:
    cpus = data.settings().threads or allowed_cpus()
    with st.expander("Settings of target and draft, equal in every arm", icon=":material/tune:"):
        left, right = st.columns(2)
        with left:
            n_ctx = st.number_input(
                "Context (tokens)",
                min_value=64,
                max_value=1_048_576,
                value=default_n_ctx(target),
                key=f"new_ctx_{target.model_id}",
            )
            threads = st.number_input(
                "Threads",
                min_value=1,
                max_value=1024,
                value=cpus,
                key="new_threads",
                help=f"This process may use {fmt.plural(cpus, 'CPU')}. Batch threads are the same.",
            )
            kv_type = st.selectbox("KV cache type", _KV_TYPES, key="new_kv")
            flash = st.selectbox("Flash attention", _FLASH, key="new_flash")
        with right:
            gpu_layers = st.number_input(
                "GPU layers, target",
                min_value=-1,
                max_value=10_000,
                value=0,
                key="new_ngl",
                help="-1: all. 0: the CPU alone.",
            )
            draft_gpu_layers = st.number_input(
                "GPU layers, draft", min_value=-1, max_value=10_000, value=0, key="new_ngld"
            )
            draft_threads = st.number_input(
                "Threads, draft",
                min_value=1,
                max_value=1024,
                value=None,
                placeholder="As the target",
                key="new_draft_threads",
            )
            draft_kv_type = st.selectbox(
                "KV cache type, draft",
                _KV_TYPES,
                index=None,
                placeholder="As the target",
                key="new_draft_kv",
            )
        ignore_eos = _ignore_eos()
    return GenerationSettings(
        n_ctx=n_ctx,
        n_threads=threads,
        gpu_layers=gpu_layers,
        draft_gpu_layers=draft_gpu_layers,
        kv_type=kv_type,
        flash_attn=flash,
        ignore_eos=ignore_eos,
        draft_kv_type=draft_kv_type,
        draft_threads=draft_threads,
    )


def _drafts(arms: Sequence[Arm], offered: Sequence[ModelView]) -> dict[str, int]:
    """Models of the server by the name an arm calls them."""
    by_name = {m.name: m.model_id for m in offered}
    return {ref: by_name[ref] for arm in arms for ref in arm.draft_models if ref in by_name}


def _requester() -> str:
    """One token a browser session, so that two clicks are one job."""
    token: str = st.session_state.setdefault("requester", uuid.uuid4().hex)
    return token


def _queue(request: ExperimentRequest) -> None:
    try:
        queued = queue_experiment(data.engine(), request)
    except DuplicateError as error:
        st.session_state["new_duplicate"] = error.experiment_id
        return
    except SpecdashError as error:
        components.error_box(error)
        return
    st.session_state.pop("new_duplicate", None)
    st.switch_page(nav.EXPERIMENT, query_params={"id": str(queued.experiment_id)})


def _click(*, allow_duplicate: bool) -> None:
    # A request handed over here would be that of the run before the click.
    st.session_state[_CLICKED] = allow_duplicate


def _queue_checked(request: ExperimentRequest, *, allow_duplicate: bool) -> None:
    """Queue the form as it stands, if its checks were on the page when the button was clicked."""
    if st.session_state.get(_CHECKED) == _unlabelled(request):
        _queue(replace(request, allow_duplicate=allow_duplicate))
        return
    st.warning(
        "**Nothing was queued:** the form changed after its checks were made. Read them again, "
        "then queue it.",
        icon=":material/rule:",
    )


def _unlabelled(request: ExperimentRequest) -> ExperimentRequest:
    """Without note and tags, which no check looks at."""
    return replace(request, note=None, tags=())


def _duplicate(experiment_id: int) -> None:
    with st.container(border=True):
        st.markdown(
            f":material/content_copy: **Measure it again?** Experiment {experiment_id} asks for "
            "exactly the same."
        )
        with st.container(horizontal=True):
            nav.experiment_link(experiment_id, "Open that one")
            st.button(
                "Measure again",
                key="new_again",
                on_click=_click,
                kwargs={"allow_duplicate": True},
            )


def _note() -> tuple[str | None, tuple[str, ...]]:
    with st.expander("Note and tags", icon=":material/label:"):
        note = st.text_area("Note", key="new_note", max_chars=2000)
        tags = st.text_input("Tags, separated by commas", key="new_tags", max_chars=200)
    return note.strip() or None, tuple(t.strip() for t in tags.split(",") if t.strip())


def _page() -> None:
    clicked: bool | None = st.session_state.pop(_CLICKED, None)
    st.title("New benchmark")
    models = models_or_demo(data.engine())
    fields, beside = st.columns([3, 2], gap="large")
    with fields:
        choice = engine_form.choose_engine()
        if choice is None:
            return
        offered = engine_form.target_models(choice, models)
        target = _target(choice, offered)
        if target is None:
            return
        workload = _workload()
        if workload is None:
            return
        st.subheader("Arms")
        if choice.fixed_arm is not None:
            engine_form.fixed_arm(choice)
            arms = [parse_arm(choice.fixed_arm)]
        else:
            arms_form.show_arms(choice, target, models if choice.server is None else offered)
            arms = arms_form.arms(choice)
        st.subheader("Protocol")
        n_prompts, n_rounds, max_tokens = _protocol(workload)
        precision, max_rounds = _precision(n_prompts, n_rounds)
        concurrency = engine_form.parallel_requests(choice, workload)
        replica = _replica()
        generation = (
            _generation(target) if choice.server is None else _server_generation(choice, target)
        )
        note, tags = _note()
    request = ExperimentRequest(
        workload_id=workload.workload_id,
        target_model_id=target.model_id,
        arms=(*arms, *replica),
        drafts=_drafts([*arms], offered) if choice.server is not None else {},
        engine=choice.info.name,
        server=choice.server.name if choice.server is not None else None,
        concurrency=concurrency,
        rounds=n_rounds,
        n_prompts=n_prompts,
        max_tokens=max_tokens,
        precision=precision,
        max_rounds=max_rounds,
        generation=generation,
        note=note,
        tags=tags,
        requester=_requester(),
        time_limit_s=data.settings().job_time_limit_s,
    )
    with beside, st.container(border=True):
        st.subheader("Checks")
        if choice.server is None:
            self_check.warn(data.machine_name())
        if clicked is not None:
            _queue_checked(request, allow_duplicate=clicked)
        blocked = checks.show(request, target.name)
        blocked = blocked or not request.arms
        st.button(
            "Queue it",
            icon=":material/play_arrow:",
            type="primary",
            key="new_queue",
            width="stretch",
            disabled=blocked,
            on_click=_click,
            kwargs={"allow_duplicate": False},
        )
        # Only now: until these checks are through, the old button can still be clicked.
        st.session_state[_CHECKED] = None if blocked else _unlabelled(request)
        if not request.arms:
            st.caption("Add at least one arm beside off.")
        duplicate = st.session_state.get("new_duplicate")
        if duplicate is not None:
            _duplicate(duplicate)


with components.page_guard():
    _page()
