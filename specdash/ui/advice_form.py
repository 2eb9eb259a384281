"""The question to the advisor as a form: target, workload, drafts on offer, budget, mix."""

import uuid
from collections.abc import Mapping, Sequence
from dataclasses import replace

import streamlit as st

from specdash.advisor.account import together_at
from specdash.advisor.choosing import MOST_FINALISTS
from specdash.advisor.drafts import is_script
from specdash.advisor.effort import most_confirm_rounds
from specdash.advisor.question import (
    DEFAULT_BUDGET_S,
    MOST_BUDGET_S,
    SEARCH_ENGINES,
    Question,
    check_question,
    put_question,
)
from specdash.domain.pairing import PairVerdict
from specdash.domain.prompt_split import split_prompts
from specdash.engines.base import GenerationSettings
from specdash.engines.registry import ENGINES
from specdash.store.views import ModelView, WorkloadView
from specdash.ui import components, data, nav
from specdash.ui import format as fmt
from specdash.ui.advice_words import memory_words, mix_words, plan_steps
from specdash.ui.demo import models_or_demo
from specdash.ui.drafts import Draft, every_draft_for, targets
from specdash.ui.memory import host_memory, pair_estimate
from specdash.worker.effect import Planned, effect_words, results_here
from specdash.worker.request import default_n_ctx, default_threads

_ASKED = "advice_asked"
_ON_OFFER = 4
"""Drafts that are chosen beforehand: each is calibrated and read once more."""


def asked() -> int | None:
    """The advice that a click on this form made, once."""
    found: int | None = st.session_state.pop(_ASKED, None)
    return found


def show() -> None:
    """The form, and beside it what will happen."""
    models = models_or_demo(data.engine())
    usable = {m.name: m for m in targets(models)}
    workloads = {w.name: w for w in data.workloads()}
    if not usable:
        components.empty_state(
            "No model is registered yet.",
            "Any GGUF file works. Scan the folder where yours lie, or install the demo model.",
            ":material/deployed_code:",
        )
        st.page_link(nav.MODELS, label="Models and pairs", icon=":material/deployed_code:")
        return
    if not workloads:
        components.empty_state("There is no workload.", "Write or import prompts first.")
        st.page_link(nav.WORKLOADS, label="Workloads", icon=":material/library_books:")
        return
    fields, beside = st.columns([3, 2], gap="large")
    with fields:
        target = usable[_choice("Target model", list(usable), "adv_target")]
        workload = workloads[_choice("Workload", list(workloads), "adv_workload")]
        st.caption(
            f"{fmt.plain(workload.title)} · {fmt.plural(workload.n_prompts, 'prompt')} in "
            f"{fmt.plain(fmt.listing(workload.categories))}"
        )
        drafts = _drafts(target, models)
        budget_s, max_tokens = _limits()
        mix = _mix(workload)
        engine, generation = _settings(target)
    question = Question(
        target_model_id=target.model_id,
        workload_id=workload.workload_id,
        draft_ids=tuple(d.model.model_id for d in drafts),
        budget_s=budget_s,
        max_tokens=max_tokens,
        engine=engine,
        generation=generation,
        mix=mix,
    )
    with beside, st.container(border=True):
        _plan(question, workload, target, drafts)


def _choice(name: str, options: Sequence[str], key: str) -> str:
    return st.selectbox(name, options, key=key, persist_state="session")


def _drafts(target: ModelView, models: Sequence[ModelView]) -> list[Draft]:
    found = _candidates(target, [m for m in models if m.path is not None])
    fitting = {d.model.name: d for d in found if d.verdict.compatible}
    refused = [d for d in found if not d.verdict.compatible]
    chosen = st.multiselect(
        "Draft models on offer",
        list(fitting),
        default=list(fitting)[:_ON_OFFER],
        format_func=lambda name: _offer(target, fitting[name]),
        key=f"adv_drafts_{target.model_id}",
        placeholder="None: lookup in the text alone",
        help="Lookup methods need no draft and are always tried first. A draft is measured only "
        "where it is predicted to be worth its memory.",
    )
    if len(fitting) > _ON_OFFER:
        st.caption(
            f"{len(chosen)} of {len(fitting)} chosen: each is calibrated and reads the texts once "
            f"more, so {_ON_OFFER} are taken at first. Add others where the budget allows."
        )
    if not fitting:
        st.caption(
            "No registered model can draft for this target; lookup in the text needs none. "
            "Register others under “Models and pairs”."
        )
    if refused:
        with st.expander(f"{fmt.plural(len(refused), 'model')} cannot draft for it"):
            for draft in refused:
                st.caption(f"**{fmt.plain(draft.model.name)}**: {fmt.plain(draft.verdict.reason)}")
    return [fitting[name] for name in chosen]


def _candidates(target: ModelView, models: Sequence[ModelView]) -> list[Draft]:
    """Every other model with its verdict; a scripted target takes other scripts, and only those."""
    if not is_script(target):
        return every_draft_for(target, [m for m in models if not is_script(m)])
    others = [m for m in models if is_script(m) and m.model_id != target.model_id]
    return [Draft(m, PairVerdict(True, None, "a script opens no draft")) for m in others]


def _offer(target: ModelView, draft: Draft) -> str:
    """``small (draft-simple, 120 MiB more memory, fits)``."""
    price = _price(target, draft.model)
    words = [draft.method, memory_words(price)]
    fits = host_memory().fits(_total(target, draft.model))
    words += {"yes": ["fits"], "not now": ["does not fit now"], "no": ["does not fit"]}.get(
        fits or "", []
    )
    return f"{draft.model.name} ({', '.join(words)})"


def _price(target: ModelView, draft: ModelView) -> int | None:
    both, alone = _total(target, draft), _total(target, None)
    return None if both is None or alone is None else max(0, both - alone)


def _total(target: ModelView, draft: ModelView | None) -> int | None:
    key = (target.content_hash, target.path, draft.content_hash if draft is not None else None)
    return _estimates(key, target, draft)


@st.cache_data(max_entries=128, show_spinner=False)
def _estimates(
    key: tuple[str | None, ...], _target: ModelView, _draft: ModelView | None
) -> int | None:
    """The underscored records are not hashed; ``key`` stands for them."""
    estimate = pair_estimate(_target, _draft)
    return None if estimate is None else estimate.total_bytes


def _limits() -> tuple[float, int]:
    """Budget in seconds, and the token cap."""
    left, right = st.columns(2)
    with left:
        minutes = st.number_input(
            "Budget (minutes)",
            min_value=0.1,
            max_value=MOST_BUDGET_S / 60,
            value=DEFAULT_BUDGET_S / 60,
            step=1.0,
            format="%g",
            key="adv_budget",
            help="For all steps together. What is known when it ends is kept and said.",
        )
    with right:
        max_tokens = st.number_input(
            "Most tokens per answer",
            min_value=1,
            max_value=32_768,
            value=256,
            key="adv_max_tokens",
            help="Under 64 tokens a speed is uncertain.",
        )
    return minutes * 60, max_tokens


def _mix(workload: WorkloadView) -> Mapping[str, float]:
    """Weights of the categories where they were changed; else empty: the workload's own."""
    if len(workload.categories) < 2:
        return {}
    own = {c: workload.weight_of(c) for c in workload.categories}
    with st.expander("Mix: what your traffic is made of", icon=":material/balance:"):
        st.caption(
            "Arms are ranked by the total time of this mix. Shares need not add up to 1; 0 leaves "
            "a category out."
        )
        columns = st.columns(min(len(own), 3))
        chosen = {
            category: columns[i % len(columns)].number_input(
                category,
                min_value=0.0,
                max_value=1e9,
                value=own[category],
                key=f"adv_mix_{workload.workload_id}_{category}",
            )
            for i, category in enumerate(own)
        }
        st.caption(f"As shares: {fmt.plain(mix_words(chosen))}.")
    return {} if chosen == own else chosen


def _settings(target: ModelView) -> tuple[str, GenerationSettings]:
    cpus = default_threads(data.settings())
    is_fake = is_script(target)
    engines = ["scripted"] if is_fake else [e for e in SEARCH_ENGINES if not ENGINES[e].is_fake]
    with st.expander("Engine and settings", icon=":material/tune:"):
        left, right = st.columns(2)
        with left:
            engine = st.selectbox(
                "Engine",
                engines,
                format_func=lambda name: ENGINES[name].title,
                key=f"adv_engine_{is_fake}",
            )
            n_ctx = st.number_input(
                "Context (tokens)",
                min_value=64,
                max_value=1_048_576,
                value=default_n_ctx(target),
                key=f"adv_ctx_{target.model_id}",
            )
        with right:
            threads = st.number_input(
                "Threads", min_value=1, max_value=1024, value=cpus, key="adv_threads"
            )
            gpu_layers = st.number_input(
                "GPU layers",
                min_value=-1,
                max_value=10_000,
                value=0,
                key="adv_ngl",
                help="Of target and drafts. -1: all. 0: the CPU alone.",
            )
    return engine, GenerationSettings(
        n_ctx=n_ctx, n_threads=threads, gpu_layers=gpu_layers, draft_gpu_layers=gpu_layers
    )


def _effect(
    question: Question, workload: WorkloadView, target: ModelView, categories: Sequence[str]
) -> str:
    """What a confirmation on prompts of these categories can tell apart."""
    planned = Planned(
        workload=workload.name,
        methods=None,
        categories=tuple(categories),
        weights=question.mix or workload.weights,
        rounds=most_confirm_rounds(question.budget_s),
        level=together_at(MOST_FINALISTS),
    )
    words = effect_words(data.history(results_here(target.name)), planned)
    return f"on the {fmt.plural(len(categories), 'prompt')} of the confirmation, {words}"


def _plan(
    question: Question, workload: WorkloadView, target: ModelView, drafts: Sequence[Draft]
) -> None:
    st.subheader("What it will do")
    st.markdown("\n".join(f"{i}. {m.plain()}" for i, m in enumerate(plan_steps(), start=1)))
    offered = fmt.plural(len(drafts), "draft model") if drafts else "no draft model"
    categories = {p.key: p.category for p in data.workload(workload.workload_id).prompts}
    split = split_prompts(categories, question.mix or workload.weights)
    effect = _effect(question, workload, target, [categories[key] for key in split.confirm])
    st.caption(
        f"At most {fmt.seconds(question.budget_s)}, with {offered} on offer and "
        f"{fmt.plural(split.n_prompts, 'prompt')}. You may close this page: the worker goes on, "
        "and the address of the answer stays."
    )
    st.caption(f"**Smallest effect** · {fmt.plain(effect)}")
    st.button(
        "Ask the advisor",
        icon=":material/explore:",
        type="primary",
        key="adv_ask",
        width="stretch",
        on_click=components.act,
        args=(ask, question),
    )


def ask(question: Question) -> None:
    """Queue the question; the same one that is under way, or was stopped lately, goes on."""
    check_question(data.engine(), question)
    token: str = st.session_state.setdefault("requester", uuid.uuid4().hex)
    st.session_state[_ASKED] = put_question(data.engine(), question, requester=token)


def ask_again(stored: Mapping[str, object]) -> None:
    """The same question anew, with the drafts and settings of then."""
    ask(replace(Question.from_json(stored)))
