"""Workloads: read them, write or import own prompts, weigh their categories."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import median

import streamlit as st

from specdash.domain.workload import Workload
from specdash.domain.workload_files import (
    FILE_SUFFIXES,
    dump_jsonl,
    dump_workload,
    parse_workload,
)
from specdash.engines.probe_client import count_prompt_tokens
from specdash.errors import SpecdashError
from specdash.store.views import WorkloadView
from specdash.store.workloads import save_workload, set_weights
from specdash.ui import components, data, nav, rows, tables
from specdash.ui import format as fmt
from specdash.ui.drafts import targets

_FORMATS = {
    "One prompt per block, blank lines between": "prompts.txt",
    "YAML, as exported here": "prompts.yaml",
    "JSON Lines: prompt or messages, category, max_tokens": "prompts.jsonl",
    "CSV with a column prompt": "prompts.csv",
}
_PREVIEWED = 5


def _read(found: Sequence[WorkloadView]) -> None:
    by_name = {w.name: w for w in found}
    name = st.selectbox("Read a workload", list(by_name), key="w_name", bind="query-params")
    view = by_name[name]
    workload = data.workload(view.workload_id)
    st.markdown(f"**{fmt.plain(view.title or view.name)}**  \n{fmt.plain(view.description)}")
    st.caption(
        f"{fmt.plural(view.n_prompts, 'prompt')} · version {fmt.code(view.version)} · "
        f"{fmt.plain(view.source)} · used by {fmt.plural(view.n_experiments, 'experiment')}"
    )
    with st.container(horizontal=True):
        st.download_button(
            "YAML",
            dump_workload(workload).encode(),
            file_name=f"{view.name}.yaml",
            icon=":material/download:",
            on_click="ignore",
            key="w_yaml",
        )
        st.download_button(
            "JSONL",
            dump_jsonl(workload).encode(),
            file_name=f"{view.name}.jsonl",
            icon=":material/download:",
            on_click="ignore",
            key="w_jsonl",
        )
        st.button(
            "Edit as a new version",
            icon=":material/edit:",
            key="w_edit",
            on_click=_start_edit,
            args=(view.workload_id,),
        )
    _weights(view)
    for prompt in workload.prompts:
        with st.expander(f"{fmt.plain(prompt.key)} · {fmt.plain(prompt.category)}"):
            for message in prompt.messages:
                st.caption(message.role)
                st.code(message.content, language=None, wrap_lines=True)
            if prompt.text is not None:
                st.caption("raw text, no chat template")
                st.code(prompt.text, language=None, wrap_lines=True)


def _weights(view: WorkloadView) -> None:
    with (
        st.expander("Weights of the categories", icon=":material/balance:"),
        st.form(f"weights_{view.workload_id}", border=False),
    ):
        st.caption("The share of each category in your own traffic; it need not add up to 1.")
        chosen: dict[str, float] = {}
        for category in view.categories:
            chosen[category] = st.number_input(
                category,
                min_value=0.0,
                value=view.weight_of(category),
                key=f"w_weight_{view.workload_id}_{category}",
            )
        if st.form_submit_button("Store weights"):
            set_weights(data.engine(), view.workload_id, chosen)
            st.success("Stored. Verdicts of this version are weighed by it from now on.")
            nav.advisor_link("Ask the advisor for the best draft of this mix")


def _start_edit(workload_id: int) -> None:
    workload = data.workload(workload_id)
    st.session_state["w_own_name"] = workload.name
    st.session_state["w_format"] = "YAML, as exported here"
    st.session_state["w_text"] = dump_workload(workload)


def _write() -> Workload | None:
    name = st.text_input("Name", key="w_own_name", placeholder="my-prompts")
    kind = st.selectbox("The text is", list(_FORMATS), key="w_format")
    text = st.text_area("Prompts", key="w_text", height=260, placeholder="Write or paste prompts")
    if not text.strip():
        st.caption("Prompts appear below as soon as there are some.")
        return None
    return parse_workload(text.encode(), _FORMATS[kind], name.strip() or None)


def _upload() -> Workload | None:
    file = st.file_uploader(
        "File with prompts",
        type=[suffix.lstrip(".") for suffix in FILE_SUFFIXES],
        key="w_file",
        help="Text, CSV, JSONL, YAML, or a chat log in OpenAI's format.",
    )
    name = st.text_input("Name (empty: the file's)", key="w_upload_name")
    whole = st.toggle("A text file is one prompt", key="w_whole")
    if file is None:
        return None
    return parse_workload(file.getvalue(), file.name, name.strip() or None, whole_text=whole)


def _preview(workload: Workload, key: str) -> None:
    st.markdown(
        f"**{fmt.plain(workload.name)}**: {fmt.plural(len(workload.prompts), 'prompt')} in "
        f"{fmt.plain(fmt.listing(workload.categories))}, version {fmt.code(workload.version)}"
    )
    counts = _token_counts(workload, key)
    tables.show_rows(
        [
            {
                "Key": p.key,
                "Category": p.category,
                "Prompt (tokens)": counts[i] if counts else None,
                "Begins": (p.text or (p.messages[-1].content if p.messages else ""))[:120],
            }
            for i, p in enumerate(workload.prompts[:_PREVIEWED])
        ],
        alt="First prompts of the workload to be saved",
        key=f"{key}_preview",
    )
    if len(workload.prompts) > _PREVIEWED:
        st.caption(f"The first {_PREVIEWED} of {len(workload.prompts)} are shown.")
    if st.button("Save workload", icon=":material/save:", type="primary", key=f"{key}_save"):
        saved = save_workload(data.engine(), workload)
        st.success(
            f"Stored {fmt.code(saved.name)} as version {fmt.code(saved.version)}. Older versions "
            "stay with their results."
        )
        st.page_link(nav.NEW, label="Benchmark it", icon=":material/add_circle:")


def _token_counts(workload: Workload, key: str) -> list[int] | None:
    usable: Mapping[str, Path] = {m.name: Path(m.path) for m in targets(data.models()) if m.path}
    chosen = st.selectbox(
        "Count tokens for", list(usable), index=None, key=f"{key}_model", placeholder="No model"
    )
    if chosen is None:
        return None
    with st.spinner("Counting tokens"):
        counts = count_prompt_tokens(usable[chosen], workload.prompts)
    st.caption(
        f"{fmt.count(min(counts))} to {fmt.count(max(counts))} tokens, median "
        f"{fmt.number(median(counts), 0)}; the context must hold the longest and its answer."
    )
    return counts


def _own_prompts() -> None:
    st.subheader("Own prompts")
    write, upload = st.tabs(["Write or paste", "Upload a file"])
    for tab, source, key in ((write, _write, "w_write"), (upload, _upload, "w_upload")):
        with tab:
            try:
                workload = source()
                if workload is not None:
                    _preview(workload, key)
            except SpecdashError as error:
                components.error_box(error)


def _page() -> None:
    st.title("Workloads")
    every = st.toggle("Old versions too", key="w_all")
    found = data.workloads(all_versions=every)
    if found:
        shown = rows.workload_rows(found)
        tables.show_rows(shown, alt="Workloads with their versions", key="workloads_table")
        left, right = st.columns(2, gap="large")
        with left:
            _read(data.workloads())
        with right:
            _own_prompts()
        return
    components.empty_state(
        "There is no workload yet.", "Write prompts below, or upload a file of them."
    )
    _own_prompts()


with components.page_guard():
    _page()
