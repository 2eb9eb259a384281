"""GGUF headers written byte by byte, so that tests can also write what no tool would."""

import struct
from collections.abc import Mapping, Sequence
from pathlib import Path

Value = bool | int | float | str | Sequence[int] | Sequence[str]

U32, I32, F32, BOOL, STRING, ARRAY, U64 = 4, 5, 6, 7, 8, 9, 10
F32_TENSOR, Q4_0_TENSOR = 0, 2
BOS, EOS = 1, 2


def text(value: str | bytes) -> bytes:
    data = value if isinstance(value, bytes) else value.encode()
    return struct.pack("<Q", len(data)) + data


def pair(key: str, value: Value) -> bytes:
    """One metadata entry; lists of strings or of unsigned integers are arrays."""
    if isinstance(value, bool):
        return text(key) + struct.pack("<I?", BOOL, value)
    if isinstance(value, int):
        return text(key) + struct.pack("<II", U32, value)
    if isinstance(value, float):
        return text(key) + struct.pack("<If", F32, value)
    if isinstance(value, str):
        return text(key) + struct.pack("<I", STRING) + text(value)
    if value and isinstance(value[0], str):
        body = b"".join(text(str(v)) for v in value)
        return text(key) + struct.pack("<IIQ", ARRAY, STRING, len(value)) + body
    numbers = struct.pack(f"<{len(value)}I", *(int(v) for v in value))
    return text(key) + struct.pack("<IIQ", ARRAY, U32, len(value)) + numbers


def tensor(name: str, shape: Sequence[int], offset: int, kind: int = F32_TENSOR) -> bytes:
    dims = struct.pack(f"<I{len(shape)}Q", len(shape), *shape)
    return text(name) + dims + struct.pack("<IQ", kind, offset)


def header(
    pairs: Sequence[bytes] = (), tensors: Sequence[bytes] = (), *, version: int = 3
) -> bytes:
    start = b"GGUF" + struct.pack("<IQQ", version, len(tensors), len(pairs))
    return start + b"".join(pairs) + b"".join(tensors)


def model_bytes(
    values: Mapping[str, Value] | None = None,
    *,
    tensors: Mapping[str, Sequence[int]] | None = None,
    architecture: str = "llama",
    seed: int = 0,
) -> bytes:
    """A whole small file: header facts of a two-layer model and zeroed weights.

    ``seed`` changes the weights, and with them the content hash, but no header fact.
    """
    shapes = {"token_embd.weight": (8, 4), "blk.0.attn_q.weight": (8, 8)}
    shapes |= {k: tuple(v) for k, v in (tensors or {}).items()} if tensors is not None else {}
    facts: dict[str, Value] = {
        "general.architecture": architecture,
        "general.file_type": 0,
        f"{architecture}.context_length": 128,
        f"{architecture}.embedding_length": 8,
        f"{architecture}.block_count": 2,
        f"{architecture}.feed_forward_length": 16,
        f"{architecture}.attention.head_count": 2,
        "tokenizer.ggml.model": "gpt2",
        "tokenizer.ggml.tokens": ["a", "b", "c", "d"],
        **(values or {}),
    }
    infos, offset = [], 0
    for name, shape in shapes.items():
        infos.append(tensor(name, shape, offset))
        size = 4
        for n in shape:
            size *= n
        offset += -(-size // 32) * 32
    head = header([pair(k, v) for k, v in facts.items()], infos)
    return head + bytes(-len(head) % 32) + bytes([seed % 256]) * offset


def write_model(path: Path, values: Mapping[str, Value] | None = None, **options: object) -> Path:
    """:func:`model_bytes` as a file."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(model_bytes(values, **options))  # type: ignore[arg-type]
    return path


def vocabulary_bytes(
    texts: Sequence[str],
    *,
    model: str = "gpt2",
    add_bos: bool | None = False,
    bos_id: int = BOS,
    eos_id: int = EOS,
) -> bytes:
    """A vocabulary that the library loads: GPT-2 style BPE, or SPM with ``model='llama'``."""
    kinds = struct.pack(f"<{len(texts)}i", *([1] * len(texts)))
    scores = struct.pack(f"<{len(texts)}f", *([0.0] * len(texts)))
    pairs = [
        pair("general.architecture", "llama"),
        pair("llama.vocab_size", len(texts)),
        pair("llama.context_length", 128),
        pair("llama.embedding_length", 8),
        pair("llama.block_count", 1),
        pair("llama.feed_forward_length", 16),
        pair("llama.attention.head_count", 2),
        pair("llama.attention.layer_norm_rms_epsilon", 1e-5),
        pair("tokenizer.ggml.model", model),
        pair("tokenizer.ggml.tokens", list(texts)),
        text("tokenizer.ggml.token_type") + struct.pack("<IIQ", ARRAY, I32, len(texts)) + kinds,
        text("tokenizer.ggml.scores") + struct.pack("<IIQ", ARRAY, F32, len(texts)) + scores,
        pair("tokenizer.ggml.bos_token_id", bos_id),
        pair("tokenizer.ggml.eos_token_id", eos_id),
    ]
    if model == "gpt2":
        pairs += [pair("tokenizer.ggml.merges", ["a b"]), pair("tokenizer.ggml.pre", "default")]
    if add_bos is not None:
        pairs.append(pair("tokenizer.ggml.add_bos_token", add_bos))
    return header(pairs)


def vocabulary(n: int) -> list[str]:
    """``n`` different token texts; the first ones name the special tokens and the bytes."""
    return [*("<unk>", "<s>", "</s>", "Ċ", "a", "b"), *(f"t{i}" for i in range(6, n))][:n]
