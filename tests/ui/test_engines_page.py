"""Engines page, engine choice of a new benchmark, and what a server's results look like."""

import json
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import streamlit as st
from sqlalchemy.engine import Engine
from streamlit.testing.v1 import AppTest

from specdash.engines.server_check import RemoteModel, ServerCheck
from specdash.settings import PROJECT_ROOT, Settings
from specdash.store.queries import experiment_report
from specdash.store.servers import ServerView, add_server, get_server, list_servers
from specdash.store.session import read_session
from specdash.store.tokens import read_token, token_path
from specdash.ui import background, gate, nav
from specdash.worker.server_trial import try_server

sys.path.insert(0, str(PROJECT_ROOT / "tests/helpers"))
import seeding


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("SPECDASH_WORKER", "external")
    monkeypatch.setattr(gate, "_prepared", set())
    monkeypatch.setattr("specdash.ui.checks.preflight", lambda *_: ())
    monkeypatch.setattr("specdash.worker.engine_checks.managed_binary", lambda _s: "none found")
    yield
    st.cache_data.clear()
    st.cache_resource.clear()


def open_page(page: str, **params: str) -> AppTest:
    app = AppTest.from_file(str(PROJECT_ROOT / "app.py"), default_timeout=60).run()
    for name, value in params.items():
        app.query_params[name] = value
    app.switch_page(page).run()
    assert not app.exception, app.exception
    return app


def everything(app: AppTest) -> str:
    kinds = (app.title, app.subheader, app.markdown, app.caption, app.error, app.warning)
    text = "\n".join(str(element.value) for kind in kinds for element in kind)
    return text.replace("\\", "")


def answering(engine: str, _address: object) -> ServerCheck:
    models = tuple(RemoteModel(i, i, {"size_bytes": 2**20}) for i in ("big", "small"))
    return ServerCheck(True, f"{engine} answers.", "0.4.25", models, ("drafted tokens",), ("old",))


def server_in(
    db: Engine, settings: Settings, name: str, engine_name: str, **fields: str
) -> ServerView:
    add_server(db, name=name, engine_name=engine_name, url="http://127.0.0.1:9", **fields)  # type: ignore[arg-type]
    return try_server(db, settings, name, look=answering)


def submit(app: AppTest, label: str) -> None:
    next(b for b in app.button if b.label == label).click().run()


def test_a_server_is_added_tested_and_removed(
    engine: Engine, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Importing the page would run it; it imports this anew each time it runs.
    monkeypatch.setattr(
        "specdash.worker.server_trial.try_server",
        lambda e, s, n: try_server(e, s, n, look=answering),
    )
    app = open_page(nav.ENGINES)
    assert "No server is registered." in everything(app)
    app.selectbox(key="e_engine").select("vLLM").run()
    app.text_input(key="e_name").set_value("box")
    app.text_input(key="e_url_vllm").set_value("http://127.0.0.1:9")
    app.text_input(key="e_label").set_value("eagle3, n 4")
    app.text_input(key="e_token").set_value("sk-abc")
    submit(app, "Add and test")
    assert not app.exception
    with read_session(engine) as session:
        server = get_server(session, "box")
    assert (server.engine, server.arm_text) == ("vllm", 'server:label="eagle3, n 4"')
    assert read_token(token_path(settings, "box")) == "sk-abc"
    assert "sk-abc" not in everything(app)
    work = background.find(settings.resolved_database_url, "test-box")
    assert work is not None
    work.wait(40)
    app.run()
    text = everything(app)
    assert "Connected, version 0.4.25; 2 models: `big`, `small`" in text
    assert "with a token" in text
    app.button(key=f"e_remove_{server.server_id}").click().run()
    with read_session(engine) as session:
        assert list_servers(session) == []
    assert read_token(token_path(settings, "box")) is None


def test_a_wrong_address_is_refused_beside_the_form(engine: Engine) -> None:
    app = open_page(nav.ENGINES)
    app.text_input(key="e_name").set_value("box")
    app.text_input(key="e_url_llama-server").set_value("ftp://nowhere")
    submit(app, "Add and test")
    assert "no address" in app.error[0].value.replace("\\", "")
    with read_session(engine) as session:
        assert list_servers(session) == []


def test_the_last_test_says_version_models_and_what_it_counts(
    engine: Engine, settings: Settings
) -> None:
    server_in(engine, settings, "studio", "lm-studio")
    text = everything(open_page(nav.ENGINES))
    assert ":green-badge[:material/check_circle: connected] **studio** · LM Studio" in text
    assert "Connected, version 0.4.25; 2 models: `big`, `small`" in text
    assert "It can count drafted tokens." in text
    assert "old" in text


def test_an_engine_without_a_server_leads_to_the_engines_page(engine: Engine) -> None:
    app = open_page(nav.NEW)
    app.selectbox(key="new_engine").select("SGLang").run()
    assert not app.exception
    assert "No SGLang server is registered." in everything(app)
    assert not any(b.key == "new_queue" for b in app.button)


def test_lm_studio_has_its_own_models_methods_and_names(
    engine: Engine, settings: Settings, tmp_path: Path
) -> None:
    seeding.seed_workload(engine, "seeded", n_prompts=4)
    seeding.seed_model(engine, seeding.scripted_file(tmp_path), "file")
    server_in(engine, settings, "studio", "lm-studio")
    app = open_page(nav.NEW)
    app.selectbox(key="new_engine").select("LM Studio").run()
    assert app.selectbox(key="new_target_studio").options == ["studio/big", "studio/small"]
    assert app.selectbox(key="new_method_lm-studio").options == ["draft-simple", "draft-mtp"]
    assert app.selectbox(key="new_draft-simple_model").options == ["studio/small"]
    field = app.number_input(key="new_draft-simple_n_max")
    assert field.label == "Max draft tokens"
    assert "Power User mode" in field.help
    app.button(key="new_add").click().run()
    app.selectbox(key="new_workload").select("seeded").run()
    app.pills[0].select(4).run()
    app.button(key="new_queue").click().run()
    assert not app.exception
    with read_session(engine) as session:
        experiment = experiment_report(session, 1).experiment
    assert experiment.arm_texts == ("off", "draft-simple:model=studio/small")
    assert (experiment.engine, experiment.target) == ("lm-studio", "studio/big")
    assert experiment.server is not None
    assert experiment.server["name"] == "studio"
    assert experiment.protocol["concurrency"] == [4]
    assert "lm-studio at studio" in everything(app)
    assert any("--server studio --concurrency 4" in c.value for c in app.code)


def test_a_server_that_cannot_be_told_measures_what_it_runs(
    engine: Engine, settings: Settings
) -> None:
    seeding.seed_workload(engine, "seeded", n_prompts=4)
    server_in(engine, settings, "box", "vllm", arm_text="server:label=eagle3")
    app = open_page(nav.NEW)
    app.selectbox(key="new_engine").select("vLLM").run()
    assert not any(s.key and s.key.startswith("new_method") for s in app.selectbox)
    app.button(key="new_queue").click().run()
    assert not app.exception
    with read_session(engine) as session:
        assert experiment_report(session, 1).experiment.arm_texts == ("off", "server:label=eagle3")


def test_each_engine_keeps_its_own_arms(engine: Engine, tmp_path: Path) -> None:
    seeding.seed_workload(engine, "seeded", n_prompts=4)
    seeding.seed_model(engine, seeding.scripted_file(tmp_path), "file")
    app = open_page(nav.NEW)
    app.button(key="new_remove_1").click().run()
    app.selectbox(key="new_engine").select("llama-server").run()
    assert app.session_state["new_arms_llama-server"] == ["ngram-simple:size_n=4,size_m=16"]
    assert "draft-eagle3" in app.selectbox(key="new_method_llama-server").options
    app.selectbox(key="new_engine").select("llama-cpp-python, in process").run()
    assert app.session_state["new_arms"] == []


def test_an_experiment_shows_up_to_which_load_it_pays(engine: Engine, tmp_path: Path) -> None:
    workload = seeding.seed_workload(engine, "seeded", n_prompts=8)
    script = seeding.scripted_file(
        tmp_path, noise=0.0, most_parallel=8, methods={"ngram-simple": {"speed_up": 1.6}}
    )
    target = seeding.seed_model(engine, script, "scripted")
    seeding.seed_experiment(engine, workload, target, concurrency=(2, 4, 8), rounds=1)
    app = open_page(nav.EXPERIMENT, id="1")
    assert "Under load" in everything(app)
    assert "**Pays up to about 4 parallel requests.**" in everything(app)
    assert "Pays up to about 4 parallel requests" in [
        json.loads(c.proto.spec)["layout"].get("title", {}).get("text") or c.proto.alt
        for c in app.get("plotly_chart")
    ]
    # Every run of the blocks, and none of the sweeps.
    assert "16 runs in order of execution" in everything(app)


def test_levels_that_could_not_be_served_are_said(engine: Engine, tmp_path: Path) -> None:
    workload = seeding.seed_workload(engine, "seeded", n_prompts=4)
    script = seeding.scripted_file(tmp_path, most_parallel=2)
    target = seeding.seed_model(engine, script, "scripted")
    seeding.seed_experiment(engine, workload, target, concurrency=(2, 4), rounds=1)
    app = open_page(nav.EXPERIMENT, id="1")
    assert "4 parallel requests were not measured" in everything(app)
