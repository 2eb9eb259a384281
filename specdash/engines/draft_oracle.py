"""What a draft model says about a given text: one forced pass, then roll-outs side by side.

Roll-outs share the memory of the text: each is a sequence that branches off it, and one pass
carries the next token of all of them. Import this module only in a child process.
"""

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
from llama_cpp import llama_cpp as lib

from specdash.domain.arms import MethodCall
from specdash.domain.pairing import MAX_SIZE_DIFFERENCE
from specdash.drafting.draft_simple import top_probability
from specdash.drafting.model_replay import (
    Branch,
    DraftTable,
    Guess,
    build_table,
    deepest_roll_out,
)
from specdash.engines.base import GenerationSettings
from specdash.engines.llama_cpp_library import FLASH_ATTN, LOG, kv_type_id
from specdash.engines.llama_cpp_model import LlamaModel
from specdash.errors import EngineError, ModelError, UnsupportedError, UsageError

_TEXT = 0
_PARALLEL = 32
_ROWS = 16
"""Tokens of one forced pass, about as many as a drafter takes in at once.

ggml's flash attention on the CPU works in tiles from 64 on, and what such passes leave in memory
flips near ties: on the demo pair in 7 % of the passes, with 1 to 16 tokens in none.
"""


Text = tuple[Sequence[int], Sequence[int]]
"""Prompt ids and output ids."""


def tables_of(
    draft: LlamaModel,
    texts: Sequence[Text],
    calls: Sequence[MethodCall],
    settings: GenerationSettings,
    progress: Callable[[float], None],
) -> list[DraftTable]:
    """One table a text, from a context of its own over a loaded draft.

    ``progress`` is called after each text, with 1 after the last; what it raises ends it.
    :class:`UsageError` when a text has ids that the draft does not know.
    """
    require_known(draft, texts)
    longest = max(len(prompt) + len(output) for prompt, output in texts)
    depth = deepest_roll_out(calls)
    with closing(LlamaDraftOracle(draft, settings, longest_text=longest, depth=depth)) as oracle:
        tables = []
        for prompt, output in texts:
            tables.append(build_table(oracle, prompt, output, calls))
            progress(len(tables) / len(texts))
        return tables


def require_known(draft: LlamaModel, texts: Sequence[Text]) -> None:
    """:class:`UsageError` when a text has ids that no draft of its vocabulary can hold."""
    largest = max(max((*prompt, *output)) for prompt, output in texts)
    if largest >= draft.n_vocab + MAX_SIZE_DIFFERENCE:
        raise UsageError(
            f"Token {largest} is not in the vocabulary of '{draft.name}' ({draft.n_vocab} tokens).",
            "Replay with a draft of the target's own vocabulary.",
        )


@dataclass(slots=True)
class _RollOut:
    """One branch on its way: the token to decode next, its position, what was guessed so far."""

    index: int
    sequence: int
    token: int
    position: int
    guesses: list[Guess] = field(default_factory=list)


class LlamaDraftOracle:
    """A context of its own over a loaded draft, sized for the longest text and roll-out."""

    def __init__(
        self, model: LlamaModel, settings: GenerationSettings, *, longest_text: int, depth: int
    ) -> None:
        params = lib.llama_context_default_params()
        # Sequences share one pool of cells: the text, and what every branch adds to it.
        params.n_ctx = longest_text + _PARALLEL * depth + 1
        params.n_batch = settings.n_batch
        params.n_ubatch = min(settings.n_ubatch, settings.n_batch)
        params.n_seq_max = 1 + _PARALLEL
        params.n_outputs_max = max(_ROWS, params.n_seq_max)
        params.n_threads = params.n_threads_batch = settings.n_threads
        params.flash_attn_type = FLASH_ATTN[settings.flash_attn]
        params.type_k = params.type_v = kv_type_id(settings.kv_type)
        params.kv_unified = True
        params.swa_full = True  # a branch may begin anywhere in the text
        with LOG.capture():
            self._ctx = lib.llama_init_from_model(model.handle, params)
        if not self._ctx:
            raise ModelError(
                f"llama.cpp cannot make a context for '{model.name}': {LOG.reason()}.",
                f"It would hold {params.n_ctx} tokens; fewer or shorter texts need less.",
            )
        self._model = model
        self._memory = lib.llama_get_memory(self._ctx)
        self._n_batch = int(lib.llama_n_batch(self._ctx))
        self._batch = lib.llama_batch_init(self._n_batch, 0, 1)
        if model.is_recurrent or model.is_hybrid:
            self.close()
            raise UnsupportedError(
                f"'{model.name}' cannot branch: its memory of a text cannot be cut.",
                "Measure the pair instead of replaying it.",
            )

    def guesses(self, ids: Sequence[int], start: int) -> list[Guess]:
        """Take in ``ids``; the guess after ``ids[:i]`` for every i from ``start`` to the end."""
        lib.llama_memory_clear(self._memory, False)
        for begin in range(0, start - 1, self._n_batch):
            piece = ids[begin : min(begin + self._n_batch, start - 1)]
            self._decode([(t, begin + i, _TEXT) for i, t in enumerate(piece)], outputs=False)
        rows = min(_ROWS, self._n_batch)
        found: list[Guess] = []
        for begin in range(start - 1, len(ids), rows):
            piece = ids[begin : begin + rows]
            self._decode([(t, begin + i, _TEXT) for i, t in enumerate(piece)], outputs=True)
            found += [self._guess(i) for i in range(len(piece))]
        return found

    def roll_outs(self, branches: Sequence[Branch], depth: int, p_stop: float) -> list[list[Guess]]:
        """Greedy guesses after each branch of the text taken in last, many branches a pass."""
        results: list[list[Guess]] = [[] for _ in branches]
        if depth < 1:
            return results
        waiting = deque(enumerate(branches))
        free = list(range(1, 1 + _PARALLEL))
        active: list[_RollOut] = []
        while waiting or active:
            while waiting and free:
                active.append(self._branch_off(*waiting.popleft(), free.pop()))
            self._decode([(r.token, r.position, r.sequence) for r in active], outputs=True)
            for row, roll in enumerate(active):
                guess = self._guess(row)
                roll.guesses.append(guess)
                roll.token = guess.token
                roll.position += 1
            for roll in _finished(active, depth, p_stop):
                results[roll.index] = roll.guesses
                lib.llama_memory_seq_rm(self._memory, roll.sequence, -1, -1)
                free.append(roll.sequence)
                active.remove(roll)
        return results

    def close(self) -> None:
        """Free the batch and the context; the model stays loaded."""
        if self._ctx:
            lib.llama_batch_free(self._batch)
            lib.llama_free(self._ctx)
            self._ctx = None

    def _branch_off(self, index: int, branch: Branch, sequence: int) -> _RollOut:
        lib.llama_memory_seq_cp(self._memory, _TEXT, sequence, 0, branch.position)
        return _RollOut(index, sequence, branch.token, branch.position)

    def _guess(self, row: int) -> Guess:
        logits = self._logits(row)
        return Guess(int(logits.argmax()), top_probability(logits))

    def _logits(self, row: int) -> npt.NDArray[np.float32]:
        pointer = lib.llama_get_logits_ith(self._ctx, row)
        return np.ctypeslib.as_array(pointer, shape=(self._model.n_vocab,))

    def _decode(self, entries: Sequence[tuple[int, int, int]], *, outputs: bool) -> None:
        """One pass over (token, position, sequence) entries."""
        batch = self._batch
        batch.n_tokens = len(entries)
        for i, (token, position, sequence) in enumerate(entries):
            # As DraftSimple: a token that the draft's smaller vocabulary lacks costs a worse guess.
            batch.token[i] = token if token < self._model.n_vocab else 0
            batch.pos[i] = position
            batch.n_seq_id[i] = 1
            batch.seq_id[i][0] = sequence
            batch.logits[i] = outputs
        status = lib.llama_decode(self._ctx, batch)
        if status != 0:
            raise EngineError(
                f"llama.cpp could not process {len(entries)} tokens of the draft "
                f"'{self._model.name}' (status {status}).",
                "The log holds what the library said.",
            )


def _finished(active: Sequence[_RollOut], depth: int, p_stop: float) -> Iterator[_RollOut]:
    return (
        roll
        for roll in list(active)
        if len(roll.guesses) >= depth or roll.guesses[-1].probability < p_stop
    )
