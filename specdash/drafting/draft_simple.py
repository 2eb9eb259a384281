"""``draft-simple``: a small model of the same vocabulary guesses, token by token.

As llama.cpp's ``common_speculative_impl_draft_simple``: greedy single-token passes on the draft
context, dropped again before the check, after which the checked batch is decoded there too.
"""

from collections.abc import Sequence
from typing import NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

from specdash.domain.arms import MethodCall
from specdash.errors import EngineError

_CANDIDATES = 10
# exp(-17) < 5e-8: a logit further below the best adds nothing a float32 probability shows.
_NEGLIGIBLE = 17.0


class DraftContext(Protocol):
    """What the drafter needs of the draft model's context."""

    def decode(self, tokens: Sequence[int], position: int, *, all_outputs: bool) -> None:
        """Process tokens from a position on."""
        ...

    def logits(self, index: int) -> npt.NDArray[np.float32]:
        """Row of one token of the last pass."""
        ...

    def remove_from(self, position: int) -> bool:
        """Drop everything from a position on."""
        ...


class DraftParameters(NamedTuple):
    """How long a draft may be, must be, and how likely its tokens must be."""

    n_max: int
    n_min: int
    p_min: float


def draft_parameters(call: MethodCall) -> DraftParameters:
    values = {k: v for k, v in call.params if not isinstance(v, str)}
    return DraftParameters(int(values["n_max"]), int(values["n_min"]), float(values["p_min"]))


class DraftSimple:
    """Drafts with a model. The context must be empty when a generation begins."""

    name = "draft-simple"

    def __init__(
        self,
        context: DraftContext,
        parameters: DraftParameters,
        *,
        n_vocab_target: int,
        n_vocab_draft: int,
    ) -> None:
        self.n_max = parameters.n_max
        self.n_discarded = 0
        self._context = context
        self._n_min = parameters.n_min
        self._p_min = parameters.p_min
        self._n_vocab_target = n_vocab_target
        self._n_vocab_draft = n_vocab_draft
        self._checked_from = 0

    def begin(self, prompt: Sequence[int]) -> None:
        """Nothing: the prompt comes through :meth:`process`, as every checked batch does."""

    def draft(self, history: Sequence[int], last: int, limit: int) -> list[int]:
        """Best tokens one by one, until ``n_max``, ``limit`` or a probability below ``p_min``."""
        context = self._context
        start = len(history)
        wanted = min(self.n_max, limit)
        drafted: list[int] = []
        token = self._known((last,))[0]
        while len(drafted) < wanted:
            context.decode((token,), start + len(drafted), all_outputs=False)
            row = context.logits(0)
            token = int(row.argmax())
            if self._p_min > 0 and top_probability(row) < self._p_min:
                break
            if token >= self._n_vocab_target:
                break  # the target has no such token and could not check it
            drafted.append(token)
        self._drop_from(start)
        if len(drafted) < self._n_min:
            self.n_discarded += len(drafted)
            return []
        return drafted

    def process(self, tokens: Sequence[int], position: int) -> None:
        """Decode what the target decoded, so that both memories hold the same."""
        self._checked_from = position
        self._context.decode(self._known(tokens), position, all_outputs=False)

    def accept(self, n_accepted: int, proposed: bool) -> None:
        """Drop what the target rejected, whoever proposed it."""
        self._drop_from(self._checked_from + 1 + n_accepted)

    def _known(self, tokens: Sequence[int]) -> Sequence[int]:
        """The tokens, with 0 for those that the draft's smaller vocabulary lacks.

        That costs a worse guess, no more; llama.cpp gives up the whole request there.
        """
        size = self._n_vocab_draft
        if size >= self._n_vocab_target:
            return tokens
        return [token if token < size else 0 for token in tokens]

    def _drop_from(self, position: int) -> None:
        if not self._context.remove_from(position):
            raise EngineError(
                "The draft model cannot drop rejected tokens from its memory.",
                "Recurrent and hybrid models do not work as drafts.",
            )


def top_probability(row: npt.NDArray[np.float32]) -> float:
    """Probability of the best token: softmax over the ten best logits."""
    best = row.max()
    near = row[row >= best - _NEGLIGIBLE]
    if len(near) > _CANDIDATES:
        near = np.partition(near, len(near) - _CANDIDATES)[-_CANDIDATES:]
    return float(1.0 / np.exp(near - best, dtype=np.float32).sum())
