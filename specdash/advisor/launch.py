"""What to type to get an arm: one entry per engine, or why that engine has no such method.

Flags of llama-server are those of the binary on this machine; of the others, and where there is
none, those of current builds (llama-server b11434, vLLM 0.33, SGLang 0.5.23, LM Studio 0.4).
"""

import json
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field

from specdash.advisor.decision import Language, Launch
from specdash.domain.arms import Arm, MethodCall
from specdash.domain.methods import METHODS
from specdash.engines.base import GenerationSettings, ModelFile
from specdash.engines.llama_server_binary import ServerBinary
from specdash.engines.llama_server_flags import (
    CURRENT_BUILD,
    arm_flags,
    extra_flags,
    in_server_order,
    measuring_flags,
    serving_flags,
)
from specdash.errors import SpecdashError
from specdash.worker.request import generation_words

_NGRAM = ("ngram-simple", "ngram-map-k", "ngram-map-k4v", "ngram-mod", "ngram-cache")
_VLLM_METHODS = {
    "draft-simple": "draft_model",
    "draft-eagle3": "eagle3",
    "draft-dflash": "dflash",
    "draft-dspark": "dspark",
    "draft-mtp": "mtp",
}
_SGLANG_ALGORITHMS = {
    "draft-simple": "STANDALONE",
    "draft-eagle3": "EAGLE3",
    "draft-dflash": "DFLASH",
    "draft-dspark": "DSPARK",
    "draft-mtp": "NEXTN",
}
_LM_STUDIO_PLACE = (
    "They hide in the load settings: tick 'Manually choose model load parameters' when you load "
    "the target. Older builds have them in the chat sidebar, under Speculative Decoding, in Power "
    "User mode."
)


@dataclass(frozen=True, slots=True)
class Files:
    """The models of a command. Drafts are by the reference that stands in the arm."""

    target_path: str
    target_name: str
    draft_paths: Mapping[str, str] = field(default_factory=dict)
    workload: str = "WORKLOAD"
    server: ServerBinary | None = None
    """The llama-server of this machine; ``None`` where there is none."""
    server_args: str = ""
    """Further flags it was measured with, as ``SPECDASH_LLAMA_SERVER_ARGS`` has them."""
    repack: bool = True
    """Whether weights may be repacked; builds whose kernels for that crash are started without."""


def launches(arm: Arm, files: Files, settings: GenerationSettings) -> tuple[Launch, ...]:
    """For all engines; ``off`` gives what switches speculation off."""
    return (
        llama_server(arm, files, settings),
        llama_cpp_python(arm, files, settings),
        lm_studio(arm, files),
        vllm(arm, files),
        sglang(arm, files),
    )


def llama_server(arm: Arm, files: Files, settings: GenerationSettings) -> Launch:
    """As it was measured, without what only a benchmark needs; every value is written out."""
    engine = title = "llama-server"
    if any(call.method == "prompt-lookup" for call in arm.calls):
        return _none(
            engine,
            title,
            "bash",
            "llama-server has no prompt-lookup; its ngram-simple is the nearest, measured apart.",
        )
    binary = files.server or CURRENT_BUILD
    target = ModelFile(files.target_name, files.target_path, "")
    drafts = {ref: ModelFile(ref, path, "") for ref, path in files.draft_paths.items()}
    try:
        words: list[object] = [
            binary.path,
            *serving_flags(binary, target, settings, repack=files.repack),
            *arm_flags(binary, in_server_order(arm), drafts, settings),
            *extra_flags(files.server_args, arm),
        ]
    except SpecdashError as error:
        return _none(engine, title, "bash", str(error))
    words += ["--host", "127.0.0.1", "--port", 8080]
    notes = [_server_note(files.server)]
    methods = [call.method for call in arm.calls]
    if not arm.is_off and methods != sorted(methods, key=lambda m: m not in _NGRAM):
        notes.append(
            "llama-server always asks n-gram methods before a draft, whatever the order here."
        )
    return Launch(engine, title, "bash", _command(words), " ".join(notes))


def _server_note(binary: ServerBinary | None) -> str:
    if binary is None:
        return (
            f"No llama-server runs on this machine: these are the flags of {CURRENT_BUILD.version}."
        )
    left_out = _command(measuring_flags(binary)) or "nothing"
    return (
        f"Flags as {binary.version} has them. Left out is what only a benchmark needs: {left_out}."
    )


def llama_cpp_python(arm: Arm, files: Files, settings: GenerationSettings) -> Launch:
    """Its ``Llama`` class offers prompt lookup alone; specdash drives the library further."""
    title = "llama-cpp-python"
    calls = arm.calls
    outside = [c.method for c in calls if not METHODS[c.method].in_process]
    if outside:
        return _none(
            "llama-cpp", title, "python", f"{outside[0]} needs llama-server; the library lacks it."
        )
    if not arm.is_off and [c.method for c in calls] != ["prompt-lookup"]:
        words = ["python", "-m", "specdash", "run", "--target", files.target_name]
        words += ["--workload", files.workload, "--arm", arm.text(), "--engine", "llama-cpp"]
        return Launch(
            "llama-cpp",
            title,
            "bash",
            _command([*words, *generation_words(asdict(settings))]),
            "The Llama class of llama-cpp-python offers prompt lookup only, so there is nothing to "
            "paste into Python. This command drives the same library with this method, as it was "
            "measured; to serve it, take llama-server.",
        )
    keywords = [
        f"model_path={files.target_path!r}",
        f"n_ctx={settings.n_ctx}",
        f"n_batch={settings.n_batch}",
        f"n_ubatch={settings.n_ubatch}",
        f"n_threads={settings.n_threads}",
        f"n_threads_batch={settings.n_threads}",
        f"n_gpu_layers={settings.gpu_layers}",
    ]
    imports = ["from llama_cpp import Llama"]
    note = None
    if not arm.is_off:
        imports.append("from llama_cpp.llama_speculative import LlamaPromptLookupDecoding")
        parameters = ", ".join(f"{name}={value}" for name, value in calls[0].params)
        keywords.append("logits_all=True")
        keywords.append(f"draft_model=LlamaPromptLookupDecoding({parameters})")
        note = (
            "logits_all=True is needed: without it a text longer than n_batch fails. It keeps "
            "n_ctx rows of logits, and computes logits for the whole prompt, so the first token "
            "comes later than measured here."
        )
    body = "".join(f"    {keyword},\n" for keyword in keywords)
    return Launch(
        "llama-cpp", title, "python", "\n".join(imports) + f"\n\nllm = Llama(\n{body})\n", note
    )


def lm_studio(arm: Arm, files: Files) -> Launch:
    """Settings by the names of its window; ``lms load`` takes the same."""
    title = "LM Studio"
    if arm.is_off:
        return Launch("lm-studio", title, "text", "Speculative Decoding: off", _LM_STUDIO_PLACE)
    call = arm.calls[0]
    if len(arm.calls) > 1 or call.method not in ("draft-simple", "draft-mtp"):
        return _none(
            "lm-studio", title, "text", "LM Studio offers draft models and MTP heads, nothing else."
        )
    budget = [
        f"Max draft tokens: {call.get('n_max')}",
        f"Min draft tokens: {call.get('n_min')}",
        f"Draft probability (Drafting Probability Cutoff): {call.get('p_min'):g}",
    ]
    words: list[object] = ["lms", "load", files.target_name]
    if call.method == "draft-mtp":
        lines = ["Multi-token prediction: on"]
        words.append("--speculative-draft-mtp")
    else:
        lines = [f"Draft model: {call.draft_model}"]
        words += ["--speculative-draft-simple", "--speculative-draft-model", call.draft_model]
    words += ["--speculative-draft-max-tokens", call.get("n_max")]
    words += ["--speculative-draft-min-tokens", call.get("n_min")]
    words += ["--speculative-draft-min-continue-probability", _number(call.get("p_min"))]
    lines += budget
    note = (
        f"{_LM_STUDIO_PLACE} On the command line, with the names that `lms ls` shows: "
        f"{_command(words)}"
    )
    return Launch("lm-studio", title, "text", "\n".join(lines), note)


def vllm(arm: Arm, files: Files) -> Launch:
    """``--speculative-config``; vLLM serves the original weights, not the GGUF."""
    words: list[object] = ["vllm", "serve", files.target_name]
    if arm.is_off:
        return Launch("vllm", "vLLM", "bash", _command(words), _weights_note("vLLM"))
    if len(arm.calls) > 1:
        return _none("vllm", "vLLM", "bash", "vLLM runs one speculative method at a time.")
    call = arm.calls[0]
    config: dict[str, object]
    notes = [_weights_note("vLLM")]
    if call.method in _VLLM_METHODS:
        config = {"method": _VLLM_METHODS[call.method]}
        if call.draft_model is not None:
            config["model"] = call.draft_model
        config["num_speculative_tokens"] = call.n_max
        notes += _without_thresholds("vLLM", call)
    elif call.method in ("ngram-simple", "prompt-lookup"):
        longest = call.get("size_n") or call.get("max_ngram_size")
        config = {
            "method": "ngram",
            "num_speculative_tokens": call.n_max,
            "prompt_lookup_max": longest,
            "prompt_lookup_min": longest if call.method == "ngram-simple" else 1,
        }
        notes.append(f"Its n-gram lookup is the nearest to {call.method}, not the same.")
    else:
        return _none("vllm", "vLLM", "bash", f"vLLM has nothing like {call.method}.")
    words += ["--speculative-config", json.dumps(config)]
    return Launch("vllm", "vLLM", "bash", _command(words), " ".join(notes))


def sglang(arm: Arm, files: Files) -> Launch:
    """Flags of ``sglang.launch_server``; it serves the original weights, not the GGUF."""
    words: list[object] = ["python", "-m", "sglang.launch_server", "--model-path"]
    words.append(files.target_name)
    if arm.is_off:
        return Launch("sglang", "SGLang", "bash", _command(words), _weights_note("SGLang"))
    if len(arm.calls) > 1:
        return _none("sglang", "SGLang", "bash", "SGLang runs one speculative method at a time.")
    call = arm.calls[0]
    notes = [_weights_note("SGLang")]
    if call.method in _SGLANG_ALGORITHMS:
        words += ["--speculative-algorithm", _SGLANG_ALGORITHMS[call.method]]
        if call.draft_model is not None:
            words += ["--speculative-draft-model-path", call.draft_model]
        words += ["--speculative-num-steps", call.n_max, "--speculative-eagle-topk", 1]
        words += ["--speculative-num-draft-tokens", call.n_max + 1]
        notes += _without_thresholds("SGLang", call)
    elif call.method in ("ngram-simple", "prompt-lookup"):
        longest = call.get("size_n") or call.get("max_ngram_size")
        words += ["--speculative-algorithm", "NGRAM"]
        words += ["--speculative-num-draft-tokens", call.n_max]
        words += ["--speculative-ngram-max-match-window-size", longest]
        notes.append(
            f"Its n-gram lookup is the nearest to {call.method}, not the same, and needs CUDA."
        )
    else:
        return _none("sglang", "SGLang", "bash", f"SGLang has nothing like {call.method}.")
    return Launch("sglang", "SGLang", "bash", _command(words), " ".join(notes))


def _without_thresholds(engine: str, call: MethodCall) -> list[str]:
    dropped = [f"{key} {call.get(key):g}" for key in ("n_min", "p_min") if call.get(key)]
    return [f"{engine} has no {' and no '.join(dropped)}."] if dropped else []


def _weights_note(engine: str) -> str:
    return (
        f"{engine} serves the original weights, not the GGUF: put their repository or folder in "
        "place of each model's name."
    )


def _number(value: object) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)


def _command(words: Sequence[object]) -> str:
    return shlex.join(str(word) for word in words)


def _none(engine: str, title: str, language: Language, note: str) -> Launch:
    return Launch(engine, title, language, None, note)
