"""Long work of a page in a thread of its own: it goes on when the tab closes or is used."""

import threading
from collections.abc import Callable

import streamlit as st

Report = Callable[[float, str], None]
"""Called with the share that is done (0 to 1) and what is being done, in words."""
Task = Callable[[Report], object]


class Work:
    """One task with how far it is and what came of it; a result is kept until the next one."""

    def __init__(self, task: Task) -> None:
        self._share = 0.0
        self._text = ""
        self._result: object = None
        self._error: Exception | None = None
        self._thread = threading.Thread(target=self._run, args=(task,), daemon=True)
        self._thread.start()

    @property
    def is_running(self) -> bool:
        return self._thread.is_alive()

    @property
    def share(self) -> float:
        return self._share

    @property
    def text(self) -> str:
        return self._text

    def wait(self, seconds: float) -> None:
        """Until it ends, at most this long: short work then needs no progress bar."""
        self._thread.join(seconds)

    def result(self) -> object:
        """What the task returned, or its error raised again; ``None`` while it runs."""
        if self._error is not None:
            raise self._error
        return self._result

    def _run(self, task: Task) -> None:
        try:
            self._result = task(self._report)
        except Exception as error:
            self._error = error  # the page that shows the result raises it

    def _report(self, share: float, text: str) -> None:
        self._share, self._text = min(max(share, 0.0), 1.0), text


def start(database: str, name: str, task: Task) -> Work:
    """Begin the task, or hand out the one of that name that is still running."""
    works, lock = _works(database)
    with lock:
        known = works.get(name)
        if known is None or not known.is_running:
            works[name] = Work(task)
        return works[name]


def find(database: str, name: str) -> Work | None:
    """The newest task of that name, running or ended."""
    works, lock = _works(database)
    with lock:
        return works.get(name)


@st.cache_resource(max_entries=4, show_spinner=False)
def _works(database: str) -> tuple[dict[str, Work], threading.Lock]:
    """Of all browsers of this process, by database."""
    return {}, threading.Lock()
