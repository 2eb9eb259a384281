import os
import sqlite3
import threading
import time
from collections.abc import Mapping
from pathlib import Path

import pytest
from sqlalchemy.exc import OperationalError
from sqlmodel import select

from specdash.domain.verdict import Verdict
from specdash.engines.base import GenerationSettings
from specdash.store.queries import experiment_report, history, list_runs, run_detail
from specdash.store.session import read_session, write_session
from specdash.store.tables import Experiment, ExperimentArm, Machine, Run
from specdash.store.views import HistoryFilter
from specdash.worker.protocol import (
    AnchorEvent,
    ArmEvent,
    DoneEvent,
    EnvironmentEvent,
    MarkEvent,
    PhaseEvent,
    ProgressEvent,
    RunEvent,
    SplitEvent,
)
from specdash.worker.queue import ClaimedJob, Outcome, finish
from specdash.worker.results import apply_events, persist
from tests.helpers.seeding import MACHINE, scripted_events
from tests.worker.conftest import Lab


@pytest.fixture
def job(lab: Lab) -> ClaimedJob:
    script = {"methods": {"ngram-simple": {"diverge_at": 40}}}
    return lab.claim(lab.queue(script=script), os.getpid())


def test_events_delivered_twice_make_each_row_once(lab: Lab, job: ClaimedJob) -> None:
    events = scripted_events(lab.engine, job.experiment_id, version="1", machine=MACHINE)
    for _ in range(2):
        apply_events(lab.engine, job, events)
    with read_session(lab.engine) as session:
        assert len(session.exec(select(Run)).all()) == 3 * 2 * 2
        assert len(session.exec(select(Machine)).all()) == 1


def test_divergence_is_found_whichever_run_of_a_block_comes_first(
    lab: Lab, job: ClaimedJob
) -> None:
    events = scripted_events(lab.engine, job.experiment_id, version="1", machine=MACHINE)
    runs = [e for e in events if isinstance(e, RunEvent)]
    apply_events(lab.engine, job, [e for e in events if not isinstance(e, RunEvent)])
    apply_events(lab.engine, job, runs[::-1])
    with read_session(lab.engine) as session:
        found = list_runs(session, job.experiment_id)
        trace = run_detail(session, found[0].run_id)
    on = [r for r in found if r.arm != "off"]
    off = [r for r in found if r.arm == "off"]
    assert [(r.equal_off, r.first_difference) for r in on] == [(False, 40)] * 6
    # The last token of both is the end of the text.
    assert [r.agreement for r in on] == [pytest.approx(41 / 160)] * 6
    assert {(r.equal_off, r.first_difference) for r in off} == {(None, None)}
    assert len(trace.token_ids) == 160


def test_a_degenerate_text_is_flagged(lab: Lab) -> None:
    job = lab.claim(lab.queue(script={"degenerate": True}), os.getpid())
    events = scripted_events(lab.engine, job.experiment_id, version="1", machine=MACHINE)
    apply_events(lab.engine, job, events)
    with read_session(lab.engine) as session:
        assert all("degenerate" in r.flags for r in list_runs(session, job.experiment_id))


def test_keys_differ_by_arm_and_are_equal_for_equal_work(lab: Lab) -> None:
    target = lab.queue()
    with read_session(lab.engine) as session:
        target_id = session.get_one(Experiment, target.experiment_id).target_model_id
    from tests.helpers.seeding import seed_experiment

    first, second = (seed_experiment(lab.engine, lab.workload_id, target_id) for _ in range(2))
    other = seed_experiment(lab.engine, lab.workload_id, target_id, max_tokens=64, version="2")
    keys = {}
    with read_session(lab.engine) as session:
        for experiment_id in (first, second, other):
            arms = session.exec(
                select(ExperimentArm.arm_key)
                .where(ExperimentArm.experiment_id == experiment_id)
                .order_by(ExperimentArm.position)  # type: ignore[arg-type]
            ).all()
            keys[experiment_id] = (session.get_one(Experiment, experiment_id).base_key, *arms)
    assert keys[first] == keys[second]
    assert all(a != b for a, b in zip(keys[first], keys[other], strict=True))
    assert len(set(keys[first])) == 3


def test_an_inactive_arm_keeps_its_reason_and_its_resolved_parameters(
    lab: Lab, job: ClaimedJob
) -> None:
    with read_session(lab.engine) as session:
        arm_id = session.exec(select(ExperimentArm.id).where(ExperimentArm.position == 1)).one()
    assert arm_id is not None
    apply_events(
        lab.engine,
        job,
        [
            ArmEvent(experiment_arm_id=arm_id, status="ready", resolved={"n_max": 3}),
            ArmEvent(experiment_arm_id=arm_id, status="inactive", reason="No draft was proposed."),
        ],
    )
    with read_session(lab.engine) as session:
        arm = session.get_one(ExperimentArm, arm_id)
    assert (arm.status, arm.reason) == ("inactive", "No draft was proposed.")
    assert arm.resolved == {"n_max": 3}


def test_an_arm_of_another_experiment_is_refused(lab: Lab, job: ClaimedJob) -> None:
    other = lab.queue()
    with read_session(lab.engine) as session:
        arm_id = session.exec(
            select(ExperimentArm.id).where(ExperimentArm.experiment_id == other.experiment_id)
        ).first()
    with pytest.raises(ValueError, match="not part of experiment"):
        apply_events(lab.engine, job, [ArmEvent(experiment_arm_id=arm_id or 0, status="measured")])


def test_progress_does_not_touch_what_pages_cache(lab: Lab, job: ClaimedJob) -> None:
    from specdash.store.queries import get_job, revision

    with read_session(lab.engine) as session:
        before = revision(session)
    apply_events(
        lab.engine, job, [PhaseEvent(phase="measuring"), ProgressEvent(done=3, total=12, eta_s=4.5)]
    )
    with read_session(lab.engine) as session:
        assert revision(session) == before
        view = get_job(session, job.job_id)
    assert (view.phase, view.done, view.total, view.eta_s) == ("measuring", 3, 12, 4.5)


def test_a_write_is_tried_again_until_the_lock_is_gone() -> None:
    tries = []

    def write() -> str:
        tries.append(1)
        if len(tries) < 3:
            raise OperationalError("UPDATE", {}, sqlite3.OperationalError("database is locked"))
        return "stored"

    assert persist(write) == "stored"
    assert len(tries) == 3


def test_a_write_that_can_never_work_is_not_repeated() -> None:
    def write() -> None:
        raise OperationalError("UPDATE", {}, sqlite3.OperationalError("no such table: run"))

    with pytest.raises(OperationalError):
        persist(write)


def test_a_result_outlasts_a_lock_longer_than_the_busy_timeout(
    lab: Lab, job: ClaimedJob, monkeypatch: pytest.MonkeyPatch
) -> None:
    from specdash.store import session as store_session

    monkeypatch.setattr(store_session, "BUSY_TIMEOUT_MS", 200)
    lab.engine.dispose()
    events = scripted_events(lab.engine, job.experiment_id, version="1", machine=MACHINE)
    path = Path(lab.settings.resolved_database_url.removeprefix("sqlite:///"))
    holder = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
    holder.execute("BEGIN IMMEDIATE")
    timer = threading.Timer(3.0, holder.execute, ["COMMIT"])
    timer.start()
    started = time.monotonic()
    persist(lambda: apply_events(lab.engine, job, events))
    assert 2.5 < time.monotonic() - started < 10
    timer.join()
    holder.close()
    with read_session(lab.engine) as session:
        assert len(list_runs(session, job.experiment_id)) == 12


def test_a_split_is_stored_on_its_run(lab: Lab, job: ClaimedJob) -> None:
    events = scripted_events(lab.engine, job.experiment_id, version="1", machine=MACHINE)
    apply_events(lab.engine, job, events)
    with read_session(lab.engine) as session:
        on = next(r for r in list_runs(session, job.experiment_id) if r.arm != "off")
    split = SplitEvent(
        order_index=on.order_index,
        split_class="suspect",
        margin=2.5,
        rank=3,
        control_flips=False,
        logit_change=0.25,
    )
    apply_events(lab.engine, job, [split, split])
    with read_session(lab.engine) as session:
        run = run_detail(session, on.run_id).run
        arm = experiment_report(session, job.experiment_id).arms[1]
    assert (run.split_class, run.split_margin, run.split_rank) == ("suspect", 2.5, 3)
    assert (run.split_flips, run.split_logit_change, run.is_prefix) == (False, 0.25, False)
    assert (arm.n_suspect, arm.n_numeric, arm.n_unknown) == (1, 0, 5)
    assert "suspect" in arm.flags


def test_anchors_and_marks_are_stored_once(lab: Lab, job: ClaimedJob) -> None:
    events = scripted_events(lab.engine, job.experiment_id, version="1", machine=MACHINE)
    first = next(e for e in events if isinstance(e, RunEvent) and not e.is_warmup)
    block = [
        e
        for e in events
        if isinstance(e, RunEvent) and (e.prompt_id, e.round) == (first.prompt_id, first.round)
    ]
    again = [e.model_copy(update={"repeat": 1, "order_index": 50 + e.order_index}) for e in block]
    look = AnchorEvent(number=0, decode_tok_s=100.0, change=0.0)
    mark = MarkEvent(order_indices=[e.order_index for e in block], flag="disturbed")
    for _ in range(2):
        apply_events(lab.engine, job, [*events, look, mark, *again[::-1]])
    with read_session(lab.engine) as session:
        runs = list_runs(session, job.experiment_id)
        report = experiment_report(session, job.experiment_id)
        repeated = next(r for r in runs if r.repeat == 1 and r.arm != "off")
        off_id = run_detail(session, repeated.run_id).off_run_id
    assert report.experiment.environment["anchors"] == [
        {"number": 0, "decode_tok_s": 100.0, "change": 0.0, "moved": False}
    ]
    assert [r.order_index for r in runs if "disturbed" in r.flags] == mark.order_indices
    assert repeated.equal_off is False
    assert off_id == next(r.run_id for r in runs if r.repeat == 1 and r.arm == "off")
    assert report.arms[1].n_runs == 6
    assert len(report.arms[1].excluded_run_ids) == 1


def test_a_machine_that_was_not_quiet_is_told_with_the_experiment(
    lab: Lab, job: ClaimedJob
) -> None:
    events = scripted_events(lab.engine, job.experiment_id, version="1", machine=MACHINE)
    snapshot = {"cpu_mhz": 3000.0, "temperature_c": 40.0, "throttle_count": 0}
    start = {**snapshot, "foreign_cpus": 1.9, "waited_s": 20.0}
    environment = next(e for e in events if isinstance(e, EnvironmentEvent))
    began = environment.model_copy(
        update={"machine": {**environment.machine, "allowed_cpus": 2, "start": start}}
    )
    apply_events(lab.engine, job, [began])
    words = "Other programs ran at the start: they used 1.9 of 2 CPUs, after a wait of 20 s."
    assert _environment(lab, job)["warnings"] == [words]
    warm = {**snapshot, "cpu_mhz": 4000.0}
    end = {**snapshot, "throttle_count": 2}
    apply_events(lab.engine, job, [DoneEvent(machine_warm=warm, machine_end=end)])
    ended = _environment(lab, job)
    assert ended["flags"] == ["busy_start", "clock_changed", "throttled"]
    assert ended["warnings"] == [
        words,
        "The CPU frequency was 4000 MHz after the warm-up and 3000 MHz at the end.",
        "The CPU was throttled for heat 2 times.",
    ]
    assert (ended["warm"], ended["end"]) == (warm, end)


def test_measured_arms_of_a_job_that_was_stopped_later_rank_and_others_do_not(lab: Lab) -> None:
    reports = []
    for n_left in (1, 4):  # without the last event, and without the last word on arms
        queued = lab.queue(script={"methods": {"ngram-simple": {"speed_up": 1.5}}})
        job = lab.claim(queued, os.getpid())
        events = scripted_events(lab.engine, job.experiment_id, version="1", machine=MACHINE)
        apply_events(lab.engine, job, events[:-n_left])
        assert lab.report(queued).is_partial  # while it goes on
        finish(lab.engine, job, Outcome("cancelled", "cancelled", "Cancelled while it ran."))
        reports.append(lab.report(queued))
    whole, cut = reports
    assert [(a.status, a.reason) for a in whole.arms] == [("measured", None)] * 2
    assert whole.arms[1].verdict is Verdict.FASTER
    assert not whole.is_partial
    assert [a.status for a in cut.arms] == ["partial", "partial"]
    assert cut.is_partial
    with read_session(lab.engine) as session:
        rows = history(session, HistoryFilter())
    assert {row.experiment_id: row.is_partial for row in rows} == {
        whole.experiment.experiment_id: False,
        cut.experiment.experiment_id: True,
    }


def test_an_experiment_keeps_the_machine_as_it_was(lab: Lab) -> None:
    for governor in ("performance", "powersave"):
        queued = lab.queue()
        job = lab.claim(queued, os.getpid())
        machine = {**MACHINE, "governor": governor}
        apply_events(
            lab.engine,
            job,
            scripted_events(lab.engine, job.experiment_id, version="1", machine=machine),
        )
        if governor == "performance":
            first = queued
    assert lab.report(first).experiment.machine_facts["governor"] == "performance"
    assert lab.report(queued).experiment.machine_facts["governor"] == "powersave"


def test_an_experiment_from_before_shows_the_newest_facts_of_its_machine(
    lab: Lab, job: ClaimedJob
) -> None:
    events = scripted_events(lab.engine, job.experiment_id, version="1", machine=MACHINE)
    apply_events(lab.engine, job, events)
    with write_session(lab.engine) as session:
        experiment = session.get_one(Experiment, job.experiment_id)
        kept = {k: v for k, v in experiment.environment.items() if k != "machine"}
        experiment.environment = kept
    with read_session(lab.engine) as session:
        view = experiment_report(session, job.experiment_id).experiment
    assert view.machine_facts == MACHINE


def test_the_base_key_holds_what_the_engine_made_of_the_settings(lab: Lab) -> None:
    fields = []
    for n_ctx, gpu_layers in ((8192, 33), (4096, 0)):
        asked = GenerationSettings(n_ctx=n_ctx, n_batch=8192, gpu_layers=gpu_layers)
        job = lab.claim(lab.queue(generation=asked), os.getpid())
        events = scripted_events(lab.engine, job.experiment_id, version="1", machine=MACHINE)
        environment = next(e for e in events if isinstance(e, EnvironmentEvent))
        told = {"n_ctx": 4096, "n_batch": 4096, "gpu_layers": 0, "flash_attn": None}
        engine = {**environment.engine, **told}
        apply_events(lab.engine, job, [environment.model_copy(update={"engine": engine})])
        with read_session(lab.engine) as session:
            view = experiment_report(session, job.experiment_id).experiment
        fields.append({k: v for k, v in view.base_key_fields.items() if k != "target_hash"})
    assert fields[0] == fields[1]
    assert (fields[0]["n_ctx"], fields[0]["n_batch"], fields[0]["gpu_layers"]) == (4096, 4096, 0)
    assert (fields[0]["flash_attn"], fields[0]["n_parallel"]) == ("auto", 1)


def _environment(lab: Lab, job: ClaimedJob) -> Mapping[str, object]:
    with read_session(lab.engine) as session:
        return experiment_report(session, job.experiment_id).experiment.environment
