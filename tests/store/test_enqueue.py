from collections.abc import Sequence
from datetime import timedelta
from pathlib import Path

import pytest
import sqlalchemy as sa
from sqlalchemy.engine import Engine
from sqlmodel import col, select

from specdash.engines.base import GenerationSettings
from specdash.errors import ModelError, NotFoundError, UsageError
from specdash.store.enqueue import DuplicateError, Queued, find_similar, queue_experiment
from specdash.store.experiment_request import ExperimentRequest
from specdash.store.jobs import cancel, move, retry
from specdash.store.queries import experiment_report, get_job, list_jobs
from specdash.store.session import read_session, write_session
from specdash.store.tables import ArmRow, Experiment, ExperimentArm, Job, WorkloadVersion, utc_now
from specdash.store.views import JobView
from specdash.worker.queue import Outcome
from tests.helpers.seeding import (
    queue_scripted,
    scripted_file,
    seed_experiment,
    seed_model,
    seed_workload,
)


@pytest.fixture
def workload(engine: Engine) -> int:
    return seed_workload(engine)


@pytest.fixture
def target(engine: Engine, tmp_path: Path) -> int:
    return seed_model(engine, scripted_file(tmp_path), "target")


def _job(engine: Engine, job_id: int) -> JobView:
    with read_session(engine) as session:
        return get_job(session, job_id)


def test_a_request_becomes_an_experiment_with_off_first(
    engine: Engine, workload: int, target: int
) -> None:
    queued = queue_scripted(engine, workload, target, note="a note", tags=("a", "b"), rounds=3)
    with read_session(engine) as session:
        report = experiment_report(session, queued.experiment_id)
    experiment = report.experiment
    assert experiment.arm_texts == ("off", "ngram-simple:size_n=3,size_m=8")
    assert experiment.protocol == {
        "rounds": 3,
        "precision": None,
        "max_rounds": None,
        "n_prompts": 4,
        "max_tokens": 160,
        "warmup": 0,
        "order_seed": 1,
        "anchor_every": 8,
    }
    assert experiment.generation["n_ctx"] == 4096
    assert (experiment.note, experiment.tags) == ("a note", ("a", "b"))
    assert (experiment.job.state, experiment.job.position) == ("queued", 1)
    assert [arm.status for arm in report.arms] == ["pending", "pending"]
    assert report.is_partial


def test_arms_are_shared_by_identity(engine: Engine, workload: int, target: int) -> None:
    queue_scripted(engine, workload, target, ("ngram-simple:size_n=12", "off"))
    queue_scripted(engine, workload, target, ("ngram-simple:size_m=48", "off", "off"))
    with read_session(engine) as session:
        assert sorted(session.exec(select(ArmRow.text))) == ["ngram-simple:size_n=12", "off"]
        texts = session.exec(
            select(ExperimentArm.text).where(ExperimentArm.experiment_id == 2)
        ).all()
    assert texts == ["off", "ngram-simple:size_m=48", "off#2"]


def test_a_draft_is_found_by_its_name_and_stored_with_hash_and_path(
    engine: Engine, workload: int, target: int, tmp_path: Path
) -> None:
    file = scripted_file(tmp_path, "small")
    draft = seed_model(engine, file, "small draft")
    queue_scripted(engine, workload, target, ('draft-simple:model="small draft"',))
    with read_session(engine) as session:
        arm = session.exec(select(ExperimentArm).where(ExperimentArm.position == 1)).one()
    assert arm.drafts["small draft"]["model_id"] == draft
    assert arm.drafts["small draft"]["path"] == str(file)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"max_tokens": 0}, "max_tokens is 0; it must be at least 1."),
        ({"rounds": 0}, "rounds is 0; it must be at least 1."),
        ({"warmup": -1}, "warmup is -1; it must be at least 0."),
        ({"n_prompts": 0}, "n_prompts is 0; it must be at least 1."),
        ({"n_prompts": 5}, "Workload 'seeded' holds 4 prompts; 5 are asked for."),
        ({"precision": 0.03}, "Stopping on precision takes at least 6 prompts; it is 4."),
        ({"precision": 0.0}, "The precision is 0; it must be between 0.001 and 1."),
        ({"precision": float("nan")}, "The precision is nan; it must be between 0.001 and 1."),
        (
            {"precision": 0.03, "rounds": 5, "max_rounds": 4},
            "At most 4 rounds are asked for; it must be between the 5 that run anyway and 100.",
        ),
        ({"max_rounds": 4}, "A most number of rounds is asked for without a precision."),
        ({"engine": "guess"}, "Unknown engine 'guess'. Known engines: llama-cpp, llama-server"),
        ({"time_limit_s": 0.0}, "The time limit must be more than 0 s."),
        ({"arms": ("draft-simple:model=absent",)}, "Unknown draft model 'absent'."),
        ({"generation": GenerationSettings(n_threads=0)}, "n_threads is 0"),
    ],
)
def test_what_cannot_be_run_is_refused_in_words(
    engine: Engine, workload: int, target: int, fields: dict[str, object], message: str
) -> None:
    with pytest.raises(UsageError) as caught:
        queue_scripted(engine, workload, target, **fields)  # type: ignore[arg-type]
    assert message in str(caught.value)
    with read_session(engine) as session:
        assert session.exec(select(Experiment)).all() == []


def test_an_empty_workload_is_refused(engine: Engine, target: int) -> None:
    with write_session(engine) as session:
        session.add(WorkloadVersion(id=9, name="hollow", version="0"))
    with pytest.raises(UsageError, match="Workload 'hollow' holds no prompts"):
        queue_scripted(engine, 9, target)


def test_unknown_ids_are_named(engine: Engine, workload: int, target: int) -> None:
    with pytest.raises(NotFoundError, match="There is no workload 77"):
        queue_scripted(engine, 77, target)
    with pytest.raises(NotFoundError, match="There is no model 77"):
        queue_scripted(engine, workload, 77)
    for act in (cancel, retry):
        with pytest.raises(NotFoundError, match="There is no job 77"):
            act(engine, 77)


def test_a_target_whose_file_has_gone_is_refused(
    engine: Engine, workload: int, target: int, tmp_path: Path
) -> None:
    (tmp_path / "scripted.scripted.json").unlink()
    with pytest.raises(ModelError, match=r"'target' cannot be loaded: The file is no longer at"):
        queue_scripted(engine, workload, target)


def test_a_second_click_of_one_browser_is_the_same_job(
    engine: Engine, workload: int, target: int
) -> None:
    clicks = [
        queue_scripted(engine, workload, target, requester="me", allow_duplicate=allow)
        for allow in (False, False, True)
    ]
    assert [c.job_id for c in clicks] == [1, 1, 1]
    assert [c.duplicate_of for c in clicks] == [None, 1, 1]


def test_a_confirmed_repetition_of_a_finished_experiment_is_new(
    engine: Engine, workload: int, target: int
) -> None:
    seed_experiment(engine, workload, target, requester="me")
    again = queue_scripted(engine, workload, target, requester="me", allow_duplicate=True)
    assert (again.job_id, again.duplicate_of) == (2, None)


def test_the_same_experiment_later_or_elsewhere_is_a_question(
    engine: Engine, workload: int, target: int
) -> None:
    queue_scripted(engine, workload, target, requester="me")
    with pytest.raises(DuplicateError, match="Experiment 1 asks for exactly the same") as caught:
        queue_scripted(engine, workload, target, requester="you", allow_duplicate=False)
    assert caught.value.experiment_id == 1
    with write_session(engine) as session:
        session.exec(sa.update(Experiment).values(created_at=utc_now() - timedelta(seconds=61)))
    with pytest.raises(DuplicateError):
        queue_scripted(engine, workload, target, requester="me", allow_duplicate=False)
    assert queue_scripted(engine, workload, target, requester="me").job_id == 2


def test_a_failed_experiment_is_not_in_the_way(engine: Engine, workload: int, target: int) -> None:
    seed_experiment(engine, workload, target, outcome=Outcome("failed", "engine", "x"))
    assert queue_scripted(engine, workload, target, allow_duplicate=False).job_id == 2


def test_other_settings_are_another_experiment(engine: Engine, workload: int, target: int) -> None:
    queue_scripted(engine, workload, target)
    other = queue_scripted(
        engine,
        workload,
        target,
        allow_duplicate=False,
        generation=GenerationSettings(n_ctx=512),
    )
    assert other.job_id == 2
    with read_session(engine) as session:
        assert [j.position for j in list_jobs(session)] == [1, 2]


def test_cancelling_a_queued_job_ends_it_at_once(
    engine: Engine, workload: int, target: int
) -> None:
    job_id = queue_scripted(engine, workload, target).job_id
    assert cancel(engine, job_id) == "cancelled"
    job = _job(engine, job_id)
    assert (job.state, job.error_text) == ("cancelled", "Cancelled before it started.")
    with pytest.raises(UsageError, match="already cancelled"):
        cancel(engine, job_id)


def test_cancelling_a_running_job_marks_it(engine: Engine, workload: int, target: int) -> None:
    job_id = queue_scripted(engine, workload, target).job_id
    with write_session(engine) as session:
        session.get_one(Job, job_id).state = "running"
    assert cancel(engine, job_id) == "running"
    assert _job(engine, job_id).cancel_requested


def test_retry_queues_a_new_attempt_with_fresh_arms(
    engine: Engine, workload: int, target: int
) -> None:
    experiment_id = seed_experiment(
        engine, workload, target, outcome=Outcome("failed", "engine", "broken")
    )
    with read_session(engine) as session:
        before = experiment_report(session, experiment_id)
    assert [a.status for a in before.arms] == ["partial", "partial"]
    assert retry(engine, before.experiment.job.job_id) == 2
    with read_session(engine) as session:
        after = experiment_report(session, experiment_id)
    job = after.experiment.job
    assert (job.state, job.attempt, job.error_text, job.done) == ("queued", 2, None, 0)
    assert [a.status for a in after.arms] == ["pending", "pending"]
    assert [a.n_runs for a in after.arms] == [0, 0]


def test_a_retry_may_get_less_time_and_never_more(
    engine: Engine, workload: int, target: int
) -> None:
    request = ExperimentRequest(workload, target, (), engine="scripted", budget_s=60.0)
    queued = queue_experiment(engine, request)
    for budget_s, left in ((90.0, 60.0), (20.0, 20.0), (None, 20.0)):
        cancel(engine, queued.job_id)
        retry(engine, queued.job_id, budget_s=budget_s)
        with read_session(engine) as session:
            assert (
                experiment_report(session, queued.experiment_id).experiment.protocol["budget_s"]
                == left
            )


def test_a_succeeded_job_is_not_retried(engine: Engine, workload: int, target: int) -> None:
    seed_experiment(engine, workload, target)
    with pytest.raises(UsageError, match="Job 1 is succeeded"):
        retry(engine, 1)


def test_jobs_move_up_and_down_and_stay_at_the_ends(
    engine: Engine, workload: int, target: int
) -> None:
    for _ in range(3):
        queue_scripted(engine, workload, target)
    orders = []
    for job_id, direction in ((3, "up"), (3, "up"), (3, "up"), (1, "down")):
        move(engine, job_id, direction)  # type: ignore[arg-type]
        with read_session(engine) as session:
            orders.append([j.job_id for j in list_jobs(session)])
    assert orders == [[1, 3, 2], [3, 1, 2], [3, 1, 2], [3, 2, 1]]
    with write_session(engine) as session:
        session.exec(sa.update(Job).where(col(Job.id) == 1).values(state="failed"))
    with pytest.raises(UsageError, match="Job 1 is failed; only queued jobs have a place"):
        move(engine, 1, "up")


def test_similar_experiments_are_found_newest_first(
    engine: Engine, workload: int, target: int
) -> None:
    from specdash.domain.arms import parse_arm
    from specdash.store.experiment_request import ExperimentRequest

    for _ in range(2):
        queue_scripted(engine, workload, target, ("prompt-lookup",))
    queue_scripted(engine, workload, target, ("prompt-lookup:num_pred_tokens=3",))
    request = ExperimentRequest(
        workload,
        target,
        (parse_arm("prompt-lookup:num_pred_tokens=10"),),
        rounds=2,
        max_tokens=160,
        warmup=0,
        order_seed=1,
        engine="scripted",
        note="people's words do not count",
    )
    with read_session(engine) as session:
        assert list(find_similar(session, request)) == [2, 1]


def test_each_experiment_draws_its_own_order_and_a_retry_keeps_it(
    engine: Engine, workload: int, target: int
) -> None:
    drawn = [queue_scripted(engine, workload, target, order_seed=None) for _ in range(3)]
    fixed = queue_scripted(engine, workload, target, order_seed=7)
    cancel(engine, drawn[0].job_id)
    before = _seeds(engine, drawn)
    retry(engine, drawn[0].job_id)
    assert len(set(before)) == 3
    assert _seeds(engine, [*drawn, fixed]) == [*before, 7]


def test_a_drawn_order_does_not_make_another_request(
    engine: Engine, workload: int, target: int
) -> None:
    first = queue_scripted(engine, workload, target, order_seed=None)
    with pytest.raises(DuplicateError) as caught:
        queue_scripted(engine, workload, target, order_seed=None, allow_duplicate=False)
    assert caught.value.experiment_id == first.experiment_id
    queue_scripted(engine, workload, target, order_seed=7, allow_duplicate=False)


def _seeds(engine: Engine, queued: Sequence[Queued]) -> list[object]:
    with read_session(engine) as session:
        return [
            experiment_report(session, q.experiment_id).experiment.protocol["order_seed"]
            for q in queued
        ]


def test_a_precision_is_stored_and_makes_another_request(engine: Engine, target: int) -> None:
    six = seed_workload(engine, n_prompts=6, name="six")
    fixed = queue_scripted(engine, six, target, rounds=2)
    asked = queue_scripted(engine, six, target, rounds=2, precision=0.05)
    capped = queue_scripted(engine, six, target, rounds=2, precision=0.05, max_rounds=4)
    with read_session(engine) as session:
        protocols = [
            experiment_report(session, q.experiment_id).experiment.protocol
            for q in (fixed, asked, capped)
        ]
    assert [(p["rounds"], p["precision"], p["max_rounds"]) for p in protocols] == [
        (2, None, None),
        (2, 0.05, 10),
        (2, 0.05, 4),
    ]
