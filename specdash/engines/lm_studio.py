"""LM Studio at an address: the arm is what a model is loaded with, so changing arms reloads it.

Versions that take no speculative settings when they load are told the draft model with each
request; how much they draft is then theirs.
"""

import logging
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace

from specdash.domain.arms import OFF_ARM, Arm
from specdash.domain.counters import RunCounters
from specdash.domain.workload import Message, Prompt
from specdash.engines.base import (
    ArmReadiness,
    GenerationSettings,
    ModelFile,
    PreparedPrompt,
    RunRecord,
    ServerAddress,
    SplitFacts,
    Sweep,
)
from specdash.engines.flags import run_flags
from specdash.engines.http import HttpServer, Json, ServerRefusal, as_dict, count, section
from specdash.engines.lm_studio_answer import LmCounts, counts_of, stop_of, text_of, times_of
from specdash.engines.lm_studio_server import (
    DRAFT_MAX,
    DRAFT_MIN,
    DRAFT_MODEL,
    DRAFT_P,
    LATER_KEYS,
    MTP,
    SIMPLE,
    TITLE,
    LmModel,
    LmStudioServer,
    unlike,
)
from specdash.engines.openai_stream import Clock, chat_messages
from specdash.engines.parallel import in_flight
from specdash.engines.remote import WARM
from specdash.errors import EngineError, UsageError

_ANSWER_S = 3600.0
_FORGET_S = 3600
"""Idle seconds after which LM Studio unloads what a killed job left behind."""
UNCLEAR_CLOCK = "unclear_clock"
"""Flag: the server's speed fits none of the meanings its times are known to have."""
UNSOUND_COUNTS = "unsound_counts"
"""Flag: the server's draft counters do not add up."""
_LOAD_TIME_ONLY = "must be configured at load time"
_OTHER = PreparedPrompt("", "", (), 1, messages=(Message("user", "Say yes."),))
_log = logging.getLogger(__name__)


class LmStudioEngine:
    """Holds at most one instance of its own; those of others are left alone."""

    name = "lm-studio"

    def __init__(self, server: ServerAddress, *, clock: Clock = time.perf_counter) -> None:
        self._address = server
        self._clock = clock
        self._http = HttpServer(server.url, title=TITLE, token=server.token)
        self._server = LmStudioServer(self._http)
        self._settings = GenerationSettings()
        self._target = ""
        self._drafts: dict[str, str] = {}
        self._hashes: dict[str, str] = {}
        self._known: frozenset[str] = frozenset()
        self._refused: frozenset[str] = frozenset()
        self._instance: str | None = None
        self._loaded_for: tuple[object, int] | None = None
        self._unlike: str | None = None
        self._loading: tuple[frozenset[str], Mapping[str, Json]] | None = None
        self._answered = False

    def load(
        self, target: ModelFile, drafts: Mapping[str, ModelFile], settings: GenerationSettings
    ) -> Mapping[str, object]:
        """Find the models, learn which settings this version takes, load the target plain."""
        if settings.ignore_eos:
            raise UsageError(
                f"{TITLE} cannot be told to go on after the end of a text.",
                "Measure it without ignoring EOS.",
            )
        self._settings = settings
        self._target = target.path
        self._drafts = {ref: file.path for ref, file in drafts.items()}
        self._hashes = {ref: file.content_hash for ref, file in drafts.items()}
        models = self._server.models()
        self._known = frozenset(m.key for m in models)
        found = self._find_target(models)
        if self._server.has_v1:
            self._refused = self._server.refused_keys(LATER_KEYS)
        self._take_arm(OFF_ARM)
        answer = self._ask(OFF_ARM, _OTHER)
        runtime = section(answer, "runtime")
        n_ctx = count(section(answer, "model_info"), "context_length")
        loaded_with = self._server.instances(self._target).get(self._instance or "", {})
        version = f"{runtime.get('name', '')} {runtime.get('version', '')}".strip()
        return {
            "name": self.name,
            "version": version or None,
            "commit": None,
            "build": None,
            "n_ctx": n_ctx or count(loaded_with, "context_length"),
            "n_batch": count(loaded_with, "eval_batch_size"),
            "flash_attn": loaded_with.get("flash_attention"),
            "n_parallel": count(loaded_with, "parallel"),
            "target": {"id": found.key, **found.facts},
            "loaded_with": dict(loaded_with),
            "speculative_settings": "at load" if self._sets_at_load else "per request",
            "arm_switch": "reload" if self._server.has_v1 else "per request",
            "instances_of_others": sorted(set(found.instances)),
        }

    def prepare(self, prompt: Prompt, max_tokens: int) -> PreparedPrompt:
        """The words: only the server knows the ids."""
        return PreparedPrompt(
            key=prompt.key,
            category=prompt.category,
            token_ids=(),
            max_tokens=max_tokens,
            messages=prompt.messages,
            text=prompt.text,
        )

    def check_arm(self, arm: Arm) -> ArmReadiness:
        """Load the target that way; the server's own words say why it cannot."""
        reason = self._unsupported(arm)
        if reason is not None:
            return ArmReadiness(False, reason, "server")
        try:
            self._take_arm(arm)
        except ServerRefusal as error:
            said = error.said or f"status {error.status}"
            return ArmReadiness(False, f"{TITLE} does not load it: {said.rstrip('.')}", "server")
        resolved: dict[str, object] = {"calls": arm.canonical(self._hashes)}
        if not arm.is_off and not self._sets_at_load:
            resolved["limits"] = f"those of {TITLE}; this version takes only the draft model"
        return ArmReadiness(True, resolved=resolved)

    def run(self, arm: Arm, prompt: PreparedPrompt) -> RunRecord:
        """One answer of an instance that has just been busy with something else."""
        self._take_arm(arm)
        self._forget_prompt(arm)
        return self._answer(arm, prompt)

    def sweep(self, arm: Arm, prompts: Sequence[PreparedPrompt], n_parallel: int) -> Sweep:
        """Every prompt once; the model is loaded for as many at a time where that can be set."""
        self._take_arm(arm, n_parallel)
        self._forget_prompt(arm)
        records, wall_s = in_flight(
            lambda prompt: self._answer(arm, prompt), prompts, n_parallel, clock=self._clock
        )
        return Sweep(records, wall_s)

    def explain_split(
        self, prompt: PreparedPrompt, off_ids: Sequence[int], on_ids: Sequence[int], chunk: int
    ) -> SplitFacts | None:
        """``None``: the server shows neither ids nor logits."""
        return None

    def close(self) -> None:
        """Unload what this engine loaded, and only that."""
        try:
            self._unload()
        except EngineError as error:
            _log.warning("%s may still hold a model: %s", TITLE, error)
        finally:
            self._http.close()

    @property
    def _sets_at_load(self) -> bool:
        return self._server.has_v1 and not {SIMPLE, DRAFT_MODEL} & self._refused

    def _find_target(self, models: Sequence[LmModel]) -> LmModel:
        found = next((m for m in models if m.key == self._target), None)
        if found is None:
            others = ", ".join(f"'{m.key}'" for m in models) or "no model"
            raise EngineError(
                f"{TITLE} at {self._http.url} has {others}, not '{self._target}'.",
                "Download the model there, or choose one it has.",
            )
        return found

    def _unsupported(self, arm: Arm) -> str | None:
        methods = [call.method for call in arm.calls]
        if methods == ["draft-simple"]:
            reference = str(arm.calls[0].draft_model)
            draft = self._drafts.get(reference, reference)
            return None if draft in self._known else f"{TITLE} has no model '{draft}'"
        if methods == ["draft-mtp"]:
            if arm.calls[0].draft_model is not None:
                return f"{TITLE} takes the MTP head from inside the target only"
            if not self._server.has_v1 or MTP in self._refused:
                return f"this {TITLE} takes no MTP setting when it loads a model; update it"
            return None
        return None if arm.is_off else f"{TITLE} has no {'+'.join(methods)}"

    def _speculative(self, arm: Arm) -> dict[str, Json]:
        """Load settings of an arm, all explicit: their defaults differ between versions."""
        if arm.is_off:
            return {SIMPLE: False, MTP: False}
        call = arm.calls[0]
        limits: dict[str, Json] = {
            DRAFT_MAX: call.get("n_max"),
            DRAFT_MIN: call.get("n_min"),
            DRAFT_P: call.get("p_min"),
        }
        if call.method == "draft-mtp":
            return {MTP: True, SIMPLE: False, **limits}
        draft = self._drafts[str(call.draft_model)]
        return {SIMPLE: True, MTP: False, DRAFT_MODEL: draft, **limits}

    def _take_arm(self, arm: Arm, n_parallel: int = 1) -> None:
        """Have the target loaded for this arm."""
        if not self._server.has_v1:
            return
        # Where the arm goes with the request, one load serves all.
        key = (arm.calls if self._sets_at_load else None, n_parallel)
        if key == self._loaded_for:
            return
        self._unload()
        settings = self._settings
        wanted: dict[str, Json] = {
            "model": self._target,
            "context_length": settings.n_ctx,
            "eval_batch_size": settings.n_batch,
            "echo_load_config": True,
            "parallel": n_parallel,
            "ttl_seconds": _FORGET_S,
            **self._speculative(arm if self._sets_at_load else OFF_ARM),
        }
        if settings.flash_attn != "auto":
            wanted["flash_attention"] = settings.flash_attn == "on"
        body = {name: value for name, value in wanted.items() if name not in self._refused}
        before = frozenset(self._server.instances(self._target))
        self._loading = (before, body)
        self._instance = self._server.load(body)
        self._loading = None
        loaded = self._server.instances(self._target)
        if self._instance not in loaded:
            raise EngineError(
                f"{TITLE} says it loaded '{self._target}' as '{self._instance}', but does not list "
                "it among the instances of that model.",
                "Something else may load and unload models there; look into its window.",
            )
        self._unlike = unlike(body, loaded[self._instance])
        self._loaded_for = key
        self._answered = False
        # What a fresh instance does once, at its first answer, is in no measured run.
        self._ask(arm, _OTHER)

    def _unload(self) -> None:
        self._loaded_for = None
        if self._loading is not None:
            before, body = self._loading
            self._loading = None
            for instance, config in self._server.instances(self._target).items():
                # A load that was broken off may have come to its end all the same.
                if instance not in before and unlike(body, config) is None:
                    self._server.unload(instance)
        if self._instance is not None:
            instance, self._instance = self._instance, None
            self._server.unload(instance)

    def _forget_prompt(self, arm: Arm) -> None:
        """Make the instance remember another prompt than the one that comes."""
        if self._answered:
            self._ask(arm, _OTHER)
        self._answered = True

    def _answer(self, arm: Arm, prompt: PreparedPrompt) -> RunRecord:
        began = self._clock()
        answer = self._ask(arm, prompt)
        return self._record(arm, prompt, answer, self._clock() - began)

    def _ask(self, arm: Arm, prompt: PreparedPrompt) -> dict[str, Json]:
        body: dict[str, Json] = {
            "model": self._instance or self._target,
            "max_tokens": prompt.max_tokens,
            "temperature": self._settings.temperature,
            "seed": self._settings.seed,
            "stream": False,
        }
        if not self._server.has_v1:
            body["ttl"] = _FORGET_S
        if not arm.is_off and not self._sets_at_load:
            body["draft_model"] = self._drafts[str(arm.calls[0].draft_model)]
        path = "/api/v0/chat/completions"
        if prompt.text is None:
            body["messages"] = chat_messages(prompt.messages)
        else:
            body["prompt"] = prompt.text
            path = "/api/v0/completions"
        try:
            answer = self._http.post_json(path, body, timeout_s=_ANSWER_S)
        except ServerRefusal as error:
            if _LOAD_TIME_ONLY in error.body:
                raise EngineError(
                    f"This {TITLE} wants the draft model when it loads the target, and does not "
                    "take it over REST.",
                    "Update LM Studio, or set it under My Models, Edit Model Default Config, "
                    "Load, Advanced, Speculative Decoding (Power User mode).",
                ) from error
            raise
        return as_dict(answer, f"The answer of {TITLE}")

    def _record(
        self, arm: Arm, prompt: PreparedPrompt, answer: Mapping[str, Json], wall_s: float
    ) -> RunRecord:
        usage, stats = section(answer, "usage"), section(answer, "stats")
        n_generated = count(usage, "completion_tokens")
        if n_generated is None:
            raise EngineError(f"{TITLE} does not say how many tokens it made.", "Update it.")
        counts = counts_of(answer)
        if arm.is_off and counts is not None and counts.total:
            raise EngineError(
                f"{TITLE} speculated in an 'off' run.",
                "Switch speculative decoding off in the default settings of this model there.",
            )
        times = times_of(n_generated, stats, wall_s)
        counters = replace(
            self._drafts_of(arm, counts, n_generated),
            prefill_s=times.prefill_s,
            decode_s=times.decode_s,
            n_prompt=count(usage, "prompt_tokens"),
        )
        flags = list(prompt.flags)
        if not times.is_clear:
            flags.append(UNCLEAR_CLOCK)
        if counts is not None and not counts.adds_up:
            flags.append(UNSOUND_COUNTS)
        if count(section(usage, "prompt_tokens_details"), "cached_tokens"):
            flags.append(WARM)
        reason = None if arm.is_off else self._missing_proof(counts)
        return RunRecord(
            counters=counters,
            token_ids=(),
            text=text_of(answer),
            stop_reason=stop_of(answer),
            proof=None if arm.is_off else reason is None,
            proof_reason=reason,
            flags=(*flags, *run_flags(counters, is_off=arm.is_off)),
        )

    def _drafts_of(self, arm: Arm, counts: LmCounts | None, n_generated: int) -> RunCounters:
        if arm.is_off and self._unlike is None:
            # The settings were read back, or no draft model went with the request.
            return RunCounters(
                n_generated,
                n_verify_steps=0,
                n_plain_steps=max(n_generated - 1, 0),
                n_drafted=0,
                n_accepted=0,
                n_discarded=0,
            )
        if counts is None:
            return RunCounters(n_generated)
        return RunCounters(
            n_generated,
            n_drafted=counts.n_drafted,
            n_accepted=counts.accepted,
            n_discarded=counts.n_discarded,
            n_max=arm.n_max if self._sets_at_load else None,
        )

    def _missing_proof(self, counts: LmCounts | None) -> str | None:
        if self._unlike is not None:
            return self._unlike
        if counts is not None:
            return None
        return (
            f"{TITLE} answered without any draft counter: it ran without speculation and did not "
            "say so. Look into its developer log for the draft model."
        )
