"""Replay of arms with draft models: the drafts are asked in a child process, once per file."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from pydantic import TypeAdapter

from specdash.domain.arms import Arm, MethodCall
from specdash.domain.methods import METHODS
from specdash.drafting.model_replay import DraftTable, replay_with_tables
from specdash.drafting.replay import ReplayCounters
from specdash.drafting.replay_file import RecordedText, Replayer, ReplayJob
from specdash.engines.probe_client import Progress, ask_draft
from specdash.errors import UnsupportedError

TABLES: TypeAdapter[list[DraftTable]] = TypeAdapter(list[DraftTable])

_TextKey = tuple[tuple[int, ...], tuple[int, ...]]


@dataclass(frozen=True, slots=True)
class TablesRequest:
    """What the child needs: a draft file, texts as (prompt ids, output ids), the calls."""

    draft: str
    texts: tuple[_TextKey, ...]
    calls: tuple[MethodCall, ...]
    n_threads: int


_REQUEST: TypeAdapter[TablesRequest] = TypeAdapter(TablesRequest)


def prepare_draft_replay(
    jobs: Sequence[ReplayJob],
    find_draft: Callable[[str], Path],
    n_threads: int,
    progress: Progress | None = None,
) -> Replayer:
    """What replays ``jobs``, each draft model having been loaded once for all of them.

    ``find_draft`` gives the file of a reference. :class:`UnsupportedError` for methods whose
    drafts depend on the target's hidden states; nothing is loaded then.
    """
    for _, arm in jobs:
        for call in arm.calls:
            if not METHODS[call.method].in_process:
                raise UnsupportedError(
                    f"{call.method} cannot be replayed: it drafts from the target's hidden states.",
                    "Measure it with llama-server.",
                )
    references = dict.fromkeys(ref for _, arm in jobs for ref in arm.draft_models)
    by_draft = {ref: _tables(jobs, ref, find_draft(ref), n_threads, progress) for ref in references}

    def run(text: RecordedText, arm: Arm) -> ReplayCounters:
        key = (text.prompt_ids, text.output_ids)
        return replay_with_tables(
            text.prompt_ids,
            text.output_ids,
            arm,
            {ref: by_draft[ref][key] for ref in arm.draft_models},
            n_predict=text.n_predict,
            n_ctx=text.n_ctx,
            eog_ids=text.eog_ids,
        )

    return run


def _tables(
    jobs: Sequence[ReplayJob],
    reference: str,
    draft: Path,
    n_threads: int,
    progress: Progress | None,
) -> dict[_TextKey, DraftTable]:
    """Tables of one draft for every text that an arm with it is replayed on."""
    own = [(text, arm) for text, arm in jobs if reference in arm.draft_models]
    texts = tuple(dict.fromkeys((t.prompt_ids, t.output_ids) for t, _ in own))
    calls = tuple(
        dict.fromkeys(c for _, arm in own for c in arm.calls if c.draft_model == reference)
    )
    tables = ask_tables(draft, texts, calls, n_threads, progress)
    return dict(zip(texts, tables, strict=True))


def ask_tables(
    draft: Path,
    texts: Sequence[_TextKey],
    calls: Sequence[MethodCall],
    n_threads: int,
    progress: Progress | None = None,
) -> list[DraftTable]:
    """One table a text, the draft being loaded once, in a child process."""
    request = TablesRequest(str(draft), tuple(texts), tuple(calls), n_threads)
    answer = ask_draft(_REQUEST.dump_python(request, mode="json"), progress)
    return TABLES.validate_python(answer)
