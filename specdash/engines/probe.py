"""The probe child: asks the library about model files, mostly without loading weights.

``python -m specdash.engines.probe`` reads one JSON request from standard input and writes JSON
lines to standard output: any number of ``{"progress": 0..1}``, then ``{"result": ...}`` or
``{"error": {"kind", "message", "hint"}}``. Library noise goes to standard error. The process is
short-lived and limited, because a native abort ends it and a damaged file may do that.
"""

import contextlib
import ctypes
import hashlib
import json
import os
import re
import sys
from collections import OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING

from pydantic import TypeAdapter

from specdash.domain.pairing import VocabFacts, check_pair
from specdash.domain.workload import Message
from specdash.engines.base import GenerationSettings
from specdash.errors import ModelError, SpecdashError, UsageError

if TYPE_CHECKING:
    from specdash.engines.llama_cpp_model import LlamaModel

_MEMORY_LIMIT_BYTES = 3 << 30
_QUANTISE_BUFFER_BYTES = 1 << 30
_KEPT_VOCABULARIES = 24  # about 10 MB each
_FILE_TYPE = "LLAMA_FTYPE_MOSTLY_"
_QUANTISE_STEP = re.compile(r"\[\s*(\d+)/\s*(\d+)\]")

Request = Mapping[str, object]
Emit = Callable[[dict[str, object]], None]


def _open_vocab(path: str) -> "contextlib.closing[LlamaModel]":
    from specdash.engines.llama_cpp_model import LlamaModel

    return contextlib.closing(LlamaModel(path, name=Path(path).name, vocab_only=True))


def _vocab_facts(path: str) -> VocabFacts:
    from llama_cpp import llama_cpp as lib

    with _open_vocab(path) as model:
        buffer = ctypes.create_string_buffer(256)
        size = lib.llama_model_meta_val_str(
            model.handle, b"tokenizer.ggml.pre", buffer, len(buffer)
        )
        pre = buffer.value.decode("utf-8", errors="replace") if size >= 0 else None
        return replace(model.vocab_facts(), pre=pre)


def _vocab(request: Request, _emit: Emit) -> object:
    facts = _vocab_facts(str(request["path"]))
    digest = hashlib.sha256()
    for text in facts.texts:
        digest.update(len(text).to_bytes(8, "little") + text)
    return {
        **{k: v for k, v in asdict(replace(facts, texts=())).items() if k != "texts"},
        "texts_hash": digest.hexdigest(),
    }


def _pairs(request: Request, _emit: Emit) -> object:
    """Verdicts in the order of the request; a file that cannot be loaded fails its pairs only."""
    kept: OrderedDict[str, VocabFacts | ModelError] = OrderedDict()

    def facts(path: str) -> VocabFacts | ModelError:
        if path not in kept:
            try:
                kept[path] = _vocab_facts(path)
            except ModelError as error:
                kept[path] = error
            if len(kept) > _KEPT_VOCABULARIES:
                kept.popitem(last=False)
        kept.move_to_end(path)
        return kept[path]

    pairs = request["pairs"]
    answers: list[dict[str, object]] = []
    for target_path, draft_path in pairs if isinstance(pairs, list) else []:
        target, draft = facts(target_path), facts(draft_path)
        if isinstance(target, ModelError):
            answers.append({"error": _error(target)})
        elif isinstance(draft, ModelError):
            answers.append({"error": _error(draft)})
        else:
            answers.append(asdict(check_pair(target, draft)))
    return answers


def _prompts(request: Request, _emit: Emit) -> object:
    """Token counts of prompts as the engine sends them: template rendered, BOS once."""
    from specdash.engines.chat import render_chat

    prompts = request["prompts"]
    counts = []
    with _open_vocab(str(request["path"])) as model:
        bos, eos = model.special_text("bos"), model.special_text("eos")
        for prompt in prompts if isinstance(prompts, list) else []:
            text = prompt.get("text")
            if text is None:
                messages = [Message(m["role"], m["content"]) for m in prompt["messages"]]
                text = render_chat(model.chat_template, messages, bos_token=bos, eos_token=eos)
            counts.append(len(model.tokenize(text, add_special=True, parse_special=True)))
    return counts


def _requantise(request: Request, emit: Emit) -> object:
    from llama_cpp import llama_cpp as lib

    from specdash.engines.llama_cpp_library import LOG, start_library

    name = str(request["quantisation"])
    file_type = getattr(lib, _FILE_TYPE + name, None)
    if file_type is None:
        known = sorted(n.removeprefix(_FILE_TYPE) for n in dir(lib) if n.startswith(_FILE_TYPE))
        raise UsageError(f"Unknown quantisation '{name}'.", f"Known ones: {', '.join(known)}.")
    start_library()

    def receive(level: int, text: bytes | None, user_data: int | None) -> None:
        LOG.receive(level, text, user_data)
        step = _QUANTISE_STEP.search((text or b"").decode("utf-8", errors="replace"))
        if step and int(step[2]):
            emit({"progress": int(step[1]) / int(step[2])})

    callback = lib.llama_log_callback(receive)
    lib.llama_log_set(callback, ctypes.c_void_p(0))
    params = lib.llama_model_quantize_default_params()
    params.ftype = file_type
    params.allow_requantize = True
    params.nthread = int(str(request["n_threads"]))
    params.max_buf_size = _QUANTISE_BUFFER_BYTES
    source, target = str(request["source"]), str(request["target"])
    if lib.llama_model_quantize(os.fsencode(source), os.fsencode(target), params):
        # The errors before the last one are a banner of several lines.
        said = re.sub(r"^(\w+: )+", "", LOG.errors[-1]).rstrip(".!") if LOG.errors else "no reason"
        raise ModelError(
            f"'{Path(source).name}' cannot be re-quantised to {name}: {said}.",
            "Some types need an importance matrix; Q4_0, Q4_K_M and Q2_K do not.",
        )
    return {"size_bytes": Path(target).stat().st_size}


def _draft_replay(request: Request, emit: Emit) -> object:
    """Counters of arms whose draft models draft again; the only operation that runs a model."""
    from specdash.domain.arms import parse_arm
    from specdash.engines.draft_replay import COUNTERS, DraftReplayRequest
    from specdash.engines.llama_cpp_library import start_library
    from specdash.engines.llama_cpp_replay import replay_drafting

    start_library()
    asked = TypeAdapter(DraftReplayRequest).validate_python(request["asked"])
    counters = replay_drafting(
        {ref: Path(path) for ref, path in asked.drafts.items()},
        [(text, parse_arm(arm)) for text, arm in asked.jobs],
        GenerationSettings(n_threads=asked.n_threads),
        lambda share: emit({"progress": share}),
    )
    return COUNTERS.dump_python(counters, mode="json")


def _repacks(request: Request, _emit: Emit) -> object:
    """Whether loading these weights for the CPU makes a second, rearranged copy of them."""
    from llama_cpp import llama_cpp as lib

    from specdash.engines.llama_cpp_library import LOG, buffer_sizes
    from specdash.engines.llama_cpp_trial import repacked_weights_work

    params = lib.llama_model_default_params()
    params.n_gpu_layers = 0
    params.use_extra_bufts = repacked_weights_work()
    params.no_alloc = True
    params.load_mode = lib.LLAMA_LOAD_MODE_NONE  # nothing may be mapped where nothing is allocated
    path = str(request["path"])
    with LOG.capture() as lines:
        model = lib.llama_model_load_from_file(os.fsencode(path), params)
    if not model:
        raise ModelError(f"'{Path(path).name}' cannot be loaded: {LOG.reason()}.")
    lib.llama_model_free(model)
    places = {name.removesuffix(" model") for name in buffer_sizes(lines) if name.endswith("model")}
    return bool(places - {"CPU", "CPU_Mapped"})


def _version(_request: Request, _emit: Emit) -> object:
    from specdash.engines.llama_cpp_library import build_facts, start_library

    start_library()
    return build_facts()


def _devices(_request: Request, _emit: Emit) -> object:
    from specdash.engines.llama_cpp_devices import gpu_devices
    from specdash.engines.llama_cpp_library import start_library

    start_library()
    return [asdict(device) for device in gpu_devices()]


_OPERATIONS: dict[str, Callable[[Request, Emit], object]] = {
    "vocab": _vocab,
    "pairs": _pairs,
    "prompts": _prompts,
    "repacks": _repacks,
    "requantise": _requantise,
    "version": _version,
    "devices": _devices,
    "draft_replay": _draft_replay,
}
# They write or run a model, or wake GPUs, whose drivers map more than the limit.
_UNLIMITED = ("requantise", "draft_replay", "version", "devices")


def _answer(request: Request, emit: Emit) -> object:
    operation = str(request["op"])
    if operation not in _UNLIMITED:
        _limit_memory()
        from specdash.engines.llama_cpp_library import start_library

        start_library()
    return _OPERATIONS[operation](request, emit)


def _limit_memory() -> None:
    try:
        import resource
    except ImportError:  # Windows has no such limits
        return
    resource.setrlimit(resource.RLIMIT_DATA, (_MEMORY_LIMIT_BYTES, _MEMORY_LIMIT_BYTES))


def _error(error: SpecdashError) -> dict[str, object]:
    return {"kind": error.kind, "message": error.message, "hint": error.hint}


def main() -> None:
    """Answer the one request on standard input."""
    out = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)  # native prints must not mix with the answer

    def emit(document: dict[str, object]) -> None:
        out.write(json.dumps(document) + "\n")
        out.flush()

    try:
        emit({"result": _answer(json.load(sys.stdin), emit)})
    except SpecdashError as error:
        emit({"error": _error(error)})
    out.close()


if __name__ == "__main__":
    main()
