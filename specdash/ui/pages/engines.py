"""Engines: what runs models here, and servers elsewhere: add, test, remove."""

from collections.abc import Mapping
from datetime import datetime

import streamlit as st

from specdash.domain.arms import parse_arm
from specdash.engines.registry import DEFAULT_ENGINE, ENGINES, EngineInfo, engine_info
from specdash.errors import SpecdashError
from specdash.store.servers import ServerView, add_server, labelled_arm, remove_server
from specdash.store.tokens import checked_token, remove_token, save_token, token_path
from specdash.ui import background, components, data, nav
from specdash.ui import format as fmt
from specdash.ui.words import Badge
from specdash.worker.engine_checks import managed_binary
from specdash.worker.server_trial import try_server

_SHORT_LOOK_S = 2.0
_POLL_EVERY = "1s"
_MODELS_SHOWN = 12
_STATES: Mapping[bool | None, Badge] = {
    True: Badge("connected", ":material/check_circle:", "green"),
    False: Badge("no answer", ":material/error:", "red"),
    None: Badge("not tested", ":material/help:", "gray"),
}
_TWO_SERVERS = (
    "At an address it speculates as it was started, so on and off are two servers of one model."
)
_REACHED = [i for i in ENGINES.values() if i.address != "none" and not i.is_fake]


def _here() -> None:
    st.subheader("On this machine")
    found = managed_binary(data.settings())
    left, right = st.columns(2)
    with left, st.container(border=True, height="stretch"):
        info = engine_info(DEFAULT_ENGINE)
        st.markdown(f":material/memory: **{info.title}**")
        st.caption(info.summary)
    with right, st.container(border=True, height="stretch"):
        info = engine_info("llama-server")
        st.markdown(f":material/terminal: **{info.title}**")
        st.caption(info.summary)
        if isinstance(found, str):
            st.caption(f":material/block: {fmt.plain(found)}")
        else:
            st.caption(
                f":material/check_circle: {fmt.plain(found.version)} at {fmt.code(str(found.path))}"
            )


def _servers() -> None:
    st.subheader("Servers")
    found = data.servers()
    if not found:
        components.empty_state(
            "No server is registered.",
            "None is needed for the engines above. Add one to measure LM Studio, vLLM, SGLang or a "
            "llama-server that somebody else runs.",
            ":material/dns:",
        )
    for server in found:
        _server(server)


def _server(server: ServerView) -> None:
    test = server.last_test or {}
    work = background.find(_database(), _work_name(server.name))
    is_testing = work is not None and work.is_running
    with st.container(border=True, key=f"server_{server.server_id}"):
        st.markdown(
            f"{_STATES[server.is_ok].markdown()} **{fmt.plain(server.name)}** · "
            f"{engine_info(server.engine).title}"
        )
        st.caption(_address_words(server))
        if test.get("text") and not server.is_ok:
            st.markdown(fmt.plain(str(test["text"])))
        _tested(server, test)
        with st.container(horizontal=True):
            st.button(
                "Test",
                icon=":material/network_check:",
                key=f"e_test_{server.server_id}",
                disabled=is_testing,
                on_click=components.act,
                args=(_start_test, server.name),
            )
            _token(server)
            with st.popover("Remove", icon=":material/delete:"):
                st.caption("Results stay, with a copy of what they were measured on.")
                st.button(
                    f"Remove {server.name}",
                    key=f"e_remove_{server.server_id}",
                    on_click=components.act,
                    args=(_remove, server.name),
                )
        if is_testing:
            st.fragment(_wait, key=f"e_wait_{server.server_id}", run_every=_POLL_EVERY)(server.name)


def _address_words(server: ServerView) -> str:
    text = f"at {fmt.code(server.url)}"
    if server.arm_text is not None:
        arm = parse_arm(server.arm_text)
        label = arm.calls[0].get("label")
        text += " without speculation" if arm.is_off else f", runs {fmt.code(str(label))}"
    if server.baseline_url is not None:
        text += f"; off is measured at {fmt.code(server.baseline_url)}"
    if token_path(data.settings(), server.name).is_file():
        text += " · with a token"
    return text


def _tested(server: ServerView, test: Mapping[str, object]) -> None:
    if server.is_ok:
        version = f", version {fmt.plain(str(test['version']))}" if test.get("version") else ""
        shown = [fmt.code(m) for m in list(server.models)[:_MODELS_SHOWN]]
        more = len(server.models) - len(shown)
        listed = ", ".join(shown) + (f" and {more} more" if more else "")
        n = fmt.plural(len(server.models), "model")
        st.markdown(f"Connected{version}; {n}{': ' if listed else ''}{listed}")
    counts = _lines(test.get("counts"))
    if counts:
        st.caption(f":material/tag: It can count {fmt.plain('; '.join(counts))}.")
    for line in _lines(test.get("warnings")):
        st.caption(f":orange[:material/warning:] {fmt.plain(line)}")
    if isinstance(test.get("at"), str):
        at = datetime.fromisoformat(str(test["at"]))
        st.caption(f"Tested {fmt.plain(fmt.when(at, components.zone()))}")


def _lines(value: object) -> list[str]:
    return [str(line) for line in value] if isinstance(value, list) else []


def _token(server: ServerView) -> None:
    with st.popover("Token", icon=":material/key:"):
        has_one = token_path(data.settings(), server.name).is_file()
        with st.form(f"e_token_form_{server.server_id}", border=False, clear_on_submit=True):
            token = st.text_input(
                "New token",
                type="password",
                key=f"e_token_{server.server_id}",
                help="Kept in a file of the data folder that only you can read; never in the "
                "database, a log or an export.",
            )
            if st.form_submit_button("Keep it", icon=":material/key:"):
                save_token(data.settings(), server.name, token)
                st.rerun()
        if has_one and st.button("Forget it", key=f"e_forget_{server.server_id}"):
            remove_token(data.settings(), server.name)
            st.rerun()


def _add() -> None:
    with st.container(border=True):
        st.subheader("Add a server")
        by_title = {i.title: i for i in _REACHED}
        info = by_title[st.selectbox("Engine", list(by_title), key="e_engine")]
        takes_label = "server" in info.methods
        st.caption(_TWO_SERVERS if takes_label else info.summary)
        with st.form("e_add", border=False):
            left, right = st.columns(2)
            with left:
                name = st.text_input(
                    "Name", key="e_name", placeholder="gpu-box", help="What you call it."
                )
                url = st.text_input(
                    "Address of the speculative server" if takes_label else "Address",
                    key=f"e_url_{info.name}",
                    placeholder=info.default_url,
                    help="http or https, host and port.",
                )
            with right:
                token = st.text_input(
                    "Token, if it asks for one",
                    type="password",
                    key="e_token",
                    help="Kept in a file of the data folder that only you can read.",
                )
                baseline = _second_address() if takes_label else ""
            label = _label() if takes_label else ""
            clicked = st.form_submit_button("Add and test", icon=":material/add:", type="primary")
        if clicked:
            _added(
                info,
                name.strip(),
                url or info.default_url or "",
                baseline=baseline,
                label=label,
                token=token,
            )


def _second_address() -> str:
    return st.text_input(
        "Address of the same model without speculation",
        key="e_baseline",
        help="off is measured there. Without one, off is not measured at this server.",
    )


def _label() -> str:
    return st.text_input(
        "How it speculates, in your words",
        key="e_label",
        placeholder="eagle3-n4",
        help="Shown as the arm server:label=... Empty: it does not speculate.",
    )


def _added(info: EngineInfo, name: str, url: str, *, baseline: str, label: str, token: str) -> None:
    try:
        kept = checked_token(token) if token.strip() else None
        server = add_server(
            data.engine(),
            name=name,
            engine_name=info.name,
            url=url,
            baseline_url=baseline.strip() or None,
            arm_text=labelled_arm(label) if label.strip() else None,
        )
        if kept is not None:
            save_token(data.settings(), server.name, kept)
    except SpecdashError as error:
        components.error_box(error)
        return
    _start_test(server.name)
    st.rerun()


def _remove(name: str) -> None:
    remove_server(data.engine(), name)
    remove_token(data.settings(), name)


def _start_test(name: str) -> None:
    engine, settings = data.engine(), data.settings()
    background.start(
        _database(), _work_name(name), lambda _report: try_server(engine, settings, name)
    ).wait(_SHORT_LOOK_S)


def _wait(name: str) -> None:
    work = background.find(_database(), _work_name(name))
    if work is None or not work.is_running:
        st.rerun()
    else:
        st.caption(":material/hourglass_top: Asking the server; at most half a minute.")


def _work_name(server: str) -> str:
    return f"test-{server}"


def _database() -> str:
    return data.settings().resolved_database_url


def _page() -> None:
    st.title("Engines")
    _here()
    _servers()
    _add()
    st.page_link(nav.NEW, label="New benchmark", icon=":material/add_circle:")


with components.page_guard():
    _page()
