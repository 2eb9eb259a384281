"""Replay of arms with draft models: they draft again in a child process, each loaded once."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from pydantic import TypeAdapter

from specdash.domain.arms import Arm
from specdash.domain.methods import METHODS
from specdash.drafting.replay import ReplayCounters
from specdash.drafting.replay_file import RecordedText, Replayer, ReplayJob, replay_text
from specdash.engines.probe_client import Progress, ask_replay
from specdash.errors import UnsupportedError

COUNTERS: TypeAdapter[list[ReplayCounters]] = TypeAdapter(list[ReplayCounters])


@dataclass(frozen=True, slots=True)
class DraftReplayRequest:
    """What the child needs: files of the drafts by reference, texts each with its arm in full."""

    drafts: dict[str, str]
    jobs: tuple[tuple[RecordedText, str], ...]
    n_threads: int


_REQUEST: TypeAdapter[DraftReplayRequest] = TypeAdapter(DraftReplayRequest)


def prepare_draft_replay(
    jobs: Sequence[ReplayJob],
    find_draft: Callable[[str], Path],
    n_threads: int,
    progress: Progress | None = None,
) -> Replayer:
    """What replays ``jobs``; those with draft models are drafted anew, in the passes of a run.

    ``find_draft`` gives the file of a reference. The counters are those of a run with as many
    threads. :class:`UnsupportedError` for methods whose drafts depend on the target's hidden
    states; nothing is loaded then.
    """
    for _, arm in jobs:
        for call in arm.calls:
            if not METHODS[call.method].in_process:
                raise UnsupportedError(
                    f"{call.method} cannot be replayed: it drafts from the target's hidden states.",
                    "Measure it with llama-server.",
                )
    own = list(dict.fromkeys(job for job in jobs if job[1].draft_models))
    references = dict.fromkeys(ref for _, arm in own for ref in arm.draft_models)
    paths = {ref: str(find_draft(ref)) for ref in references}
    drafted = dict(zip(own, _draft_again(own, paths, n_threads, progress), strict=True))

    def run(text: RecordedText, arm: Arm) -> ReplayCounters:
        counters = drafted.get((text, arm))
        return replay_text(text, arm) if counters is None else replace(counters, arm=arm)

    return run


def _draft_again(
    jobs: Sequence[ReplayJob], paths: dict[str, str], n_threads: int, progress: Progress | None
) -> list[ReplayCounters]:
    if not jobs:
        return []
    asked = tuple((replace(text, arm=None), arm.full_text()) for text, arm in jobs)
    request = DraftReplayRequest(paths, asked, n_threads)
    answer = ask_replay(_REQUEST.dump_python(request, mode="json"), progress)
    return COUNTERS.validate_python(answer)
