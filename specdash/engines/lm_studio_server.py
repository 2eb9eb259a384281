"""LM Studio's REST: its models, and loads with their settings read back."""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from specdash.engines.http import (
    HttpServer,
    Json,
    ServerRefusal,
    as_dict,
    as_list,
    count,
    section,
)
from specdash.engines.server_words import model_id
from specdash.errors import EngineError

TITLE = "LM Studio"
LOAD_S = 900.0
SIMPLE = "speculative_draft_simple"
MTP = "speculative_draft_mtp"
DRAFT_MODEL = "speculative_draft_model"
DRAFT_MAX = "speculative_draft_max_tokens"
DRAFT_MIN = "speculative_draft_min_tokens"
DRAFT_P = "speculative_draft_min_continue_probability"
SPECULATIVE_KEYS = frozenset({SIMPLE, MTP, DRAFT_MODEL, DRAFT_MAX, DRAFT_MIN, DRAFT_P})
LATER_KEYS = SPECULATIVE_KEYS | {"parallel", "ttl_seconds"}
"""Load settings that the vendor's page does not name and older versions refuse."""

_NO_SUCH_MODEL = "specdash-asks-which-settings-you-know"


@dataclass(frozen=True, slots=True)
class LmModel:
    """A model LM Studio has on disk; ``instances`` are loaded ones, id -> settings."""

    key: str
    name: str
    facts: Mapping[str, object]
    instances: Mapping[str, Mapping[str, Json]]


class LmStudioServer:
    """One LM Studio. ``has_v1``: it loads and unloads over REST (0.4.0 and newer)."""

    def __init__(self, http: HttpServer) -> None:
        self.http = http
        self.has_v1 = False

    def models(self) -> tuple[LmModel, ...]:
        """All models but embeddings, by the newest list the server has."""
        try:
            listed = as_dict(self.http.get_json("/api/v1/models"), f"The model list of {TITLE}")
        except ServerRefusal as error:
            if error.status not in (404, 405):
                raise
        else:
            if isinstance(listed.get("models"), list):
                self.has_v1 = True
                rows = [r for r in listed["models"] if isinstance(r, dict)]
                return tuple(_model_v1(r) for r in rows if r.get("type") != "embedding")
        listed = as_dict(self.http.get_json("/api/v0/models"), f"The model list of {TITLE}")
        rows = as_list(listed.get("data"), f"The model list of {TITLE}")
        return tuple(
            _model_v0(r) for r in rows if isinstance(r, dict) and r.get("type") != "embeddings"
        )

    def refused_keys(self, keys: Iterable[str]) -> frozenset[str]:
        """Those of ``keys`` that this version does not take when it loads a model.

        Settings are looked at before the model is looked for, so a load of a model that does not
        exist asks without loading anything.
        """
        left = set(keys)
        refused: set[str] = set()
        while left:
            body = {"model": _NO_SUCH_MODEL, **{key: _PROBE_VALUES[key] for key in left}}
            try:
                answer = self.http.post_json("/api/v1/models/load", body)
            except ServerRefusal as error:
                if "unrecognized_keys" not in error.body and "nrecognized key" not in error.body:
                    return frozenset(refused)
                named = {key for key in left if re.search(rf"\b{key}\b", error.body)} or set(left)
                refused |= named
                left -= named
            else:
                if isinstance(answer, dict):
                    self.unload(str(answer.get("instance_id")))
                return frozenset(refused)
        return frozenset(refused)

    def load(self, body: Mapping[str, Json]) -> str:
        """Load a model with these settings; the id of the instance."""
        answer = as_dict(
            self.http.post_json("/api/v1/models/load", body, timeout_s=LOAD_S),
            f"What {TITLE} loaded",
        )
        instance = answer.get("instance_id")
        if not isinstance(instance, str) or not instance:
            raise EngineError(
                f"{TITLE} at {self.http.url} does not name the instance it loaded.",
                "Update LM Studio.",
            )
        return instance

    def unload(self, instance: str) -> None:
        """Unload one instance; one that is gone already is no error."""
        try:
            self.http.post_json(
                "/api/v1/models/unload", {"instance_id": instance}, timeout_s=LOAD_S
            )
        except ServerRefusal as error:
            if error.status not in (400, 404):
                raise

    def instances(self, key: str) -> Mapping[str, Mapping[str, Json]]:
        """Loaded instances of a model."""
        return next((m.instances for m in self.models() if m.key == key), {})


def unlike(asked: Mapping[str, Json], loaded: Mapping[str, Json]) -> str | None:
    """Which speculative setting did not take effect, in words; ``None`` if all did.

    A setting the server does not show is not held against it.
    """
    for key in sorted(SPECULATIVE_KEYS & asked.keys() & loaded.keys()):
        want, got = asked[key], loaded[key]
        if key == DRAFT_MODEL:
            same = isinstance(got, str) and bool(got) and (want in got or got in want)
        elif isinstance(want, bool) or isinstance(got, bool):
            same = want is got
        else:
            same = isinstance(got, int | float) and abs(got - want) < 1e-6
        if not same:
            return f"{TITLE} was asked for {key} = {want} and loaded the model with {got}."
    return None


_PROBE_VALUES: Mapping[str, Json] = {
    SIMPLE: True,
    MTP: False,
    DRAFT_MODEL: _NO_SUCH_MODEL,
    DRAFT_MAX: 3,
    DRAFT_MIN: 0,
    DRAFT_P: 0.0,
    "parallel": 1,
    "ttl_seconds": 60,
}


def _model_v1(row: Mapping[str, Json]) -> LmModel:
    key = model_id(row.get("key"), TITLE)
    instances = row.get("loaded_instances")
    return LmModel(
        key=key,
        name=str(row.get("display_name") or key),
        facts=_known(
            architecture=row.get("architecture"),
            quantization=section(row, "quantization").get("name"),
            size_bytes=count(row, "size_bytes"),
            params=row.get("params_string"),
            format=row.get("format"),
            n_ctx=count(row, "max_context_length"),
        ),
        instances={
            str(i.get("id")): section(i, "config")
            for i in (instances if isinstance(instances, list) else [])
            if isinstance(i, dict)
        },
    )


def _model_v0(row: Mapping[str, Json]) -> LmModel:
    key = model_id(row.get("id"), TITLE)
    return LmModel(
        key=key,
        name=key,
        facts=_known(
            architecture=row.get("arch"),
            quantization=row.get("quantization"),
            format=row.get("compatibility_type"),
            n_ctx=count(row, "max_context_length"),
        ),
        instances={key: {}} if row.get("state") == "loaded" else {},
    )


def _known(**facts: object) -> dict[str, object]:
    return {name: value for name, value in facts.items() if value is not None}
