"""Memory by part, against what llama.cpp reported for SmolLM2-135M."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from specdash.domain.memory import (
    KvLayer,
    MemorySettings,
    ModelShape,
    compute_bytes,
    estimate_memory,
    kv_cache_bytes,
    largest_context,
)

MIB = 1 << 20
SMOL = ModelShape(
    weights_bytes=96_576_768,
    n_vocab=49_152,
    n_embd=576,
    n_ff=1536,
    n_head=9,
    layers=(KvLayer(192, 192),) * 30,
    n_layer=30,
)


@pytest.mark.parametrize(
    ("n_ctx", "kv_type", "mib"),
    [
        (512, "f16", 11.25),
        (4096, "f16", 90.0),
        (8192, "f16", 180.0),
        (512, "q8_0", 5.98),
        (4096, "q8_0", 47.81),
        (8192, "q8_0", 95.62),
    ],
)
def test_kv_cache_is_what_the_library_allocates(n_ctx: int, kv_type: str, mib: float) -> None:
    found = kv_cache_bytes(SMOL, MemorySettings(n_ctx, kv_type=kv_type)) / MIB
    assert found == pytest.approx(mib, abs=0.01)


@pytest.mark.parametrize(
    ("settings", "mib"),
    [
        (MemorySettings(512), 14.01),
        (MemorySettings(4096), 17.51),
        (MemorySettings(8192), 21.51),
        (MemorySettings(4096, n_outputs=2048), 98.25),
        (MemorySettings(4096, flash_attn=False), 86.38),
        (MemorySettings(8192, flash_attn=False), 166.38),
    ],
)
def test_compute_buffers_are_close_to_the_library(settings: MemorySettings, mib: float) -> None:
    assert compute_bytes(SMOL, settings) / MIB == pytest.approx(mib, rel=0.005)


def test_context_is_padded_to_256_cells() -> None:
    assert kv_cache_bytes(SMOL, MemorySettings(257)) == kv_cache_bytes(SMOL, MemorySettings(512))


def test_sliding_layers_keep_window_and_batch() -> None:
    sliding = replace(SMOL, layers=(KvLayer(192, 192, window=512),) * 30)
    assert kv_cache_bytes(sliding, MemorySettings(32_768)) == kv_cache_bytes(
        SMOL, MemorySettings(1024)
    )
    assert kv_cache_bytes(sliding, MemorySettings(256)) == kv_cache_bytes(SMOL, MemorySettings(256))


def test_a_recurrent_state_does_not_grow_with_the_context() -> None:
    state = replace(SMOL, layers=(), recurrent_bytes=1000)
    assert kv_cache_bytes(state, MemorySettings(512)) == 1000
    assert kv_cache_bytes(state, MemorySettings(8192)) == 1000


def test_parts_add_up_and_name_target_and_draft() -> None:
    estimate = estimate_memory(SMOL, MemorySettings(4096), [SMOL])
    assert estimate.total_bytes == sum(p.n_bytes for p in estimate.parts)
    assert [p.name for p in estimate.parts] == [
        "program",
        "target weights",
        "target KV cache",
        "target compute buffers",
        "target vocabulary and logits",
        "draft weights",
        "draft KV cache",
        "draft compute buffers",
        "draft vocabulary and logits",
    ]
    assert estimate.gpu_bytes == 0


def test_repacked_weights_count_twice() -> None:
    plain = estimate_memory(SMOL, MemorySettings(512))
    repacked = estimate_memory(SMOL, MemorySettings(512, repacked=True))
    assert repacked.total_bytes - plain.total_bytes == SMOL.weights_bytes


def test_layers_on_the_gpu_leave_the_host() -> None:
    all_layers = estimate_memory(SMOL, MemorySettings(4096, gpu_layers=-1))
    assert {p.name: p.n_bytes for p in all_layers.parts}["target weights"] == 0
    assert all_layers.gpu_bytes > SMOL.weights_bytes + 90 * MIB
    some = estimate_memory(SMOL, MemorySettings(4096, gpu_layers=10))
    assert 0 < some.gpu_bytes < all_layers.gpu_bytes


def test_drafts_have_layers_and_a_kv_type_of_their_own() -> None:
    def of(settings: MemorySettings) -> dict[str, int]:
        return {p.name: p.n_bytes for p in estimate_memory(SMOL, settings, [SMOL]).parts}

    own = of(MemorySettings(4096, draft_kv_type="q8_0"))
    assert own["target KV cache"] / MIB == pytest.approx(90.0, abs=0.01)
    assert own["draft KV cache"] / MIB == pytest.approx(47.81, abs=0.01)
    on_gpu = of(MemorySettings(4096, draft_gpu_layers=-1))
    assert (on_gpu["target weights"], on_gpu["draft weights"]) == (SMOL.weights_bytes, 0)


def test_a_gpu_without_memory_of_its_own_takes_the_hosts() -> None:
    on_gpu = estimate_memory(SMOL, MemorySettings(4096, gpu_layers=-1))
    shared = on_gpu.in_host_memory()
    assert shared.total_bytes == on_gpu.total_bytes + on_gpu.gpu_bytes
    assert shared.gpu_bytes == 0
    settings = MemorySettings(8192, gpu_layers=-1)
    alone = largest_context(SMOL, settings, 200 * MIB)
    assert alone is not None
    assert alone > (largest_context(SMOL, settings, 200 * MIB, gpu_shares_memory=True) or 0)


def test_the_largest_context_fits_and_the_next_does_not() -> None:
    settings = MemorySettings(8192)
    free = 300 * MIB
    fits = largest_context(SMOL, settings, free)
    assert fits is not None
    assert estimate_memory(SMOL, replace(settings, n_ctx=fits)).total_bytes <= free
    assert estimate_memory(SMOL, replace(settings, n_ctx=fits + 256)).total_bytes > free
    assert largest_context(SMOL, settings, 10 * MIB) is None
    assert largest_context(SMOL, settings, 10_000 * MIB) == 8192


@given(st.integers(1, 100_000), st.integers(1, 100_000), st.sampled_from(["f16", "q8_0", "q4_0"]))
def test_a_longer_context_never_needs_less(a: int, b: int, kv_type: str) -> None:
    low, high = sorted((a, b))
    smaller = estimate_memory(SMOL, MemorySettings(low, kv_type=kv_type)).total_bytes
    assert smaller <= estimate_memory(SMOL, MemorySettings(high, kv_type=kv_type)).total_bytes
