"""Replay of arms with draft models that really draft, in the very passes of a run (METHOD 8).

Import this module only in a child process.
"""

from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, closing
from dataclasses import replace
from pathlib import Path

from specdash.domain.arms import Arm, MethodCall
from specdash.drafting.base import Drafter
from specdash.drafting.draft_simple import DraftSimple, draft_parameters
from specdash.drafting.factory import make_chain
from specdash.drafting.replay import ReplayCounters, replay_chain
from specdash.drafting.replay_file import RecordedText, ReplayJob
from specdash.engines.base import GenerationSettings
from specdash.engines.draft_oracle import require_known
from specdash.engines.llama_cpp_context import LlamaContext
from specdash.engines.llama_cpp_model import LlamaModel
from specdash.errors import UnsupportedError


def replay_drafting(
    paths: Mapping[str, Path],
    jobs: Sequence[ReplayJob],
    settings: GenerationSettings,
    progress: Callable[[float], None],
) -> list[ReplayCounters]:
    """Counters of every job. ``paths`` are the files of the drafts by reference, each loaded once.

    Settings are those a draft has in a run, but for the context, which fits the longest text.
    :class:`UsageError` for ids that a draft does not know.
    """
    longest = max(len(t.prompt_ids) + len(t.output_ids) + arm.n_max for t, arm in jobs)
    sized = replace(settings, n_ctx=longest + 1)
    with ExitStack() as stack:
        contexts: dict[str, LlamaContext] = {}
        for ref, path in paths.items():
            model = stack.enter_context(closing(LlamaModel(str(path), name=path.name)))
            texts = [(t.prompt_ids, t.output_ids) for t, arm in jobs if ref in arm.draft_models]
            require_known(model, texts)
            contexts[ref] = stack.enter_context(closing(LlamaContext(model, sized)))
        found = []
        for text, arm in jobs:
            found.append(_replay(text, arm, contexts))
            progress(len(found) / len(jobs))
        return found


def _replay(text: RecordedText, arm: Arm, contexts: Mapping[str, LlamaContext]) -> ReplayCounters:
    def make(call: MethodCall) -> Drafter:
        context = contexts.get(call.draft_model or "")
        if context is None:
            raise UnsupportedError(f"{call.method} cannot be replayed.")
        context.clear()
        # The target is not here; recorded ids are its own, so nothing beyond them is accepted.
        n_vocab = context.model.n_vocab
        return DraftSimple(
            context, draft_parameters(call), n_vocab_target=n_vocab, n_vocab_draft=n_vocab
        )

    return replay_chain(
        text.prompt_ids,
        text.output_ids,
        arm,
        make_chain(arm, make),
        n_predict=text.n_predict,
        n_ctx=text.n_ctx,
        eog_ids=text.eog_ids,
    )
