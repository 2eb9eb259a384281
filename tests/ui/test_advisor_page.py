"""The advisor's page: asking, watching, going on, reading the answer."""

import json
import sys
from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest
import streamlit as st
from advice_fakes import CANDIDATES, DECISION, RUNGS, SIMPLE, advice_view
from fakes import NOON
from sqlalchemy.engine import Engine
from sqlmodel import select
from streamlit.testing.v1 import AppTest

from specdash.advisor.decision import Computer
from specdash.advisor.expiry import Standing
from specdash.advisor.plan import SearchPlan
from specdash.advisor.question import Question
from specdash.domain.calibration import Calibration
from specdash.settings import PROJECT_ROOT
from specdash.store.advices import AdviceView, ask, get_advice, list_advices, update_advice
from specdash.store.calibrations import CalibrationView, save_calibration
from specdash.store.queries import experiment_report
from specdash.store.session import read_session, write_session
from specdash.store.tables import Experiment, Job, utc_now
from specdash.store.views import ExperimentReport
from specdash.store.workloads import set_weights
from specdash.ui import advice_home, gate, nav
from specdash.ui.calibration_part import age_words, key_facts, matching

sys.path.insert(0, str(PROJECT_ROOT / "tests/helpers"))
import seeding


@pytest.fixture(autouse=True)
def no_worker(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("SPECDASH_WORKER", "external")
    monkeypatch.setattr(gate, "_prepared", set())
    yield
    st.cache_data.clear()
    st.cache_resource.clear()


@pytest.fixture
def seeded(engine: Engine, tmp_path: Path) -> Engine:
    """A workload of two categories, a target, a draft, three finished experiments."""
    workload = seeding.seed_workload(engine, "seeded", n_prompts=4)
    script = seeding.scripted_file(tmp_path, methods={"ngram-simple": {"speed_up": 1.4}})
    target = seeding.seed_model(engine, script, "target")
    seeding.seed_model(engine, seeding.scripted_file(tmp_path, "small"), "small")
    for tokens in (100, 110, 120):
        seeding.seed_experiment(engine, workload, target, (SIMPLE,), max_tokens=tokens)
    return engine


def asked(engine: Engine, **values: object) -> int:
    question = Question(1, 1, (2,), engine="scripted")
    made = ask(engine, target_model_id=1, workload_id=1, request=question.to_json())
    update_advice(engine, made, **values)
    return made


def answered(engine: Engine, **values: object) -> int:
    steps = {"baseline": 1, "search": 2, "confirm": 3}
    return asked(
        engine,
        state="succeeded",
        result=DECISION.to_json(),
        **{f"{step}_experiment_id": i for step, i in steps.items()},
        **values,
    )


def open_page(page: str = nav.ADVISOR, **params: str) -> AppTest:
    app = AppTest.from_file(str(PROJECT_ROOT / "app.py"), default_timeout=60).run()
    for name, value in params.items():
        app.query_params[name] = value
    app.switch_page(page).run()
    assert not app.exception, app.exception
    return app


def everything(app: AppTest) -> str:
    kinds = (app.title, app.subheader, app.markdown, app.caption, app.error, app.warning, app.info)
    return "\n".join(str(element.value) for kind in kinds for element in kind)


def test_an_empty_database_offers_the_demo_model_and_tells_what_will_happen(
    engine: Engine,
) -> None:
    app = open_page()
    assert app.selectbox(key="adv_target").value == "SmolLM2-135M-Instruct.Q4_1"
    assert "1. **Calibrate**" in everything(app)
    assert "Asked before" not in everything(app)


def test_a_question_is_stored_once_and_opens_its_own_address(seeded: Engine) -> None:
    app = open_page()
    app.selectbox(key="adv_target").select("target").run()
    app.selectbox(key="adv_workload").select("seeded").run()
    app.number_input(key="adv_budget").set_value(3.0).run()
    app.button(key="adv_ask").click().run()
    assert not app.exception
    assert app.title[0].value == "Advice 1"
    with read_session(seeded) as session:
        advice = get_advice(session, 1)
    question = Question.from_json(advice.request)
    assert (question.budget_s, question.max_tokens, question.draft_ids) == (180.0, 256, (2,))
    assert (question.engine, question.mix) == ("scripted", {})
    again = open_page()
    again.selectbox(key="adv_target").select("target").run()
    again.selectbox(key="adv_workload").select("seeded").run()
    again.number_input(key="adv_budget").set_value(3.0).run()
    again.button(key="adv_ask").click().run()
    assert again.title[0].value == "Advice 1"
    with read_session(seeded) as session:
        assert len(list_advices(session)) == 1


def test_the_form_says_what_it_can_see_and_which_drafts_it_left_out(
    seeded: Engine, tmp_path: Path
) -> None:
    for name in ("d1", "d2", "d3", "d4", "d5"):
        seeding.seed_model(seeded, seeding.scripted_file(tmp_path, name), name)
    app = open_page()
    app.selectbox(key="adv_target").select("target").run()
    app.selectbox(key="adv_workload").select("seeded").run()
    said = everything(app)
    assert "4 of 6 chosen" in said
    assert "**Smallest effect** · on the 4 prompts of the confirmation, a true change of" in said


def test_a_mix_is_asked_only_where_it_was_changed(seeded: Engine) -> None:
    app = open_page()
    app.selectbox(key="adv_target").select("target").run()
    app.selectbox(key="adv_workload").select("seeded").run()
    weights = [n for n in app.number_input if (n.key or "").startswith("adv_mix_")]
    assert len(weights) == 2
    weights[0].set_value(3.0).run()
    app.button(key="adv_ask").click().run()
    with read_session(seeded) as session:
        question = Question.from_json(get_advice(session, 1).request)
    assert sorted(question.mix.values()) == [1.0, 3.0]


def test_a_question_that_cannot_be_asked_is_refused_in_words(seeded: Engine) -> None:
    app = open_page()
    app.selectbox(key="adv_target").select("target").run()
    app.selectbox(key="adv_workload").select("seeded").run()
    for weight in [n for n in app.number_input if (n.key or "").startswith("adv_mix_")]:
        weight.set_value(0.0).run()
    app.button(key="adv_ask").click().run()
    assert "All weights are 0" in app.error[0].value
    with read_session(seeded) as session:
        assert list_advices(session) == []


def test_a_running_advice_shows_its_steps_and_can_be_cancelled(seeded: Engine) -> None:
    waiting = seeding.queue_scripted(seeded, 1, 1, (SIMPLE,), max_tokens=99)
    plan = SearchPlan(
        ("p0",),
        ("p1",),
        True,
        "scripted",
        tuple(replace(r, state="open", measured=None) for r in RUNGS),
        tuple(replace(c, status="open", measured=None) for c in CANDIDATES),
    )
    made = asked(
        seeded,
        state="running",
        plan=plan.to_json(),
        baseline_experiment_id=1,
        search_experiment_id=waiting.experiment_id,
    )
    text = everything(open_page(id=str(made)))
    assert "**Search** · running" not in text
    assert "number 1 in the queue" in text
    with write_session(seeded) as session:
        session.get_one(Job, waiting.job_id).state = "running"
    app = open_page(id=str(made))
    text = everything(app)
    assert "**Search** · running" in text
    assert "**Predicted, not measured yet" in text
    assert len(app.get("progress")) == 1
    app.button(key="advice_cancel").click().run()
    assert app.button(key="advice_cancel").disabled
    with read_session(seeded) as session:
        assert get_advice(session, made).cancel_requested


def test_a_stopped_advice_says_why_and_goes_on(seeded: Engine) -> None:
    made = asked(
        seeded, state="failed", error_text="The search failed: out of memory.",
        baseline_experiment_id=1,
    )  # fmt: skip
    app = open_page(id=str(made))
    assert "out of memory" in app.error[0].value
    assert "· stopped" in everything(app)
    app.button(key="advice_resume").click().run()
    with read_session(seeded) as session:
        assert get_advice(session, made).state == "queued"


def test_the_answer_comes_first_with_its_warning_interval_price_and_settings(
    seeded: Engine,
) -> None:
    app = open_page(id=str(answered(seeded)))
    assert app.subheader[0].value.startswith(f"Use `{SIMPLE}` on extract")
    assert "It clearly depends on the category" in app.warning[0].value
    metrics = {m.label: m.value for m in app.metric}
    assert metrics["Speed against off"] == "1.40x"
    assert metrics["95 % interval"] == "1.29x to 1.52x"
    assert metrics["More memory"] == "none beyond the target"
    assert [t.label for t in app.tabs] == ["llama-server", "vLLM"]
    assert app.code[0].value == "llama-server --model m.gguf"
    text = everything(app)
    assert "vLLM has no such method" in text
    assert "from prompts that were not used to choose it" in text
    assert "**1 · Lookup in the text itself** :green-badge" in text
    assert len(app.get("plotly_chart")) == 2
    assert app.dataframe[0].value["Became"].tolist()[1] == "left the search"


def test_the_answer_links_its_evidence_and_explains_itself(seeded: Engine) -> None:
    app = open_page(id=str(answered(seeded)))
    assert any("tokens per target pass" in m.value or "accepted" in m.value for m in app.markdown)
    links = [link.proto.label for link in app.get("page_link")]
    assert "Confirmation: experiment 3" in links


def test_an_answer_that_no_longer_holds_asks_for_a_new_test(
    seeded: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = answered(seeded)
    monkeypatch.setattr("specdash.ui.data.standing", lambda *_: Standing(("engine version",)))
    app = open_page(id=str(made))
    assert "**Re-test.** Engine version changed" in everything(app)
    former = open_page()
    table = former.dataframe[0].value
    assert table["Still holds"].tolist() == ["re-test: engine version changed"]
    assert table["Machine"].tolist() == ["workstation (Imagined CPU 8-core)"]
    app.button(key="advice_again").click().run()
    assert app.title[0].value == f"Advice {made + 1}"


def test_an_answer_of_another_machine_says_so(
    seeded: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = answered(seeded)
    monkeypatch.setattr("specdash.ui.data.standing", lambda *_: Standing(elsewhere="attic"))
    text = everything(open_page(id=str(made)))
    assert "Measured on another machine (attic)" in text
    assert "Re-test" not in text
    table = open_page().dataframe[0].value
    assert table["Still holds"].tolist() == ["measured on another machine (attic)"]


def test_an_answer_names_its_machine_and_the_mix_it_rests_on(seeded: Engine) -> None:
    set_weights(seeded, 1, {"records": 3.0, "letters": 1.0})
    text = everything(open_page(id=str(asked(seeded, state="cancelled"))))
    assert "records 75" in text
    text = everything(open_page(id=str(answered(seeded))))
    assert "Measured on workstation \\(Imagined CPU 8\\-core\\)" in text
    assert "records 75" in text


def test_the_why_names_its_experiment_and_shows_the_lengths_of_the_search(
    seeded: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    shown: list[tuple[int, list[str]]] = []

    def show_arm(
        report: ExperimentReport, *_: object, beside: Sequence[tuple[object, str]]
    ) -> None:
        shown.append((report.experiment.experiment_id, [where for _, where in beside]))

    monkeypatch.setattr("specdash.ui.why_panel.show_arm", show_arm)
    text = everything(open_page(id=str(answered(seeded))))
    assert "Of the confirmation, experiment 3." in text
    assert shown == [(3, ["experiment 2", "experiment 2"])]


def test_home_keeps_the_answers_of_two_machines_apart() -> None:
    def view(number: int, fingerprint: str) -> AdviceView:
        fields = {"machine_fingerprint": fingerprint}
        result = replace(DECISION, key_fields=fields, machine=Computer(fingerprint)).to_json()
        return advice_view(advice_id=number, state="succeeded", result=result, finished_at=NOON)

    views = [view(4, "attic"), view(3, "cellar"), view(2, "attic")]
    assert [a.advice_id for a in advice_home.newest(views)] == [4, 3]
    assert "· cellar ·" in advice_home.line(views[1])


def test_a_calibration_is_drawn_when_it_is_opened(seeded: Engine) -> None:
    with write_session(seeded) as session:
        experiment = session.exec(select(Experiment).where(Experiment.id == 1)).one()
        times = {64: {1: 0.01, 4: 0.02}, 512: {1: 0.012, 4: 0.03}}
        row = save_calibration(session, experiment, Calibration(times, drift=0.08, n_repeats=5))
        stored = row.id
    app = open_page(id=str(answered(seeded, calibration_id=stored)))
    n_charts = len(app.get("plotly_chart"))
    app.session_state[f"calibration_{stored}"] = True
    app.run()
    assert not app.exception
    assert len(app.get("plotly_chart")) == n_charts + 1
    assert "**not steady**: the machine drifted by 8 %" in everything(app)
    app.button(key="calibrate_advice").click().run()
    assert app.title[0].value == "Experiment 4"


def test_home_tells_the_newest_answer_and_leads_to_the_advisor(seeded: Engine) -> None:
    answered(seeded)
    app = AppTest.from_file(str(PROJECT_ROOT / "app.py"), default_timeout=60).run()
    assert not app.exception
    assert "use it" in everything(app)
    assert any(link.proto.label == "Ask the advisor" for link in app.get("page_link"))


@pytest.mark.parametrize("text", ["999", "x", "-1"])
def test_an_unknown_advice_is_a_state_and_not_a_traceback(seeded: Engine, text: str) -> None:
    app = open_page(id=text)
    assert not app.error
    assert "There is no advice" in everything(app) or "Which draft is best?" in everything(app)


def arm_id(engine: Engine, experiment_id: int) -> int:
    with read_session(engine) as session:
        return next(
            a.arm_id for a in experiment_report(session, experiment_id).arms if a.ratio != 1
        )


def test_an_experiment_explains_its_ratio_and_offers_a_calibration(seeded: Engine) -> None:
    app = open_page(nav.EXPERIMENT, id="1")
    assert any(m.value.startswith(":material/lightbulb:") for m in app.markdown)
    n_charts = len(app.get("plotly_chart"))
    app.session_state[f"why_{arm_id(seeded, 1)}"] = True
    app.run()
    assert not app.exception
    assert len(app.get("plotly_chart")) == n_charts + 2
    assert "No calibration of these models" in everything(app)
    app.button(key=f"calibrate_{arm_id(seeded, 1)}").click().run()
    assert not app.exception
    assert app.title[0].value == "Experiment 4"
    with read_session(seeded) as session:
        queued = session.exec(select(Experiment).where(Experiment.id == 4)).one()
        assert (queued.purpose, queued.engine) == ("calibrate", "scripted")
        assert queued.protocol["calibration"] is not None


def test_a_calibration_that_holds_prices_every_length(seeded: Engine) -> None:
    with read_session(seeded) as session:
        facts = key_facts(experiment_report(session, 1).experiment)
    with write_session(seeded) as session:
        experiment = session.exec(select(Experiment).where(Experiment.id == 1)).one()
        times = {64: {1: 0.01, 8: 0.02}, 512: {1: 0.012, 8: 0.03}}
        save_calibration(session, experiment, Calibration(times, key_fields=facts))
    app = open_page(nav.EXPERIMENT, id="1")
    app.session_state[f"why_{arm_id(seeded, 1)}"] = True
    app.run()
    assert not app.exception
    assert not [b for b in app.button if b.label == "Calibrate this target"]
    assert "The calibration that prices these passes was measured just now." in everything(app)
    assert [b.key for b in app.button if b.label == "Calibrate again"] == [
        f"calibrate_{arm_id(seeded, 1)}"
    ]
    figures = [json.loads(c.proto.spec) for c in app.get("plotly_chart")]
    (curve,) = (
        trace
        for figure in figures
        for trace in figure["data"]
        if trace.get("name") == "predicted, from acceptance and calibration"
    )
    assert curve["x"] == list(range(17))


def test_a_calibration_of_another_machine_or_without_the_draft_does_not_hold() -> None:
    times = {64: {1: 0.01, 4: 0.02}}
    view = CalibrationView(
        calibration_id=1,
        calibration=Calibration(times, key_fields={"machine_fingerprint": "here", "n_threads": 2}),
        target="t",
        target_model_id=1,
        machine="here",
        machine_fingerprint="here",
        experiment_id=None,
        created_at=NOON,
    )
    assert matching([view], {"machine_fingerprint": "here"}) is view
    assert matching([view], {"machine_fingerprint": "there"}) is None
    assert matching([view], {"machine_fingerprint": "here"}, ["d" * 64]) is None
    drifted = replace(view, calibration=replace(view.calibration, drift=0.2))
    assert matching([drifted], {"machine_fingerprint": "here"}) is None


def test_a_calibration_older_than_the_advisor_relies_on_asks_to_be_measured_again() -> None:
    known = Calibration({64: {1: 0.01, 64: 0.05}})
    view = CalibrationView(1, known, "target", 1, "workstation", "here", 1, utc_now())
    old = replace(view, created_at=utc_now() - timedelta(days=8))
    assert "calibrate again" not in age_words(view)
    assert "8 days ago; the advisor relies on one for 7 days." in age_words(old)
    assert "No calibration of these models" in age_words(None)
