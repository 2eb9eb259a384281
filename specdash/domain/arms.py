"""Arms: a method with its parameters, written ``METHOD[:key=value,...]``, chained with ``+``."""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

from specdash.domain.methods import METHODS, Method, Param, ParamValue
from specdash.domain.workload import content_hash
from specdash.errors import UsageError

OFF = "off"
_SPECIAL = re.compile(r'[,:=+\s"#]')
_REPLICA = re.compile(r"^(?P<text>.*)#(?P<n>[0-9]+)$", re.DOTALL)


@dataclass(frozen=True, slots=True)
class MethodCall:
    """One method with every parameter resolved, in the method's own order."""

    method: str
    params: tuple[tuple[str, ParamValue], ...] = ()

    def get(self, name: str) -> ParamValue | None:
        return dict(self.params).get(name)

    @property
    def draft_model(self) -> str | None:
        value = self.get("model")
        return value if isinstance(value, str) else None

    @property
    def n_max(self) -> int:
        """Largest draft it may propose; 0 for ``off``."""
        fixed = METHODS[self.method].fixed_draft
        if fixed is not None:
            return fixed
        budgets = (v for k, v in self.params if k in ("n_max", "size_m", "num_pred_tokens"))
        return max((int(v) for v in budgets), default=0)


@dataclass(frozen=True, slots=True)
class Arm:
    """One or more calls tried left to right. ``replica`` > 1 is a repeat of the same arm (A/A)."""

    calls: tuple[MethodCall, ...]
    replica: int = 1
    written: str | None = field(default=None, compare=False)
    """As a person wrote it, without the replica mark; shown back to them, no part of identity."""

    @property
    def is_off(self) -> bool:
        return self.calls[0].method == OFF

    @property
    def is_baseline(self) -> bool:
        return self.is_off and self.replica == 1

    @property
    def draft_models(self) -> tuple[str, ...]:
        """Draft references in order, each once."""
        found = (c.draft_model for c in self.calls)
        return tuple(dict.fromkeys(m for m in found if m is not None))

    @property
    def n_max(self) -> int:
        """Largest draft any call may propose; 0 for ``off``."""
        return max((c.n_max for c in self.calls), default=0)

    def text(self) -> str:
        """For people: as written, else only what differs from the defaults, and the draft."""
        if self.written is not None:
            return self.written + self._replica_mark
        return self._render(lambda m, k, v: v != _param(m, k).default)

    def full_text(self) -> str:
        """Every parameter written out; parses back to the same arm."""
        return self._render(lambda _m, _k, _v: True)

    def _render(self, keep: Callable[[Method, str, ParamValue], bool]) -> str:
        parts = []
        for call in self.calls:
            method = METHODS[call.method]
            shown = [f"{k}={_quote(v)}" for k, v in call.params if keep(method, k, v)]
            parts.append(f"{call.method}:{','.join(shown)}" if shown else call.method)
        return "+".join(parts) + self._replica_mark

    @property
    def _replica_mark(self) -> str:
        return f"#{self.replica}" if self.replica > 1 else ""

    def canonical(self, draft_hashes: Mapping[str, str]) -> list[dict[str, ParamValue]]:
        """Identity as data: keys sorted, defaults written out, drafts by content hash.

        ``draft_hashes`` maps every name in :attr:`draft_models` to its content hash.
        """
        return [
            {
                "method": c.method,
                **{k: draft_hashes[str(v)] if k == "model" else v for k, v in sorted(c.params)},
            }
            for c in self.calls
        ]

    def identity(self, draft_hashes: Mapping[str, str]) -> str:
        """Hash of :meth:`canonical`; replicas share it."""
        return content_hash(self.canonical(draft_hashes))[:16]


OFF_ARM = Arm((MethodCall(OFF),))


def parse_arm(text: str) -> Arm:
    """Parse an arm. :class:`UsageError` names the unknown key or the value out of range."""
    stripped = text.strip()
    replica = 1
    match = _REPLICA.match(stripped)
    if match and not _inside_quotes(stripped, match.start("n")):
        replica = int(match["n"])
        stripped = match["text"]
        if replica < 1:
            raise UsageError(f"Arm '{text}': the number after '#' starts at 1.")
    if not stripped:
        raise UsageError("An arm is empty.", f"Write one of: {', '.join(METHODS)}.")
    calls = tuple(_parse_call(part) for part in _split(stripped, "+"))
    if len(calls) > 1 and any(c.method == OFF for c in calls):
        raise UsageError(f"Arm '{text}': 'off' cannot be chained with a method.")
    names = [c.method for c in calls]
    if len(set(names)) != len(names):
        raise UsageError(f"Arm '{text}': a method may stand only once in a chain.")
    return Arm(calls, replica, written=stripped)


def with_baseline(arms: list[Arm]) -> list[Arm]:
    """The arms with ``off`` first, added when it is not named.

    A second mention of the same arm becomes its next replica (``off#2``), so that every arm of an
    experiment has its own text.
    """
    used: dict[tuple[MethodCall, ...], set[int]] = {}
    numbered: list[Arm] = []
    for arm in arms:
        taken = used.setdefault(arm.calls, set())
        free = next(n for n in range(1, len(arms) + 1) if n not in taken)
        replica = arm.replica if arm.replica not in taken else free
        taken.add(replica)
        numbered.append(replace(arm, replica=replica))
    others = [a for a in numbered if not a.is_baseline]
    return [OFF_ARM, *others]


def _parse_call(text: str) -> MethodCall:
    head, *rest = _split(text, ":", maxsplit=1)
    name = head.strip()
    method = METHODS.get(name)
    if method is None:
        raise UsageError(f"Unknown method '{name}'.", f"Known methods: {', '.join(METHODS)}.")
    given: dict[str, ParamValue] = {}
    for item in _split(rest[0], ",") if rest and rest[0].strip() else []:
        key, *value = _split(item, "=", maxsplit=1)
        key = key.strip()
        param = method.param(key)
        if param is None:
            allowed = ", ".join(p.name for p in method.params) or "none"
            raise UsageError(f"{name}: unknown key '{key}'.", f"Allowed keys: {allowed}.")
        if not value:
            raise UsageError(f"{name}: '{key}' has no value.", f"Write {key}=VALUE.")
        if key in given:
            raise UsageError(f"{name}: '{key}' is given twice.")
        given[key] = _convert(name, param, _unquote(value[0].strip()))
    return make_call(name, given)


def make_call(name: str, given: Mapping[str, ParamValue]) -> MethodCall:
    """A call with defaults filled in. :class:`UsageError` when a value cannot be."""
    method = METHODS[name]
    params: list[tuple[str, ParamValue]] = []
    for param in method.params:
        value = given.get(param.name, param.default)
        if value is None or value == "":
            if param.required:
                raise UsageError(
                    f"{name} needs '{param.name}'.", f"Write {name}:{param.name}=NAME. {param.help}"
                )
            continue
        if param.kind is float and isinstance(value, int):
            value = float(value)  # 0 and 0.0 are one arm, and hash alike
        _check_range(name, param, value)
        params.append((param.name, value))
    values = dict(params)
    low, high = values.get("n_min"), values.get("n_max")
    if low is not None and high is not None and float(low) > float(high):
        raise UsageError(
            f"{name}: n_min={low} is above n_max={high}.", "No draft could ever be long enough."
        )
    return MethodCall(name, tuple(params))


def _convert(method: str, param: Param, text: str) -> ParamValue:
    if param.kind is str:
        return text
    try:
        return float(text) if param.kind is float else int(text)
    except ValueError:
        kind = "a number" if param.kind is float else "a whole number"
        raise UsageError(
            f"{method}: {param.name}='{text}' is not {kind}.", f"Allowed: {param.range_text}."
        ) from None


def _check_range(method: str, param: Param, value: ParamValue) -> None:
    if param.minimum is None or param.maximum is None or isinstance(value, str):
        return
    # Written so that NaN, which compares false with everything, is refused too.
    if not param.minimum <= value <= param.maximum:
        raise UsageError(
            f"{method}: {param.name}={value} is out of range.", f"Allowed: {param.range_text}."
        )


def _param(method: Method, name: str) -> Param:
    return next(p for p in method.params if p.name == name)


def _quote(value: ParamValue) -> str:
    if isinstance(value, float):
        short = f"{value:g}"
        return short if float(short) == value else repr(value)
    text = str(value)
    if isinstance(value, int) or (text and not _SPECIAL.search(text)):
        return text
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


def _unquote(text: str) -> str:
    if len(text) >= 2 and text.startswith('"') and text.endswith('"'):
        # Other backslashes stay: people quote Windows paths as they are.
        return re.sub(r'\\(["\\])', r"\1", text[1:-1])
    return text


def _inside_quotes(text: str, position: int) -> bool:
    inside = False
    index = 0
    while index < position:
        if inside and text[index] == "\\":
            index += 1
        elif text[index] == '"':
            inside = not inside
        index += 1
    return inside


def _split(text: str, separator: str, maxsplit: int = -1) -> list[str]:
    """Split outside double quotes; inside them a backslash escapes the next character."""
    parts: list[str] = []
    start = 0
    inside = False
    index = 0
    while index < len(text):
        char = text[index]
        if inside and char == "\\":
            index += 1
        elif char == '"':
            inside = not inside
        elif char == separator and not inside and (maxsplit < 0 or len(parts) < maxsplit):
            parts.append(text[start:index])
            start = index + 1
        index += 1
    if inside:
        raise UsageError(f"Arm '{text}': a double quote is not closed.")
    parts.append(text[start:])
    return parts
