"""A loaded model: its vocabulary, its chat template and what it can do."""

import codecs
import ctypes
from pathlib import Path
from typing import Any

from llama_cpp import llama_cpp as lib

from specdash.domain.pairing import VOCAB_TYPE_NONE, VocabFacts
from specdash.engines.llama_cpp_library import LOG, buffer_sizes, supports_gpu
from specdash.engines.llama_cpp_trial import repacked_weights_work
from specdash.engines.llama_log import resolved_gpu_layers
from specdash.engines.process_memory import release_file_pages
from specdash.errors import EngineError, ModelError

_PIECE_BYTES = 256


class LlamaModel:
    """One GGUF in memory. :class:`ModelError` says why the library refused it."""

    def __init__(
        self, path: str, *, name: str, gpu_layers: int = 0, vocab_only: bool = False
    ) -> None:
        if not Path(path).is_file():
            raise ModelError(
                f"The model file of '{name}' is missing: {path}.",
                "It may have been moved or deleted; scan its folder again.",
            )
        params = lib.llama_model_default_params()
        params.n_gpu_layers = gpu_layers
        params.vocab_only = vocab_only
        params.use_extra_bufts = vocab_only or repacked_weights_work()
        self.name = name
        self.path = path
        with LOG.capture() as lines:
            self._model = lib.llama_model_load_from_file(str(path).encode(), params)
        if not self._model:
            raise ModelError(
                f"llama.cpp cannot load '{name}' ({path}): {LOG.reason()}.",
                "The file may be damaged, incomplete or of an architecture this version lacks.",
            )
        self.buffers = buffer_sizes(lines)
        self.gpu_layers = resolved_gpu_layers(gpu_layers, lines) if supports_gpu() else 0
        """Layers that really lie on a GPU; ``None`` where the library does not say."""
        if any("Mapped" not in name for name in self.buffers) and gpu_layers == 0:
            release_file_pages(path)
        self._vocab = lib.llama_model_get_vocab(self._model)
        self.n_vocab = int(lib.llama_vocab_n_tokens(self._vocab))
        self._pieces: dict[int, bytes] = {}
        self._eog_ids: frozenset[int] | None = None

    @property
    def handle(self) -> Any:
        """The library's pointer; ``None`` after :meth:`close`."""
        return self._model

    @property
    def is_recurrent(self) -> bool:
        return bool(lib.llama_model_is_recurrent(self._model))

    @property
    def is_hybrid(self) -> bool:
        return bool(lib.llama_model_is_hybrid(self._model))

    @property
    def has_encoder(self) -> bool:
        return bool(lib.llama_model_has_encoder(self._model))

    @property
    def has_decoder(self) -> bool:
        return bool(lib.llama_model_has_decoder(self._model))

    @property
    def n_ctx_train(self) -> int:
        return int(lib.llama_model_n_ctx_train(self._model))

    @property
    def n_swa(self) -> int:
        """Sliding window in tokens; 0 where there is none."""
        return int(lib.llama_model_n_swa(self._model))

    @property
    def eog_ids(self) -> frozenset[int]:
        """Every token that ends a generation."""
        if self._eog_ids is None:
            is_eog = lib.llama_vocab_is_eog
            self._eog_ids = frozenset(t for t in range(self.n_vocab) if is_eog(self._vocab, t))
        return self._eog_ids

    @property
    def chat_template(self) -> str | None:
        """The template in the file; ``None`` when there is none."""
        raw = lib.llama_model_chat_template(self._model, None)
        return raw.decode("utf-8", errors="replace") if raw else None

    def special_text(self, which: str) -> str:
        """Text of the ``bos`` or ``eos`` token; empty when the vocabulary has none."""
        token = int(getattr(lib, f"llama_vocab_{which}")(self._vocab))
        return self.piece(token, special=True).decode("utf-8", "replace") if token >= 0 else ""

    def facts(self) -> dict[str, object]:
        """What an environment record says about the model."""
        return {
            "name": self.name,
            "description": self._description(),
            "n_params": int(lib.llama_model_n_params(self._model)),
            "size_bytes": int(lib.llama_model_size(self._model)),
            "n_ctx_train": self.n_ctx_train,
            "n_swa": self.n_swa,
            "buffers_mib": self.buffers,
        }

    def vocab_facts(self) -> VocabFacts:
        """The vocabulary for the pair rule; texts stay empty where the file has no vocabulary."""
        vocab = self._vocab
        kind = int(lib.llama_vocab_type(vocab))
        has_texts = kind != VOCAB_TYPE_NONE
        get_text = lib.llama_vocab_get_text
        return VocabFacts(
            vocab_type=kind,
            n_vocab=self.n_vocab,
            add_bos=bool(lib.llama_vocab_get_add_bos(vocab)),
            bos_id=int(lib.llama_vocab_bos(vocab)),
            add_eos=bool(lib.llama_vocab_get_add_eos(vocab)),
            eos_id=int(lib.llama_vocab_eos(vocab)),
            texts=tuple(get_text(vocab, t) for t in range(self.n_vocab)) if has_texts else (),
        )

    def tokenize(self, text: str, *, add_special: bool, parse_special: bool) -> list[int]:
        """Token ids of a text; a BOS that text and tokeniser both add stands once."""
        data = text.encode()
        room = len(data) + 8
        for _ in range(2):
            buffer = (lib.llama_token * room)()
            n = lib.llama_tokenize(
                self._vocab, data, len(data), buffer, room, add_special, parse_special
            )
            if n >= 0:
                ids = list(buffer[:n])
                bos = int(lib.llama_vocab_bos(self._vocab))
                return ids[1:] if bos >= 0 and ids[:2] == [bos, bos] else ids
            room = -n
        raise EngineError("The library could not tokenise a prompt.", f"It needs {room} tokens.")

    def piece(self, token: int, *, special: bool = False) -> bytes:
        """Bytes of one token; control tokens are empty unless ``special``."""
        room = _PIECE_BYTES
        for _ in range(2):
            buffer = ctypes.create_string_buffer(room)
            n = lib.llama_token_to_piece(self._vocab, token, buffer, room, 0, special)
            if n >= 0:
                return buffer.raw[:n]
            room = -n
        raise EngineError(f"The library has no text for token {token}.")

    def texts(self, token_ids: list[int]) -> tuple[str, ...]:
        """Text of each token; a character split over tokens comes with the one that ends it."""
        decoder = codecs.getincrementaldecoder("utf-8")(errors="replace")
        pieces = []
        for token in token_ids:
            if token not in self._pieces:
                self._pieces[token] = self.piece(token)
            pieces.append(decoder.decode(self._pieces[token]))
        rest = decoder.decode(b"", final=True)
        if rest and pieces:
            pieces[-1] += rest
        return tuple(pieces)

    def close(self) -> None:
        """Give the memory back; contexts of the model must be closed first."""
        if self._model:
            lib.llama_model_free(self._model)
            self._model = None

    def _description(self) -> str:
        buffer = ctypes.create_string_buffer(_PIECE_BYTES)
        lib.llama_model_desc(self._model, buffer, _PIECE_BYTES)
        return buffer.value.decode("utf-8", errors="replace")
