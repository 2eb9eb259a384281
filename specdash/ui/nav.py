"""Where pages live, and links between them. Ids travel in the query string."""

from pathlib import Path

import streamlit as st

ASSETS = Path(__file__).parent / "assets"
_FOLDER = "specdash/ui/pages"
HOME = f"{_FOLDER}/home.py"
NEW = f"{_FOLDER}/new_benchmark.py"
QUEUE = f"{_FOLDER}/queue.py"
EXPERIMENT = f"{_FOLDER}/experiment.py"
RUN = f"{_FOLDER}/run.py"
COMPARE = f"{_FOLDER}/compare.py"
HISTORY = f"{_FOLDER}/history.py"
MODELS = f"{_FOLDER}/models.py"
WORKLOADS = f"{_FOLDER}/workloads.py"
ENGINES = f"{_FOLDER}/engines.py"
ADVISOR = f"{_FOLDER}/advisor.py"


def experiment_link(experiment_id: int, label: str | None = None) -> None:
    st.page_link(
        EXPERIMENT,
        label=label or f"Experiment {experiment_id}",
        icon=":material/science:",
        query_params={"id": str(experiment_id)},
    )


def run_link(run_id: int, label: str) -> None:
    st.page_link(RUN, label=label, icon=":material/notes:", query_params={"id": str(run_id)})


def compare_link(a: str, b: str, label: str) -> None:
    """``a`` and ``b`` as :func:`specdash.store.comparison.choice_text` writes them."""
    st.page_link(
        COMPARE, label=label, icon=":material/compare_arrows:", query_params={"a": a, "b": b}
    )


def advisor_link(label: str) -> None:
    st.page_link(ADVISOR, label=label, icon=":material/explore:")


def advice_link(advice_id: int, label: str) -> None:
    st.page_link(
        ADVISOR, label=label, icon=":material/explore:", query_params={"id": str(advice_id)}
    )


def experiment_url(experiment_id: int) -> str:
    """Relative address, for link columns; it holds under any base path."""
    return f"experiment?id={experiment_id}"


def advice_url(advice_id: int) -> str:
    return f"advisor?id={advice_id}"


def run_url(run_id: int) -> str:
    return f"run?id={run_id}"


def id_param(name: str = "id") -> int | None:
    """A positive id of the query string; anything else is no id."""
    text = st.query_params.get(name, "")
    return int(text) if text.isdecimal() and len(text) < 16 else None
