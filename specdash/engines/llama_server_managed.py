"""llama-servers that specdash starts itself: one per arm, with every value on its command line."""

import re
from collections.abc import Mapping
from pathlib import Path

from specdash.domain.arms import OFF_ARM, Arm
from specdash.engines.base import ArmReadiness, GenerationSettings, ModelFile
from specdash.engines.llama_log import (
    resolved_batches,
    resolved_flash_attn,
    resolved_gpu_layers,
)
from specdash.engines.llama_server_binary import ServerBinary, find_llama_server, read_binary
from specdash.engines.llama_server_client import LlamaServerClient, ServerModel
from specdash.engines.llama_server_flags import (
    arm_flags,
    common_flags,
    extra_flags,
    is_synthetic,
    keeps_state,
)
from specdash.engines.llama_server_hosts import ServedArm, refused
from specdash.engines.llama_server_pool import RunningServer, ServerPool
from specdash.engines.llama_server_process import READY_S
from specdash.engines.llama_server_reason import failed_start, pair_words, why_not
from specdash.errors import EngineError, ModelError, SpecdashError, UnsupportedError
from specdash.settings import Settings

_RULES: dict[type[SpecdashError], str] = {UnsupportedError: "method", ModelError: "draft"}
_SHARD = re.compile(r"-\d{5}-of-\d{5}\.gguf$")
_KV_BYTES_PER_TOKEN = 64 << 10
"""Of a model of some billion parameters; an estimate only decides who stays loaded."""


class ManagedServers:
    """Servers that specdash starts, one per arm, and stops again."""

    def __init__(self, settings: Settings, ready_s: float = READY_S) -> None:
        self._app = settings
        self._ready_s = ready_s
        self._pool: ServerPool | None = None
        self._binary: ServerBinary | None = None
        self._target = ModelFile("", "", "")
        self._drafts: Mapping[str, ModelFile] = {}
        self._settings = GenerationSettings()
        self._repack = True
        self._model: ServerModel | None = None
        self._client: LlamaServerClient | None = None
        self._reasons: dict[Arm, str] = {}

    def load(
        self, target: ModelFile, drafts: Mapping[str, ModelFile], settings: GenerationSettings
    ) -> Mapping[str, object]:
        """Start the plain server; it also reads prompts."""
        _check_file(target)
        binary = self._binary = read_binary(find_llama_server(self._app.llama_server))
        on_gpu = settings.gpu_layers != 0 or settings.draft_gpu_layers != 0
        pool = self._pool = ServerPool(
            binary.path,
            log_dir=self._app.log_dir,
            records=self._app.server_dir,
            ready_s=self._ready_s,
            # What a GPU has left is not known here.
            most=1 if on_gpu else None,
        )
        self._target, self._drafts, self._settings = target, drafts, settings
        self._repack = _repacked_weights_work()
        extra = extra_flags(self._app.llama_server_args, OFF_ARM)
        running = self._start(OFF_ARM)
        said = running.process.said()
        return {
            "mode": "managed",
            "binary": str(binary.path),
            "version": binary.version,
            "commit": binary.commit,
            "build": binary.build,
            **({"extra_flags": extra} if extra else {}),
            "command": " ".join((str(binary.path), *running.flags)),
            "repacked_weights": self._repack,
            "arms_kept_loaded": pool.fits_beside(self._bytes(OFF_ARM)),
            "n_parallel": 1,
            "flash_attn": resolved_flash_attn(settings.flash_attn, said),
            **resolved_batches(said),
            "gpu_layers": resolved_gpu_layers(settings.gpu_layers, said),
            "n_threads": settings.n_threads,
            "n_threads_batch": settings.n_threads,
            "drafts": {ref: {"name": d.name, "path": d.path} for ref, d in drafts.items()},
        }

    @property
    def model(self) -> ServerModel:
        if self._model is None:
            raise EngineError("The llama-server engine holds no model.", "Call load first.")
        return self._model

    @property
    def client(self) -> LlamaServerClient:
        return self._start(OFF_ARM).client

    def check_arm(self, arm: Arm) -> ArmReadiness:
        """Start the arm's server: what it cannot do it says itself."""
        if arm.n_max + 1 > self._settings.n_batch:
            return refused(
                "batch",
                f"a draft of {arm.n_max} tokens and the last one do not fit a batch of "
                f"{self._settings.n_batch}",
            )
        try:
            for ref in arm.draft_models:
                if ref in self._drafts:
                    _check_file(self._drafts[ref])
            running = self._start(arm)
        except SpecdashError as error:
            return refused(_RULES.get(type(error), "start"), str(error))
        speculates = running.client.speculates()
        if arm.is_off and speculates:
            return refused("baseline", "the server speculates although it was not asked to")
        words = why_not(running.process.said()) if speculates is False else None
        if not arm.is_off and words is not None and words.is_target:
            return refused("memory", f'llama-server says: "{words.text}"')
        return ArmReadiness(True, resolved=self._resolved(arm))

    def serve(self, arm: Arm, n_parallel: int = 1) -> ServedArm:
        """Methods whose tables outlive a request get a new process each time."""
        running = self._start(arm, n_parallel, unused=keeps_state(arm))
        running.was_used = True
        speculates = running.client.speculates()
        flags: tuple[str, ...] = ("synthetic",) if is_synthetic(running.flags) else ()
        if keeps_state(arm) and n_parallel > 1:
            flags += ("warm_pool",)
        return ServedArm(
            running.client,
            speculates,
            why_not=None if speculates or arm.is_off else self._reason(arm, running),
            process=running.process,
            beside=self._loaded_pool().pids_beside(running),
            flags=flags,
            n_max=None if arm.is_off else arm.n_max,
        )

    def close(self) -> None:
        if self._pool is not None:
            self._pool.close()
            self._pool = None

    def _resolved(self, arm: Arm) -> dict[str, object]:
        hashes = {ref: d.content_hash for ref, d in self._drafts.items()}
        resolved: dict[str, object] = {"calls": arm.canonical(hashes)}
        extra = extra_flags(self._app.llama_server_args, arm)
        if extra:
            resolved["extra_flags"] = extra
        if keeps_state(arm):
            resolved["cold"] = "a new process for each run"
        return resolved

    def _start(self, arm: Arm, n_parallel: int = 1, *, unused: bool = False) -> RunningServer:
        binary = self._binary
        if binary is None:
            raise _not_loaded()
        flags = [
            *common_flags(
                binary,
                self._target,
                self._settings,
                n_parallel=n_parallel,
                repack=self._repack,
            ),
            *arm_flags(binary, arm, self._drafts, self._settings),
            *extra_flags(self._app.llama_server_args, arm),
        ]
        try:
            running = self._loaded_pool().get(flags, self._bytes(arm, n_parallel), unused=unused)
        except EngineError as error:
            raise failed_start(error, self._target.name) from error
        if not running.was_identified:
            model = running.client.model()
            _check_path(model, self._target)
            running.was_identified = True
            if self._model is None:
                self._model = model
        return running

    def _loaded_pool(self) -> ServerPool:
        if self._pool is None:
            raise _not_loaded()
        return self._pool

    def _reason(self, arm: Arm, running: RunningServer) -> str:
        if arm not in self._reasons:
            words = why_not(running.process.said())
            said = f' It says: "{words.text}".' if words is not None else ""
            draft = self._drafts.get(arm.draft_models[0]) if arm.draft_models else None
            is_simple = any(call.method == "draft-simple" for call in arm.calls)
            detail = pair_words(self._target, draft) if draft and is_simple else None
            self._reasons[arm] = (
                "llama-server serves without speculation."
                f"{said}{f' The files: {detail}.' if detail else ''}"
            )
        return self._reasons[arm]

    def _bytes(self, arm: Arm, n_parallel: int = 1) -> int:
        """Files of the arm, twice where weights are repacked; the KV cache as it is told there."""
        files = [self._target, *(self._drafts[r] for r in arm.draft_models if r in self._drafts)]
        weights = sum(_file_bytes(Path(file.path)) for file in files)
        return (
            weights * (2 if self._repack else 1)
            + n_parallel * self._settings.n_ctx * _KV_BYTES_PER_TOKEN
        )


def _not_loaded() -> EngineError:
    return EngineError("The llama-server engine is not loaded.", "Call load first.")


def _check_file(file: ModelFile) -> None:
    if not Path(file.path).is_file():
        raise ModelError(
            f"The model file of '{file.name}' is missing: {file.path}.",
            "It may have been moved or deleted; scan its folder again.",
        )


def _check_path(model: ServerModel, target: ModelFile) -> None:
    """The server that answers must hold our file; the port may have gone to another one."""
    if model.path is not None and Path(model.path).resolve() != Path(target.path).resolve():
        raise EngineError(
            f"Another llama-server answers: it holds {model.path}, {target.path} was asked for.",
            "Try again; a program on this machine took the port.",
        )


def _file_bytes(path: Path) -> int:
    """Of all parts, where the file is one part of a model."""
    parts = [path]
    if _SHARD.search(path.name):
        parts = list(path.parent.glob(_SHARD.sub("-*-of-*.gguf", path.name)))
    return sum(part.stat().st_size for part in parts if part.is_file())


def _repacked_weights_work() -> bool:
    # Asking loads the library, which only a server that is about to be started is worth.
    from specdash.engines.llama_cpp_trial import repacked_weights_work

    return repacked_weights_work()
