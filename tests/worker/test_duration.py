"""How long an experiment will take: which runs tell it, and what is counted."""

from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest
import sqlalchemy as sa
from sqlalchemy.engine import Engine

from specdash.domain.arms import parse_arm
from specdash.domain.workload import Prompt
from specdash.engines.base import GenerationSettings
from specdash.store.experiment_request import ExperimentRequest
from specdash.store.session import read_session, write_session
from specdash.store.tables import Job
from specdash.worker import duration as module
from specdash.worker.duration import AnswerLength, Pace, duration, read_pace, time_check
from tests.helpers.seeding import (
    MACHINE,
    scripted_file,
    seed_experiment,
    seed_model,
    seed_workload,
)

PROMPTS = [Prompt(f"p{i}", "a", text="x") for i in range(4)]
REQUEST = ExperimentRequest(
    workload_id=1,
    target_model_id=1,
    arms=(parse_arm("ngram-simple"),),
    rounds=2,
    warmup=1,
    max_tokens=100,
    anchor_every=0,
    engine="scripted",
)
PACE = Pace(decode_tok_s=10.0, prefill_s=1.0, load_s=5.0, answers=(AnswerLength(50, True),))


@pytest.mark.parametrize(
    ("answers", "ignore_eos", "tokens"),
    [
        (((50, True), (150, True)), False, 75.0),
        (((48, False),), False, 100.0),
        (((40, True), (48, False)), False, 70.0),
        (((50, True),), True, 100.0),
    ],
)
def test_an_answer_that_was_cut_says_only_that_it_goes_on(
    answers: tuple[tuple[int, bool], ...], ignore_eos: bool, tokens: float
) -> None:
    pace = replace(PACE, answers=tuple(AnswerLength(*a) for a in answers))
    assert pace.tokens(100, ignore_eos=ignore_eos) == tokens


def test_runs_times_their_length_and_the_loading() -> None:
    found = duration(REQUEST, PROMPTS, PACE)
    # 2 arms x (1 warm-up + 4 prompts x 2 rounds), each 1 s of prompt and 50 tokens.
    assert (found.least_runs, found.most_runs) == (18, 18)
    assert (found.least_s, found.most_s) == (5 + 18 * 6, 5 + 18 * 6)


def test_a_prompt_with_a_cap_of_its_own_is_shorter() -> None:
    capped = [replace(p, max_tokens=20) for p in PROMPTS]
    assert duration(REQUEST, capped, PACE).least_s == 5 + 18 * 3


def test_rounds_that_precision_may_add_make_a_range() -> None:
    request = replace(REQUEST, precision=0.03, max_rounds=5)
    found = duration(request, PROMPTS, PACE)
    assert (found.least_runs, found.most_runs) == (18, 42)
    assert (found.least_s, found.most_s) == (5 + 18 * 6, 5 + 42 * 6)
    text = time_check(request, PROMPTS, PACE).text
    assert text.startswith("18 to 42 runs, about 2 minutes to 4 minutes at 10 tokens/s")


def test_looks_at_the_machine_and_the_comparison_of_texts_are_counted() -> None:
    looks = duration(replace(REQUEST, anchor_every=4), PROMPTS, PACE)
    assert looks.least_s == pytest.approx(5 + 18 * 6 + (3 + 2) * (1 + 3.2))
    in_process = duration(replace(REQUEST, engine="llama-cpp"), PROMPTS, PACE)
    assert in_process.least_s == 5 + 18 * 6
    assert in_process.most_s == 5 + 18 * 6 + 4 * 6


def test_parallel_requests_are_counted_one_after_the_other() -> None:
    found = duration(replace(REQUEST, concurrency=(2, 4)), PROMPTS, PACE)
    assert found.least_runs == 18 + 2 * 4 * 2 * 2


def test_what_is_unknown_is_said_and_is_not_zero() -> None:
    text = time_check(REQUEST, PROMPTS, replace(PACE, prefill_s=None, load_s=None)).text
    assert text.endswith("The time of loading and reading the prompts is unknown and not in it.")
    assert "is unknown" not in time_check(REQUEST, PROMPTS, PACE).text
    assert time_check(REQUEST, PROMPTS, None).text.startswith(
        "18 runs. How long they take is unknown"
    )


@pytest.mark.parametrize(
    ("limit_s", "level", "end"),
    [
        (3600.0, "ok", "finished benchmark or not."),
        (200.0, "warn", "That may be above the time limit of 3 minutes."),
        (60.0, "warn", "That is above the time limit of a minute."),
    ],
)
def test_the_time_limit_is_held_against_both_ends(limit_s: float, level: str, end: str) -> None:
    request = replace(REQUEST, precision=0.03, max_rounds=5, time_limit_s=limit_s)
    check = time_check(request, PROMPTS, PACE)
    assert check.level == level
    assert check.text.endswith(end)


@pytest.fixture
def here(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_fingerprint", lambda: MACHINE["fingerprint"])


@pytest.mark.usefixtures("here")
def test_only_runs_with_the_same_engine_and_settings_tell_the_pace(
    engine: Engine, tmp_path: Path
) -> None:
    workload = seed_workload(engine)
    target = seed_model(engine, scripted_file(tmp_path, off_tok_s=50.0), "scripted")
    seed_experiment(engine, workload, target, generation=GenerationSettings(n_threads=2))
    asked = replace(REQUEST, workload_id=workload, target_model_id=target)
    paces = {}
    with read_session(engine) as session:
        for name, request in {
            "same": replace(asked, generation=GenerationSettings(n_threads=2, n_ctx=512)),
            "threads": replace(asked, generation=GenerationSettings(n_threads=4)),
            "offload": replace(asked, generation=GenerationSettings(n_threads=2, gpu_layers=9)),
            "engine": replace(asked, engine="llama-cpp"),
        }.items():
            paces[name] = read_pace(session, request)
    assert paces["same"] is not None
    assert paces["same"].decode_tok_s == pytest.approx(50.0, rel=0.05)
    assert [paces[name] for name in ("threads", "offload", "engine")] == [None] * 3


@pytest.mark.usefixtures("here")
def test_answers_of_the_same_workload_tell_the_length(engine: Engine, tmp_path: Path) -> None:
    short, long = seed_workload(engine, "short"), seed_workload(engine, "long")
    target = seed_model(engine, scripted_file(tmp_path, n_tokens=160), "scripted")
    seed_experiment(engine, long, target)
    seed_experiment(engine, short, target, max_tokens=48)
    lengths = {}
    with read_session(engine) as session:
        for name, workload in (("short", short), ("long", long), ("other", 99)):
            request = replace(REQUEST, workload_id=workload, target_model_id=target)
            pace = read_pace(session, request)
            assert pace is not None
            lengths[name] = pace.tokens(256, ignore_eos=False)
    # Cut at 48 tokens by its cap, an answer may fill any other.
    assert (lengths["short"], lengths["long"]) == (256.0, 160.0)
    assert 160 < lengths["other"] < 256


@pytest.mark.usefixtures("here")
def test_loading_is_from_the_start_of_a_job_to_its_first_run(
    engine: Engine, tmp_path: Path
) -> None:
    workload = seed_workload(engine)
    target = seed_model(engine, scripted_file(tmp_path), "scripted")
    seed_experiment(engine, workload, target)
    began = datetime(2026, 1, 1, 11, 59, 48, tzinfo=UTC)  # its runs are of 12:00:00
    with write_session(engine) as session:
        session.exec(sa.update(Job).values(started_at=began))
    with read_session(engine) as session:
        pace = read_pace(session, replace(REQUEST, workload_id=workload, target_model_id=target))
    assert pace is not None
    assert pace.load_s == 12.0
