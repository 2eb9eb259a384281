"""Drafts of a target as rows and cells, memory beside what was measured."""

import pytest
from fakes import history_row, model_view, on_summary

from specdash.domain.memory import MemoryEstimate, MemoryPart
from specdash.domain.pairing import PairVerdict
from specdash.domain.verdict import Verdict
from specdash.store.measured import MeasuredLoad
from specdash.ui import memory, pair_rows
from specdash.ui.drafts import Draft
from specdash.ui.matrix import matrix_figure
from specdash.ui.memory import HostMemory

TARGET = model_view(n_params=1_000_000_000, size_bytes=1000, path=None)
SMALL = model_view(
    name="small", content_hash="s" * 64, n_params=100_000_000, size_bytes=150, path=None
)
HOST = HostMemory(free_bytes=100, total_bytes=200)
FITS = Draft(SMALL, PairVerdict(True, None, "the vocabularies match"))
REFUSED = Draft(SMALL, PairVerdict(False, "vocab_size", "sizes differ by 200, at most 128 allowed"))


def load(experiment_id: int = 7, **changes: object) -> MeasuredLoad:
    fields: dict[str, object] = {
        "experiment_id": experiment_id,
        "machine": "laptop",
        "engine": "llama-cpp",
        "target_hash": TARGET.content_hash,
        "arm_texts": ("off", "draft-simple:model=small"),
        "arm_drafts": {19: (), 20: (SMALL.content_hash,)},
        "generation": {"n_ctx": 512, "kv_type": "f16", "a_later_setting": 1},
        "peak_rss_bytes": 110,
        **changes,
    }
    return MeasuredLoad(**fields)  # type: ignore[arg-type]


@pytest.fixture(autouse=True)
def known_need(monkeypatch: pytest.MonkeyPatch) -> None:
    estimate = MemoryEstimate((MemoryPart("target weights", 121),))
    monkeypatch.setattr(memory, "estimate_request", lambda *_: estimate)


def test_a_draft_row_has_sizes_as_shares_and_the_best_result_with_its_address() -> None:
    slow = history_row(summary=on_summary(ratio=0.9, verdict=Verdict.SLOWER))
    best = history_row(experiment_id=8)
    results = pair_rows.best_results([slow, best], [load(7), load(8)])
    (row,) = pair_rows.draft_rows(TARGET, [FITS], results, [(TARGET, SMALL)], HOST)
    assert row["Parameters of the target (%)"] == 10
    assert row["Bytes of the target (%)"] == 15
    assert row["In free memory"] == "not now"
    assert row["Best measured"] == "1.25x (1.18x to 1.33x), faster, on extract"
    assert row["Result"] == "experiment?id=8"
    assert row["To know"] == "LM Studio documents this pair"


def test_results_of_arms_without_that_draft_do_not_count_for_the_pair() -> None:
    assert pair_rows.best_results([history_row(experiment_arm_id=19)], [load()]) == {}


def test_a_refused_draft_says_why_and_needs_no_memory() -> None:
    (row,) = pair_rows.draft_rows(TARGET, [REFUSED], {}, [], HOST)
    assert row["Fits"] == "no"
    assert row["Why"] == "sizes differ by 200, at most 128 allowed"
    assert row["In free memory"] is None
    (cell,) = pair_rows.cells_of(TARGET, [REFUSED], [], HOST)
    assert cell.word == "no"


def test_a_draft_too_large_to_pay_is_a_but_in_table_and_matrix() -> None:
    advice = "the draft has 60% of the target's bytes"
    large = Draft(SMALL, PairVerdict(True, None, "the vocabularies match", (advice,)))
    roomy = HostMemory(1000, 1000)
    (row,) = pair_rows.draft_rows(TARGET, [large], {}, [], roomy)
    assert (row["Fits"], row["To know"]) == ("yes, but", advice)
    assert list(row).index("To know") < list(row).index("Best measured")
    (cell,) = pair_rows.cells_of(TARGET, [large], [], roomy)
    assert cell.word == "yes, but"


def test_a_pair_that_fits_without_room_says_so_in_the_matrix() -> None:
    (cell,) = pair_rows.cells_of(TARGET, [FITS], [], HOST)
    assert cell.word == "yes, no room"
    (free,) = pair_rows.cells_of(TARGET, [FITS], [], HostMemory(1000, 1000))
    assert free.word == "yes"
    figure = matrix_figure([free])
    assert figure.layout.title.text == "1 of 1 pairs fit"


def test_the_estimate_stands_beside_the_newest_measured_peak_of_this_machine() -> None:
    loads = [load(9), load(7), load(8, machine="elsewhere"), load(6, peak_rss_bytes=None)]
    (found,) = memory.measured_memory(loads, [TARGET, SMALL], "laptop")
    assert found.experiment_id == 9
    (row,) = pair_rows.memory_rows([found])
    assert row["Drafts"] == "small"
    assert row["Estimate off by (%)"] == pytest.approx(10)


def test_a_load_with_a_model_that_is_not_registered_is_left_out() -> None:
    assert memory.measured_memory([load()], [TARGET], "laptop") == []


@pytest.mark.parametrize(
    ("needed", "word"), [(None, None), (100, "yes"), (200, "not now"), (201, "no")]
)
def test_fitting_is_a_word(needed: int | None, word: str | None) -> None:
    assert HOST.fits(needed) == word
