"""A context over a model: one reused batch, logits read in place, memory cut and checked.

What happens per token is the library's call and a few array writes; nothing is copied and no
Python loop runs over the vocabulary.
"""

import ctypes
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from llama_cpp import llama_cpp as lib

from specdash.engines.base import KV_TYPE_NAMES, GenerationSettings
from specdash.engines.llama_cpp_library import (
    FLASH_ATTN,
    FULL_PRECISION_KV,
    LOG,
    buffer_sizes,
    kv_type_id,
)
from specdash.engines.llama_cpp_model import LlamaModel
from specdash.engines.llama_log import resolved_flash_attn
from specdash.errors import EngineError, ModelError, UsageError

_SEQUENCE = 0
_DECODE_ERRORS = {
    1: "the context is full",
    2: "it was aborted",
    -1: "the batch is invalid",
}

# The bindings return a typed pointer; its address alone is needed, once per row.
_logits_address = lib._lib["llama_get_logits_ith"]
_logits_address.argtypes = [ctypes.c_void_p, ctypes.c_int32]
_logits_address.restype = ctypes.c_void_p


def check_settings(settings: GenerationSettings) -> None:
    """:class:`UsageError` for settings the library would refuse or misread."""
    if settings.kv_type not in KV_TYPE_NAMES:
        raise UsageError(
            f"Unknown KV cache type '{settings.kv_type}'.", f"Allowed: {', '.join(KV_TYPE_NAMES)}."
        )
    if settings.flash_attn not in FLASH_ATTN:
        raise UsageError(
            f"Unknown flash attention setting '{settings.flash_attn}'.",
            f"Allowed: {', '.join(FLASH_ATTN)}.",
        )
    if settings.kv_type not in FULL_PRECISION_KV and settings.flash_attn == "off":
        raise UsageError(
            f"A {settings.kv_type} KV cache needs flash attention, which is off.",
            "Set flash attention to auto or on, or the KV type to f16.",
        )
    if settings.temperature != 0:
        raise UsageError(
            f"The llama-cpp engine measures greedy decoding; temperature is "
            f"{settings.temperature:g}.",
            "Set temperature to 0.",
        )


class LlamaContext:
    """KV memory and compute buffers of one model, for one sequence.

    ``n_outputs`` is the most logit rows one pass may ask for; it sizes the compute buffers.
    """

    def __init__(
        self, model: LlamaModel, settings: GenerationSettings, *, n_outputs: int = 1
    ) -> None:
        params = lib.llama_context_default_params()
        params.n_ctx = settings.n_ctx
        params.n_batch = settings.n_batch
        params.n_ubatch = min(settings.n_ubatch, settings.n_batch)
        params.n_seq_max = 1
        params.n_outputs_max = min(n_outputs, settings.n_batch)
        params.n_threads = settings.n_threads
        params.n_threads_batch = settings.n_threads
        params.flash_attn_type = FLASH_ATTN[settings.flash_attn]
        params.type_k = params.type_v = kv_type_id(settings.kv_type)
        params.swa_full = False
        with LOG.capture() as lines:
            self._ctx = lib.llama_init_from_model(model.handle, params)
        if not self._ctx:
            raise ModelError(
                f"llama.cpp cannot make a context for '{model.name}': {LOG.reason()}.",
                f"Context {settings.n_ctx}, KV type {settings.kv_type}, flash attention "
                f"{settings.flash_attn}; a smaller context needs less memory.",
            )
        self.model = model
        self.buffers = buffer_sizes(lines)
        self.flash_attn = resolved_flash_attn(settings.flash_attn, lines)
        self.n_outputs = n_outputs
        self.n_batch = int(lib.llama_n_batch(self._ctx))
        self.n_ubatch = int(lib.llama_n_ubatch(self._ctx))
        self._memory = lib.llama_get_memory(self._ctx)
        self._n_vocab = model.n_vocab
        self._rows: dict[int, npt.NDArray[np.float32]] = {}
        self._batch = lib.llama_batch_init(self.n_batch, 0, 1)
        self._tokens = _view(self._batch.token, self.n_batch, ctypes.c_int32)
        self._positions = _view(self._batch.pos, self.n_batch, ctypes.c_int32)
        self._outputs = _view(self._batch.logits, self.n_batch, ctypes.c_int8)
        _view(self._batch.n_seq_id, self.n_batch, ctypes.c_int32)[:] = 1
        for i in range(self.n_batch):
            self._batch.seq_id[i][0] = _SEQUENCE

    @property
    def handle(self) -> Any:
        """The library's pointer; ``None`` after :meth:`close`."""
        return self._ctx

    def clear(self) -> None:
        """Forget everything: the next generation starts cold."""
        if self._memory:
            lib.llama_memory_clear(self._memory, False)

    def decode(self, tokens: Sequence[int], position: int, *, all_outputs: bool) -> None:
        """Process tokens from ``position`` on, with logits of all or of the last only.

        Longer inputs than a batch go in pieces, with logits of the very last token only.
        """
        n = len(tokens)
        if n > self.n_batch:
            cut = (n - 1) // self.n_batch * self.n_batch
            for start in range(0, cut, self.n_batch):
                piece = tokens[start : start + self.n_batch]
                self._decode(piece, position + start, all_outputs=False)
            tokens, position = tokens[cut:], position + cut
        self._decode(tokens, position, all_outputs=all_outputs and n <= self.n_batch)

    def logits(self, index: int) -> npt.NDArray[np.float32]:
        """Row of the token at ``index`` of the last pass: the library's own memory, not a copy.

        The row is overwritten by the next pass.
        """
        address = _logits_address(self._ctx, index)
        row = self._rows.get(address)
        if row is None:
            if address is None:
                raise EngineError(f"The library has no logits for token {index} of the pass.")
            floats = (ctypes.c_float * self._n_vocab).from_address(address)
            row = np.ctypeslib.as_array(floats)
            self._rows[address] = row
        return row

    def best_token(self, index: int) -> int:
        """Greedy choice of the token at ``index`` of the last pass."""
        return int(self.logits(index).argmax())

    def remove_from(self, position: int) -> bool:
        """Drop everything from ``position`` on; ``False`` where the memory cannot."""
        return bool(self._memory and lib.llama_memory_seq_rm(self._memory, _SEQUENCE, position, -1))

    def synchronize(self) -> None:
        """Wait until the last pass is done, so that the clock reads its own time."""
        lib.llama_synchronize(self._ctx)

    def can_drop_part(self) -> bool:
        """Try it: process two tokens and drop the second. Leaves the memory empty."""
        self.clear()
        self.decode([0, 0], 0, all_outputs=False)
        dropped = self.remove_from(1)
        self.clear()
        return dropped

    def close(self) -> None:
        """Free the batch and the context; views of logits must not be used afterwards."""
        if self._ctx:
            self._rows.clear()
            lib.llama_batch_free(self._batch)
            lib.llama_free(self._ctx)
            self._ctx = None

    def _decode(self, tokens: Sequence[int], position: int, *, all_outputs: bool) -> None:
        n = len(tokens)
        batch = self._batch
        batch.n_tokens = n
        if n == 1:
            self._tokens[0] = tokens[0]
            self._positions[0] = position
            self._outputs[0] = 1
        else:
            self._tokens[:n] = tokens
            self._positions[:n] = np.arange(position, position + n)
            self._outputs[:n] = all_outputs
            self._outputs[n - 1] = 1
        status = lib.llama_decode(self._ctx, batch)
        if status != 0:
            raise EngineError(
                f"llama.cpp could not process {n} tokens at position {position}: "
                f"{_DECODE_ERRORS.get(status, f'status {status}')}.",
                f"The model is '{self.model.name}'; the log holds what the library said.",
            )


def _view(
    pointer: Any, length: int, kind: type[ctypes.c_int32] | type[ctypes.c_int8]
) -> npt.NDArray[np.integer]:
    """A numpy view of an array inside the library's batch."""
    address = ctypes.cast(pointer, ctypes.c_void_p).value
    if address is None:
        raise EngineError("The library gave no memory for a batch.")
    return np.ctypeslib.as_array((kind * length).from_address(address))
