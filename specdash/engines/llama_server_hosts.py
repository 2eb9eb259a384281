"""Where an arm's llama-server comes from: one of ours, or one that somebody else runs."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

from specdash.domain.arms import Arm
from specdash.engines.base import ArmReadiness, GenerationSettings, ModelFile
from specdash.engines.llama_server_client import LlamaServerClient, ServerModel
from specdash.engines.llama_server_process import ServerProcess


@dataclass(frozen=True, slots=True)
class ServedArm:
    """A server that is ready to run one arm, and what it says about speculation."""

    client: LlamaServerClient
    speculates: bool | None
    """``None`` where the build does not say."""
    why_not: str | None = None
    """Its own words where it serves without the speculation it was asked for."""
    process: ServerProcess | None = None
    """``None`` where somebody else runs it."""
    beside: tuple[int, ...] = ()
    """Process ids of our other servers that stay loaded meanwhile."""
    flags: tuple[str, ...] = ()
    """What every run of it carries."""
    n_max: int | None = None


class ServerHost(Protocol):
    """Gives the engine a server per arm."""

    def load(
        self, target: ModelFile, drafts: Mapping[str, ModelFile], settings: GenerationSettings
    ) -> Mapping[str, object]:
        """Make the target available; facts about who serves it."""
        ...

    @property
    def model(self) -> ServerModel: ...

    @property
    def client(self) -> LlamaServerClient:
        """A server of the target, to ask about texts."""
        ...

    def check_arm(self, arm: Arm) -> ArmReadiness: ...

    def serve(self, arm: Arm, n_parallel: int = 1) -> ServedArm:
        """A server in its cold state, where that can be had."""
        ...

    def close(self) -> None: ...


def refused(rule: str, reason: str) -> ArmReadiness:
    """The arm cannot run here."""
    return ArmReadiness(False, reason, rule)
