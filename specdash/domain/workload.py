"""Workloads: named, versioned sets of prompts. The version is the hash of the content."""

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

ROLES = ("system", "user", "assistant", "tool")


@dataclass(frozen=True, slots=True)
class Message:
    """One chat message."""

    role: str
    content: str


@dataclass(frozen=True, slots=True)
class Prompt:
    """One prompt: chat messages, or raw ``text`` that no template touches."""

    key: str
    category: str
    messages: tuple[Message, ...] = ()
    text: str | None = None
    max_tokens: int | None = None

    def content(self) -> dict[str, object]:
        """What the hash covers: everything that reaches the model, and the category."""
        body: dict[str, object] = {"key": self.key, "category": self.category}
        if self.text is not None:
            body["text"] = self.text
        else:
            body["messages"] = [{"role": m.role, "content": m.content} for m in self.messages]
        if self.max_tokens is not None:
            body["max_tokens"] = self.max_tokens
        return body


@dataclass(frozen=True, slots=True)
class Workload:
    """A set of prompts under a name. Two with equal ``version`` hold the same prompts."""

    name: str
    prompts: tuple[Prompt, ...]
    title: str = ""
    description: str = ""
    weights: Mapping[str, float] = field(default_factory=dict)
    """Share of each category in the user's own traffic; empty: equal."""

    @property
    def version(self) -> str:
        """First 12 hex digits of the SHA-256 of the canonical prompts; weights are not in it."""
        return content_hash([p.content() for p in self.prompts])[:12]

    @property
    def categories(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(p.category for p in self.prompts))


def content_hash(value: object) -> str:
    """SHA-256 of canonical JSON: sorted keys, no spaces, UTF-8."""
    text = json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return hashlib.sha256(text.encode()).hexdigest()


def prompt_set_hash(prompts: Sequence[tuple[Sequence[int], int]]) -> str:
    """Hash of (token ids really sent, token cap in force), in order; of the base key (METHOD 9)."""
    return content_hash([[list(ids), max_tokens] for ids, max_tokens in prompts])[:16]
