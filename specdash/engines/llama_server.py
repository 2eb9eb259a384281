"""llama-server as an engine: its own clock and counters, with proof that speculation ran."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from specdash.domain.arms import Arm, MethodCall
from specdash.domain.workload import Prompt, content_hash
from specdash.engines.base import (
    ArmReadiness,
    GenerationSettings,
    HeldMemory,
    ModelFile,
    PreparedPrompt,
    RunRecord,
    ServerAddress,
    SplitFacts,
    Sweep,
)
from specdash.engines.chat import render_chat
from specdash.engines.flags import run_flags
from specdash.engines.llama_server_client import Completion
from specdash.engines.llama_server_hosts import ServedArm, ServerHost
from specdash.engines.llama_server_managed import ManagedServers
from specdash.engines.llama_server_metrics import count_run
from specdash.engines.llama_server_remote import RemoteServers
from specdash.engines.parallel import in_flight
from specdash.engines.process_memory import peak_rss_bytes, private_bytes
from specdash.engines.prometheus import Scrape
from specdash.engines.room import CAPPED, room_for
from specdash.errors import EngineError, UsageError
from specdash.gguf.reader import read_header
from specdash.settings import load_settings

_TEMPLATE = "tokenizer.chat_template"
_TOO_SHORT_TO_DRAFT = 2
_CRASH_S = 2.0


class LlamaServerEngine:
    """Servers that specdash starts itself, or with a ``server`` those at its address."""

    name = "llama-server"

    def __init__(self, server: ServerAddress | None = None) -> None:
        self._is_managed = server is None
        self._host: ServerHost = (
            ManagedServers(load_settings()) if server is None else RemoteServers(server)
        )
        self._settings = GenerationSettings()
        self._template: str | None = None
        self._n_ctx = 0
        self._most_bytes: int | None = None

    def load(
        self, target: ModelFile, drafts: Mapping[str, ModelFile], settings: GenerationSettings
    ) -> Mapping[str, object]:
        """Start or reach the servers of the target; drafts are loaded with their arms."""
        self._settings = settings
        facts = self._host.load(target, drafts, settings)
        model = self._host.model
        self._n_ctx = min(settings.n_ctx, model.n_ctx)
        # The server has a template of its own for models without one; the file says what is there.
        template = _template_in(target) if self._is_managed else model.template
        self._template = template
        return {
            "name": self.name,
            **facts,
            "target": {
                "name": target.name,
                "served_as": model.names[0] if model.names else None,
                "n_params": model.n_params,
                "size_bytes": model.size_bytes,
                "n_ctx_train": model.n_ctx_train,
                "n_vocab": model.n_vocab,
            },
            "n_ctx": self._n_ctx,
            "clock": "the server's own timings",
            "chat_template_hash": None if template is None else content_hash(template)[:16],
        }

    def prepare(self, prompt: Prompt, max_tokens: int) -> PreparedPrompt:
        """Ids of the prompt, the same as the embedded engine's for the same file."""
        client, model = self._host.client, self._host.model
        flags: list[str] = []
        text = prompt.text
        if text is None and self._is_managed:
            if self._template is None:
                flags.append("no_template")
            text = render_chat(
                self._template,
                prompt.messages,
                bos_token=model.bos_token,
                eos_token=model.eos_token,
            )
        elif text is None:
            text = client.render(prompt.messages)
        ids = client.prompt_ids(text, model.bos_token)
        if not ids:
            raise UsageError(f"Prompt '{prompt.key}' is empty.", "Write some text into it.")
        most, capped = room_for(prompt.key, len(ids), self._n_ctx, max_tokens)
        return PreparedPrompt(
            prompt.key,
            prompt.category,
            ids,
            most,
            (*flags, *capped),
            messages=prompt.messages,
            text=text,
        )

    def check_arm(self, arm: Arm) -> ArmReadiness:
        """What the build knows, and what the arm's server says once it runs."""
        return self._host.check_arm(arm)

    def run(self, arm: Arm, prompt: PreparedPrompt) -> RunRecord:
        """One request on an idle server; its counters are read before and after."""
        served = self._host.serve(arm)
        before = served.client.metrics()
        done = self._ask(served, prompt)
        after = served.client.metrics()
        self._look_at_memory(served)
        return self._record(arm, served, prompt, done, before=before, after=after)

    def sweep(self, arm: Arm, prompts: Sequence[PreparedPrompt], n_parallel: int) -> Sweep:
        """Requests in flight share target passes, so no run of a sweep has counts of passes."""
        served = self._host.serve(arm, n_parallel)
        answers, wall_s = in_flight(lambda prompt: self._ask(served, prompt), prompts, n_parallel)
        self._look_at_memory(served)
        pairs = zip(prompts, answers, strict=True)
        return Sweep(tuple(self._record(arm, served, p, done) for p, done in pairs), wall_s)

    def explain_split(
        self, prompt: PreparedPrompt, off_ids: Sequence[int], on_ids: Sequence[int], chunk: int
    ) -> SplitFacts | None:
        """The server shows no logits; with speculation it reports every probability as 1."""
        return None

    def held(self) -> HeldMemory:
        """Of all servers of ours that were loaded at once; nothing of servers of others."""
        return HeldMemory(self._most_bytes)

    def close(self) -> None:
        """Stop what was started here; servers of others go on."""
        self._host.close()

    def _look_at_memory(self, served: ServedArm) -> None:
        """The peak of the one that answered, and what the others hold by themselves."""
        if served.process is None:
            return
        sizes = [peak_rss_bytes(served.process.pid), *map(private_bytes, served.beside)]
        known = [size for size in sizes if size is not None]
        if len(known) == len(sizes):
            self._most_bytes = max(sum(known), self._most_bytes or 0)

    def _ask(self, served: ServedArm, prompt: PreparedPrompt) -> Completion:
        settings = self._settings
        try:
            return served.client.complete(
                prompt.token_ids,
                prompt.max_tokens,
                seed=settings.seed,
                temperature=settings.temperature,
                ignore_eos=settings.ignore_eos,
            )
        except EngineError:
            if served.process is not None:
                # Its last words say more than a broken connection, which a crash shows first.
                served.process.check(wait_s=_CRASH_S)
            raise

    def _record(
        self,
        arm: Arm,
        served: ServedArm,
        prompt: PreparedPrompt,
        done: Completion,
        *,
        before: Scrape | None = None,
        after: Scrape | None = None,
    ) -> RunRecord:
        if arm.is_off and (served.speculates or done.n_drafted):
            raise EngineError(
                f"The server of 'off' drafted {done.n_drafted or 0} tokens.",
                "It was started with speculation; a baseline needs one without.",
            )
        counted = count_run(
            done,
            prompt,
            is_off=arm.is_off,
            n_max=served.n_max,
            n_batch=self._settings.n_batch,
            speculates=served.speculates,
            before=before,
            after=after,
        )
        counters = counted.counters
        proof, reason = _proof(arm, served, done)
        return RunRecord(
            counters=counters,
            token_ids=done.token_ids,
            text=done.text,
            token_texts=served.client.token_texts(done.token_ids, done.text),
            stop_reason=_stop_reason(done, prompt),
            proof=proof,
            proof_reason=reason,
            flags=(
                *prompt.flags,
                *run_flags(counters, is_off=arm.is_off),
                *served.flags,
                *counted.flags,
            ),
            peak_rss_bytes=None if served.process is None else peak_rss_bytes(served.process.pid),
        )


def _proof(arm: Arm, served: ServedArm, done: Completion) -> tuple[bool | None, str | None]:
    """A drafter that is there and drafted, or one of n-grams, which may find nothing."""
    if arm.is_off:
        return None, None
    if served.speculates is False:
        return False, served.why_not
    if done.n_drafted:
        return True, None
    if served.speculates is None:
        return False, (
            "Nothing proves that it ran: this llama-server does not say whether it speculates, and "
            "its answer counts no draft tokens."
        )
    if done.n_generated > _TOO_SHORT_TO_DRAFT and all(_must_draft(call) for call in arm.calls):
        return False, "llama-server has a drafter, and its answer counts no draft tokens."
    return True, None


def _must_draft(call: MethodCall) -> bool:
    """Whether nothing excuses a draft model from proposing."""
    return call.method.startswith("draft-") and not call.get("n_min") and not call.get("p_min")


def _stop_reason(done: Completion, prompt: PreparedPrompt) -> str:
    if done.stopped_by != "limit":
        return "eos"
    return "context" if CAPPED in prompt.flags else "limit"


def _template_in(target: ModelFile) -> str | None:
    value = read_header(Path(target.path)).values.get(_TEMPLATE)
    return value if isinstance(value, str) else None
