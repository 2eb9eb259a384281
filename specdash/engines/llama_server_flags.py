"""The command line of a llama-server for given settings and one arm, in the words its build knows.

Every value is written out, so that no default of a build decides what is measured.
"""

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from specdash.domain.arms import Arm, MethodCall
from specdash.engines.base import GenerationSettings, ModelFile
from specdash.engines.llama_server_binary import ServerBinary
from specdash.errors import UnsupportedError, UsageError

# The order in which the server asks its methods, whatever order --spec-type names them in.
_PRIORITY = (
    "ngram-simple",
    "ngram-map-k",
    "ngram-map-k4v",
    "ngram-mod",
    "ngram-cache",
    "draft-simple",
    "draft-eagle3",
    "draft-mtp",
    "draft-dflash",
    "draft-dspark",
)
_TRACE_LEVEL = "4: trace"
# Their tables outlive a request, and nothing but a new process empties them.
KEEPS_STATE = frozenset({"ngram-map-k", "ngram-map-k4v", "ngram-mod", "ngram-cache"})
_WITHOUT_FLAG = frozenset({("ngram-cache", "n_max")})
_DRAFT_SPELLINGS = {
    "n_max": ("--spec-draft-n-max", "--draft-max", "--draft"),
    "n_min": ("--spec-draft-n-min", "--draft-min"),
    "p_min": ("--spec-draft-p-min", "--draft-p-min"),
}
_OLD_NGRAM_SPELLINGS = {
    "size_n": "--spec-ngram-size-n",
    "size_m": "--spec-ngram-size-m",
    "min_hits": "--spec-ngram-min-hits",
    "n_match": "--spec-ngram-size-n",
    "n_min": "--draft-min",
    "n_max": "--draft-max",
}


def keeps_state(arm: Arm) -> bool:
    """Whether what it drafts from survives a request, so that a cold run needs a new server."""
    return any(call.method in KEEPS_STATE for call in arm.calls)


def extra_flags(text: str, arm: Arm) -> list[str]:
    """``SPECDASH_LLAMA_SERVER_ARGS`` for this arm: ``--spec-*`` only where it speculates."""
    try:
        words = shlex.split(text)
    except ValueError as error:
        raise UsageError(f"SPECDASH_LLAMA_SERVER_ARGS cannot be read: {error}.") from error
    kept: list[str] = []
    taken = True
    for word in words:
        if word.startswith("-"):
            taken = not (arm.is_off and word.startswith("--spec-"))
        if taken:
            kept.append(word)
    return kept


def is_synthetic(flags: Sequence[str]) -> bool:
    """Whether the server is told to make its acceptance up; its text is then no answer."""
    return any(flag.startswith("--spec-synth-") for flag in flags)


def common_flags(
    binary: ServerBinary,
    target: ModelFile,
    settings: GenerationSettings,
    *,
    n_parallel: int = 1,
    repack: bool = True,
) -> list[str]:
    """What every arm of an experiment shares; host and port are the process's own matter."""
    return [
        *serving_flags(binary, target, settings, n_parallel=n_parallel, repack=repack),
        *measuring_flags(binary),
    ]


def measuring_flags(binary: ServerBinary) -> list[str]:
    """What only a benchmark needs: counts and log to read, and every request met alike."""
    line = _Line(binary)
    line.may(("--metrics",))
    line.may(("--slots",))
    line.may(("--no-webui", "--no-ui"))
    line.may(("--cache-ram", "-cram"), 0)  # else slots are copied aside between requests
    line.may(("--offline",))
    _log_level(line)
    return line.words


def serving_flags(
    binary: ServerBinary,
    target: ModelFile,
    settings: GenerationSettings,
    *,
    n_parallel: int = 1,
    repack: bool = True,
) -> list[str]:
    """What decides text and speed of an answer, and what keeps a faulty build from crashing."""
    line = _Line(binary)
    threads = settings.n_threads
    line.need(("--model", "-m"), target.path)
    line.need(("--ctx-size", "-c"), settings.n_ctx * n_parallel)
    line.need(("--parallel", "-np"), n_parallel)
    line.need(("--batch-size", "-b"), settings.n_batch)
    line.need(("--ubatch-size", "-ub"), settings.n_ubatch)
    line.need(("--threads", "-t"), threads)
    line.need(("--threads-batch", "-tb"), threads)
    line.need(("--cache-type-k", "-ctk"), settings.kv_type)
    line.need(("--cache-type-v", "-ctv"), settings.kv_type)
    line.need(("--n-gpu-layers", "--gpu-layers", "-ngl"), line.layers(settings.gpu_layers))
    _flash_attention(line, settings.flash_attn)
    line.may(("--fit", "-fit"), "off")  # else unset sizes follow the memory that happens to be free
    if not repack:
        line.need(("--no-repack", "-nr"))
    return line.words


def arm_flags(
    binary: ServerBinary, arm: Arm, drafts: Mapping[str, ModelFile], settings: GenerationSettings
) -> list[str]:
    """What makes a server run this arm; :class:`UnsupportedError` says what the build cannot do."""
    line = _Line(binary)
    if arm.is_off:
        line.may(("--spec-type",), "none")
        return line.words
    _check_methods(binary, arm)
    if binary.knows("--spec-type"):
        line.need(("--spec-type",), ",".join(call.method for call in arm.calls))
    for call in arm.calls:
        for key, value in call.params:
            if key != "model" and (call.method, key) not in _WITHOUT_FLAG:
                line.need(_spellings(call, key), value)
        if call.method.startswith("draft-"):
            _draft_flags(line, call, drafts, settings)
    return line.words


class _EveryFlag(dict[str, str]):
    """Options of a build that knows all flags; the first spelling of each is then taken."""

    def __contains__(self, _flag: object) -> bool:
        return True

    def __missing__(self, _flag: str) -> str:
        return ""


CURRENT_BUILD = ServerBinary(
    Path("llama-server"),
    "b11434",
    None,
    "",
    _EveryFlag(
        {
            "--spec-type": ", ".join(_PRIORITY),
            "--n-gpu-layers": "a number or all",
            "--flash-attn": "on, off or auto",
        }
    ),
)
"""Stands for a llama-server that is not on this machine."""


def in_server_order(arm: Arm) -> Arm:
    """A chain as the server asks it, which is the same whatever order it is written in."""
    if arm.is_off:
        return arm
    return replace(
        arm, calls=tuple(sorted(arm.calls, key=lambda call: _PRIORITY.index(call.method)))
    )


def _draft_flags(
    line: "_Line",
    call: MethodCall,
    drafts: Mapping[str, ModelFile],
    settings: GenerationSettings,
) -> None:
    if call.draft_model is not None:
        file = drafts.get(call.draft_model)
        if file is None:
            raise UnsupportedError(f"The draft '{call.draft_model}' was not given to the engine.")
        line.need(("--spec-draft-model", "--model-draft", "-md"), file.path)
    kv_type = settings.draft_kv_type or settings.kv_type
    threads = settings.draft_threads or settings.n_threads
    layers = line.layers(settings.draft_gpu_layers)
    line.need(("--spec-draft-ngl", "--n-gpu-layers-draft", "--gpu-layers-draft", "-ngld"), layers)
    line.need(("--spec-draft-type-k", "--cache-type-k-draft", "-ctkd"), kv_type)
    line.need(("--spec-draft-type-v", "--cache-type-v-draft", "-ctvd"), kv_type)
    line.need(("--spec-draft-threads", "--threads-draft", "-td"), threads)
    line.need(("--spec-draft-threads-batch", "--threads-batch-draft", "-tbd"), threads)


def _check_methods(binary: ServerBinary, arm: Arm) -> None:
    methods = [call.method for call in arm.calls]
    known = binary.spec_types
    if not known and methods != ["draft-simple"]:
        raise UnsupportedError(
            f"This llama-server ({binary.version}) has no --spec-type: it only drafts with a model."
        )
    for method in methods:
        if known and method not in known:
            raise UnsupportedError(
                f"This llama-server ({binary.version}) does not run {method}; "
                f"it runs {', '.join(sorted(known - {'off'}))}."
            )
    if sum(method.startswith("draft-") for method in methods) > 1:
        raise UnsupportedError("llama-server takes one draft at a time.")
    ranks = [_PRIORITY.index(method) for method in methods]
    if ranks != sorted(ranks):
        first = _PRIORITY[min(ranks)]
        raise UnsupportedError(
            f"llama-server always asks {first} first; write the chain in its order: "
            f"{' + '.join(_PRIORITY[rank] for rank in sorted(ranks))}."
        )


def _spellings(call: MethodCall, key: str) -> tuple[str, ...]:
    if call.method.startswith("draft-"):
        return _DRAFT_SPELLINGS[key]
    own = f"--spec-{call.method}-{key.replace('_', '-')}"
    return own, _OLD_NGRAM_SPELLINGS[key]


def _flash_attention(line: "_Line", value: str) -> None:
    names = ("--flash-attn", "-fa")
    if "auto" in line.help(names):
        line.need(names, value)
    elif value == "on":
        line.need(names)  # older builds: a switch, off unless given
    elif value == "auto":
        raise UsageError(
            "This llama-server cannot choose flash attention by itself.",
            "Set flash attention to on or off.",
        )


def _log_level(line: "_Line") -> None:
    """Some twenty lines a request more, none a token; one tells what it made of "auto".

    In older builds the same number asks for everything, which would cost time.
    """
    names = ("--log-verbosity", "--verbosity", "-lv")
    if _TRACE_LEVEL in line.help(names):
        line.need(names, 4)


class _Line:
    """Words of a command line; each flag in the first spelling that the build knows."""

    def __init__(self, binary: ServerBinary) -> None:
        self._binary = binary
        self.words: list[str] = []

    def need(self, spellings: tuple[str, ...], *values: object) -> None:
        if not self.may(spellings, *values):
            raise UnsupportedError(
                f"This llama-server ({self._binary.version}) has no flag {spellings[0]}, "
                "which this needs."
            )

    def may(self, spellings: tuple[str, ...], *values: object) -> bool:
        name = next((s for s in spellings if self._binary.knows(s)), None)
        if name is None:
            return False
        self.words += [name, *map(str, values)]
        return True

    def help(self, spellings: tuple[str, ...]) -> str:
        return next((self._binary.options[s] for s in spellings if self._binary.knows(s)), "")

    def layers(self, n: int) -> object:
        """Below zero means all layers, as for the embedded engine."""
        if n >= 0:
            return n
        return "all" if "all" in self.help(("--n-gpu-layers", "--gpu-layers", "-ngl")) else 999
