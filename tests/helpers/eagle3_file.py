"""A small EAGLE-3 draft for a target file: random weights, so that hardly a token is accepted."""

from pathlib import Path

import numpy as np
from gguf import GGUFReader, GGUFWriter

_N_DRAFT_VOCAB = 512
_COPIED = (
    "tokenizer.ggml.model",
    "tokenizer.ggml.pre",
    "tokenizer.ggml.tokens",
    "tokenizer.ggml.token_type",
    "tokenizer.ggml.merges",
    "tokenizer.ggml.bos_token_id",
    "tokenizer.ggml.eos_token_id",
)


def write_eagle3(path: Path, target: Path, *, seed: int = 0) -> Path:
    """One decoder layer over the target's low, middle and high states, with its own vocabulary.

    Draft ids stand for every 64th id of the target (``d2t``).
    """
    reader = GGUFReader(target)
    arch = reader.get_field("general.architecture").contents()  # type: ignore[union-attr]
    n_embd, n_layer, n_head, n_head_kv = (
        int(reader.get_field(f"{arch}.{key}").contents())  # type: ignore[union-attr]
        for key in (
            "embedding_length",
            "block_count",
            "attention.head_count",
            "attention.head_count_kv",
        )
    )
    tokens = reader.get_field("tokenizer.ggml.tokens").contents()  # type: ignore[union-attr]
    writer = GGUFWriter(path, "eagle3")
    writer.add_context_length(8192)
    writer.add_embedding_length(n_embd)
    writer.add_feed_forward_length(n_embd)
    writer.add_block_count(1)
    writer.add_head_count(n_head)
    writer.add_head_count_kv(n_head_kv)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_vocab_size(len(tokens))
    writer.add_array("eagle3.target_layers", [2, n_layer // 2, n_layer - 3])
    writer.add_uint32("eagle3.target_hidden_size", n_embd)
    _copy_tokenizer(reader, writer)

    rng = np.random.default_rng(seed)

    def weights(n_out: int, n_in: int) -> np.ndarray:
        return rng.normal(0, 0.02, (n_out, n_in)).astype(np.float32)

    n_kv = n_embd // n_head * n_head_kv
    stride = len(tokens) // _N_DRAFT_VOCAB
    writer.add_tensor("d2t", np.arange(_N_DRAFT_VOCAB, dtype=np.int64) * stride)
    writer.add_tensor("fc.weight", weights(n_embd, 3 * n_embd))
    writer.add_tensor("output.weight", weights(_N_DRAFT_VOCAB, n_embd))
    for name in ("output_norm", "blk.0.attn_norm", "blk.0.attn_norm_2", "blk.0.ffn_norm"):
        writer.add_tensor(f"{name}.weight", np.ones(n_embd, dtype=np.float32))
    for part, n_out, n_in in (
        ("attn_q", n_embd, 2 * n_embd),
        ("attn_k", n_kv, 2 * n_embd),
        ("attn_v", n_kv, 2 * n_embd),
        ("attn_output", n_embd, n_embd),
        ("ffn_gate", n_embd, n_embd),
        ("ffn_up", n_embd, n_embd),
        ("ffn_down", n_embd, n_embd),
    ):
        writer.add_tensor(f"blk.0.{part}.weight", weights(n_out, n_in))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


def _copy_tokenizer(reader: GGUFReader, writer: GGUFWriter) -> None:
    for key in _COPIED:
        field = reader.get_field(key)
        if field is not None:
            writer.add_key_value(
                key,
                field.contents(),
                field.types[0],
                field.types[-1] if len(field.types) > 1 else None,
            )
