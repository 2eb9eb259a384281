"""The runner process: ``python -m specdash.worker.runner JOBFILE`` runs one experiment.

Events go to the standard output as it was at the start; file descriptor 1 is then pointed at the
log, so that what native libraries print never mixes with events.
"""

import contextlib
import os
import signal
import stat
import sys
import threading
import time
import traceback
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path

from pydantic import ValidationError

from specdash import __version__
from specdash.domain.arms import Arm, parse_arm
from specdash.domain.workload import Message, Prompt, content_hash, prompt_set_hash
from specdash.engines.base import (
    Engine,
    GenerationSettings,
    MeteredEngine,
    ModelFile,
    ParallelEngine,
    PreparedPrompt,
)
from specdash.engines.registry import make_engine
from specdash.errors import EngineError, SpecdashError, UsageError
from specdash.worker.machine import library_versions
from specdash.worker.measuring import Measuring
from specdash.worker.place import Place
from specdash.worker.protocol import (
    AnchorEvent,
    ArmEvent,
    CalibrationEvent,
    DoneEvent,
    EnvironmentEvent,
    ErrorEvent,
    JobSpec,
    MarkEvent,
    PhaseEvent,
    PredictionEvent,
    ProgressEvent,
    RunEvent,
    SpecModel,
    SpecPrompt,
    SplitEvent,
    SweepEvent,
)
from specdash.worker.surroundings import Surroundings
from specdash.worker.sweeping import Sweeping, planned_requests

_OOM_SCORE = "500"


class _Cancelled(BaseException):
    """SIGTERM arrived; not an :class:`Exception`, so that no handler of errors takes it."""


class _Channel:
    """Writes whole event lines; a cancellation never cuts one in half."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._writing = False
        self._cancelled = False

    def cancel(self, _signal: int, _frame: object) -> None:
        """Signal handler: raise at once, or after the line that is being written."""
        self._cancelled = True
        if not self._writing:
            raise _Cancelled

    def check(self) -> None:
        """Raise when a cancellation got lost, as it does inside a native callback."""
        if self._cancelled:
            raise _Cancelled

    def send(self, event: "_Event") -> None:
        self.check()
        self.send_last(event)
        self.check()

    def send_last(self, event: "_Event") -> None:
        """Send although cancelled: the closing error event."""
        data = memoryview(event.model_dump_json().encode() + b"\n")
        self._writing = True
        try:
            while data:
                data = data[os.write(self._descriptor, data) :]
        finally:
            self._writing = False


_Event = (
    PhaseEvent
    | ProgressEvent
    | EnvironmentEvent
    | ArmEvent
    | RunEvent
    | SplitEvent
    | AnchorEvent
    | MarkEvent
    | SweepEvent
    | CalibrationEvent
    | PredictionEvent
    | ErrorEvent
    | DoneEvent
)


def main(argv: Sequence[str] | None = None) -> int:
    """Exit status 0 when every planned run was done, 1 otherwise."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    channel = _take_standard_output()
    _detach()
    signal.signal(signal.SIGTERM, channel.cancel)
    try:
        if len(arguments) != 1:
            raise UsageError("The runner takes one argument.", "It is the path of a job file.")
        _run_job(_read_spec(Path(arguments[0])), channel)
    except _Cancelled:
        channel.send_last(ErrorEvent(kind="cancelled", message="The job was cancelled."))
        return 1
    except SpecdashError as error:
        traceback.print_exc()
        channel.send_last(ErrorEvent(kind=error.kind, message=error.message, hint=error.hint))
        return 1
    except Exception as error:
        # The one place that meets a bug: it goes to the log whole, and to the user in words.
        traceback.print_exc()
        channel.send_last(
            ErrorEvent(
                kind="internal",
                message=f"The runner failed unexpectedly: {type(error).__name__}: {error}",
                hint="The log of the job holds the details.",
            )
        )
        return 1
    return 0


def _run_job(spec: JobSpec, channel: _Channel) -> None:
    began = time.perf_counter()
    channel.send(PhaseEvent(phase="loading"))
    place = Place(spec.server)
    facts = place.facts()
    around = Surroundings(place, channel.send, wait_s=spec.quiet_wait_s)
    engine = make_engine(spec.engine, place.address())
    try:
        engine_facts = dict(
            engine.load(
                _model_file(spec.target),
                {ref: _model_file(m) for ref, m in spec.drafts.items()},
                GenerationSettings(**spec.settings.model_dump()),
            )
        )
        began += around.wait()
        channel.send(PhaseEvent(phase="checking"))
        prepared = [engine.prepare(_prompt(p), _cap(p, spec)) for p in spec.prompts]
        template_hash = engine_facts.pop("chat_template_hash", None)
        channel.send(
            EnvironmentEvent(
                machine={**facts, "start": around.start},
                engine=engine_facts,
                prompt_set_hash=_prompt_set_hash(spec, prepared),
                chat_template_hash=template_hash if isinstance(template_hash, str) else None,
                specdash=__version__,
                libraries=library_versions(),
                n_prompt_tokens={
                    p.prompt_id: len(done.token_ids)
                    for p, done in zip(spec.prompts, prepared, strict=True)
                    if done.token_ids
                },
            )
        )
        ready = _check_arms(spec, engine, channel)
        steps = None
        if spec.calibration is not None or spec.prediction is not None:
            # scipy takes memory and time that only this needs.
            from specdash.worker.steps import Steps

            fields = _calibration_fields(spec, facts, engine_facts)
            steps = Steps(spec, engine, prepared, fields, channel.send)
            if steps.calibrate():
                began = time.perf_counter()  # a calibration without runs serves nobody
        send = channel.send if steps is None else steps.watching(channel.send)
        n_after = planned_requests(spec, len(ready))
        measuring = Measuring(
            spec,
            ready,
            prepared,
            engine,
            send,
            began=began,
            n_after=n_after,
            when_warm=around.look_warm,
            when_measured=around.look_measured,
        )
        measuring.measure()
        if steps is not None:
            steps.finish(began)
        if spec.concurrency:
            _sweep(spec, measuring, prepared, engine, channel)
        held = _held(engine)
    finally:
        engine.close()
    channel.send(PhaseEvent(phase="done"))
    precision = measuring.precision
    channel.send(
        DoneEvent(
            machine_warm=around.warm or {},
            machine_end={**(around.end or {}), **held},
            precision_reached=precision.reached if precision else None,
            precision_needs_prompts=precision.needs_prompts if precision else None,
            precision_further_prompts=precision.further_prompts if precision else None,
            budget_ended=measuring.budget_ended,
        )
    )


def _held(engine: Engine) -> dict[str, object]:
    """Nothing of an engine whose processes are not ours."""
    return asdict(engine.held()) if isinstance(engine, MeteredEngine) else {}


def _calibration_fields(
    spec: JobSpec, machine: Mapping[str, object], engine: Mapping[str, object]
) -> dict[str, object]:
    """What a calibration made now is bound to."""
    settings = spec.settings
    resolved = {
        name: asked if (told := engine.get(name)) is None else told
        for name, asked in settings.model_dump().items()
        if name in ("n_ctx", "n_batch", "n_ubatch", "kv_type", "flash_attn", "gpu_layers")
    }
    return {
        "target_hash": spec.target.content_hash,
        "machine_fingerprint": machine.get("fingerprint"),
        "gpu_driver": machine.get("gpu_driver"),
        "engine": spec.engine,
        "engine_version": engine.get("version"),
        "engine_commit": engine.get("commit"),
        "build_flags": engine.get("build_flags", engine.get("build")),
        **resolved,
        "n_threads": settings.n_threads,
        "draft_gpu_layers": settings.draft_gpu_layers,
        "draft_kv_type": settings.draft_kv_type or settings.kv_type,
        "draft_threads": settings.draft_threads or settings.n_threads,
    }


def _sweep(
    spec: JobSpec,
    measuring: Measuring,
    prepared: Sequence[PreparedPrompt],
    engine: Engine,
    channel: _Channel,
) -> None:
    if not isinstance(engine, ParallelEngine):
        raise UsageError(f"Engine '{spec.engine}' serves one request at a time.")
    Sweeping(
        spec,
        measuring.active_arms,
        prepared,
        engine,
        channel.send,
        n_done=measuring.n_runs,
    ).sweep()


def _check_arms(spec: JobSpec, engine: Engine, channel: _Channel) -> dict[int, Arm]:
    """Arms that can run, by their index in the job; the others are reported and left out."""
    ready: dict[int, Arm] = {}
    reason: str | None = None
    for index, row in enumerate(spec.arms):
        arm = parse_arm(row.text)
        answer = engine.check_arm(arm)
        channel.send(
            ArmEvent(
                experiment_arm_id=row.experiment_arm_id,
                status="ready" if answer.ready else "unsupported",
                reason=answer.reason,
                resolved=dict(answer.resolved),
            )
        )
        if answer.ready:
            ready[index] = arm
        elif arm.is_baseline and spec.server is None:
            raise EngineError(f"The target cannot run even without a draft: {answer.reason}")
        reason = reason or answer.reason
    if not ready:
        raise EngineError(f"No arm can run here: {reason}")
    return ready


def _prompt_set_hash(spec: JobSpec, prepared: Sequence[PreparedPrompt]) -> str:
    """Over the ids really sent; over the words where only the server knows the ids."""
    if all(p.token_ids for p in prepared):
        return prompt_set_hash([(p.token_ids, p.max_tokens) for p in prepared])
    # The words come with their own cap, and the experiment's is in the base key beside them.
    return content_hash([_prompt(p).content() for p in spec.prompts])[:16]


def _read_spec(path: Path) -> JobSpec:
    try:
        return JobSpec.model_validate_json(path.read_bytes())
    except OSError as error:
        raise UsageError(f"Cannot read the job file {path}: {error.strerror}.") from error
    except ValidationError as error:
        raise UsageError(
            f"The job file {path} is not valid: {error.error_count()} problem(s).",
            "It was written by another version of specdash, or by hand.",
        ) from error


def _cap(prompt: SpecPrompt, spec: JobSpec) -> int:
    return spec.max_tokens if prompt.max_tokens is None else min(prompt.max_tokens, spec.max_tokens)


def _prompt(row: SpecPrompt) -> Prompt:
    messages = tuple(Message(m.role, m.content) for m in row.messages)
    return Prompt(row.key, row.category, messages, row.text, row.max_tokens)


def _model_file(row: SpecModel) -> ModelFile:
    return ModelFile(row.name, row.path, row.content_hash)


def _take_standard_output() -> _Channel:
    sys.stdout.flush()
    descriptor = os.dup(1)
    os.dup2(2, 1)
    return _Channel(descriptor)


def _detach() -> None:
    """Own session; first to go when memory runs out; ends when the worker's pipe closes."""
    if hasattr(os, "setsid") and os.getpgid(0) != os.getpid():
        os.setsid()
    with contextlib.suppress(OSError):
        Path("/proc/self/oom_score_adj").write_text(_OOM_SCORE)
    with contextlib.suppress(OSError):
        if stat.S_ISFIFO(os.fstat(0).st_mode):
            threading.Thread(target=_end_with_worker, name="worker-watch", daemon=True).start()


def _end_with_worker() -> None:
    """Block until the pipe on standard input closes: the worker is gone, and so must we be."""
    with contextlib.suppress(OSError):
        while os.read(0, 4096):
            pass
    os.write(2, b"The worker is gone; the runner ends.\n")
    if hasattr(os, "killpg") and os.getpgid(0) == os.getpid():
        os.killpg(os.getpid(), signal.SIGKILL)  # servers that were started here go too
    os._exit(1)


if __name__ == "__main__":
    sys.exit(main())
