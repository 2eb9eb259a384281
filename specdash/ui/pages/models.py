"""Models and pairs: what is registered, which draft fits which target, smaller quantisations."""

from collections.abc import Sequence
from pathlib import Path

import streamlit as st

from specdash.store.models import ScanResult, requantise, scan, scan_places
from specdash.store.views import ModelView
from specdash.ui import components, data, rows, tables
from specdash.ui import format as fmt
from specdash.ui.demo import models_or_demo
from specdash.ui.drafts import drafts_for, targets

_QUANTISATIONS = ("Q8_0", "Q6_K", "Q5_K_M", "Q5_0", "Q4_K_M", "Q4_0", "Q3_K_M", "Q2_K")


def _scan_form() -> None:
    places = [p for p in scan_places(data.settings()) if p.is_dir()]
    with st.container(border=True, height="stretch"):
        st.subheader("Find models")
        known = fmt.listing([fmt.code(str(p)) for p in places]) or "none of them exists here"
        st.caption(f"The usual folders: {known}.")
        with st.form("scan", border=False):
            folder = st.text_input(
                "Folder",
                key="m_folder",
                placeholder="/path/to/models",
                help="Scanned with its subfolders. Empty: the usual folders.",
            )
            clicked = st.form_submit_button("Scan", icon=":material/folder_open:")
        if clicked:
            chosen = [Path(folder).expanduser()] if folder.strip() else places
            with st.spinner("Reading headers and hashing new files"):
                _scan_result(scan(data.engine(), chosen))


def _scan_result(result: ScanResult) -> None:
    st.success(
        f"{fmt.plural(len(result.registered), 'model')} registered, "
        f"{fmt.count(result.unchanged)} unchanged, {fmt.count(result.gone)} gone.",
        icon=":material/check_circle:",
    )
    if result.problems:
        with st.expander(f"Not usable ({len(result.problems)})", expanded=True):
            for problem in result.problems:
                st.caption(f"{fmt.code(str(problem.path))}: {fmt.plain(problem.reason)}")


def _table(models: Sequence[ModelView]) -> None:
    st.subheader("Registered")
    if not models:
        components.empty_state(
            "No model is registered yet.",
            "Scan a folder with GGUF files; nothing is copied or changed.",
            ":material/deployed_code:",
        )
        return
    shown = rows.model_rows(models)
    tables.show_rows(shown, alt="Registered models", key="models_table")
    components.export_buttons(shown, "models", document=models)


def _pair_form(models: Sequence[ModelView]) -> None:
    usable = {m.name: m for m in targets(models)}
    with st.container(border=True):
        st.subheader("Which drafts fit?")
        st.caption("llama.cpp's vocabulary rule, asked of the files; no model is loaded for it.")
        if len(models) < 2 or not usable:
            st.caption("Two registered models are needed.")
            return
        with st.form("pair", border=False):
            target = st.selectbox("Target", list(usable), key="m_target")
            clicked = st.form_submit_button("Check all drafts", icon=":material/join:")
        if clicked:
            found = drafts_for(usable[target], "draft-simple", models)
            fitting = sum(d.verdict.compatible for d in found)
            st.markdown(f"**{fmt.out_of(fitting, len(found))}** can draft for {fmt.code(target)}.")
            tables.show_rows(
                [
                    {
                        "Draft": d.model.name,
                        "Fits": "yes" if d.verdict.compatible else "no",
                        "Why": d.verdict.reason,
                        "Failed rule": d.verdict.failed_rule,
                        "To know": "; ".join(d.verdict.warnings) or None,
                    }
                    for d in found
                ],
                alt="Drafts for the chosen target with the reason for every no",
                key="pairs_table",
            )


def _requantise_form(models: Sequence[ModelView]) -> None:
    usable = {m.name: m for m in targets(models)}
    with st.container(border=True, height="stretch"):
        st.subheader("Make a smaller quantisation")
        st.caption(
            "A draft made from the target itself agrees with it often and saves little; it is "
            "labelled as what it is."
        )
        if not usable:
            st.caption("A registered model is needed.")
            return
        with st.form("requantise", border=False):
            source = st.selectbox("Model", list(usable), key="m_source")
            kind = st.selectbox("Quantisation", _QUANTISATIONS, index=5, key="m_kind")
            clicked = st.form_submit_button("Make it", icon=":material/compress:")
        if clicked:
            bar = st.progress(0.0, text="Quantising")

            def advance(share: float) -> None:
                bar.progress(min(share, 1.0), text="Quantising")

            made = requantise(data.engine(), data.settings(), source, kind, progress=advance)
            bar.empty()
            st.success(
                f"{fmt.code(made.name)} registered, {fmt.size(made.size_bytes)}.",
                icon=":material/check_circle:",
            )


def _page() -> None:
    st.title("Models and pairs")
    # The forms run first, so that the table above them shows what they registered.
    slot = st.container()
    left, right = st.columns(2)
    with left:
        _scan_form()
    with right:
        _requantise_form(models_or_demo(data.engine()))
    _pair_form(data.models())
    with slot:
        _table(data.models())


with components.page_guard():
    _page()
