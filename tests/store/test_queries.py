from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
import sqlalchemy as sa
from sqlalchemy.engine import Engine
from sqlmodel import col

from specdash.domain.verdict import Verdict
from specdash.errors import NotFoundError
from specdash.store import jobs, queries
from specdash.store.hosts import host_name, process_start
from specdash.store.session import read_session, write_session
from specdash.store.tables import Job, WorkerRow, WorkloadVersion, utc_now
from specdash.store.views import HistoryFilter
from specdash.worker.queue import Outcome
from tests.helpers.seeding import (
    queue_scripted,
    scripted_file,
    seed_experiment,
    seed_history,
    seed_model,
    seed_workload,
)


@pytest.fixture
def workload(engine: Engine) -> int:
    return seed_workload(engine)


@pytest.fixture
def target(engine: Engine, tmp_path: Path) -> int:
    script = {"ngram-simple": {"speed_up": 1.5}, "prompt-lookup": {"speed_up": 0.8}}
    return seed_model(engine, scripted_file(tmp_path, methods=script), "target")


def test_a_report_has_a_verdict_per_arm(engine: Engine, workload: int, target: int) -> None:
    arms = ("ngram-simple:size_n=3,size_m=8", "prompt-lookup")
    experiment_id = seed_experiment(engine, workload, target, arms)
    with read_session(engine) as session:
        report = queries.experiment_report(session, experiment_id)
    assert (report.n_prompts, report.n_rounds, report.is_partial) == (4, 2, False)
    assert [a.verdict for a in report.arms] == [None, Verdict.FASTER, Verdict.SLOWER]
    assert [round(a.ratio or 0, 1) for a in report.arms] == [1.0, 1.5, 0.8]
    assert report.experiment.machine == "workstation"
    assert report.experiment.base_key_fields["machine_fingerprint"] == "seeded-machine"
    assert report.experiment.base_key is not None


def test_an_unfinished_experiment_is_partial_and_has_no_verdict(
    engine: Engine, workload: int, target: int
) -> None:
    outcome = Outcome("failed", "signal", "The runner was ended by SIGKILL (killed).")
    experiment_id = seed_experiment(engine, workload, target, outcome=outcome)
    with read_session(engine) as session:
        report = queries.experiment_report(session, experiment_id)
    assert report.is_partial
    assert report.experiment.job.error_text == outcome.error_text
    assert [(a.status, a.verdict) for a in report.arms] == [("partial", None)] * 2
    assert report.arms[1].n_runs > 0


def test_unknown_ids_raise_not_found(engine: Engine) -> None:
    with read_session(engine) as session:
        for query in (
            queries.get_job,
            queries.experiment_report,
            queries.run_detail,
            queries.get_model,
            queries.get_workload,
        ):
            with pytest.raises(NotFoundError, match="5"):
                query(session, 5)


def test_an_empty_database_answers_every_query(engine: Engine) -> None:
    with read_session(engine) as session:
        assert queries.list_jobs(session) == []
        assert queries.history(session, HistoryFilter()) == []
        assert queries.list_models(session) == []
        assert queries.list_workloads(session) == []
        assert queries.list_runs(session, 1) == []
        assert queries.history_facets(session)["workloads"] == {}
        assert queries.worker_status(session).alive is False
        assert queries.revision(session) == 0


def test_runs_come_in_order_with_derived_speeds(engine: Engine, workload: int, target: int) -> None:
    experiment_id = seed_experiment(engine, workload, target)
    with read_session(engine) as session:
        runs = queries.list_runs(session, experiment_id)
    assert [r.order_index for r in runs] == list(range(16))
    assert {r.arm for r in runs} == {"off", "ngram-simple:size_n=3,size_m=8"}
    first = runs[0]
    assert first.decode_s is not None
    assert first.decode_tok_s == pytest.approx((first.n_generated - 1) / first.decode_s)
    assert (first.acceptance_rate, first.n_drafted, first.equal_off) == (None, 0, None)
    on = next(r for r in runs if r.arm != "off")
    assert on.n_drafted is not None
    assert on.n_accepted is not None
    assert on.acceptance_rate == pytest.approx(on.n_accepted / on.n_drafted)
    assert (on.equal_off, on.first_difference, on.agreement) == (True, None, 1.0)


def test_a_run_is_shown_with_the_off_run_of_its_block(
    engine: Engine, workload: int, target: int
) -> None:
    experiment_id = seed_experiment(engine, workload, target)
    with read_session(engine) as session:
        runs = queries.list_runs(session, experiment_id)
        on = next(r for r in runs if r.arm != "off" and r.round == 1)
        detail = queries.run_detail(session, on.run_id)
        off = queries.run_detail(session, detail.off_run_id or 0)
    assert (off.run.prompt_id, off.run.round, off.run.arm) == (on.prompt_id, 1, "off")
    assert off.off_run_id is None
    assert detail.off_token_ids == off.token_ids == detail.token_ids
    assert "".join(detail.token_texts) == detail.text
    assert detail.steps is not None
    assert sum(s.n_drafted for s in detail.steps) == on.n_drafted
    assert detail.messages[0]["role"] == "user"


def test_jobs_are_listed_running_queued_finished(
    engine: Engine, workload: int, target: int
) -> None:
    seed_experiment(engine, workload, target)
    seed_experiment(engine, workload, target)
    for _ in range(3):
        queue_scripted(engine, workload, target)
    with write_session(engine) as session:
        session.exec(sa.update(Job).where(col(Job.id) == 4).values(state="running"))
    with read_session(engine) as session:
        jobs = queries.list_jobs(session)
        active = queries.list_jobs(session, active_only=True)
    assert [(j.job_id, j.position) for j in jobs] == [
        (4, None),
        (3, 1),
        (5, 2),
        (2, None),
        (1, None),
    ]
    assert [j.job_id for j in active] == [4, 3, 5]
    assert jobs[0].workload == "seeded"
    assert jobs[0].arms == ("off", "ngram-simple:size_n=3,size_m=8")


def test_history_filters_and_pages(engine: Engine, tmp_path: Path) -> None:
    seed_history(engine, tmp_path, n_runs=240)
    with read_session(engine) as session:
        everything = queries.history(session, HistoryFilter())
        page = queries.history(session, HistoryFilter(), limit=3, offset=2)
        chat = queries.history(session, HistoryFilter(workloads=("chat",), arms=("prompt-lookup",)))
        late = queries.history(session, HistoryFilter(since=datetime(2026, 1, 3, tzinfo=UTC)))
        none = queries.history(session, HistoryFilter(machines=("elsewhere",)))
        facets = queries.history_facets(session)
    assert [r.experiment_id for r in everything] == [4, 4, 3, 3, 2, 2, 1, 1]
    assert page == everything[2:5]
    assert [(r.experiment_id, r.arm) for r in chat] == [(4, "prompt-lookup"), (2, "prompt-lookup")]
    assert {r.experiment_id for r in late} == {3, 4}
    assert none == []
    assert facets["workloads"] == {"extract": 2, "chat": 2}
    assert facets["arms"] == {"ngram-simple:size_n=3,size_m=8": 4, "prompt-lookup": 4}
    assert everything[0].off_tok_s == pytest.approx(24, rel=0.02)


def test_history_finds_tags_and_leaves_out_what_is_only_queued(
    engine: Engine, workload: int, target: int
) -> None:
    seed_experiment(engine, workload, target, tags=("nightly", "cpu"))
    seed_experiment(engine, workload, target)
    queue_scripted(engine, workload, target, tags=("nightly",))
    with read_session(engine) as session:
        rows = queries.history(session, HistoryFilter(tags=("nightly",)))
        everything = queries.history(session, HistoryFilter())
        facets = queries.history_facets(session)
    assert [r.experiment_id for r in rows] == [1]
    assert [r.experiment_id for r in everything] == [2, 1]
    assert facets["tags"] == {"nightly": 1, "cpu": 1}


def test_what_was_cancelled_before_it_began_is_no_history(
    engine: Engine, workload: int, target: int
) -> None:
    seed_experiment(engine, workload, target)
    waiting = queue_scripted(engine, workload, target, tags=("never",))
    assert jobs.cancel(engine, waiting.job_id) == "cancelled"
    with read_session(engine) as session:
        rows = queries.history(session, HistoryFilter())
        facets = queries.history_facets(session)
    assert [r.experiment_id for r in rows] == [1]
    assert (facets["tags"], facets["states"]) == ({}, {"succeeded": 1})
    assert set(facets["arms"].values()) == {1}


def test_new_weights_change_a_remembered_summary(engine: Engine, tmp_path: Path) -> None:
    by_category = {"speed_up_by_category": {"records": 2.0, "letters": 0.5}}
    file = scripted_file(tmp_path, methods={"ngram-simple": by_category})
    target = seed_model(engine, file, "target")
    workload = seed_workload(engine, n_prompts=8)
    experiment_id = seed_experiment(engine, workload, target)
    ratios = []
    for weights in ({}, {"records": 0.9, "letters": 0.1}):
        with write_session(engine) as session:
            session.get_one(WorkloadVersion, workload).weights = weights
        with read_session(engine) as session:
            ratios.append(queries.experiment_report(session, experiment_id).arms[1].ratio)
    assert ratios[0] == pytest.approx(1.0, abs=0.02)
    assert ratios[1] == pytest.approx(2**0.8, abs=0.03)


def test_a_worker_is_alive_while_it_beats_and_its_process_runs(engine: Engine) -> None:
    import os

    pid = os.getpid()
    seen = []
    for started, beat, stopped, host in (
        (process_start(pid), utc_now(), None, host_name()),
        (process_start(pid), utc_now() - timedelta(seconds=20), None, host_name()),
        (process_start(pid) - 100, utc_now(), None, host_name()),
        (process_start(pid), utc_now(), utc_now(), host_name()),
        (1.0, utc_now(), None, "another-host"),
    ):
        with write_session(engine) as session:
            session.exec(sa.delete(WorkerRow))
            session.add(
                WorkerRow(
                    host=host,
                    pid=pid,
                    pid_started_at=started,
                    version="1",
                    heartbeat_at=beat,
                    stopped_at=stopped,
                )
            )
        with read_session(engine) as session:
            seen.append(queries.worker_status(session).alive)
    assert seen == [True, False, False, False, True]


def test_models_tell_where_they_lie_and_what_they_were_made_from(
    engine: Engine, tmp_path: Path
) -> None:
    from specdash.store.tables import Model

    seed_model(engine, scripted_file(tmp_path, "a"), "big")
    made = seed_model(engine, scripted_file(tmp_path, "b"), "big-q4")
    with write_session(engine) as session:
        session.get_one(Model, made).derived_from_hash = session.get_one(Model, 1).content_hash
    (tmp_path / "a.scripted.json").unlink()
    with read_session(engine) as session:
        big, small = queries.list_models(session)
    assert (big.path, small.path) == (None, str(tmp_path / "b.scripted.json"))
    assert big.problem == f"The file is no longer at {tmp_path / 'a.scripted.json'}."
    assert (small.derived_from, small.problem) == ("big", None)


def test_workloads_list_current_versions_and_count_their_use(
    engine: Engine, workload: int, target: int
) -> None:
    with write_session(engine) as session:
        session.add(WorkloadVersion(name="seeded", version="old", is_current=False))
    queue_scripted(engine, workload, target)
    with read_session(engine) as session:
        current = queries.list_workloads(session)
        versions = queries.list_workloads(session, all_versions=True)
        full = queries.get_workload(session, workload)
    assert [(w.n_prompts, w.categories, w.n_experiments) for w in current] == [
        (4, ("records", "letters"), 1)
    ]
    assert len(versions) == 2
    assert full.version == current[0].version
