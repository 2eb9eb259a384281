"""Where an experiment runs: on this machine, or on the one behind a server's address."""

from pathlib import Path

from specdash.domain.addresses import host_of, is_here
from specdash.engines.base import ServerAddress
from specdash.store.tokens import read_token
from specdash.worker.machine import load_snapshot, machine_facts
from specdash.worker.protocol import SpecServer


class Place:
    """The machine that computes. A server at a loopback address is taken to be on this one."""

    def __init__(self, server: SpecServer | None) -> None:
        self._server = server
        self._host = None
        if server is not None and not is_here(server.url):
            self._host = host_of(server.url)

    @property
    def is_here(self) -> bool:
        return self._host is None

    @property
    def is_server(self) -> bool:
        """Whether somebody else's process computes."""
        return self._server is not None

    def facts(self) -> dict[str, object]:
        """Of a machine elsewhere only its host name is known, which then is its fingerprint."""
        if self._host is None:
            return machine_facts()
        return {"fingerprint": f"host:{self._host}"[:64], "hostname": self._host}

    def snapshot(self) -> dict[str, object] | None:
        """Load, clock and temperature now; ``None`` where they are those of another machine."""
        return load_snapshot() if self._host is None else None

    def address(self) -> ServerAddress | None:
        """With its token, which is read here and nowhere else."""
        server = self._server
        if server is None:
            return None
        return ServerAddress(
            name=server.name,
            url=server.url,
            baseline_url=server.baseline_url,
            arm_text=server.arm_text,
            token=read_token(Path(server.token_path)) if server.token_path else None,
        )
