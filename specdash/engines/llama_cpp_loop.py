"""The speculative loop, greedy, as llama.cpp's server runs it; ``off`` is the same loop undrafted.

The clock is read five times a pass and everything measured is put together afterwards.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from time import perf_counter

import numpy as np
import numpy.typing as npt

from specdash.domain.counters import Step
from specdash.drafting.base import Chain
from specdash.engines.llama_cpp_context import LlamaContext
from specdash.errors import EngineError


@dataclass(frozen=True, slots=True)
class Generation:
    """What one generation emitted and where its seconds went.

    ``decode_s`` runs from the first emitted token to the last; the four parts sum to it.
    """

    token_ids: list[int]
    ended: bool
    steps: list[Step]
    prefill_s: float
    decode_s: float
    draft_s: float
    verify_s: float
    plain_s: float

    @property
    def other_s(self) -> float:
        return self.decode_s - self.draft_s - self.verify_s - self.plain_s


def generate(
    target: LlamaContext,
    chain: Chain,
    prompt: Sequence[int],
    *,
    max_tokens: int,
    n_ctx: int,
    ignore_eos: bool,
) -> Generation:
    """One cold generation; the memories of target and drafts must be empty.

    With ``ignore_eos`` the target never chooses an end-of-generation token, as in llama-server.
    """
    eog_ids = target.model.eog_ids
    banned = np.array(sorted(eog_ids), dtype=np.intp) if ignore_eos else None
    history = list(prompt)

    started = perf_counter()
    chain.begin(history)
    target.decode(history, 0, all_outputs=False)
    chain.process(history, 0)
    last = choose(target, -1, banned)
    first_at = perf_counter()

    emitted = [last]
    steps: list[Step] = []
    draft_s = verify_s = plain_s = 0.0
    now = first_at
    while len(emitted) < max_tokens and last not in eog_ids:
        began = perf_counter()
        position = len(history)
        limit = min(n_ctx - position - 2, max_tokens - len(emitted) - 1)
        draft = chain.draft(history, last, limit)
        drafted = perf_counter()
        tokens = [last, *draft]
        target.decode(tokens, position, all_outputs=True)
        target.synchronize()
        decoded = perf_counter()
        chain.process(tokens, position)
        processed = perf_counter()

        n_draft = len(draft)
        n_accepted, token = _verify(target, draft, banned, eog_ids)
        if n_accepted < n_draft and not target.remove_from(position + 1 + n_accepted):
            raise EngineError(
                "The target could not drop rejected tokens from its memory.",
                "Recurrent and hybrid models cannot be measured with a draft.",
            )
        checked = perf_counter()
        if n_draft:
            chain.accept(n_accepted)
        history.append(last)
        if n_accepted:
            history.extend(draft[:n_accepted])
            emitted.extend(draft[:n_accepted])
        if n_accepted and emitted[-1] in eog_ids:
            last = emitted[-1]  # the whole draft was right and ended the text
        else:
            last = token
            emitted.append(token)
        now = perf_counter()

        draft_s += (drafted - began) + (processed - decoded) + (now - checked)
        target_s = (decoded - drafted) + (checked - processed)
        if n_draft:
            verify_s += target_s
        else:
            plain_s += target_s
        steps.append(Step(n_draft, n_accepted, now - began, chain.proposer, tuple(draft)))

    return Generation(
        token_ids=emitted,
        ended=last in eog_ids,
        steps=steps,
        prefill_s=first_at - started,
        decode_s=now - first_at,
        draft_s=draft_s,
        verify_s=verify_s,
        plain_s=plain_s,
    )


def _verify(
    target: LlamaContext,
    draft: Sequence[int],
    banned: npt.NDArray[np.intp] | None,
    eog_ids: frozenset[int],
) -> tuple[int, int]:
    """How many draft tokens the target chose too, and the token it chose after them."""
    n_draft = len(draft)
    n_accepted = 0
    token = choose(target, 0, banned)
    while n_accepted < n_draft and token == draft[n_accepted]:
        if token in eog_ids and n_accepted + 1 < n_draft:
            break  # llama.cpp emits it and counts it only as the last of a draft
        n_accepted += 1
        token = choose(target, n_accepted, banned)
    return n_accepted, token


def choose(target: LlamaContext, index: int, banned: npt.NDArray[np.intp] | None) -> int:
    """Greedy choice after the token at ``index`` of the last pass."""
    row = target.logits(index)
    if banned is not None:
        row[banned] = -np.inf
    return int(row.argmax())
