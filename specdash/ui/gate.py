"""What must hold before any page runs: a schema this code knows, and a worker."""

import threading

import streamlit as st
from sqlalchemy.exc import DatabaseError

from specdash.errors import SchemaError, SpecdashError
from specdash.settings import Settings
from specdash.store.schema import UPGRADE_COMMAND, check_schema
from specdash.store.workloads import sync_shipped
from specdash.ui import components, data
from specdash.worker.launch import ensure_worker
from specdash.worker.processes import is_thread_lowered, lower_thread_priority

_lock = threading.Lock()
_prepared: set[str] = set()


def ready() -> bool:
    """Whether pages may run; says why not. Never migrates."""
    try:
        check_schema(data.engine())
        _prepare_once(data.settings())
        if not is_thread_lowered():  # a worker, and its runner, would inherit that
            ensure_worker(data.settings())
    except SchemaError as error:
        st.title("The database needs attention")
        components.error_box(error)
        st.code(UPGRADE_COMMAND, language="bash")
        st.button("Check again", icon=":material/refresh:", type="primary", key="gate_retry")
        return False
    except (SpecdashError, DatabaseError) as error:
        st.title("The database cannot be used")
        components.show_problem(error)
        return False
    # Drawing pages yields to measuring.
    lower_thread_priority()
    return True


def _prepare_once(settings: Settings) -> None:
    """Shipped workloads, once a process and database, whatever reruns there are."""
    url = settings.resolved_database_url
    with _lock:
        if url in _prepared:
            return
        sync_shipped(data.engine())
        _prepared.add(url)
