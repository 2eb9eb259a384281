"""Memory on the host and on the GPU, each against what is free there."""

from types import SimpleNamespace

import pytest

from specdash.advisor import forecasting
from specdash.advisor.forecasting import MemoryPrices
from specdash.advisor.ladder import Forecast, MemoryPrice, MemoryRoom, climb, family_of, rung_of
from specdash.advisor.question import Question
from specdash.domain.arms import parse_arm
from specdash.domain.memory import (
    KvLayer,
    MemoryEstimate,
    MemorySettings,
    ModelShape,
    estimate_memory,
)
from specdash.engines.base import GenerationSettings
from specdash.store.experiment_request import ExperimentRequest
from specdash.store.views import ModelView
from specdash.worker.gpu import GpuRoom
from tests.ui.fakes import model_view

GIB = 1 << 30
DRAFT = parse_arm("draft-simple:model=small")
NGRAM = parse_arm("ngram-mod")


def _shape(weights_bytes: int) -> ModelShape:
    return ModelShape(
        weights_bytes=weights_bytes,
        n_vocab=32_000,
        n_embd=4096,
        n_ff=11_008,
        n_head=32,
        layers=(KvLayer(1024, 1024),) * 32,
        n_layer=32,
    )


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch) -> None:
    """16 GB of memory with 14 free; a target of 14 GiB and a draft of one."""

    def estimate(
        _target: ModelView, drafts: list[ModelView], request: ExperimentRequest
    ) -> MemoryEstimate:
        generation = request.generation
        settings = MemorySettings(
            generation.n_ctx,
            gpu_layers=generation.gpu_layers,
            draft_gpu_layers=generation.draft_gpu_layers,
        )
        return estimate_memory(_shape(14 * GIB), settings, [_shape(GIB) for _ in drafts])

    memory = SimpleNamespace(available=14 * GIB, total=16 * GIB)
    monkeypatch.setattr(forecasting, "psutil", SimpleNamespace(virtual_memory=lambda: memory))
    monkeypatch.setattr(forecasting, "estimate_request", estimate)


def _prices(
    monkeypatch: pytest.MonkeyPatch, gpu: GpuRoom | None, gpu_layers: int, draft_gpu_layers: int
) -> MemoryPrices:
    monkeypatch.setattr(forecasting, "gpu_room", lambda: gpu)
    generation = GenerationSettings(gpu_layers=gpu_layers, draft_gpu_layers=draft_gpu_layers)
    question = Question(1, 1, generation=generation)
    small = model_view(model_id=2, name="small")
    return MemoryPrices(model_view(), {"small": small}, question)


def _state_of_the_draft(prices: MemoryPrices) -> tuple[str, str]:
    forecasts = [
        Forecast(arm.text(), rung_of(arm), family_of(arm), price=prices.of(arm))
        for arm in (NGRAM, DRAFT)
    ]
    rung = climb(forecasts, room=prices.room())[1]
    return rung.state, rung.words


@pytest.mark.usefixtures("machine")
@pytest.mark.parametrize("draft_gpu_layers", [-1, 0])
def test_a_draft_fits_beside_a_target_that_is_on_the_gpu(
    monkeypatch: pytest.MonkeyPatch, draft_gpu_layers: int
) -> None:
    prices = _prices(monkeypatch, GpuRoom(24 * GIB, 24 * GIB), -1, draft_gpu_layers)
    assert _state_of_the_draft(prices)[0] == "open"
    price = prices.of(DRAFT)
    assert price is not None
    assert (price.gpu_bytes > GIB) == (draft_gpu_layers == -1)
    assert (price.host_bytes > GIB) == (draft_gpu_layers == 0)


@pytest.mark.usefixtures("machine")
def test_a_draft_without_room_on_the_gpu_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    prices = _prices(monkeypatch, GpuRoom(15 * GIB, 16 * GIB), -1, -1)
    state, words = _state_of_the_draft(prices)
    assert state == "too-large"
    assert "of GPU memory on top of the target" in words


@pytest.mark.usefixtures("machine")
def test_a_gpu_of_unknown_size_refuses_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    prices = _prices(monkeypatch, None, -1, -1)
    assert prices.room().gpu_bytes is None
    assert _state_of_the_draft(prices)[0] == "open"


@pytest.mark.usefixtures("machine")
def test_a_gpu_that_shares_the_hosts_memory_is_no_second_place(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    shared = GpuRoom(14 * GIB, 16 * GIB, shares_host_memory=True)
    prices = _prices(monkeypatch, shared, -1, -1)
    price = prices.of(DRAFT)
    assert price is not None
    assert price.gpu_bytes == 0
    assert price.host_bytes > GIB
    assert _state_of_the_draft(prices)[0] == "too-large"


@pytest.mark.usefixtures("machine")
def test_without_gpu_layers_the_gpu_is_not_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    prices = _prices(monkeypatch, None, 0, 0)
    monkeypatch.setattr(forecasting, "gpu_room", lambda: pytest.fail("a GPU was looked for"))
    assert prices.room().gpu_bytes is None
    assert _state_of_the_draft(prices)[0] == "too-large"


def test_each_place_is_compared_with_its_own_need() -> None:
    room = MemoryRoom(host_bytes=10 * GIB, gpu_bytes=4 * GIB)
    assert room.shortage(MemoryPrice(9 * GIB, 3 * GIB)) is None
    assert room.shortage(MemoryPrice(0, 5 * GIB)) == (
        "5.0 GiB of GPU memory on top of the target, 4.0 GiB are free"
    )
    assert room.shortage(MemoryPrice(11 * GIB, 0)) == (
        "11.0 GiB on top of the target, 10.0 GiB are free"
    )
    assert MemoryRoom().shortage(MemoryPrice(11 * GIB, 5 * GIB)) is None
