"""Checks before queueing: what is said beside which field."""

import re
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest
from sqlalchemy.engine import Engine

from specdash.domain.arms import parse_arm
from specdash.domain.memory import MemoryEstimate, MemoryPart
from specdash.domain.pairing import PairVerdict
from specdash.engines.base import GenerationSettings
from specdash.errors import UsageError
from specdash.store.experiment_request import ExperimentRequest
from specdash.store.models import resolve_model, scan
from specdash.store.session import read_session
from specdash.worker import duration, load_check, memory_check
from specdash.worker import preflight as module
from specdash.worker.gpu import GpuRoom
from specdash.worker.preflight import Check, preflight
from tests.helpers.gguf_files import write_model
from tests.helpers.seeding import (
    MACHINE,
    scripted_file,
    seed_experiment,
    seed_model,
    seed_workload,
)

GIB = 1 << 30


@pytest.fixture
def request_(engine: Engine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ExperimentRequest:
    """``off`` against ngram-simple on a tiny target; the library's answers are given."""
    folder = tmp_path / "models"
    write_model(folder / "target.gguf", {"llama.context_length": 4096})
    write_model(folder / "draft.gguf", seed=2)
    write_model(folder / "proj.gguf", {"general.type": "mmproj"}, seed=3)
    models = {m.name: m.model_id for m in scan(engine, [folder]).registered}
    monkeypatch.setattr(module, "count_prompt_tokens", lambda _, prompts: [100] * len(prompts))
    monkeypatch.setattr(memory_check, "repacks_weights", lambda _: False)
    monkeypatch.setattr(module, "allowed_cpus", lambda: 2)
    monkeypatch.setattr(module, "library_info", lambda: SimpleNamespace(supports_gpu=False))
    set_memory(monkeypatch, available=8 * GIB)
    return ExperimentRequest(
        workload_id=seed_workload(engine, n_prompts=4),
        target_model_id=models["target"],
        arms=(parse_arm("ngram-simple:size_m=16"),),
        max_tokens=128,
        generation=GenerationSettings(n_ctx=1024, n_threads=2),
    )


def set_memory(monkeypatch: pytest.MonkeyPatch, available: int) -> None:
    memory = SimpleNamespace(available=available, total=16 * GIB)
    monkeypatch.setattr(memory_check, "psutil", SimpleNamespace(virtual_memory=lambda: memory))


def by_field(checks: tuple[Check, ...], field: str) -> list[tuple[str, str]]:
    return [(c.level, c.text) for c in checks if c.field == field]


def with_generation(request: ExperimentRequest, **changes: object) -> ExperimentRequest:
    return replace(request, generation=replace(request.generation, **changes))


def test_a_sound_request_has_only_good_answers(engine: Engine, request_: ExperimentRequest) -> None:
    checks = preflight(engine, request_)
    assert {c.level for c in checks} == {"ok"}
    assert by_field(checks, "n_ctx") == [
        (
            "ok",
            "The longest prompt has 100 tokens; with answer and draft 244 of 1024 are needed.",
        )
    ]
    assert by_field(checks, "time")[0][1].startswith("26 runs. How long they take is unknown")


def test_few_prompts_give_no_interval(engine: Engine, request_: ExperimentRequest) -> None:
    ((level, text),) = by_field(preflight(engine, replace(request_, n_prompts=2)), "n_prompts")
    assert level == "warn"
    assert text.startswith("Fewer than 3 prompts give no interval")


def test_a_prompt_longer_than_the_context_forbids_queueing(
    engine: Engine, request_: ExperimentRequest
) -> None:
    ((level, text),) = by_field(preflight(engine, with_generation(request_, n_ctx=100)), "n_ctx")
    assert level == "error"
    assert "has 100 tokens; the context holds 100. Raise it to 256" in text


def test_an_answer_that_does_not_fit_is_cut_and_that_is_said(
    engine: Engine, request_: ExperimentRequest
) -> None:
    ((level, text),) = by_field(preflight(engine, with_generation(request_, n_ctx=200)), "n_ctx")
    assert level == "warn"
    assert "it needs 244 of 200" in text


def test_a_context_beyond_training_is_limited(engine: Engine, request_: ExperimentRequest) -> None:
    found = by_field(preflight(engine, with_generation(request_, n_ctx=9000)), "n_ctx")
    assert (
        "warn",
        "The model was trained for 4096 tokens; the context is limited to that.",
    ) in found


def test_a_template_that_refuses_is_told_at_the_target(
    engine: Engine, request_: ExperimentRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> list[int]:
        raise UsageError("The model's chat template refuses the messages: no system role.")

    monkeypatch.setattr(module, "count_prompt_tokens", refuse)
    assert by_field(preflight(engine, request_), "target") == [
        ("error", "The model's chat template refuses the messages: no system role.")
    ]


def test_too_little_memory_names_what_would_fit(
    engine: Engine, request_: ExperimentRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    set_memory(monkeypatch, available=1 << 20)
    ((level, text),) = by_field(preflight(engine, request_), "memory")
    assert level == "warn"
    assert "only 1.0 MiB are free: pages are swapped" in text
    assert text.endswith(" No context fits; choose smaller models.")


def test_too_many_threads_are_warned_of(engine: Engine, request_: ExperimentRequest) -> None:
    ((level, text),) = by_field(
        preflight(engine, with_generation(request_, n_threads=8)), "threads"
    )
    assert level == "warn"
    assert text.startswith("8 threads are more than the 2 CPUs this process may use")


def test_gpu_layers_without_gpu_support_are_warned_of(
    engine: Engine, request_: ExperimentRequest
) -> None:
    ((_, text),) = by_field(
        preflight(engine, with_generation(request_, gpu_layers=9)), "gpu_layers"
    )
    assert "built without GPU support" in text


def test_gpu_memory_is_compared_where_it_is_known(
    engine: Engine, request_: ExperimentRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "library_info", lambda: SimpleNamespace(supports_gpu=True))
    monkeypatch.setattr(memory_check, "gpu_room", lambda: GpuRoom(GIB, 2 * GIB))
    asked = with_generation(request_, gpu_layers=-1)
    ((level, text),) = by_field(preflight(engine, asked), "gpu_layers")
    assert level == "ok"
    assert re.fullmatch(r"About .*iB of GPU memory, \d+ % of it; 1\.0 GiB are free\.", text)
    monkeypatch.setattr(memory_check, "gpu_room", lambda: GpuRoom(1, 2 * GIB))
    ((level, text),) = by_field(preflight(engine, asked), "gpu_layers")
    assert level == "warn"
    assert "only 1 Byte are free" in text


def test_a_gpu_that_shares_the_hosts_memory_adds_to_its_need(
    engine: Engine, request_: ExperimentRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "library_info", lambda: SimpleNamespace(supports_gpu=True))
    asked = with_generation(request_, gpu_layers=-1)
    estimate = MemoryEstimate((MemoryPart("program", GIB),), (MemoryPart("weights", 8 * GIB),))
    monkeypatch.setattr(memory_check, "estimate_request", lambda *_: estimate)
    room = GpuRoom(16 * GIB, 16 * GIB)
    monkeypatch.setattr(memory_check, "gpu_room", lambda: room)
    assert by_field(preflight(engine, asked), "memory")[0][0] == "ok"
    shared = replace(room, shares_host_memory=True)
    monkeypatch.setattr(memory_check, "gpu_room", lambda: shared)
    checks = preflight(engine, asked)
    assert by_field(checks, "gpu_layers") == []
    ((level, text),) = by_field(checks, "memory")
    assert level == "warn"
    assert text.startswith("About 9.0 GiB of memory are needed, 56 % of this machine's, only 8.0")


@pytest.mark.parametrize(
    ("needed", "available", "level", "text"),
    [
        (
            2 * GIB,
            8 * GIB,
            "ok",
            "About 2.0 GiB of memory are needed, 12 % of this machine's, 8.0 GiB are free. Above "
            "that pages are swapped, and drafting slows things down more than it can win.",
        ),
        (
            14 * GIB,
            15 * GIB,
            "warn",
            "About 14.0 GiB of memory are needed, 88 % of this machine's; 15.0 GiB are free, so it "
            "fits, and leaves little. Once other programs need it, pages are swapped, and drafting "
            "slows things down more than it can win.",
        ),
        (
            14 * GIB,
            8 * GIB,
            "warn",
            "About 14.0 GiB of memory are needed, 88 % of this machine's, only 8.0 GiB are free: "
            "pages are swapped, and drafting slows things down more than it can win. A context of "
            "1024 tokens would fit.",
        ),
        (20 * GIB, 8 * GIB, "error", "About 20.0 GiB of memory are needed, 125 % of this"),
        (1 << 20, 8 * GIB, "ok", "About 1.0 MiB of memory are needed, under 1 % of this machine's"),
    ],
)
def test_the_need_is_a_share_of_the_machine_with_the_point_where_it_slows_down(
    engine: Engine,
    request_: ExperimentRequest,
    monkeypatch: pytest.MonkeyPatch,
    *,
    needed: int,
    available: int,
    level: str,
    text: str,
) -> None:
    set_memory(monkeypatch, available=available)
    estimate = MemoryEstimate((MemoryPart("all", needed),))
    monkeypatch.setattr(memory_check, "estimate_request", lambda *_: estimate)
    ((found, words),) = by_field(preflight(engine, request_), "memory")
    assert found == level
    assert words.startswith(text)


def test_the_drafts_own_kv_type_counts(engine: Engine, request_: ExperimentRequest) -> None:
    asked = replace(request_, arms=(parse_arm("draft-simple:model=draft"),))
    with read_session(engine) as session:
        target, draft = (resolve_model(session, name) for name in ("target", "draft"))

    def draft_cache(kv_type: str | None) -> int:
        estimate = memory_check.estimate_request(
            target, (draft,), with_generation(asked, draft_kv_type=kv_type)
        )
        assert estimate is not None
        return {p.name: p.n_bytes for p in estimate.parts}["draft KV cache"]

    assert draft_cache("f32") == 2 * draft_cache(None) == 2 * draft_cache("f16")


def test_a_quantised_cache_without_flash_attention_is_an_error(
    engine: Engine, request_: ExperimentRequest
) -> None:
    found = preflight(engine, with_generation(request_, kv_type="q8_0", flash_attn="off"))
    assert by_field(found, "kv_type") == [
        ("error", "A q8_0 KV cache needs flash attention; set it to auto or on.")
    ]


def test_a_draft_that_does_not_fit_names_the_rule_and_comes_first(
    engine: Engine, request_: ExperimentRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    verdict = PairVerdict(False, "vocab_type", "vocabulary types differ (1 vs 2)")
    monkeypatch.setattr(module, "check_model_pair", lambda *_: verdict)
    checks = preflight(engine, replace(request_, arms=(parse_arm("draft-simple:model=draft"),)))
    assert checks[0] == Check(
        "error", "arms", "draft cannot draft (draft-simple): vocabulary types differ (1 vs 2)."
    )


def test_a_projector_is_no_draft(engine: Engine, request_: ExperimentRequest) -> None:
    checks = preflight(engine, replace(request_, arms=(parse_arm("draft-simple:model=proj"),)))
    ((level, text),) = by_field(checks, "arms")
    assert level == "error"
    assert "this is a projector (mmproj)" in text


def test_an_unknown_draft_and_a_method_of_another_engine_are_errors(
    engine: Engine, request_: ExperimentRequest
) -> None:
    arms = (parse_arm("draft-simple:model=none"), parse_arm("draft-mtp"))
    found = by_field(preflight(engine, replace(request_, arms=arms)), "arms")
    assert [level for level, _ in found] == ["error", "error"]
    assert "No model is registered as 'none'" in found[0][1]
    assert found[1][1] == "llama-cpp-python, in process does not run draft-mtp."


def test_a_target_that_is_gone_says_so(
    engine: Engine, request_: ExperimentRequest, tmp_path: Path
) -> None:
    (tmp_path / "models/target.gguf").unlink()
    ((level, text),) = by_field(preflight(engine, request_), "target")
    assert level == "error"
    assert text.startswith("The file is no longer at")


def test_the_time_comes_from_this_machines_own_runs(
    engine: Engine, request_: ExperimentRequest, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    target = seed_model(engine, scripted_file(tmp_path), "scripted")
    seed_experiment(engine, request_.workload_id, target, generation=request_.generation)
    asked = replace(request_, target_model_id=target, engine="scripted")
    ((_, unknown),) = by_field(preflight(engine, asked), "time")
    assert "is unknown" in unknown
    monkeypatch.setattr(duration, "_fingerprint", lambda: MACHINE["fingerprint"])
    ((level, known),) = by_field(preflight(engine, asked), "time")
    assert level == "ok"
    assert known.startswith("26 runs, about ")
    assert " tokens/s, as in the newest runs of this target without drafting here" in known
    ((level, slow),) = by_field(preflight(engine, replace(asked, time_limit_s=1)), "time")
    assert level == "warn"
    assert slow.endswith("That is above the time limit of a second.")


def test_a_busy_machine_is_told_before_anything_is_queued(
    engine: Engine, request_: ExperimentRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert by_field(preflight(engine, request_), "machine") == []  # tests do not look
    monkeypatch.setenv("SPECDASH_QUIET_WAIT_S", "20")
    monkeypatch.setattr(load_check, "allowed_cpus", lambda: 2)
    for used, expected in ((0.1, "ok"), (1.2, "warn")):
        monkeypatch.setattr(load_check, "foreign_cpus_now", lambda _roots, used=used: used)
        ((level, text),) = by_field(preflight(engine, request_), "machine")
        assert level == expected
        assert text.startswith(f"Other programs use {used} of 2 CPUs now")
    monkeypatch.setattr(load_check, "foreign_cpus_now", lambda _roots: None)
    assert by_field(preflight(engine, request_), "machine") == []
