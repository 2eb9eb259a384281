"""Tables of a draft file, from a load of its own."""

from collections.abc import Callable, Sequence
from contextlib import closing
from pathlib import Path

from specdash.domain.arms import MethodCall
from specdash.drafting.model_replay import DraftTable
from specdash.engines.base import GenerationSettings
from specdash.engines.draft_oracle import Text, tables_of
from specdash.engines.llama_cpp_model import LlamaModel


def build_tables(
    draft: Path,
    texts: Sequence[Text],
    calls: Sequence[MethodCall],
    settings: GenerationSettings,
    progress: Callable[[float], None] = lambda _share: None,
) -> list[DraftTable]:
    with closing(LlamaModel(str(draft), name=draft.name)) as model:
        return tables_of(model, texts, calls, settings, progress)
