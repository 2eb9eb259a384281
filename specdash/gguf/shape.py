"""From header facts to the shape that the memory estimate reads."""

from specdash.domain.memory import KvLayer, ModelShape
from specdash.gguf.header import HeaderFacts

# Period of the sliding-window pattern and whether the full layer comes first, where the header
# does not say: the defaults of llama.cpp's ``src/models``. Others keep every layer in full.
_SWA_PERIODS: dict[str, tuple[int, bool]] = {
    "afmoe": (4, False),
    "cohere2": (4, False),
    "cohere2moe": (4, True),
    "exaone-moe": (4, False),
    "exaone4": (4, False),
    "gemma2": (2, False),
    "gemma3": (6, False),
    "gemma3n": (5, False),
    "gpt-oss": (2, False),
    "laguna": (4, True),
    "llama4": (4, False),
    "mellum": (4, False),
    "olmo2": (4, False),
    "plamo3": (8, False),
    "smallthinker": (4, True),
}
_STATE_BYTES = 4


def model_shape(facts: HeaderFacts) -> ModelShape | None:
    """``None`` when the header lacks the sizes an estimate needs."""
    if not (facts.n_layer and facts.n_embd and facts.n_head):
        return None
    layers = tuple(_layers(facts, facts.n_layer, facts.n_embd))
    n_recurrent = facts.n_layer - len(layers) if facts.is_recurrent else 0
    return ModelShape(
        weights_bytes=facts.tensor_bytes,
        n_vocab=facts.n_vocab or 0,
        n_embd=facts.n_embd,
        n_ff=_active_n_ff(facts),
        n_head=max(facts.n_head),
        layers=layers,
        n_layer=facts.n_layer,
        recurrent_bytes=n_recurrent * _recurrent_layer_bytes(facts),
    )


def _layers(facts: HeaderFacts, n_layer: int, n_embd: int) -> list[KvLayer]:
    """Layers that keep keys and values; recurrent and cache-sharing ones do not."""
    head_dim_k = facts.head_dim_k or n_embd
    head_dim_v = facts.head_dim_v or n_embd
    has_mla = facts.kv_lora_rank is not None and set(facts.n_head_kv) == {1}
    found = []
    for index in range(n_layer - (facts.n_shared_kv_layers or 0)):
        heads = _per_layer(facts.n_head_kv, index)
        if heads == 0 or _is_recurrent(facts, index):
            continue
        slides = _slides(facts, index)
        k = (slides and facts.head_dim_k_swa) or head_dim_k
        v = (slides and facts.head_dim_v_swa) or head_dim_v
        # Latent attention keeps one compressed vector; values are a view of it.
        found.append(
            KvLayer(
                heads * k, 0 if has_mla else heads * v, facts.sliding_window if slides else None
            )
        )
    return found


def _slides(facts: HeaderFacts, index: int) -> bool:
    if not facts.sliding_window:
        return False
    pattern = facts.sliding_window_pattern
    if len(pattern) > 1:
        return bool(_per_layer(pattern, index))
    period, full_first = _SWA_PERIODS.get(facts.architecture, (1, False))
    if pattern:
        period = pattern[0]
    if period == 0:
        return True
    return index % period != 0 if full_first else index % period < period - 1


def _is_recurrent(facts: HeaderFacts, index: int) -> bool:
    if not facts.is_recurrent:
        return False
    interval = facts.full_attention_interval
    if interval:
        return (index + 1) % interval != 0
    # With one value for all layers the model has no attention at all, or says so with 0.
    return len(facts.n_head_kv) <= 1


def _recurrent_layer_bytes(facts: HeaderFacts) -> int:
    inner, state = facts.ssm_inner_size or 0, facts.ssm_state_size or 0
    convolution = max((facts.ssm_conv_kernel or 1) - 1, 0)
    width = inner + 2 * (facts.ssm_group_count or 0) * state
    return (convolution * width + inner * state) * _STATE_BYTES


def _active_n_ff(facts: HeaderFacts) -> int:
    dense = facts.n_ff or 4 * (facts.n_embd or 0)
    experts = (facts.n_ff_expert or 0) * (facts.n_expert_used or 0)
    return max(dense, experts)


def _per_layer(values: tuple[int, ...], index: int) -> int:
    if not values:
        return 0
    return values[index] if index < len(values) else values[-1]
