"""From header facts to the layers that keep keys and values."""

from typing import Any

from specdash.domain.memory import KvLayer
from specdash.gguf.header import HeaderFacts, ModelKind
from specdash.gguf.shape import model_shape


def facts(**changes: Any) -> HeaderFacts:
    values: dict[str, Any] = {
        "kind": ModelKind.MODEL,
        "architecture": "llama",
        "n_params": 1,
        "n_tensors": 1,
        "tensor_bytes": 1_000,
        "data_offset": 0,
        "n_layer": 6,
        "n_embd": 64,
        "n_ff": 128,
        "n_head": (8,),
        "n_head_kv": (2,),
        "head_dim_k": 8,
        "head_dim_v": 8,
        "n_vocab": 100,
    }
    return HeaderFacts(**(values | changes))


def layers(**changes: Any) -> tuple[KvLayer, ...]:
    shape = model_shape(facts(**changes))
    assert shape is not None
    return shape.layers


def test_every_layer_of_a_plain_model_keeps_all() -> None:
    assert layers() == (KvLayer(16, 16),) * 6


def test_a_header_without_sizes_has_no_shape() -> None:
    assert model_shape(facts(n_layer=None)) is None


def test_gemma_slides_in_five_of_six_layers() -> None:
    found = layers(architecture="gemma3", sliding_window=512)
    assert [x.window for x in found] == [512, 512, 512, 512, 512, None]


def test_a_pattern_in_the_header_wins() -> None:
    found = layers(
        architecture="gemma3", sliding_window=512, sliding_window_pattern=(1, 0, 1, 0, 1, 0)
    )
    assert [x.window for x in found] == [512, None] * 3


def test_an_unknown_pattern_counts_in_full() -> None:
    assert all(x.window is None for x in layers(architecture="phi3", sliding_window=512))


def test_sliding_layers_may_have_their_own_head_size() -> None:
    found = layers(architecture="gemma2", sliding_window=64, head_dim_k_swa=4, head_dim_v_swa=4)
    assert found[:2] == (KvLayer(8, 8, 64), KvLayer(16, 16))


def test_latent_attention_keeps_no_values() -> None:
    found = layers(architecture="deepseek2", n_head_kv=(1,), kv_lora_rank=512, head_dim_k=576)
    assert found == (KvLayer(576, 0),) * 6


def test_layers_without_heads_are_recurrent_and_keep_a_state() -> None:
    shape = model_shape(
        facts(
            n_head_kv=(0, 2, 0, 2, 0, 2),
            is_recurrent=True,
            ssm_conv_kernel=4,
            ssm_inner_size=128,
            ssm_state_size=16,
            ssm_group_count=1,
        )
    )
    assert shape is not None
    assert len(shape.layers) == 3
    assert shape.recurrent_bytes == 3 * (3 * (128 + 32) + 128 * 16) * 4


def test_hybrids_with_an_interval_attend_in_every_fourth_layer() -> None:
    found = layers(n_layer=8, is_recurrent=True, full_attention_interval=4)
    assert len(found) == 2


def test_layers_that_share_a_cache_keep_none() -> None:
    assert len(layers(n_shared_kv_layers=2)) == 4


def test_active_experts_count_as_width() -> None:
    shape = model_shape(facts(n_ff_expert=64, n_expert_used=4))
    assert shape is not None
    assert shape.n_ff == 256
