"""llama-servers at addresses that somebody else looks after: measured and left as they are."""

from collections.abc import Mapping

from specdash.domain.arms import Arm
from specdash.engines.base import ArmReadiness, GenerationSettings, ModelFile, ServerAddress
from specdash.engines.http import HttpServer
from specdash.engines.llama_server_client import LlamaServerClient, ServerModel
from specdash.engines.llama_server_flags import KEEPS_STATE
from specdash.engines.llama_server_hosts import ServedArm, refused
from specdash.errors import EngineError


class RemoteServers:
    """One or two servers at addresses that somebody else looks after; nothing is stopped there."""

    def __init__(self, address: ServerAddress) -> None:
        self._address = address
        self._https: list[HttpServer] = []
        self._on: LlamaServerClient | None = None
        self._off: LlamaServerClient | None = None
        self._model: ServerModel | None = None
        self._types: tuple[str, ...] | None = None

    def load(
        self, target: ModelFile, drafts: Mapping[str, ModelFile], settings: GenerationSettings
    ) -> Mapping[str, object]:
        """Connect, and hold what answers against the target that was asked for."""
        address = self._address
        on = self._on = self._connect(address.url)
        model = self._model = on.model()
        _check_name(model, target, address.url)
        off = on
        if address.baseline_url is not None:
            off = self._connect(address.baseline_url)
            baseline = off.model()
            _check_name(baseline, target, address.baseline_url)
            _check_same(model, baseline, address)
        self._off = off
        return {
            "mode": "url",
            "server": address.name,
            "version": model.build,
            "commit": None,
            "build": None,
            "n_parallel": max(len(on.slots()), 1),
            "can_count_steps": on.metrics() is not None,
        }

    @property
    def model(self) -> ServerModel:
        if self._model is None:
            raise EngineError("The llama-server engine holds no model.", "Call load first.")
        return self._model

    @property
    def client(self) -> LlamaServerClient:
        return self._loaded(self._on)

    def check_arm(self, arm: Arm) -> ArmReadiness:
        """``off`` needs a server that does not speculate; ``server`` runs what the address runs."""
        method = arm.calls[0].method
        if arm.is_off:
            if self._loaded(self._off).speculates():
                return refused(
                    "baseline",
                    f"the server at {self._off_url} speculates: start a second one without, and "
                    "register its address as the baseline",
                )
            return ArmReadiness(True, resolved={"calls": arm.canonical({})})
        if method != "server" or len(arm.calls) > 1:
            return refused(
                "method",
                f"the server at {self._address.url} cannot be told to run {method}: name what it "
                "runs, server:label=...",
            )
        resolved: dict[str, object] = {"calls": arm.canonical({})}
        client = self._loaded(self._on)
        ids = client.tokenize("a", add_special=True)
        asked = client.complete(ids, 1, seed=1, temperature=0, ignore_eos=False)
        self._types = asked.spec_types
        if self._types:
            resolved["spec_types"] = list(self._types)
        return ArmReadiness(True, resolved=resolved)

    def serve(self, arm: Arm, n_parallel: int = 1) -> ServedArm:
        client = self._loaded(self._off if arm.is_off else self._on)
        speculates = client.speculates()
        if speculates is None and self._types is not None and not arm.is_off:
            speculates = bool(self._types)
        reason = None
        if not arm.is_off and speculates is False:
            reason = (
                f"The server at {self._address.url} does not speculate: its /slots say so. "
                "Its own log says why."
            )
        return ServedArm(
            client,
            speculates,
            why_not=reason,
            flags=("warm_pool",) if not arm.is_off and KEEPS_STATE & set(self._types or ()) else (),
        )

    def close(self) -> None:
        for http in self._https:
            http.close()
        self._https = []

    @property
    def _off_url(self) -> str:
        return self._address.baseline_url or self._address.url

    def _connect(self, url: str) -> LlamaServerClient:
        http = HttpServer(url, title="llama-server", token=self._address.token)
        self._https.append(http)
        return LlamaServerClient(http)

    @staticmethod
    def _loaded(client: LlamaServerClient | None) -> LlamaServerClient:
        if client is None:
            raise EngineError("The llama-server engine is not connected.", "Call load first.")
        return client


def _check_name(model: ServerModel, target: ModelFile, url: str) -> None:
    if model.is_called(target.path) or model.is_called(target.name):
        return
    raise EngineError(
        f"The server at {url} holds {' / '.join(model.names) or 'a model without a name'}, "
        f"'{target.name}' ({target.path}) was asked for.",
        "Choose the model that the server holds, or start it with this one.",
    )


def _check_same(on: ServerModel, off: ServerModel, address: ServerAddress) -> None:
    """A ratio of two models would be no speed-up of either."""
    if (on.n_params, on.size_bytes, on.n_ctx) != (off.n_params, off.size_bytes, off.n_ctx):
        raise EngineError(
            f"The two servers differ: {address.url} has {_about(on)}, "
            f"{address.baseline_url} has {_about(off)}.",
            "Start both with the same file and context length.",
        )


def _about(model: ServerModel) -> str:
    return f"{model.n_params} parameters in {model.size_bytes} bytes and a context of {model.n_ctx}"
