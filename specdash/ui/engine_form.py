"""Which engine measures, and at which server; what can be a target there."""

from collections.abc import Sequence
from dataclasses import dataclass

import streamlit as st

from specdash.domain.arms import parse_arm
from specdash.engines.registry import ENGINES, EngineInfo
from specdash.store.servers import ServerView
from specdash.store.views import ModelView, WorkloadView
from specdash.ui import components, data, nav
from specdash.ui import format as fmt
from specdash.ui.drafts import targets

_LEVELS = (2, 4, 8, 16, 32, 64)
_OURS = "Started by specdash"
_POWER_USER = (
    "In LM Studio it stands under My Models, Edit Model Default Config, Load, Advanced, "
    "Speculative Decoding; shown only in Power User mode or above."
)
_LM_STUDIO_NAMES = {
    "n_max": "Max draft tokens",
    "n_min": "Min draft tokens",
    "p_min": "Draft probability",
}


@dataclass(frozen=True, slots=True)
class EngineChoice:
    """An engine that can be asked; ``server`` is where it is reached, if it is."""

    info: EngineInfo
    server: ServerView | None = None

    @property
    def methods(self) -> frozenset[str]:
        return self.info.methods_for(by_address=self.server is not None)

    @property
    def fixed_arm(self) -> str | None:
        """The one arm a server that cannot be told runs; ``off`` where it does not speculate."""
        return self.server.arm_text if self.server is not None else None

    @property
    def holds_models(self) -> bool:
        """Whether models are those of the server, not files here."""
        return self.server is not None

    def param_label(self, name: str) -> str:
        """What a drafting parameter is called, LM Studio's own name first where it has one."""
        if self.info.name == "lm-studio" and name in _LM_STUDIO_NAMES:
            return _LM_STUDIO_NAMES[name]
        return name

    def param_help(self, name: str, text: str) -> str:
        """``text`` and where LM Studio hides the setting."""
        if self.info.name == "lm-studio" and name in _LM_STUDIO_NAMES:
            return f"{name}. {text} {_POWER_USER}"
        return text


def choose_engine() -> EngineChoice | None:
    """``None`` while there is no server for an engine that is reached at an address."""
    known = {i.title: i for i in ENGINES.values() if not i.is_fake}
    left, right = st.columns(2)
    with left:
        title = st.selectbox("Engine", list(known), key="new_engine", persist_state="session")
    info = known[title]
    own = {s.name: s for s in data.servers() if s.engine == info.name}
    choice: EngineChoice | None = EngineChoice(info)
    with right:
        if info.address == "required" and own:
            name = st.selectbox("Server", list(own), key=f"new_server_{info.name}")
            choice = EngineChoice(info, own[name])
        elif info.address == "required":
            choice = None
        elif info.address == "optional" and own:
            name = st.selectbox("Server", [_OURS, *own], key=f"new_server_{info.name}")
            choice = EngineChoice(info, own.get(name))
    st.caption(info.summary)
    if choice is None:
        components.empty_state(
            f"No {info.title} server is registered.",
            f"{info.title} is reached at an address, by default {info.default_url}.",
            ":material/dns:",
        )
        st.page_link(nav.ENGINES, label="Add a server", icon=":material/dns:")
    return choice


def target_models(choice: EngineChoice, models: Sequence[ModelView]) -> list[ModelView]:
    """Files here, or what the server said it has."""
    if choice.server is None:
        return targets(models)
    return list(data.models_at(choice.server))


def no_target(choice: EngineChoice) -> None:
    """Why there is nothing to measure, and the next step."""
    if choice.server is None:
        components.empty_state(
            "No model is registered yet.",
            "Any GGUF file works. Scan the folder where yours lie, or install the demo model.",
            ":material/deployed_code:",
        )
        st.page_link(nav.MODELS, label="Models and pairs", icon=":material/deployed_code:")
        return
    components.empty_state(
        f"Server {choice.server.name} has named no model.",
        "Test it: it then says which models it has.",
        ":material/dns:",
    )
    st.page_link(nav.ENGINES, label="Test it", icon=":material/dns:")


def fixed_arm(choice: EngineChoice) -> None:
    """What is measured at a server that was started by somebody else."""
    if choice.server is None or choice.fixed_arm is None:
        return
    server = choice.server
    arm = parse_arm(choice.fixed_arm)
    if arm.is_off or server.baseline_url is not None:
        st.markdown(f"{fmt.code('off')} at {fmt.code(server.baseline_url or server.url)}")
    if not arm.is_off:
        st.markdown(f"{fmt.code(arm.text())} at {fmt.code(server.url)}")
    st.caption(
        "These servers do what they were started with. For another draft, start one with it and "
        "register that."
    )


def parallel_requests(choice: EngineChoice, workload: WorkloadView) -> tuple[int, ...]:
    """Levels of the sweeps, where the engine serves several requests at once."""
    offered = [n for n in _LEVELS if n <= workload.n_prompts]
    if not choice.info.is_parallel or not offered:
        return ()
    chosen = st.pills(
        "Also measure with parallel requests",
        offered,
        selection_mode="multi",
        key=f"new_parallel_{workload.workload_id}",
        help="All prompts again with so many requests in flight, in every arm and round. "
        "Speculation buys latency, not throughput: this shows up to which load it pays. Each "
        "request is a prompt of its own, so there are at most as many as prompts.",
    )
    return tuple(sorted(chosen or ()))
