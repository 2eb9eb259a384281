"""Models and pairs: what is registered, which draft fits which target, smaller quantisations."""

from collections.abc import Callable, Sequence
from pathlib import Path

import streamlit as st
from sqlalchemy.exc import DatabaseError

from specdash.errors import SpecdashError
from specdash.gguf.scan import ScanProblem
from specdash.store.models import ScanProgress, ScanResult, is_larger, requantise, scan, scan_places
from specdash.store.views import HistoryFilter, ModelView
from specdash.ui import background, components, data, matrix, memory, pair_rows, rows, tables
from specdash.ui import format as fmt
from specdash.ui.demo import models_or_demo
from specdash.ui.drafts import every_draft_for, targets
from specdash.worker.pairs import documented_pairs
from specdash.worker.request import default_n_ctx

_QUANTISATIONS = ("Q8_0", "Q6_K", "Q5_K_M", "Q5_0", "Q4_K_M", "Q4_0", "Q3_K_M", "Q2_K")
_SCAN, _QUANTISE = "scan", "quantise"
_SHORT_WORK_S = 1.0
_POLL_EVERY = "1s"


def _database() -> str:
    return data.settings().resolved_database_url


def _start(name: str, task: background.Task) -> None:
    background.start(_database(), name, task).wait(_SHORT_WORK_S)
    st.session_state[f"m_watch_{name}"] = True


def _outcome(name: str) -> object:
    """Progress of the work while it runs; its result in the browsers that saw it run."""
    work = background.find(_database(), name)
    if work is not None and work.is_running:
        st.session_state[f"m_watch_{name}"] = True
        st.fragment(_progress, key=f"m_progress_{name}", run_every=_POLL_EVERY)(name)
        return None
    if work is None or not st.session_state.get(f"m_watch_{name}"):
        return None
    try:
        return work.result()
    except (SpecdashError, DatabaseError) as error:
        components.show_problem(error)
        return None


def _progress(name: str) -> None:
    work = background.find(_database(), name)
    if work is None or not work.is_running:
        st.rerun()
    else:
        st.progress(work.share, text=fmt.plain(work.text) or "Starting")


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
            engine = data.engine()
            _start(_SCAN, lambda report: scan(engine, chosen, _scan_words(report)))
        result = _outcome(_SCAN)
        if isinstance(result, ScanResult):
            _scan_result(result)


def _scan_words(report: background.Report) -> Callable[[ScanProgress], None]:
    def advance(at: ScanProgress) -> None:
        text = f"{fmt.out_of(at.done + 1, at.found)}: header and hash of {at.path.name}"
        report(at.done / at.found, text)

    return advance


def _scan_result(result: ScanResult) -> None:
    st.success(
        f"{fmt.plural(len(result.registered), 'model')} registered, "
        f"{fmt.count(result.unchanged)} unchanged, {fmt.count(result.gone)} gone.",
        icon=":material/check_circle:",
    )
    if result.problems:
        with st.expander(f"Not usable ({len(result.problems)})", expanded=True):
            _problems(result.problems)


def _problems(problems: Sequence[ScanProblem]) -> None:
    for problem in problems:
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
    unusable = data.unusable_files()
    if unusable:
        with st.expander(f"Files that cannot be used ({len(unusable)})"):
            _problems(unusable)


def _drafts_of(models: Sequence[ModelView]) -> None:
    usable = {m.name: m for m in targets(models)}
    with st.container(border=True):
        st.subheader("Which drafts fit this target?")
        st.caption(
            "llama.cpp's own vocabulary rule, asked of the files; no weights are loaded for it."
        )
        if len(models) < 2 or not usable:
            st.caption("Two registered models are needed.")
            return
        name = st.selectbox("Target", list(usable), key="m_target", bind="query-params")
        target = usable[name]
        found = every_draft_for(target, models)
        fitting = sum(d.verdict.compatible for d in found)
        st.markdown(
            f"**{fmt.out_of(fitting, len(found))}** can draft for {fmt.code(name)}. Memory is "
            f"estimated for a context of {fmt.count(default_n_ctx(target))} tokens."
        )
        results = data.history(HistoryFilter(targets=(name,), states=("succeeded",)))
        shown = pair_rows.draft_rows(
            target,
            found,
            pair_rows.best_results(results, data.measured_loads()),
            documented_pairs(models),
            memory.host_memory(),
        )
        tables.show_rows(
            shown,
            alt="Drafts for the chosen target: whether they fit, why, what they cost",
            key="pairs_table",
            links={"Result": "open"},
        )
        components.export_buttons(shown, "drafts")


def _known_pairs(models: Sequence[ModelView]) -> None:
    for target, draft in documented_pairs(models):
        st.caption(
            f":material/verified: {fmt.code(draft.name)} for {fmt.code(target.name)}: a pair that "
            "LM Studio's documentation names."
        )


def _matrix(models: Sequence[ModelView]) -> None:
    usable = targets(models)
    if len(models) < 2 or not usable:
        return
    with st.container(border=True):
        st.subheader("Every target with every draft")
        _known_pairs(models)
        if not st.toggle(
            f"Check all {fmt.plural(len(usable), 'target')}",
            key="m_matrix",
            help="Large vocabularies take some seconds each the first time.",
        ):
            return
        documented, host = documented_pairs(models), memory.host_memory()
        cells: list[pair_rows.Cell] = []
        bar = st.progress(0.0)
        for done, target in enumerate(usable):
            bar.progress(
                done / len(usable),
                text=f"{fmt.out_of(done + 1, len(usable))}: {fmt.plain(target.name)}",
            )
            cells += pair_rows.cells_of(target, every_draft_for(target, models), documented, host)
        bar.empty()
        components.show_figure(matrix.matrix_figure(cells), key="fig_matrix")
        st.caption(
            "Point at a cell for the reason. “yes, but”: something to know, most often a draft "
            "too large to pay. “yes, no room”: both do not fit the free memory."
        )
        table = [
            {"Target": c.target, "Draft": c.draft, "Fits": c.word, "Why": c.reason} for c in cells
        ]
        components.export_buttons(table, "pairs")


def _memory(models: Sequence[ModelView]) -> None:
    found = memory.measured_memory(data.measured_loads(), models, data.machine_name())
    if not found:
        return
    st.subheader("Memory: estimated and measured")
    st.caption(
        "Peak resident memory of the measuring process with all models of the experiment loaded, "
        "beside the estimate for the same settings. This machine only."
    )
    shown = pair_rows.memory_rows(found)
    tables.show_rows(
        shown,
        alt="Estimated and measured peak memory",
        key="memory_table",
        links={"Result": "open"},
    )
    components.export_buttons(shown, "memory")


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
        present = usable[source].quantisation
        if clicked and is_larger(kind, present):
            st.warning(
                f"{kind} takes more memory than the {fmt.plain(str(present))} of this model and "
                "adds nothing to it. Choose a smaller one.",
                icon=":material/expand:",
            )
        elif clicked:
            engine, settings = data.engine(), data.settings()
            _start(
                _QUANTISE,
                lambda report: requantise(
                    engine,
                    settings,
                    source,
                    kind,
                    progress=lambda share: report(share, f"Making {source} in {kind}"),
                ),
            )
        made = _outcome(_QUANTISE)
        if isinstance(made, ModelView):
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
    models = data.models()
    with slot:
        _table(models)
    _drafts_of(models)
    _matrix(models)
    _memory(models)


with components.page_guard():
    _page()
