"""The runner with the scripted engine: events, failures, cancellation."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from specdash import __version__
from specdash.worker.machine import library_versions
from specdash.worker.protocol import (
    ArmEvent,
    DoneEvent,
    EnvironmentEvent,
    ErrorEvent,
    PhaseEvent,
    ProgressEvent,
    RunEvent,
    parse_event,
)
from tests.helpers.job_specs import scripted_spec
from tests.helpers.seeding import scripted_file

COMMAND = [sys.executable, "-m", "specdash.worker.runner"]


def write_job(
    folder: Path,
    script: Mapping[str, object],
    arms: Sequence[str] = ("off", "ngram-simple:size_n=4,size_m=16"),
    n_prompts: int = 2,
    **changes: object,
) -> Path:
    target = folder / "fake.scripted.json"
    target.write_text(json.dumps(script))
    spec = scripted_spec(target, arms, n_prompts, **changes)
    job = folder / "job.json"
    job.write_text(spec.model_dump_json())
    return job


def run_job(job: Path) -> tuple[subprocess.CompletedProcess[str], list[object]]:
    done = subprocess.run(
        [*COMMAND, str(job)],
        capture_output=True,
        text=True,
        stdin=subprocess.DEVNULL,
        timeout=60,
        check=False,
    )
    return done, [parse_event(line) for line in done.stdout.splitlines()]


def of_type(events: Sequence[object], kind: type) -> list[object]:
    return [e for e in events if isinstance(e, kind)]


def test_events_come_in_order_and_every_planned_run_is_there(tmp_path: Path) -> None:
    done, events = run_job(write_job(tmp_path, {}))
    assert done.returncode == 0, done.stderr
    phases = [e.phase for e in events if isinstance(e, PhaseEvent)]
    assert phases == ["loading", "checking", "warm-up", "measuring", "done"]
    runs = [e for e in events if isinstance(e, RunEvent)]
    assert len(runs) == 2 + 2 * 2 * 2
    assert sum(r.is_warmup for r in runs) == 2
    assert len({r.order_index for r in runs}) == len(runs)
    assert {(r.experiment_arm_id, r.prompt_id) for r in runs if not r.is_warmup} == {
        (a, p) for a in (10, 11) for p in (100, 101)
    }
    assert [e.status for e in events if isinstance(e, ArmEvent)] == [
        "ready",
        "ready",
        "measured",
        "measured",
    ]
    last = [e for e in events if isinstance(e, ProgressEvent)][-1]
    assert (last.done, last.total, last.eta_s) == (10, 10, 0.0)
    environment = [e for e in events if isinstance(e, EnvironmentEvent)]
    assert environment[0].n_prompt_tokens == {100: 3, 101: 3}
    assert environment[0].specdash == __version__
    assert environment[0].libraries == library_versions()
    assert isinstance(events[-1], DoneEvent)


def test_token_texts_join_to_the_text(tmp_path: Path) -> None:
    _, events = run_job(write_job(tmp_path, {}))
    run = next(e for e in events if isinstance(e, RunEvent))
    assert "".join(run.token_texts) == run.text
    assert len(run.token_texts) == len(run.token_ids) == run.counters.n_generated


def test_an_unsupported_arm_is_left_out_and_the_others_go_on(tmp_path: Path) -> None:
    script = {"methods": {"ngram-mod": {"unsupported": "vocabulary types differ (1 vs 2)"}}}
    done, events = run_job(write_job(tmp_path, script, ["off", "ngram-mod", "ngram-cache"]))
    assert done.returncode == 0
    arms = [e for e in events if isinstance(e, ArmEvent)]
    refused = [e for e in arms if e.status == "unsupported"]
    assert [(e.experiment_arm_id, e.reason) for e in refused] == [
        (11, "vocabulary types differ (1 vs 2)")
    ]
    assert {e.experiment_arm_id for e in events if isinstance(e, RunEvent)} == {10, 12}
    assert {e.experiment_arm_id for e in arms if e.status == "measured"} == {10, 12}


def test_an_arm_without_proof_ends_inactive(tmp_path: Path) -> None:
    script = {"methods": {"ngram-simple": {"inactive": "the engine reports no drafts"}}}
    _, events = run_job(write_job(tmp_path, script))
    arms = {e.experiment_arm_id: e for e in events if isinstance(e, ArmEvent)}
    assert (arms[11].status, arms[11].reason) == (
        "inactive",
        "the engine reports no drafts. Its other rounds were left out.",
    )
    measured = [e for e in events if isinstance(e, RunEvent) and not e.is_warmup]
    # Without an arm to be compared with, off has no other rounds either.
    assert {(e.experiment_arm_id, e.round) for e in measured} == {(10, 0), (11, 0)}
    assert arms[10].status == "measured"


def test_an_arm_that_fails_is_left_out_and_the_others_go_on(tmp_path: Path) -> None:
    script = {"failure": {"kind": "raise", "at_run": 1}}
    done, events = run_job(write_job(tmp_path, script, ["off", "ngram-mod", "ngram-cache"]))
    assert done.returncode == 0
    arms = {e.experiment_arm_id: e for e in events if isinstance(e, ArmEvent)}
    assert (arms[11].status, arms[11].reason) == (
        "failed",
        "The scripted engine was told to fail. Change the script.",
    )
    assert [arms[i].status for i in (10, 12)] == ["measured", "measured"]
    runs = [e.experiment_arm_id for e in events if isinstance(e, RunEvent)]
    assert [runs.count(i) for i in (10, 11, 12)] == [5, 0, 5]
    assert "Traceback" in done.stderr


def test_without_off_nothing_can_be_compared_and_the_job_fails(tmp_path: Path) -> None:
    script = {"failure": {"kind": "raise", "at_run": 0}}
    done, events = run_job(write_job(tmp_path, script, ["off", "ngram-mod", "ngram-cache"]))
    assert done.returncode == 1
    assert isinstance(events[-1], ErrorEvent)


def test_the_machine_is_looked_at_before_in_and_after_the_runs(tmp_path: Path) -> None:
    done, events = run_job(write_job(tmp_path, {}, quiet_wait_s=0.01))
    assert done.returncode == 0
    (environment,) = (e for e in events if isinstance(e, EnvironmentEvent))
    start = environment.machine["start"]
    assert isinstance(start, dict)
    assert {"foreign_cpus", "waited_s", "cpu_mhz"} <= set(start)
    last = events[-1]
    assert isinstance(last, DoneEvent)
    assert "cpu_mhz" in last.machine_warm
    assert {"foreign_cpus", "cpu_mhz"} <= set(last.machine_end)


def test_native_prints_never_reach_the_event_stream(tmp_path: Path) -> None:
    done, events = run_job(write_job(tmp_path, {"stdout_noise": "llama: loading\n{broken"}))
    assert done.returncode == 0
    assert "llama: loading" in done.stderr
    assert isinstance(events[-1], DoneEvent)


@pytest.mark.parametrize(
    ("kind", "expected_kind", "message"),
    [
        ("raise", "engine", "The scripted engine was told to fail."),
        ("bug", "internal", "The runner failed unexpectedly: RuntimeError: scripted bug"),
    ],
)
def test_errors_become_an_event_and_the_traceback_goes_to_the_log(
    tmp_path: Path, kind: str, expected_kind: str, message: str
) -> None:
    done, events = run_job(write_job(tmp_path, {"failure": {"kind": kind, "at_run": 3}}))
    assert done.returncode == 1
    error = events[-1]
    assert isinstance(error, ErrorEvent)
    assert (error.kind, error.message) == (expected_kind, message)
    assert len(of_type(events, RunEvent)) == 3
    assert "Traceback" in done.stderr
    assert "Traceback" not in done.stdout


@pytest.mark.parametrize(
    ("kind", "status"),
    [("abort", -signal.SIGABRT), ("kill", -signal.SIGKILL), ("exit", 7)],
)
def test_a_native_death_leaves_only_whole_events(tmp_path: Path, kind: str, status: int) -> None:
    done, events = run_job(write_job(tmp_path, {"failure": {"kind": kind, "at_run": 2}}))
    assert done.returncode == status
    assert len(of_type(events, RunEvent)) == 2


def test_sigterm_ends_with_a_cancelled_event(tmp_path: Path) -> None:
    job = write_job(tmp_path, {"failure": {"kind": "hang", "at_run": 1}})
    with subprocess.Popen(
        [*COMMAND, str(job)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as runner:
        assert runner.stdout is not None
        lines = []
        for line in runner.stdout:
            lines.append(line)
            if '"event":"progress"' in line:
                runner.terminate()
        assert runner.wait(timeout=30) == 1
    error = parse_event(lines[-1])
    assert isinstance(error, ErrorEvent)
    assert error.kind == "cancelled"


@pytest.mark.skipif(not hasattr(os, "setsid"), reason="POSIX sessions")
def test_the_runner_ends_when_the_workers_pipe_closes(tmp_path: Path) -> None:
    job = write_job(tmp_path, {"failure": {"kind": "hang", "at_run": 1}})
    with subprocess.Popen(
        [*COMMAND, str(job)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as runner:
        assert runner.stdout is not None
        assert runner.stdin is not None
        for line in runner.stdout:
            if '"event":"progress"' in line:
                assert os.getpgid(runner.pid) == runner.pid
                runner.stdin.close()
        # With everything it has started, itself included.
        assert runner.wait(timeout=30) == -signal.SIGKILL


def test_a_missing_job_file_is_said_in_words(tmp_path: Path) -> None:
    done, events = run_job(tmp_path / "absent.json")
    assert done.returncode == 1
    assert isinstance(events[0], ErrorEvent)
    assert "Cannot read the job file" in events[0].message


def test_a_job_file_of_another_shape_is_refused(tmp_path: Path) -> None:
    job = tmp_path / "job.json"
    job.write_text('{"job_id": 1}')
    _, events = run_job(job)
    assert isinstance(events[0], ErrorEvent)
    assert events[0].kind == "usage"


def test_an_unknown_engine_is_refused_with_the_known_names(tmp_path: Path) -> None:
    _, events = run_job(write_job(tmp_path, {}, engine="warp"))
    error = events[-1]
    assert isinstance(error, ErrorEvent)
    assert error.hint is not None
    assert error.hint.startswith("Known engines: llama-cpp, llama-server, ")


def test_a_prompt_longer_than_the_context_fails_before_any_run(tmp_path: Path) -> None:
    job = write_job(tmp_path, {})
    spec = json.loads(job.read_text())
    spec["settings"]["n_ctx"] = 2
    job.write_text(json.dumps(spec))
    _, events = run_job(job)
    error = events[-1]
    assert isinstance(error, ErrorEvent)
    assert error.message == "Prompt 'p0' has 3 tokens; the context holds 2."
    assert of_type(events, RunEvent) == []


def test_runner_imports_neither_interface_nor_native_library(tmp_path: Path) -> None:
    code = (
        "import sys, specdash.worker.runner;"
        "print([m for m in ('streamlit', 'plotly', 'pandas', 'llama_cpp') if m in sys.modules])"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60
    )
    assert done.stdout.strip() == "[]"


def test_prompts_with_another_cap_of_their_own_are_other_prompts(tmp_path: Path) -> None:
    hashes = []
    for name, cap in (("a", 64), ("b", 96), ("c", 64)):
        spec = scripted_spec(scripted_file(tmp_path, name), ("off",), n_prompts=2, rounds=1)
        capped = [p.model_copy(update={"max_tokens": cap}) for p in spec.prompts]
        path = tmp_path / f"{name}.json"
        path.write_text(spec.model_copy(update={"prompts": capped}).model_dump_json())
        _, events = run_job(path)
        hashes += [e.prompt_set_hash for e in events if isinstance(e, EnvironmentEvent)]
    assert hashes[0] == hashes[2] != hashes[1]
