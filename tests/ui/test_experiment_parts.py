"""Parts of the experiment page that read what the runner noted."""

from dataclasses import replace

import pytest
import streamlit as st
from fakes import ACCEPTANCE, experiment_view, off_summary, on_summary

from specdash.store.views import ExperimentReport
from specdash.ui import experiment_parts


@pytest.fixture
def captions(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    said: list[str] = []
    monkeypatch.setattr(st, "caption", said.append)
    return said


def test_looks_at_the_machines_speed_are_summed_up(captions: list[str]) -> None:
    anchors = [
        {"number": 0, "decode_tok_s": 100.0, "moved": False},
        {"number": 1, "decode_tok_s": 90.0, "moved": True},
        {"number": 2, "decode_tok_s": None, "moved": False},
    ]
    view = experiment_view(environment={"anchors": anchors})
    experiment_parts.steadiness(ExperimentReport(view, (), 1, 1, False))
    assert "looked at 3 times" in captions[0]
    assert captions[0].endswith("90.0 to 100.0 tokens/s; it had moved 1 time.")


def test_without_looks_nothing_is_said(captions: list[str]) -> None:
    experiment_parts.steadiness(ExperimentReport(experiment_view(), (), 1, 1, False))
    assert captions == []


@pytest.mark.parametrize(
    ("environment", "end"),
    [
        ({}, "at most 10 rounds."),
        ({"precision_reached": True}, "at most 10 rounds: reached."),
        ({"precision_reached": False}, "at most 10 rounds: not reached, the cap came first."),
        (
            {
                "precision_reached": False,
                "precision_needs_prompts": True,
                "precision_further_prompts": 12,
            },
            "not reached. The prompts differ by more than that, which no number of rounds would "
            "change; add prompts (about 12 more).",
        ),
        (
            {"precision_reached": False, "precision_needs_prompts": True},
            "which no number of rounds would change; add prompts.",
        ),
    ],
)
def test_precision_is_said_with_whether_it_was_reached(
    environment: dict[str, object], end: str
) -> None:
    protocol = {"precision": 0.03, "max_rounds": 10}
    words = experiment_parts.precision_words(
        experiment_view(protocol=protocol, environment=environment)
    )
    assert words is not None
    assert words.endswith(end)


def test_drift_is_one_warning_with_its_amount(monkeypatch: pytest.MonkeyPatch) -> None:
    warned: list[str] = []
    monkeypatch.setattr(st, "warning", lambda text, icon: warned.append(text))
    steady = on_summary(drift=0.001)
    experiment_parts.drift_warning(ExperimentReport(experiment_view(), (steady,), 1, 1, False))
    assert warned == []
    arms = tuple(on_summary(i, drift=-0.034, flags=("drift",)) for i in (2, 3))
    experiment_parts.drift_warning(ExperimentReport(experiment_view(), arms, 1, 1, False))
    assert len(warned) == 1
    assert "became 3\\.4 % slower" in warned[0]


def test_position_words_say_where_the_length_of_drafts_is_assumed() -> None:
    assert "taken as full length" not in experiment_parts.position_words([on_summary()])
    assumed = on_summary(acceptance=replace(ACCEPTANCE, assumes_full_drafts=True))
    assert "taken as full length" in experiment_parts.position_words([assumed])


def test_what_could_not_be_read_is_a_note_and_no_warning(
    captions: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    warned: list[str] = []
    monkeypatch.setattr(st, "warning", lambda text, icon: warned.append(text))
    noted = ["The CPU was throttled for heat 3 times.", "Could not be read here: temperature."]
    view = experiment_view(environment={"warnings": noted})
    experiment_parts.environment_warnings(ExperimentReport(view, (), 1, 1, False))
    assert len(warned) == 1
    assert "throttled" in warned[0]
    assert "temperature" in captions[0]


def test_resolved_settings_are_shown_by_arm_without_what_nobody_told() -> None:
    calls = [{"method": "draft-simple", "model": "0123456789abcdef", "n_max": 3}]
    fields = {
        1: {"engine": "llama-cpp", "engine_commit": None, "parameters": {"calls": []}},
        2: {
            "engine": "llama-cpp",
            "engine_commit": None,
            "parameters": {"calls": calls},
            "draft_gpu_layers": 0,
        },
    }
    report = ExperimentReport(
        experiment_view(), (off_summary(), on_summary()), 1, 1, False, arm_fields=fields
    )
    assert experiment_parts.resolved_rows(report) == [
        {
            "Arm": "off",
            "engine": "llama-cpp",
            "drafting parameters": "none",
            "GPU layers of the draft": None,
        },
        {
            "Arm": "ngram-simple:size_n=3,size_m=8",
            "engine": "llama-cpp",
            "drafting parameters": "draft-simple: model=01234567, n_max=3",
            "GPU layers of the draft": "0",
        },
    ]
