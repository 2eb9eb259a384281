"""``streamlit run app.py``: the pages of the dashboard."""

import streamlit as st

from specdash.ui import nav
from specdash.ui.gate import ready

# Files of our own: a named icon would be fetched from the internet.
ICON = str(nav.ASSETS / "specdash.svg")
st.set_page_config(page_title="specdash", page_icon=ICON, layout="wide")
st.logo(str(nav.ASSETS / "wordmark.svg"), icon_image=ICON)

page = st.navigation(
    {
        "": [
            st.Page(nav.HOME, title="Home", icon=":material/home:", default=True),
            st.Page(nav.NEW, title="New benchmark", icon=":material/add_circle:", url_path="new"),
            st.Page(nav.ADVISOR, title="Advisor", icon=":material/explore:"),
            st.Page(nav.QUEUE, title="Queue", icon=":material/list_alt:"),
        ],
        "Results": [
            st.Page(nav.HISTORY, title="History", icon=":material/history:"),
            st.Page(nav.COMPARE, title="Compare", icon=":material/compare_arrows:"),
            st.Page(
                nav.EXPERIMENT,
                title="Experiment",
                icon=":material/science:",
                visibility="hidden",
            ),
            st.Page(nav.RUN, title="Run", icon=":material/notes:", visibility="hidden"),
        ],
        "Library": [
            st.Page(nav.MODELS, title="Models and pairs", icon=":material/deployed_code:"),
            st.Page(nav.WORKLOADS, title="Workloads", icon=":material/library_books:"),
            st.Page(nav.ENGINES, title="Engines", icon=":material/dns:"),
        ],
    }
)
if ready():
    page.run()
