"""A draft model beside the target: loaded with its own settings, or the reason why it is not."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import psutil

from specdash.domain.arms import MethodCall
from specdash.domain.pairing import PairVerdict, check_pair
from specdash.drafting.model_replay import DraftTable
from specdash.engines.base import GenerationSettings, ModelFile
from specdash.engines.draft_oracle import tables_of
from specdash.engines.llama_cpp_context import LlamaContext, check_settings
from specdash.engines.llama_cpp_library import supports_gpu
from specdash.engines.llama_cpp_model import LlamaModel
from specdash.errors import EngineError, ModelError, SpecdashError

_SPARE_BYTES = 256 * 2**20


class LoadedDraft:
    """A draft model with its context, or the reason why there is none."""

    def __init__(self, file: ModelFile, settings: GenerationSettings) -> None:
        self.file = file
        self.error: str | None = None
        self._verdict: PairVerdict | None = None
        self._can_drop: bool | None = None
        self._model: LlamaModel | None = None
        self._context: LlamaContext | None = None
        self._settings = replace(
            settings,
            gpu_layers=settings.draft_gpu_layers,
            kv_type=settings.draft_kv_type or settings.kv_type,
            n_threads=settings.draft_threads or settings.n_threads,
        )
        try:
            if self._settings.gpu_layers == 0 or not supports_gpu():
                _require_memory(file)
            check_settings(self._settings)
            self._model = LlamaModel(
                file.path, name=file.name, gpu_layers=self._settings.gpu_layers
            )
            self._context = LlamaContext(self._model, self._settings)
        except SpecdashError as error:
            self.close()
            self.error = error.message

    def facts(self) -> dict[str, object]:
        """What an environment record says about the draft."""
        if self._model is None or self._context is None:
            return {"name": self.file.name, "error": self.error}
        return {
            **self._model.facts(),
            "content_hash": self.file.content_hash,
            "gpu_layers": self._model.gpu_layers,
            "kv_type": self._settings.kv_type,
            "n_threads": self._settings.n_threads,
            "context_buffers_mib": self._context.buffers,
        }

    def fits(self, target: LlamaModel) -> PairVerdict:
        """Apply the vocabulary rule to the two loaded models; asked once."""
        if self._verdict is None:
            model = self.loaded_context().model
            self._verdict = check_pair(target.vocab_facts(), model.vocab_facts())
        return self._verdict

    def can_drop_part(self) -> bool:
        """Try it in the draft's own memory; asked once."""
        if self._can_drop is None:
            self._can_drop = self.loaded_context().can_drop_part()
        return self._can_drop

    def tables(
        self,
        texts: Sequence[tuple[Sequence[int], Sequence[int]]],
        calls: Sequence[MethodCall],
        progress: Callable[[float], None],
    ) -> list[DraftTable]:
        """What it says about texts, with the settings and the weights that it drafts with."""
        model = self.loaded_context().model
        return tables_of(model, texts, calls, self._settings, progress)

    def loaded_context(self) -> LlamaContext:
        """The context; :class:`EngineError` says why there is none."""
        if self._context is None:
            raise EngineError(f"The draft '{self.file.name}' is not loaded: {self.error}")
        return self._context

    def close(self) -> None:
        """Free the context before its model."""
        if self._context is not None:
            self._context.close()
        if self._model is not None:
            self._model.close()
        self._context = self._model = None


def _require_memory(file: ModelFile) -> None:
    """Target and draft stay loaded together; refuse a draft the machine has no room for."""
    path = Path(file.path)
    if not path.is_file():
        return  # the loader says so in its own words
    needed = path.stat().st_size + _SPARE_BYTES
    available = psutil.virtual_memory().available
    if needed > available:
        raise ModelError(
            f"no memory for the draft beside the target: about {needed / 2**30:.1f} GiB needed, "
            f"{available / 2**30:.1f} GiB available"
        )
