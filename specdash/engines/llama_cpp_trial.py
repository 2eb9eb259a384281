"""Whether the library's CPU kernels for repacked weights work here, tried in a child process.

Some builds of llama.cpp crash in their AMX kernels on the first pass of more than one token, and a
crash ends the process. So where the library reports AMX, a tiny model of zeros is decoded in a
child first; when that dies, models are loaded without repacked weights.
"""

import functools
import subprocess
import sys
import tempfile
from pathlib import Path

_TIMEOUT_S = 60.0
_WIDTH = 256
_VOCABULARY = 64
_LAYER = (
    "attn_q",
    "attn_k",
    "attn_v",
    "attn_output",
    "ffn_gate",
    "ffn_up",
    "ffn_down",
)


@functools.cache
def repacked_weights_work() -> bool:
    """``True`` at once where the library reports no AMX; the answer holds for the process."""
    from llama_cpp import llama_cpp as lib

    if b"AMX_INT8 = 1" not in lib.llama_print_system_info():
        return True
    try:
        child = subprocess.run(
            [sys.executable, "-m", "specdash.engines.llama_cpp_trial"],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=_TIMEOUT_S,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return False
    return child.returncode == 0


def _write_model(path: Path) -> None:
    """A one-layer model whose Q4_1 weights are all zero: enough to reach every kernel."""
    import numpy as np
    from gguf import GGMLQuantizationType, GGUFWriter

    writer = GGUFWriter(path, "llama")
    writer.add_context_length(64)
    writer.add_embedding_length(_WIDTH)
    writer.add_feed_forward_length(_WIDTH)
    writer.add_block_count(1)
    writer.add_head_count(4)
    writer.add_head_count_kv(4)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_vocab_size(_VOCABULARY)
    writer.add_tokenizer_model("no_vocab")
    norm = np.ones(_WIDTH, dtype=np.float32)
    for name in ("output_norm", "blk.0.attn_norm", "blk.0.ffn_norm"):
        writer.add_tensor(f"{name}.weight", norm)
    row_bytes = _WIDTH // 32 * 20
    quantised = GGMLQuantizationType.Q4_1
    for name, rows in (
        ("token_embd", _VOCABULARY),
        ("output", _VOCABULARY),
        *((f"blk.0.{part}", _WIDTH) for part in _LAYER),
    ):
        zeros = np.zeros((rows, row_bytes), dtype=np.uint8)
        writer.add_tensor(f"{name}.weight", zeros, raw_dtype=quantised)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def _decode_model(path: Path) -> bool:
    from llama_cpp import llama_cpp as lib

    lib.llama_backend_init()
    model = lib.llama_model_load_from_file(str(path).encode(), lib.llama_model_default_params())
    params = lib.llama_context_default_params()
    params.n_ctx = 64
    context = lib.llama_init_from_model(model, params) if model else None
    if not context:
        return False
    tokens = (lib.llama_token * 8)(*range(8))
    return bool(lib.llama_decode(context, lib.llama_batch_get_one(tokens, 8)) == 0)


def main() -> int:
    """The child: exit status 0 when the pass came back."""
    if sys.platform != "win32":
        import resource

        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "trial.gguf"
        _write_model(path)
        return 0 if _decode_model(path) else 1


if __name__ == "__main__":
    sys.exit(main())
