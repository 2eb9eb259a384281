"""Runner processes of the scripted engine, and a few that are no runners at all."""

import os
import sqlite3
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import psutil
import pytest
import sqlalchemy as sa
from sqlmodel import col

from specdash.domain.verdict import Verdict
from specdash.engines.base import GenerationSettings
from specdash.store.jobs import cancel, retry
from specdash.store.queries import list_runs
from specdash.store.session import read_session, write_session
from specdash.store.tables import ModelPath
from specdash.worker import supervisor
from specdash.worker.queue import ClaimedJob, Outcome
from tests.worker.conftest import WAIT_S, Lab

Wait = Callable[..., None]


def _run(lab: Lab, *, script: dict[str, Any] | None = None, **fields: Any) -> tuple[Any, Outcome]:
    queued = lab.queue(script=script, **fields)
    return queued, supervisor.run_job(lab.engine, lab.settings, lab.claim(queued, os.getpid()))


def _no_runner(monkeypatch: pytest.MonkeyPatch, code: str) -> None:
    monkeypatch.setattr(supervisor, "RUNNER_COMMAND", (sys.executable, "-c", code))


def test_a_job_runs_to_its_verdict(lab: Lab) -> None:
    script = {"methods": {"ngram-simple": {"speed_up": 1.5}}, "stdout_noise": "library noise\n"}
    queued, outcome = _run(lab, script=script, warmup=1)
    assert outcome == Outcome("succeeded")
    report = lab.report(queued)
    job = report.experiment.job
    assert (job.state, job.done, job.total, job.phase) == ("succeeded", 14, 14, None)
    assert [a.status for a in report.arms] == ["measured", "measured"]
    assert report.arms[1].verdict is Verdict.FASTER
    assert (report.arms[1].n_runs, report.arms[1].n_warmup) == (6, 1)
    assert "end" in report.experiment.environment
    assert job.log_path is not None
    assert Path(job.log_path).read_text().count("library noise") == 14
    assert list(lab.settings.spool_dir.iterdir()) == []


def test_an_unsupported_arm_does_not_stop_the_others(lab: Lab) -> None:
    script = {"methods": {"prompt-lookup": {"unsupported": "the target cannot roll back"}}}
    queued, outcome = _run(lab, script=script, arms=("prompt-lookup", "ngram-simple"))
    assert outcome.state == "succeeded"
    arms = lab.report(queued).arms
    assert [(a.status, a.reason) for a in arms] == [
        ("measured", None),
        ("unsupported", "the target cannot roll back"),
        ("measured", None),
    ]


@pytest.mark.parametrize(
    ("kind", "error_kind", "words"),
    [
        ("raise", "engine", "The scripted engine was told to fail. Change the script."),
        ("bug", "internal", "The runner failed unexpectedly: RuntimeError: scripted bug"),
        ("abort", "signal", "The runner was ended by SIGABRT (aborted) while measuring."),
        ("kill", "signal", "SIGKILL (killed) while measuring. Most likely the machine ran out of"),
        ("exit", "crash", "The runner ended with status 7 while measuring and did not say why."),
    ],
)
def test_a_dead_runner_is_a_failed_job_that_keeps_its_runs(
    lab: Lab, kind: str, error_kind: str, words: str
) -> None:
    queued, outcome = _run(lab, script={"failure": {"kind": kind, "at_run": 5}})
    assert (outcome.state, outcome.error_kind) == ("failed", error_kind)
    assert outcome.error_text is not None
    assert words in outcome.error_text
    if error_kind in ("signal", "crash"):
        assert outcome.error_text.endswith(
            f"Last lines of its log:\nscripted failure: {kind}"
        ) or "Fatal Python error" in str(outcome.error_text)
    report = lab.report(queued)
    assert report.is_partial
    assert [(a.status, a.verdict) for a in report.arms] == [("partial", None)] * 2
    with read_session(lab.engine) as session:
        assert len(list_runs(session, queued.experiment_id)) == 5


def _rewrite_target(lab: Lab, content: str) -> None:
    """Change the target as if it had been registered so; a changed file is refused otherwise."""
    path = lab.folder / "target-0.scripted.json"
    path.write_text(content)
    stat = path.stat()
    with write_session(lab.engine) as session:
        session.exec(
            sa.update(ModelPath)
            .where(col(ModelPath.path) == str(path))
            .values(size_bytes=stat.st_size, mtime_ns=stat.st_mtime_ns)
        )


def test_a_retry_measures_everything_anew(lab: Lab) -> None:
    script = {"failure": {"kind": "raise", "at_run": 5}}
    queued, _ = _run(lab, script=script)
    _rewrite_target(lab, "{}")
    assert retry(lab.engine, queued.job_id) == 2
    outcome = supervisor.run_job(lab.engine, lab.settings, lab.claim(queued, os.getpid()))
    assert outcome.state == "succeeded"
    report = lab.report(queued)
    assert [a.status for a in report.arms] == ["measured", "measured"]
    assert [a.n_runs for a in report.arms] == [6, 6]
    with read_session(lab.engine) as session:
        assert len(list_runs(session, queued.experiment_id, attempt=1)) == 5
        assert len(list_runs(session, queued.experiment_id)) == 12


def test_one_token_a_run_gives_rows_without_a_speed_and_no_verdict(lab: Lab) -> None:
    queued, outcome = _run(lab, max_tokens=1)
    assert outcome.state == "succeeded"
    with read_session(lab.engine) as session:
        runs = list_runs(session, queued.experiment_id)
    assert {(r.n_generated, r.decode_tok_s) for r in runs} == {(1, None)}
    assert len(runs) == 12
    arm = lab.report(queued).arms[1]
    assert (arm.verdict, arm.ratio, arm.decode_tok_s) == (Verdict.NOT_RESOLVED, None, None)
    assert "no_speed" in arm.flags


def test_a_repeating_text_is_flagged_and_cannot_win(lab: Lab) -> None:
    script = {"degenerate": True, "methods": {"ngram-simple": {"speed_up": 3.0}}}
    queued, _ = _run(lab, script=script)
    arm = lab.report(queued).arms[1]
    assert arm.ratio == pytest.approx(3.0, rel=0.05)
    assert arm.verdict is Verdict.NOT_RESOLVED
    assert "degenerate" in arm.flags
    assert all(p.is_degenerate for p in arm.prompts)


def test_a_prompt_longer_than_the_context_fails_before_any_run(lab: Lab) -> None:
    queued, outcome = _run(lab, generation=GenerationSettings(n_ctx=4))
    assert (outcome.state, outcome.error_kind) == ("failed", "usage")
    assert str(outcome.error_text).startswith("Prompt 'p00' has 9 tokens; the context holds 4.")
    with read_session(lab.engine) as session:
        assert list_runs(session, queued.experiment_id) == []


def test_a_corrupt_target_is_told_in_words(lab: Lab) -> None:
    queued = lab.queue()
    _rewrite_target(lab, "not JSON")
    outcome = supervisor.run_job(lab.engine, lab.settings, lab.claim(queued, os.getpid()))
    assert (outcome.state, outcome.error_kind) == ("failed", "model")
    assert "is no script for the scripted engine" in str(outcome.error_text)
    assert [a.status for a in lab.report(queued).arms] == ["failed", "failed"]


def test_a_target_that_has_gone_is_told_without_starting_a_runner(lab: Lab) -> None:
    queued = lab.queue()
    (lab.folder / "target-0.scripted.json").unlink()
    outcome = supervisor.run_job(lab.engine, lab.settings, lab.claim(queued, os.getpid()))
    assert (outcome.state, outcome.error_kind) == ("failed", "model")
    assert str(outcome.error_text).startswith("The file of model 'target-0' is missing: ")
    assert lab.job(queued).state == "failed"


def test_a_time_limit_stops_the_job(lab: Lab) -> None:
    # Whether a run was made by then depends on how fast a runner starts here.
    queued, outcome = _run(lab, script={"run_s": 0.3}, rounds=50, anchor_every=0, time_limit_s=3)
    assert (outcome.state, outcome.error_kind) == ("failed", "time_limit")
    assert str(outcome.error_text).startswith("The job ran longer than its limit of 3 s")
    assert lab.job(queued).state == "failed"


def test_cancelling_keeps_what_was_measured(lab: Lab, wait_until: Wait) -> None:
    queued = lab.queue(script={"run_s": 0.1}, rounds=50)
    job = lab.claim(queued, os.getpid())
    outcome: list[Outcome] = []
    thread = threading.Thread(
        target=lambda: outcome.append(supervisor.run_job(lab.engine, lab.settings, job))
    )
    thread.start()
    wait_until(lambda: lab.job(queued).done >= 2)
    assert cancel(lab.engine, queued.job_id) == "running"
    thread.join(timeout=WAIT_S)
    assert outcome == [Outcome("cancelled", "cancelled", "Cancelled while it ran.")]
    assert [a.status for a in lab.report(queued).arms] == ["partial", "partial"]


def test_a_runner_deaf_to_sigterm_is_killed_with_its_whole_group(
    lab: Lab, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, wait_until: Wait
) -> None:
    pids = tmp_path / "pids"
    _no_runner(
        monkeypatch,
        "import os, pathlib, signal, subprocess, sys, time\n"
        "signal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
        "child = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(600)'])\n"
        f"pathlib.Path({str(pids)!r}).write_text(f'{{os.getpid()}} {{child.pid}}')\n"
        "time.sleep(600)\n",
    )
    queued = lab.queue()
    job = lab.claim(queued, os.getpid())
    foreign = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
    outcome: list[Outcome] = []
    thread = threading.Thread(
        target=lambda: outcome.append(
            supervisor.run_job(lab.engine, lab.settings, job, grace_s=0.5)
        )
    )
    thread.start()
    wait_until(lambda: pids.exists() and " " in pids.read_text())
    cancel(lab.engine, queued.job_id)
    thread.join(timeout=WAIT_S)
    assert outcome[0].state == "cancelled"
    for pid in map(int, pids.read_text().split()):
        wait_until(partial(_gone, pid))
    assert foreign.poll() is None
    foreign.kill()
    foreign.wait()


def test_what_a_runner_leaves_behind_ends_with_it(
    lab: Lab, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, wait_until: Wait
) -> None:
    pid_file = tmp_path / "pid"
    _no_runner(
        monkeypatch,
        "import pathlib, subprocess, sys\n"
        "child = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(600)'])\n"
        f"pathlib.Path({str(pid_file)!r}).write_text(str(child.pid))\n",
    )
    started = time.monotonic()
    _, outcome = _run(lab)
    assert time.monotonic() - started < 300
    assert (outcome.state, outcome.error_kind) == ("failed", "crash")
    wait_until(partial(_gone, int(pid_file.read_text())))


def test_a_stopping_worker_interrupts_its_job(lab: Lab) -> None:
    queued = lab.queue(script={"run_s": 0.1}, rounds=50)
    job = lab.claim(queued, os.getpid())
    deadline = time.monotonic() + 1.5
    outcome = supervisor.run_job(
        lab.engine, lab.settings, job, should_stop=lambda: time.monotonic() > deadline
    )
    assert outcome.state == "interrupted"
    assert lab.job(queued).state == "interrupted"


def test_a_foreign_sigterm_is_a_failure_not_a_cancellation(lab: Lab, wait_until: Wait) -> None:
    queued = lab.queue(script={"run_s": 0.1}, rounds=50)
    job = lab.claim(queued, os.getpid())
    outcome: list[Outcome] = []
    thread = threading.Thread(
        target=lambda: outcome.append(supervisor.run_job(lab.engine, lab.settings, job))
    )
    thread.start()
    wait_until(lambda: lab.job(queued).done >= 1)
    _runner_of(lab, job).terminate()
    thread.join(timeout=WAIT_S)
    assert (outcome[0].state, outcome[0].error_kind) == ("failed", "signal")
    assert "Another program asked the runner to stop" in str(outcome[0].error_text)


def test_a_lock_of_three_seconds_during_the_last_writes_loses_nothing(
    lab: Lab, monkeypatch: pytest.MonkeyPatch, wait_until: Wait
) -> None:
    from specdash.store import session as store_session

    monkeypatch.setattr(store_session, "BUSY_TIMEOUT_MS", 300)
    lab.engine.dispose()
    # 12 runs are left when the lock is taken: long enough that the job has not ended by then.
    queued = lab.queue(script={"run_s": 0.2})
    job = lab.claim(queued, os.getpid())
    outcome: list[Outcome] = []
    thread = threading.Thread(
        target=lambda: outcome.append(supervisor.run_job(lab.engine, lab.settings, job))
    )
    thread.start()
    wait_until(lambda: lab.job(queued).done >= 2)
    path = lab.settings.resolved_database_url.removeprefix("sqlite:///")
    holder = sqlite3.connect(path, isolation_level=None, timeout=WAIT_S)
    holder.execute("BEGIN IMMEDIATE")
    time.sleep(3)
    assert lab.report(queued).experiment.job.state == "running"
    holder.execute("COMMIT")
    holder.close()
    thread.join(timeout=WAIT_S)
    assert outcome == [Outcome("succeeded")]
    with read_session(lab.engine) as session:
        assert len(list_runs(session, queued.experiment_id)) == 12


def test_an_error_of_the_worker_itself_ends_runner_and_job(
    lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_args: object) -> None:
        raise ZeroDivisionError("a bug")

    monkeypatch.setattr(supervisor, "apply_events", broken)
    queued, outcome = _run(lab, script={"run_s": 0.2}, rounds=50)
    assert (outcome.state, outcome.error_kind) == ("failed", "internal")
    assert "ZeroDivisionError: a bug" in str(outcome.error_text)
    assert lab.job(queued).state == "failed"


def _gone(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True


def _runner_of(lab: Lab, job: ClaimedJob) -> psutil.Process:
    from specdash.store.tables import Job

    with read_session(lab.engine) as session:
        pid = session.get_one(Job, job.job_id).runner_pid
    assert pid is not None
    return psutil.Process(pid)
