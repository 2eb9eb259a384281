"""``prompt-lookup``: llama-cpp-python's own ``LlamaPromptLookupDecoding``, at its own cost."""

from dataclasses import dataclass, field
from functools import lru_cache
from importlib.util import find_spec, module_from_spec, spec_from_file_location
from pathlib import Path
from time import perf_counter
from typing import Protocol

import numpy as np
import numpy.typing as npt

from specdash.drafting.base import NgramDrafter
from specdash.errors import UnsupportedError

_Ids = npt.NDArray[np.intc]


class _Lookup(Protocol):
    def __call__(self, input_ids: _Ids, /) -> _Ids: ...


class _LookupClass(Protocol):
    def __call__(self, max_ngram_size: int, num_pred_tokens: int) -> _Lookup: ...


class PromptLookup(NgramDrafter):
    """Gives the library's class the ids as one growing array, the last token included."""

    def __init__(self, max_ngram_size: int, num_pred_tokens: int) -> None:
        super().__init__("prompt-lookup", num_pred_tokens)
        self._lookup = _library_class()(max_ngram_size, num_pred_tokens)
        self._ids: _Ids = np.empty(1024, dtype=np.intc)
        self._filled = 0

    def draft(self, history: list[int], last: int, limit: int) -> list[int]:
        """What followed the first earlier match of the longest n-gram that has one."""
        length = len(history)
        if length >= len(self._ids):
            grown = np.empty(2 * (length + 1), dtype=np.intc)
            grown[: self._filled] = self._ids[: self._filled]
            self._ids = grown
        self._ids[self._filled : length] = history[self._filled :]
        self._ids[length] = last
        self._filled = length
        proposed: list[int] = self._lookup(self._ids[: length + 1]).tolist()
        return proposed


@dataclass(slots=True)
class LookupMemory:
    """What was looked up on one text, for arms that differ in how much they copy.

    ``longest`` is the most tokens any of them copies; shorter copies are its beginning.
    """

    longest: int
    found: dict[tuple[int, int], tuple[list[int], float]] = field(default_factory=dict)
    """(longest n-gram, length of the history) -> tokens and the seconds it took to find them."""


class RememberedLookup(NgramDrafter):
    """:class:`PromptLookup` on a text that is known, each place looked up once for all arms.

    The history at a place is then the same whatever an arm drafted on the way there.
    """

    def __init__(self, max_ngram_size: int, num_pred_tokens: int, memory: LookupMemory) -> None:
        super().__init__("prompt-lookup", num_pred_tokens)
        self.remembered_s = 0.0
        """Seconds that the lookups took that were not repeated here."""
        self._max_ngram_size = max_ngram_size
        self._memory = memory
        self._lookup = PromptLookup(max_ngram_size, memory.longest)

    def draft(self, history: list[int], last: int, limit: int) -> list[int]:
        """The first ``num_pred_tokens`` of what stands in the memory, else of a new lookup."""
        key = (self._max_ngram_size, len(history))
        known = self._memory.found.get(key)
        if known is None:
            began = perf_counter()
            tokens = self._lookup.draft(history, last, limit)
            known = self._memory.found[key] = (tokens, perf_counter() - began)
        else:
            self.remembered_s += known[1]
        return known[0][: self.n_max]


@lru_cache(maxsize=1)
def _library_class() -> _LookupClass:
    """The class from its own file: importing llama_cpp would load the native library.

    Replay needs it in processes that must not hold that library.
    """
    package = find_spec("llama_cpp")
    folders = package.submodule_search_locations if package else None
    path = Path(folders[0]) / "llama_speculative.py" if folders else None
    spec = spec_from_file_location("_llama_speculative", path) if path else None
    if spec is None or spec.loader is None:
        raise UnsupportedError(
            "prompt-lookup needs llama-cpp-python, which is not installed.",
            "Install it: pip install llama-cpp-python.",
        )
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    found: _LookupClass = module.LlamaPromptLookupDecoding
    return found
