"""A job at a server somebody else runs, over real HTTP: from the queue to the report."""

import json
from pathlib import Path

import pytest
from sqlalchemy.engine import Engine
from sqlmodel import select

from specdash.domain.workload import content_hash
from specdash.settings import Settings
from specdash.store.enqueue import queue_experiment
from specdash.store.queries import experiment_report, list_runs, run_detail
from specdash.store.servers import add_server, record_test
from specdash.store.session import read_session
from specdash.store.tables import Run
from specdash.store.tokens import save_token
from specdash.store.views import ExperimentReport
from specdash.worker.request import Wish, build_request
from specdash.worker.scheduler import follow_job
from tests.engines.fakes.scripted_http import Events
from tests.engines.fakes.vllm import MODEL, FakeVllm, captured, streamed
from tests.helpers.seeding import seed_workload

TOKEN = "sk-very-secret"
LABEL = "server:label=ngram-n5"


def _fake(folder: str, text: str | None = None) -> FakeVllm:
    """Per-request counters only, and no token ids: the texts are all there is."""
    chat = json.loads(captured(folder, "chat.json"))
    if text is not None:
        chat["choices"][0]["message"]["content"] = text
    return FakeVllm(
        folder, answer=Events(streamed(chat), gap_s=0.02), metrics=False, tokenizes=False
    )


def _measure(
    engine: Engine, settings: Settings, on: FakeVllm, off: FakeVllm | None, **wishes: object
) -> ExperimentReport:
    add_server(
        engine,
        name="box",
        engine_name="vllm",
        url=on.url,
        baseline_url=off.url if off else None,
        arm_text=LABEL,
    )
    record_test(engine, "box", {"ok": True, "models": [{"id": MODEL, "name": MODEL, "facts": {}}]})
    save_token(settings, "box", TOKEN)
    seed_workload(engine, "seeded", n_prompts=3)
    wish = Wish(
        target=MODEL,
        workload="seeded",
        rounds=1,
        max_tokens=160,
        engine="vllm",
        **wishes,  # type: ignore[arg-type]
    )
    queued = queue_experiment(engine, build_request(engine, settings, wish))
    job = follow_job(engine, settings, queued.job_id)
    assert job.state == "succeeded", job.error_text
    with read_session(engine) as session:
        return experiment_report(session, queued.experiment_id)


def test_texts_are_compared_where_no_ids_are_known(engine: Engine, settings: Settings) -> None:
    same = "one and the same text"
    with _fake("vllm_ngram", same) as on, _fake("vllm_off", same) as off:
        report = _measure(engine, settings, on, off, concurrency=(2,))
        assert {r.headers.get("authorization") for r in on.requests} == {f"Bearer {TOKEN}"}
    baseline, arm = report.arms
    assert (baseline.status, arm.status) == ("measured", "measured")
    assert arm.text == LABEL
    assert (arm.n_equal, arm.n_compared) == (3, 3)
    assert arm.acceptance is not None
    assert (arm.acceptance.n_drafted, arm.acceptance.n_accepted) == (3 * 175, 3 * 125)
    [load] = report.under_load
    assert [x.n_parallel for x in load.levels] == [1, 2]
    with read_session(engine) as session:
        runs = list_runs(session, report.experiment.experiment_id)
        detail = run_detail(session, runs[-1].run_id)
        hashes = set(session.exec(select(Run.output_hash)))
    assert all(r.agreement == 1.0 for r in runs if r.equal_off)
    assert (detail.token_ids, detail.steps, detail.text) == ((), None, same)
    assert hashes == {content_hash(same)}


def test_texts_that_differ_are_of_unknown_class(engine: Engine, settings: Settings) -> None:
    with _fake("vllm_ngram", "one text") as on, _fake("vllm_off", "another text") as off:
        report = _measure(engine, settings, on, off)
    assert (report.arms[1].n_equal, report.arms[1].n_unknown) == (0, 3)
    with read_session(engine) as session:
        runs = list_runs(session, report.experiment.experiment_id)
    on_run = next(r for r in runs if r.arm == LABEL and not r.is_warmup)
    assert (on_run.equal_off, on_run.first_difference, on_run.agreement) == (False, None, None)
    assert on_run.split_class == "unknown:logits"


def test_what_nobody_told_us_is_unknown_in_the_base_key(engine: Engine, settings: Settings) -> None:
    with _fake("vllm_ngram") as on, _fake("vllm_off") as off:
        report = _measure(engine, settings, on, off)
    fields = report.experiment.base_key_fields
    assert {k for k, v in fields.items() if v is None} == {
        "n_batch",
        "n_ubatch",
        "kv_type",
        "flash_attn",
        "gpu_layers",
        "n_parallel",
        "n_threads",
        "n_threads_batch",
        "chat_template_hash",
    }
    assert fields["n_ctx"] == 2048
    # Both addresses are loopback ones, so it is this machine that was measured.
    assert report.experiment.machine_facts["cpu_model"]


def test_a_server_without_a_baseline_measures_its_arm_alone(
    engine: Engine, settings: Settings
) -> None:
    with _fake("vllm_ngram") as on:
        report = _measure(engine, settings, on, None, anchor_every=1, precision=None)
    off, arm = report.arms
    assert (off.status, arm.status) == ("unsupported", "measured")
    assert (arm.n_runs, arm.ratio, arm.verdict) == (3, None, None)
    assert arm.reason == "there is no off here"
    assert arm.decode_tok_s is not None


def test_the_token_is_in_no_table_log_or_job_file(
    engine: Engine, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    written: list[str] = []
    real = Path.write_text

    def write_text(self: Path, data: str, **kwargs: object) -> int:
        written.append(data)
        return real(self, data, **kwargs)  # type: ignore[arg-type]

    monkeypatch.setattr(Path, "write_text", write_text)
    with _fake("vllm_ngram") as on, _fake("vllm_off") as off:
        _measure(engine, settings, on, off)
    assert any('"engine":"vllm"' in text for text in written), "the job file was seen"
    assert not any(TOKEN in text for text in written)
    folder = settings.resolved_data_dir
    holding = [
        p.relative_to(folder)
        for p in folder.rglob("*")
        if p.is_file() and TOKEN.encode() in p.read_bytes()
    ]
    assert holding == [Path("tokens/box")]
