"""What one llama-server says over HTTP, in the shapes of old and new builds."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from specdash.domain.workload import Message
from specdash.engines.http import (
    HttpServer,
    Json,
    ServerRefusal,
    as_dict,
    as_list,
    count,
    number,
    section,
)
from specdash.engines.prometheus import Scrape, parse_metrics
from specdash.errors import EngineError

_REQUEST_S = 600.0
_SLOWEST_TOKEN_S = 10.0
_MISSING = (404, 405, 501)
_REPLACEMENT = "\ufffd"


@dataclass(frozen=True, slots=True)
class Completion:
    """One answer: ids, the server's own milliseconds and counters; ``None`` where it has none."""

    token_ids: tuple[int, ...]
    text: str
    stopped_by: str
    """``eos``, ``limit`` or ``word``."""
    n_generated: int
    n_prompt: int | None
    n_cached: int | None
    prompt_ms: float | None
    predicted_ms: float | None
    n_drafted: int | None
    n_accepted: int | None
    spec_types: tuple[str, ...] | None
    """What the server says it drafts with; empty: nothing."""


@dataclass(frozen=True, slots=True)
class ServerModel:
    """The model behind an address, by every name the server has for it."""

    names: tuple[str, ...]
    path: str | None
    n_params: int | None
    size_bytes: int | None
    n_ctx: int
    """Of one slot."""
    n_ctx_train: int | None
    n_vocab: int | None
    template: str | None
    bos_token: str
    eos_token: str
    build: str | None

    def is_called(self, name: str) -> bool:
        """Whether one of its names is this one, folders and the ending set aside."""
        return _stem(name) in {_stem(known) for known in self.names}


class LlamaServerClient:
    """One llama-server over HTTP; whoever made it closes the connection.

    ``pieces`` are texts of tokens that another server of the same target told before.
    """

    def __init__(self, http: HttpServer, pieces: dict[int, str] | None = None) -> None:
        self.http = http
        self._pieces: dict[int, str] = {} if pieces is None else pieces

    def model(self) -> ServerModel:
        """Asked out of band: an answer only echoes the name it was asked by."""
        props = as_dict(self.http.get_json("/props"), "llama-server's /props")
        listed = as_dict(self.http.get_json("/v1/models"), "llama-server's /v1/models")
        rows = [r for r in as_list(listed.get("data"), "its models") if isinstance(r, dict)]
        if len(rows) > 1:
            raise EngineError(
                f"{self.http.url} serves {len(rows)} models.",
                "Give the address of a llama-server that was started with one model.",
            )
        meta = section(rows[0], "meta") if rows else {}
        path = props.get("model_path")
        names = [path, props.get("model_alias"), *_ids(rows)]
        n_ctx = count(section(props, "default_generation_settings"), "n_ctx")
        for slot in self.slots():
            n_ctx = count(slot, "n_ctx") or n_ctx
        if n_ctx is None:
            raise EngineError(
                f"{self.http.url} does not say how long its context is.",
                "Is it a llama-server, and new enough to have /props or /slots?",
            )
        return ServerModel(
            names=tuple(dict.fromkeys(n for n in names if isinstance(n, str) and n)),
            path=path if isinstance(path, str) else None,
            n_params=count(meta, "n_params"),
            size_bytes=count(meta, "size"),
            n_ctx=n_ctx,
            n_ctx_train=count(meta, "n_ctx_train"),
            n_vocab=count(meta, "n_vocab"),
            template=_text_or_none(props, "chat_template"),
            bos_token=_text_or_none(props, "bos_token") or "",
            eos_token=_text_or_none(props, "eos_token") or "",
            build=_text_or_none(props, "build_info"),
        )

    def slots(self) -> list[Mapping[str, Json]]:
        """Empty where the server was started without them."""
        found = self._optional("/slots")
        return [s for s in found if isinstance(s, dict)] if isinstance(found, list) else []

    def speculates(self) -> bool | None:
        """Whether its slots have a drafter; ``None`` where the build does not say."""
        said = [s["speculative"] for s in self.slots() if isinstance(s.get("speculative"), bool)]
        return all(said) if said else None

    def metrics(self) -> Scrape | None:
        """``None`` where the server was started without ``--metrics``."""
        try:
            return parse_metrics(self.http.get_text("/metrics"), "llama-server")
        except ServerRefusal as error:
            if error.status in _MISSING:
                return None
            raise

    def render(self, messages: Sequence[Message]) -> str:
        """The messages in the server's own chat template."""
        body = {"messages": [{"role": m.role, "content": m.content} for m in messages]}
        answer = as_dict(self.http.post_json("/apply-template", body), "the rendered prompt")
        text = answer.get("prompt")
        if not isinstance(text, str):
            raise EngineError(f"{self.http.url} rendered no prompt from the messages.")
        return text

    def tokenize(self, text: str, *, add_special: bool) -> tuple[int, ...]:
        """Ids as the server's own tokeniser gives them, control tokens in the text recognised."""
        body = {"content": text, "add_special": add_special, "parse_special": True}
        answer = as_dict(self.http.post_json("/tokenize", body), "the tokens of a text")
        return tuple(int(i) for i in as_list(answer.get("tokens"), "the tokens of a text"))

    def prompt_ids(self, text: str, bos_token: str) -> tuple[int, ...]:
        """Ids of a whole prompt; a BOS that text and tokeniser both add stands once."""
        ids = self.tokenize(text, add_special=True)
        bos = self.tokenize(bos_token, add_special=False) if bos_token else ()
        return ids[1:] if len(bos) == 1 and ids[:2] == bos * 2 else ids

    def complete(
        self,
        prompt_ids: Sequence[int],
        n_predict: int,
        *,
        seed: int,
        temperature: float,
        ignore_eos: bool,
    ) -> Completion:
        """One completion with nothing cached."""
        body = {
            "prompt": list(prompt_ids),
            "n_predict": n_predict,
            "temperature": temperature,
            "seed": seed,
            "cache_prompt": False,
            "ignore_eos": ignore_eos,
            "return_tokens": True,
            "stream": False,
        }
        if temperature == 0:
            body["top_k"] = 1
        limit_s = _REQUEST_S + _SLOWEST_TOKEN_S * n_predict + len(prompt_ids)
        answer = self.http.post_json("/completion", body, timeout_s=limit_s)
        return read_completion(answer)

    def token_texts(self, token_ids: Sequence[int], text: str) -> tuple[str, ...]:
        """Text of each token, control tokens empty; nothing where the pieces are not the text.

        The bytes of a character that is split over tokens come with the token that ends it.
        """
        for token in dict.fromkeys(token_ids):
            if token not in self._pieces:
                self._pieces[token] = self._detokenize([token])
        pieces = [self._pieces[t] for t in token_ids]
        self._join_split_characters(token_ids, pieces)
        texts: list[str] = []
        place = 0
        for piece in pieces:
            taken = piece if text.startswith(piece, place) else ""
            texts.append(taken)
            place += len(taken)
        return tuple(texts) if place == len(text) else ()

    def _join_split_characters(self, token_ids: Sequence[int], pieces: list[str]) -> None:
        start = 0
        while start < len(pieces):
            end = start
            while end < len(pieces) and _REPLACEMENT in pieces[end]:
                end += 1
            if end > start:
                whole = self._detokenize(token_ids[start:end])
                pieces[start:end] = ["" for _ in range(start, end - 1)] + [whole]
            start = max(end, start + 1)

    def _detokenize(self, token_ids: Sequence[int]) -> str:
        answer = as_dict(
            self.http.post_json("/detokenize", {"tokens": list(token_ids)}), "the text of tokens"
        )
        return str(answer.get("content", ""))

    def _optional(self, path: str) -> Json:
        try:
            return self.http.get_json(path)
        except ServerRefusal as error:
            if error.status in _MISSING:
                return None
            raise


def read_completion(answer: Json) -> Completion:
    """An answer of ``/completion``; :class:`EngineError` when it lacks ids or counts."""
    body = as_dict(answer, "llama-server's answer")
    timings = section(body, "timings")
    if not isinstance(body.get("tokens"), list):
        raise EngineError(
            "llama-server's answer holds no token ids.", "This build is too old: update it."
        )
    ids = tuple(int(i) for i in body["tokens"])
    n_generated = count(timings, "predicted_n")
    if n_generated is None:
        n_generated = count(body, "tokens_predicted")
    if n_generated is None:
        raise EngineError("llama-server's answer does not say how many tokens it holds.")
    n_cached = count(timings, "cache_n")
    n_prompt = count(body, "tokens_evaluated")
    if n_prompt is None and (read := count(timings, "prompt_n")) is not None:
        n_prompt = read + (n_cached or 0)
    return Completion(
        token_ids=ids,
        text=str(body.get("content", "")),
        stopped_by=_stopped_by(body),
        n_generated=n_generated,
        n_prompt=n_prompt,
        n_cached=n_cached,
        prompt_ms=number(timings, "prompt_ms"),
        predicted_ms=number(timings, "predicted_ms"),
        n_drafted=count(timings, "draft_n"),
        n_accepted=count(timings, "draft_n_accepted"),
        spec_types=_spec_types(section(body, "generation_settings").get("speculative.types")),
    )


def _stopped_by(body: Mapping[str, Json]) -> str:
    said = body.get("stop_type")
    if said in ("eos", "limit", "word"):
        return str(said)
    for name in ("eos", "word"):  # builds before stop_type
        if body.get(f"stopped_{name}") is True:
            return name
    return "limit"


def _spec_types(said: Json) -> tuple[str, ...] | None:
    if not isinstance(said, str):
        return None
    return tuple(name for name in said.split(",") if name not in ("", "none"))


def _ids(rows: Sequence[Mapping[str, Json]]) -> list[Json]:
    found: list[Json] = []
    for row in rows:
        aliases = row.get("aliases")
        found += [row.get("id"), *(aliases if isinstance(aliases, list) else [])]
    return found


def _text_or_none(body: Mapping[str, Json], key: str) -> str | None:
    value = body.get(key)
    return value if isinstance(value, str) else None


def _stem(name: str) -> str:
    return name.replace("\\", "/").rsplit("/", 1)[-1].removesuffix(".gguf").casefold()
