"""Whether a draft model fits a target: llama.cpp's vocabulary rule, with the reason in words.

The five tests and their order are those of ``common_speculative_are_compatible`` in llama.cpp's
``common/speculative.cpp``; what they compare comes from the library, so that its defaults count
where a file leaves a key out.
"""

from collections.abc import Sequence
from dataclasses import dataclass

MAX_SIZE_DIFFERENCE = 128
FIRST_COMPARED_TOKEN = 5

VOCAB_TYPE_NONE = 0
_VOCAB_TYPES = {0: "none", 1: "SPM", 2: "BPE", 3: "WPM", 4: "UGM", 5: "RWKV", 6: "PLaMo-2"}


@dataclass(frozen=True, slots=True)
class VocabFacts:
    """A vocabulary as the library reports it; ``texts`` are ``llama_vocab_get_text`` per id."""

    vocab_type: int
    n_vocab: int
    add_bos: bool
    bos_id: int
    add_eos: bool
    eos_id: int
    texts: Sequence[bytes]
    pre: str | None = None
    """Pre-tokeniser named in the header. Not part of the rule; a difference is a warning."""


@dataclass(frozen=True, slots=True)
class PairVerdict:
    """The answer, and the first failing test: ``vocab_type``, ``bos``, ``eos``, ``vocab_size``,
    ``token_text`` or ``no_vocabulary``."""

    compatible: bool
    failed_rule: str | None
    reason: str
    warnings: tuple[str, ...] = ()


def check_pair(target: VocabFacts, draft: VocabFacts) -> PairVerdict:
    """Apply the rule of ``draft-simple``; the first test that fails decides."""
    if target.vocab_type != draft.vocab_type:
        return _no(
            "vocab_type",
            f"vocabulary types differ ({target.vocab_type} vs {draft.vocab_type}: target "
            f"{_type_name(target.vocab_type)}, draft {_type_name(draft.vocab_type)})",
        )
    if target.vocab_type == VOCAB_TYPE_NONE:
        # The library aborts when it is asked for a token text of such a file.
        return _no("no_vocabulary", "neither file holds a vocabulary")
    special = _special_tokens(
        "bos", (target.add_bos, target.bos_id), (draft.add_bos, draft.bos_id)
    ) or _special_tokens("eos", (target.add_eos, target.eos_id), (draft.add_eos, draft.eos_id))
    if special is not None:
        return special
    difference = abs(target.n_vocab - draft.n_vocab)
    if difference > MAX_SIZE_DIFFERENCE:
        return _no(
            "vocab_size",
            f"sizes differ by {difference}, at most {MAX_SIZE_DIFFERENCE} allowed "
            f"(target {target.n_vocab}, draft {draft.n_vocab} tokens)",
        )
    token = first_different_token(target.texts, draft.texts)
    if token is not None:
        left, right = _shown(target.texts[token]), _shown(draft.texts[token])
        return _no("token_text", f"token {token} differs: '{left}' / '{right}'")
    return PairVerdict(True, None, "same vocabulary", _warnings(target, draft))


def first_different_token(target: Sequence[bytes], draft: Sequence[bytes]) -> int | None:
    """First id from 5 on whose texts differ as C strings, over the shorter vocabulary."""
    for token in range(FIRST_COMPARED_TOKEN, min(len(target), len(draft))):
        left, right = target[token], draft[token]
        if left != right and left.split(b"\0", 1)[0] != right.split(b"\0", 1)[0]:
            return token
    return None


def _special_tokens(
    rule: str, target: tuple[bool, int], draft: tuple[bool, int]
) -> PairVerdict | None:
    (target_adds, target_id), (draft_adds, draft_id) = target, draft
    name = rule.upper()
    if target_adds != draft_adds:
        adds, not_adds = ("target", "draft") if target_adds else ("draft", "target")
        return _no(rule, f"{name} rules differ: the {adds} adds {name}, the {not_adds} does not")
    if target_adds and target_id != draft_id:
        return _no(rule, f"{name} tokens differ (target {target_id}, draft {draft_id})")
    return None


def _warnings(target: VocabFacts, draft: VocabFacts) -> tuple[str, ...]:
    found = []
    extra = draft.n_vocab - target.n_vocab
    if extra > 0:
        found.append(
            f"the draft has {extra} tokens more than the target; any it proposes is rejected"
        )
    elif extra < 0:
        found.append(f"the draft lacks the target's last {-extra} tokens and never proposes them")
    if target.pre is not None and draft.pre is not None and target.pre != draft.pre:
        found.append(
            f"pre-tokenisers differ ('{target.pre}' / '{draft.pre}'): drafts may fit less often"
        )
    return tuple(found)


def _no(rule: str, reason: str) -> PairVerdict:
    return PairVerdict(False, rule, reason)


def _type_name(vocab_type: int) -> str:
    return _VOCAB_TYPES.get(vocab_type, "unknown")


def _shown(text: bytes, limit: int = 60) -> str:
    """Readable on one line: control characters escaped, long texts cut."""
    decoded = text.split(b"\0", 1)[0].decode("utf-8", errors="backslashreplace")
    safe = "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in decoded)
    return safe if len(safe) <= limit else safe[: limit - 1] + "…"
