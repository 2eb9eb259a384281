"""The drafting methods: their parameters, ranges, defaults and one sentence each.

Names and defaults are llama.cpp's (``common/common.h``, ``common/arg.cpp``); ``prompt-lookup`` is
llama-cpp-python's ``LlamaPromptLookupDecoding``.
"""

from dataclasses import dataclass
from typing import TypeAlias

ParamValue: TypeAlias = int | float | str


@dataclass(frozen=True, slots=True)
class Param:
    """One key of an arm: its type, default (``None``: required), range and meaning."""

    name: str
    default: ParamValue | None
    minimum: float | None = None
    maximum: float | None = None
    help: str = ""
    required: bool = False

    @property
    def kind(self) -> type:
        return str if self.default is None else type(self.default)

    @property
    def range_text(self) -> str:
        if self.minimum is None or self.maximum is None:
            return "text"
        return f"{self.minimum:g} to {self.maximum:g}"


@dataclass(frozen=True, slots=True)
class Method:
    """A way to propose tokens."""

    name: str
    params: tuple[Param, ...]
    summary: str
    memory: str
    needs_draft: bool = False
    in_process: bool = True
    """Whether the embedded llama-cpp engine runs it."""
    fixed_draft: int | None = None
    """Most tokens of a draft where no parameter changes it."""

    def param(self, name: str) -> Param | None:
        return next((p for p in self.params if p.name == name), None)


_SIZE_N = Param("size_n", 12, 1, 1024, "Length of the n-gram that must match.")
_SIZE_M = Param("size_m", 48, 1, 1024, "Most tokens to copy after a match.")
_MIN_HITS = Param("min_hits", 1, 1, 65535, "How often the n-gram must have been seen.")
_DRAFT_MODEL = Param(
    "model", None, help="The draft model: a registered name or a path.", required=True
)
_N_MAX = Param("n_max", 3, 1, 1024, "Most tokens to draft (LM Studio: Max draft tokens).")
_N_MIN = Param("n_min", 0, 0, 1024, "Shorter drafts are dropped (LM Studio: Min draft tokens).")
_P_MIN = Param(
    "p_min", 0.0, 0.0, 1.0, "Stop drafting below this probability (LM Studio: Draft probability)."
)
_DRAFT = (_DRAFT_MODEL, _N_MAX, _N_MIN, _P_MIN)

METHODS: dict[str, Method] = {
    m.name: m
    for m in (
        Method("off", (), "The target alone: the baseline of every experiment.", "none"),
        Method(
            "ngram-simple",
            (_SIZE_N, _SIZE_M),
            "Finds the last place where the newest tokens stood before and copies what followed.",
            "none",
        ),
        Method(
            "ngram-map-k",
            (_SIZE_N, _SIZE_M, _MIN_HITS),
            "Keeps a table of seen n-grams and copies what followed one seen often enough.",
            "under 2 MiB per request",
        ),
        Method(
            "ngram-map-k4v",
            (_SIZE_N, _SIZE_M, _MIN_HITS),
            "Keeps up to four continuations per n-gram and proposes only a clearly dominant one.",
            "under 2 MiB per request",
        ),
        Method(
            "ngram-mod",
            (
                Param("n_match", 24, 1, 1024, "Length of the n-gram that is hashed."),
                Param("n_min", 48, 0, 1024, "Shorter drafts are dropped."),
                Param("n_max", 64, 0, 1024, "Most tokens to draft."),
            ),
            "Hashes every n-gram into one pool and rolls forward through it token by token.",
            "16 MiB",
        ),
        Method(
            "ngram-cache",
            (Param("n_max", 3, 1, 1024, "Accepted and without effect: llama.cpp drafts up to 8."),),
            "Counts 1- to 4-grams of the context and proposes the likeliest continuation.",
            "a few MiB per request",
            fixed_draft=8,
        ),
        Method(
            "prompt-lookup",
            (
                Param("max_ngram_size", 2, 1, 64, "Longest n-gram looked up, then shorter ones."),
                Param("num_pred_tokens", 10, 1, 1024, "Most tokens to copy after a match."),
            ),
            "llama-cpp-python's own prompt lookup: the first earlier match of the newest tokens.",
            "none",
        ),
        Method(
            "draft-simple",
            _DRAFT,
            "A small model of the same vocabulary guesses, the target checks in one pass.",
            "the draft model and its KV cache",
            needs_draft=True,
        ),
        Method(
            "draft-eagle3",
            _DRAFT,
            "An EAGLE-3 head trained for this target drafts from its hidden states.",
            "the head and its KV cache",
            needs_draft=True,
            in_process=False,
        ),
        Method(
            "draft-dflash",
            _DRAFT,
            "A block-diffusion draft trained for this target proposes a whole block at once.",
            "the draft model and its KV cache",
            needs_draft=True,
            in_process=False,
        ),
        Method(
            "draft-dspark",
            _DRAFT,
            "A DFlash draft with a Markov head, trained for this target.",
            "the draft model and its KV cache",
            needs_draft=True,
            in_process=False,
        ),
        Method(
            "draft-mtp",
            (
                Param("model", None, help="A side-car file; unset: the head inside the target."),
                _N_MAX,
                _N_MIN,
                _P_MIN,
            ),
            "The target's own multi-token-prediction head drafts.",
            "the head and its KV cache",
            in_process=False,
        ),
        Method(
            "server",
            (Param("label", None, help="What the server runs, in your words.", required=True),),
            "Whatever the server at that address was started with; it cannot be told per run.",
            "as the server was started",
            in_process=False,
        ),
    )
}
