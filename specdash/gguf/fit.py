"""Whether two models can be target and draft as far as their headers tell."""

from specdash.domain.pairing import PairVerdict
from specdash.gguf.header import HeaderFacts, ModelKind

EAGLE3_LAYERS = 3
_DSPARK_BACKBONE = "qwen3"
_KIND_WORDS = {
    ModelKind.MODEL: "a language model",
    ModelKind.EAGLE3: "an EAGLE-3 head",
    ModelKind.DFLASH: "a DFlash draft",
    ModelKind.DSPARK: "a DSpark draft",
    ModelKind.MTP: "a multi-token-prediction head",
    ModelKind.PROJECTOR: "a projector (mmproj)",
    ModelKind.VOCAB_ONLY: "a vocabulary without weights",
    ModelKind.EMBEDDING: "an embedding model",
    ModelKind.ADAPTER: "an adapter (LoRA)",
}
_DRAFT_KINDS = {
    "draft-simple": ModelKind.MODEL,
    "draft-eagle3": ModelKind.EAGLE3,
    "draft-dflash": ModelKind.DFLASH,
    "draft-dspark": ModelKind.DSPARK,
    "draft-mtp": ModelKind.MTP,
}
# These have a vocabulary to compare, so the rule still answers; running them is another matter.
_COMPARABLE = frozenset((ModelKind.MODEL, ModelKind.VOCAB_ONLY, ModelKind.EMBEDDING))


def kind_words(kind: ModelKind) -> str:
    """What a file is, for a sentence."""
    return _KIND_WORDS[kind]


def method_for(kind: ModelKind) -> str | None:
    """The method that a draft of this kind serves; ``None`` when it can draft for nobody."""
    return next((method for method, k in _DRAFT_KINDS.items() if k == kind), None)


def check_headers(method: str, target: HeaderFacts, draft: HeaderFacts) -> PairVerdict | None:
    """The headers' verdict; ``None`` where the vocabulary rule decides (``draft-simple``)."""
    if target.kind not in _COMPARABLE:
        return _no("target_kind", f"{_KIND_WORDS[target.kind]} cannot be a target")
    wanted = _DRAFT_KINDS.get(method)
    if wanted is None:
        return _no("method", f"{method} takes no draft model")
    if method == "draft-simple" and draft.kind in _COMPARABLE:
        return None
    if draft.kind != wanted:
        other = method_for(draft.kind)
        advice = f"; it is for {other}" if other else ""
        return _no(
            "draft_kind",
            f"{method} needs {_KIND_WORDS[wanted]}, this is {_KIND_WORDS[draft.kind]}{advice}",
        )
    return _check_trained(method, target, draft)


def check_own_head(target: HeaderFacts) -> PairVerdict:
    """``draft-mtp`` without a side-car: whether the target carries its own head."""
    if target.n_mtp_layers == 0:
        return _no("mtp_head", "the target holds no multi-token-prediction head")
    return PairVerdict(True, None, f"the target holds {target.n_mtp_layers} prediction layer(s)")


def _check_trained(method: str, target: HeaderFacts, draft: HeaderFacts) -> PairVerdict:
    """Drafts trained for one target: hidden size, layers, vocabulary, backbone."""
    hidden, width = draft.target_hidden_size, target.n_embd
    if hidden is not None and width is not None and hidden != width:
        return _no(
            "hidden_size",
            f"it was trained for a target of width {hidden}, this one has {width}",
        )
    if method == "draft-eagle3" and len(draft.target_layers) != EAGLE3_LAYERS:
        return _no(
            "target_layers",
            f"EAGLE-3 reads {EAGLE3_LAYERS} layers, the header names {len(draft.target_layers)}",
        )
    deepest = max(draft.target_layers, default=0)
    if target.n_layer is not None and deepest > target.n_layer:
        return _no(
            "target_layers",
            f"it reads layer {deepest} of its target, this one has {target.n_layer}",
        )
    if method == "draft-dspark" and not target.architecture.startswith(_DSPARK_BACKBONE):
        return _no(
            "backbone",
            f"DSpark drafts exist for Qwen3 targets only, this one is {target.architecture}",
        )
    vocabularies = (target.n_vocab, draft.n_vocab)
    has_both = None not in vocabularies
    if has_both and not draft.has_draft_vocab_map and target.n_vocab != draft.n_vocab:
        return _no(
            "vocab_size",
            f"sizes differ ({target.n_vocab} and {draft.n_vocab} tokens) without a map",
        )
    trained_for = f" ({', '.join(draft.base_models)})" if draft.base_models else ""
    warning = (
        f"such a draft is trained for one target{trained_for}; that it is this one, the headers "
        "do not prove, only measured acceptance does"
    )
    return PairVerdict(True, None, "the headers fit together", (warning,))


def _no(rule: str, reason: str) -> PairVerdict:
    return PairVerdict(False, rule, reason)
