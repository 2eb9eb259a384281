"""The embedded engine: llama.cpp's C API driven in this process, greedy."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, replace

from specdash.domain.arms import Arm, MethodCall
from specdash.domain.calibration import Calibration, CalibrationPlan
from specdash.domain.counters import counters_from_steps
from specdash.domain.divergence import compare
from specdash.domain.methods import METHODS
from specdash.domain.workload import Prompt, content_hash
from specdash.drafting.base import Drafter, counters_by_method
from specdash.drafting.draft_simple import DraftSimple, draft_parameters
from specdash.drafting.factory import make_chain
from specdash.drafting.model_replay import DraftTable
from specdash.engines.base import (
    ArmReadiness,
    GenerationSettings,
    HeldMemory,
    ModelFile,
    PreparedPrompt,
    RunRecord,
    SplitFacts,
)
from specdash.engines.chat import render_chat
from specdash.engines.flags import run_flags
from specdash.engines.llama_cpp_calibration import calibrate
from specdash.engines.llama_cpp_context import LlamaContext, check_settings
from specdash.engines.llama_cpp_devices import gpu_devices
from specdash.engines.llama_cpp_draft import LoadedDraft
from specdash.engines.llama_cpp_library import build_facts, start_library
from specdash.engines.llama_cpp_loop import Generation, generate
from specdash.engines.llama_cpp_memory import MemoryMeter
from specdash.engines.llama_cpp_model import LlamaModel
from specdash.engines.llama_cpp_split import PlainRows, explain_split
from specdash.engines.llama_cpp_trial import repacked_weights_work
from specdash.engines.process_memory import peak_rss_bytes
from specdash.engines.room import CAPPED, room_for
from specdash.errors import EngineError, ModelError, UnsupportedError, UsageError

# Rows of logits one pass may ask for; an arm with longer drafts gets a larger context.
_USUAL_OUTPUTS = 65


class LlamaCppEngine:
    """Target and drafts stay loaded; every run starts with empty memories and new drafters."""

    name = "llama-cpp"

    def __init__(self) -> None:
        self._settings = GenerationSettings()
        self._model: LlamaModel | None = None
        self._context: LlamaContext | None = None
        self._drafts: dict[str, LoadedDraft] = {}
        self._can_drop: bool | None = None
        self._plain_rows = PlainRows()
        self._meter: MemoryMeter | None = None
        self._n_ctx = 0

    def load(
        self, target: ModelFile, drafts: Mapping[str, ModelFile], settings: GenerationSettings
    ) -> Mapping[str, object]:
        """Load everything; a draft that cannot be loaded makes its arms unsupported, no more."""
        check_settings(settings)
        start_library()
        meter = self._meter = MemoryMeter()
        model = self._model = LlamaModel(
            target.path, name=target.name, gpu_layers=settings.gpu_layers
        )
        if model.has_encoder or not model.has_decoder:
            raise ModelError(
                f"'{target.name}' is not a model that only decodes.",
                "Embedding and encoder-decoder models cannot be measured here.",
            )
        trained = model.n_ctx_train
        self._n_ctx = min(settings.n_ctx, trained) if trained > 0 else settings.n_ctx
        settings = self._settings = replace(settings, n_ctx=self._n_ctx)
        context = self._context = LlamaContext(model, settings, n_outputs=_USUAL_OUTPUTS)
        target_facts = {
            **model.facts(),
            "context_buffers_mib": context.buffers,
            "after_load": meter.read(),
        }
        draft_facts: dict[str, object] = {}
        for ref, file in drafts.items():
            draft = self._drafts[ref] = LoadedDraft(file, settings)
            draft_facts[ref] = {**draft.facts(), "after_load": meter.read()}
        template = model.chat_template
        return {
            "name": self.name,
            **build_facts(),
            "devices": {device.name: asdict(device) for device in gpu_devices()},
            "target": target_facts,
            "drafts": draft_facts,
            "repacked_weights": repacked_weights_work(),
            "flash_attn": context.flash_attn,
            "n_ctx": self._n_ctx,
            "n_batch": context.n_batch,
            "n_ubatch": context.n_ubatch,
            "gpu_layers": model.gpu_layers,
            "n_threads": settings.n_threads,
            "n_threads_batch": settings.n_threads,
            "chat_template_hash": None if template is None else content_hash(template)[:16],
        }

    def prepare(self, prompt: Prompt, max_tokens: int) -> PreparedPrompt:
        """Token ids as llama-server would send them; :class:`UsageError` when they do not fit."""
        model = self._loaded_model()
        flags: list[str] = []
        text = prompt.text
        if text is None:
            template = model.chat_template
            if template is None:
                flags.append("no_template")
            text = render_chat(
                template,
                prompt.messages,
                bos_token=model.special_text("bos"),
                eos_token=model.special_text("eos"),
            )
        ids = model.tokenize(text, add_special=True, parse_special=True)
        if not ids:
            raise UsageError(f"Prompt '{prompt.key}' is empty.", "Write some text into it.")
        most, capped = room_for(prompt.key, len(ids), self._n_ctx, max_tokens)
        return PreparedPrompt(prompt.key, prompt.category, tuple(ids), most, (*flags, *capped))

    def check_arm(self, arm: Arm) -> ArmReadiness:
        """Ask the library: pair, memory that can be cut, length of a draft."""
        if arm.is_off:
            return ArmReadiness(True, resolved={"calls": arm.canonical({})})
        refusal = next(self._refusals(arm), None)
        if refusal is not None:
            return refusal
        hashes = {ref: self._drafts[ref].file.content_hash for ref in arm.draft_models}
        return ArmReadiness(True, resolved={"calls": arm.canonical(hashes)})

    def run(self, arm: Arm, prompt: PreparedPrompt) -> RunRecord:
        """One cold generation with the loop that llama-server runs."""
        model, context = self._loaded_model(), self._loaded_context()
        chain = make_chain(arm, self._model_drafter)
        context.clear()
        for ref in arm.draft_models:
            self._drafts[ref].loaded_context().clear()
        done = generate(
            context,
            chain,
            prompt.token_ids,
            max_tokens=prompt.max_tokens,
            n_ctx=self._n_ctx,
            ignore_eos=self._settings.ignore_eos,
        )
        texts = model.texts(done.token_ids)
        refused = {s.refused for s in done.steps if s.refused is not None}
        n_generated = len(done.token_ids)
        counters = counters_from_steps(
            done.steps,
            n_generated=n_generated,
            n_max=None if arm.is_off else chain.n_max,
            n_prompt=len(prompt.token_ids),
            n_discarded=chain.n_discarded,
            prefill_s=done.prefill_s,
            decode_s=done.decode_s,
            draft_s=done.draft_s,
            verify_s=done.verify_s,
            plain_s=done.plain_s,
            other_s=done.other_s,
        )
        return RunRecord(
            counters=counters,
            token_ids=tuple(done.token_ids),
            text="".join(texts),
            token_texts=texts,
            refused_texts={i: model.texts([i])[0] for i in refused},
            stop_reason=_stop_reason(done, prompt),
            steps=tuple(done.steps),
            drafter_counters=counters_by_method(chain.names, done.steps, n_generated)
            if len(chain.drafters) > 1
            else {},
            proof=None if arm.is_off else True,
            flags=prompt.flags + run_flags(counters, is_off=arm.is_off),
            peak_rss_bytes=peak_rss_bytes(),
        )

    def explain_split(
        self, prompt: PreparedPrompt, off_ids: Sequence[int], on_ids: Sequence[int], chunk: int
    ) -> SplitFacts | None:
        """Two forced passes over the ``off`` text; ``None`` where one text only stops earlier."""
        found = compare(on_ids, off_ids)
        split = found.first_difference
        if split is None or found.is_prefix:
            return None
        context = self._loaded_context()
        eog_ids = self._loaded_model().eog_ids
        return explain_split(
            context,
            prompt.token_ids,
            off_ids,
            split=split,
            other=on_ids[split],
            chunk=min(chunk, context.n_outputs, context.n_batch),
            banned=eog_ids if self._settings.ignore_eos else frozenset(),
            remembered=self._plain_rows,
        )

    def calibrate(
        self, text: Sequence[int], plan: CalibrationPlan, progress: Callable[[float], None]
    ) -> Calibration:
        """Passes of the target and of the drafts that fit it; both end with empty memories."""
        if not self._target_can_drop():
            raise UnsupportedError("Calibration is not possible: " + self._why_not_droppable())
        fitting = {
            draft.file.content_hash: draft.loaded_context()
            for ref, draft in self._drafts.items()
            if next(self._draft_refusals(ref), None) is None
        }
        return calibrate(
            self._loaded_context(), fitting, text, plan, n_ctx=self._n_ctx, progress=progress
        )

    def held(self) -> HeldMemory:
        """Of this process."""
        on_device = self._meter.device_bytes() if self._meter is not None else None
        return HeldMemory(peak_rss_bytes(), on_device)

    def draft_tables(
        self,
        reference: str,
        texts: Sequence[tuple[Sequence[int], Sequence[int]]],
        calls: Sequence[MethodCall],
        progress: Callable[[float], None],
    ) -> Sequence[DraftTable]:
        """From the weights that are loaded; :class:`UnsupportedError` for a draft that cannot."""
        refusal = next(self._draft_refusals(reference), None)
        if refusal is not None:
            raise UnsupportedError(f"'{reference}' cannot draft here: {refusal.reason}.")
        return self._drafts[reference].tables(texts, calls, progress)

    def close(self) -> None:
        """Free contexts before their models."""
        self._plain_rows = PlainRows()
        for draft in self._drafts.values():
            draft.close()
        self._drafts = {}
        if self._context is not None:
            self._context.close()
            self._context = None
        if self._model is not None:
            self._model.close()
            self._model = None

    def _refusals(self, arm: Arm) -> Iterator[ArmReadiness]:
        """Reasons why the arm cannot run, the cheapest to find out first."""
        for call in arm.calls:
            if not METHODS[call.method].in_process:
                yield _no("method", f"{call.method} does not run in the llama-cpp engine")
        if not self._target_can_drop():
            yield _no("memory", self._why_not_droppable())
        for ref in arm.draft_models:
            yield from self._draft_refusals(ref)
        try:
            chain = make_chain(arm, self._model_drafter)
        except UnsupportedError as error:
            yield _no("method", str(error))
            return
        context = self._loaded_context()
        needed = chain.n_max + 1
        if needed > context.n_batch:
            yield _no(
                "batch",
                f"a draft of {chain.n_max} tokens and the last one do not fit a batch of "
                f"{context.n_batch}",
            )
        if needed > context.n_outputs:
            context.close()
            self._context = LlamaContext(self._loaded_model(), self._settings, n_outputs=needed)

    def _draft_refusals(self, ref: str) -> Iterator[ArmReadiness]:
        draft = self._drafts.get(ref)
        if draft is None:
            yield _no("draft", f"the draft '{ref}' was not given to the engine")
            return
        if draft.error is not None:
            yield _no("draft", f"the draft cannot be used: {draft.error}")
            return
        verdict = draft.fits(self._loaded_model())
        if not verdict.compatible:
            yield _no(verdict.failed_rule, verdict.reason)
        if not draft.can_drop_part():
            yield _no("draft_memory", f"the draft '{ref}' cannot drop part of its memory")

    def _target_can_drop(self) -> bool:
        if self._can_drop is None:
            self._can_drop = self._loaded_context().can_drop_part()
        return self._can_drop

    def _why_not_droppable(self) -> str:
        model = self._loaded_model()
        kind = "recurrent " if model.is_recurrent else "hybrid " if model.is_hybrid else ""
        return (
            f"the {kind}target cannot drop part of its memory, which every rejected draft token "
            "needs (tried: removing the second of two tokens was refused)"
        )

    def _model_drafter(self, call: MethodCall) -> Drafter:
        if call.method != "draft-simple" or call.draft_model is None:
            raise UnsupportedError(f"{call.method} does not run in the llama-cpp engine.")
        context = self._drafts[call.draft_model].loaded_context()
        return DraftSimple(
            context,
            draft_parameters(call),
            n_vocab_target=self._loaded_model().n_vocab,
            n_vocab_draft=context.model.n_vocab,
        )

    def _loaded_model(self) -> LlamaModel:
        if self._model is None:
            raise EngineError("The llama-cpp engine holds no model.", "Call load first.")
        return self._model

    def _loaded_context(self) -> LlamaContext:
        if self._context is None:
            raise EngineError("The llama-cpp engine holds no context.", "Call load first.")
        return self._context


def _no(rule: str | None, reason: str) -> ArmReadiness:
    return ArmReadiness(False, reason, rule)


def _stop_reason(done: Generation, prompt: PreparedPrompt) -> str:
    if done.ended:
        return "eos"
    return "context" if CAPPED in prompt.flags else "limit"
