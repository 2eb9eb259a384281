"""The checks beside the form of a new benchmark."""

import streamlit as st

from specdash.store.enqueue import ExperimentRequest


def show(request: ExperimentRequest) -> bool:
    """Show every check; whether one of them forbids queueing."""
    n_prompts = request.n_prompts or 0
    if n_prompts < 3:
        st.markdown(":orange[:material/warning:] Fewer than 3 prompts: no interval.")
    return False
