"""``prompt-lookup``: llama-cpp-python's own ``LlamaPromptLookupDecoding``, at its own cost."""

import numpy as np

from specdash.drafting.base import NgramDrafter


class PromptLookup(NgramDrafter):
    """Gives the library the ids as one growing array, the last token included.

    Importing llama_cpp loads its native library, so it waits until a drafter is made.
    """

    def __init__(self, max_ngram_size: int, num_pred_tokens: int) -> None:
        from llama_cpp.llama_speculative import LlamaPromptLookupDecoding

        super().__init__("prompt-lookup", num_pred_tokens)
        self._lookup = LlamaPromptLookupDecoding(max_ngram_size, num_pred_tokens)
        self._ids = np.empty(1024, dtype=np.intc)
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
