"""What every engine takes and gives back.

An engine fills what it really knows and leaves the rest ``None``.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol, runtime_checkable

from specdash.domain.arms import Arm, MethodCall
from specdash.domain.calibration import Calibration, CalibrationPlan
from specdash.domain.counters import RunCounters, Step
from specdash.domain.workload import Message, Prompt

if TYPE_CHECKING:
    from specdash.drafting.model_replay import DraftTable

KV_TYPE_NAMES = ("f32", "f16", "bf16", "q8_0", "q5_1", "q5_0", "q4_1", "q4_0", "iq4_nl")
FLASH_ATTN_NAMES = ("auto", "on", "off")


@dataclass(frozen=True, slots=True)
class ModelFile:
    """A model as the runner needs it: where it lies, and which one it is.

    ``path`` of a model that only a server holds is its id there.
    """

    name: str
    path: str
    content_hash: str


@dataclass(frozen=True, slots=True)
class ServerAddress:
    """A server somebody else runs, by the name it was registered under.

    ``baseline_url`` serves the same target without speculation; ``None`` where one address does
    both, or where only one of the two is to be measured.
    """

    name: str
    url: str
    baseline_url: str | None = None
    arm_text: str | None = None
    """What ``url`` runs; ``None`` where the engine can be told per arm."""
    token: str | None = field(default=None, repr=False)


@dataclass(frozen=True, slots=True)
class GenerationSettings:
    """Settings equal for every arm of an experiment (METHOD 9, base key)."""

    n_ctx: int = 4096
    n_batch: int = 2048
    n_ubatch: int = 512
    n_threads: int = 1
    gpu_layers: int = 0
    draft_gpu_layers: int = 0
    kv_type: str = "f16"
    flash_attn: str = "auto"
    ignore_eos: bool = False
    temperature: float = 0.0
    seed: int = 1
    draft_kv_type: str | None = None
    """KV type of draft models; ``None``: the target's."""
    draft_threads: int | None = None
    """Threads of draft models; ``None``: the target's."""


@dataclass(frozen=True, slots=True)
class PreparedPrompt:
    """What reaches the target, the same in every arm: ids, or the words a server tokenises."""

    key: str
    category: str
    token_ids: tuple[int, ...]
    """Empty where only the server knows them."""
    max_tokens: int
    flags: tuple[str, ...] = ()
    """What every run of this prompt carries: ``capped`` (context), ``no_template``."""
    messages: tuple[Message, ...] = ()
    text: str | None = None


@dataclass(frozen=True, slots=True)
class ArmReadiness:
    """Whether an arm can run here: ``ready`` or ``unsupported``, with the reason in words."""

    ready: bool
    reason: str | None = None
    failed_rule: str | None = None
    resolved: Mapping[str, object] = field(default_factory=dict)
    """Parameters the engine really uses."""


@dataclass(frozen=True, slots=True)
class RunRecord:
    """One generation as the engine saw it. ``steps`` covers every target pass after the prompt."""

    counters: RunCounters
    token_ids: tuple[int, ...]
    """Empty where the engine shows none; texts are then compared instead."""
    text: str
    stop_reason: str
    """``eos``, ``limit`` or ``context``."""
    token_texts: tuple[str, ...] = ()
    """Text of each token; joined it is ``text`` but for UTF-8 sequences split over tokens."""
    refused_texts: Mapping[int, str] = field(default_factory=dict)
    """Text of each token id that was refused, for the hover of the token it gave way to."""
    steps: tuple[Step, ...] | None = None
    drafter_counters: Mapping[str, RunCounters] = field(default_factory=dict)
    """Chained arms: counters per method."""
    proof: bool | None = None
    """Whether the engine can prove that speculation ran; ``None`` for ``off``."""
    proof_reason: str | None = None
    flags: tuple[str, ...] = ()
    peak_rss_bytes: int | None = None


@dataclass(frozen=True, slots=True)
class Sweep:
    """One arm over several prompts with a fixed number of requests in flight.

    ``records`` are in the order of the prompts; ``wall_s`` runs from the first request sent to the
    last token received.
    """

    records: tuple[RunRecord, ...]
    wall_s: float


@dataclass(frozen=True, slots=True)
class SplitFacts:
    """What the target says about the place where a text parts from the ``off`` text (METHOD 7)."""

    control_flips: bool
    """Whether the ``off`` text in chunks without a draft chooses another token there."""
    margin: float
    """Gap of the two best logits in plain decoding there."""
    other_rank: int
    """Place of the other text's token among the plain logits there; 1 is the best."""
    largest_logit_change: float
    """Between plain and chunked decoding, over the positions up to the split."""


@dataclass(frozen=True, slots=True)
class HeldMemory:
    """Most that an engine's processes held at once, in bytes; ``None`` is unknown."""

    peak_rss_bytes: int | None = None
    device_bytes: int | None = None


class Engine(Protocol):
    """A loaded target with its arms. Created, used and closed inside the runner process."""

    name: str

    def load(
        self, target: ModelFile, drafts: Mapping[str, ModelFile], settings: GenerationSettings
    ) -> Mapping[str, object]:
        """Load target and drafts; return engine facts (version, commit, build flags, buffers).

        ``chat_template_hash`` is among the facts where the target has a template.

        Raises :class:`~specdash.errors.ModelError` when a file is missing, corrupt or refused.
        """
        ...

    def prepare(self, prompt: Prompt, max_tokens: int) -> PreparedPrompt:
        """Render the chat template and tokenise; BOS is never doubled."""
        ...

    def check_arm(self, arm: Arm) -> ArmReadiness:
        """Decide by asking the library, before any run, whether the arm can run."""
        ...

    def run(self, arm: Arm, prompt: PreparedPrompt) -> RunRecord:
        """One cold generation: KV memory cleared, drafter state new."""
        ...

    def explain_split(
        self, prompt: PreparedPrompt, off_ids: Sequence[int], on_ids: Sequence[int], chunk: int
    ) -> SplitFacts | None:
        """Force the ``off`` text without a draft, plain and in chunks, up to the first difference.

        ``None`` where the engine shows no logits, or where one text only stops earlier.
        """
        ...

    def close(self) -> None:
        """Free everything; the engine is of no use afterwards."""
        ...


@runtime_checkable
class CalibratingEngine(Engine, Protocol):
    """An engine whose passes can be timed one by one."""

    def calibrate(
        self, text: Sequence[int], plan: CalibrationPlan, progress: Callable[[float], None]
    ) -> Calibration:
        """Time passes after ``text``, of the target and of every draft that fits it.

        ``progress`` goes from 0 to 1. Key fields are left to the caller, who knows the machine.
        """
        ...


@runtime_checkable
class DraftAskingEngine(Engine, Protocol):
    """An engine whose loaded draft models can be asked about given texts."""

    def draft_tables(
        self,
        reference: str,
        texts: Sequence[tuple[Sequence[int], Sequence[int]]],
        calls: Sequence[MethodCall],
        progress: Callable[[float], None],
    ) -> "Sequence[DraftTable]":
        """One table for each text (prompt ids, output ids), enough to replay all the calls.

        ``progress`` goes from 0 to 1, text by text; what it raises ends it.
        """
        ...


@runtime_checkable
class ReplayingEngine(Engine, Protocol):
    """An engine that itself knows what its arms would do on a text."""

    def replay(
        self, arm: Arm, prompt: PreparedPrompt, output_ids: Sequence[int]
    ) -> Sequence[tuple[int, int]]:
        """(drafted, accepted) of every target pass after the prompt."""
        ...


@runtime_checkable
class ParallelEngine(Engine, Protocol):
    """An engine that can serve several requests at once."""

    def sweep(self, arm: Arm, prompts: Sequence[PreparedPrompt], n_parallel: int) -> Sweep:
        """Every prompt once, each cold, ``n_parallel`` of them in flight until none is left."""
        ...


@runtime_checkable
class MeteredEngine(Engine, Protocol):
    """An engine whose processes run on this machine, so that their memory can be looked at."""

    def held(self) -> HeldMemory:
        """Asked once the work is done, before :meth:`close`."""
        ...
