"""Options of ``calibrate`` and ``recommend``; ``advise``, which loads scipy, does the work."""

from typing import Annotated

import typer

from specdash.cli.common import JsonOption
from specdash.engines.registry import DEFAULT_ENGINE
from specdash.errors import UsageError

_Target = Annotated[str, typer.Option("--target", help="Registered name, path, or 'demo'.")]
_Workload = Annotated[str, typer.Option("--workload", help="Name, or NAME@VERSION.")]
_Drafts = Annotated[
    list[str] | None,
    typer.Option("--draft", help="A draft on offer, plain or trained; repeat it."),
]
_Offered = Annotated[
    list[str] | None,
    typer.Option(
        "--draft",
        help="A draft on offer, plain or trained; repeat it. Unset: every registered one that "
        "fits. 'none': lookup in the text alone.",
    ),
]
_NO_DRAFT = "none"
_Budget = Annotated[
    float, typer.Option(min=0.01, help="Minutes for all of it; what is there then counts.")
]
_MaxTokens = Annotated[int, typer.Option(min=1, help="Most tokens a run generates.")]
_Mix = Annotated[
    str | None,
    typer.Option(
        "--mix", help="Share of each category: json=2,list=1; unset: the workload's own weights."
    ),
]
_EngineName = Annotated[str, typer.Option("--engine", help="Engine that runs the models.")]
_NCtx = Annotated[int | None, typer.Option("--n-ctx", min=1, help="Context in tokens.")]
_Threads = Annotated[
    int | None, typer.Option(min=1, help="Threads; unset: the CPUs this process may use.")
]
_GpuLayers = Annotated[int, typer.Option(min=-1, help="Layers of the target on the GPU; -1: all.")]
_DraftGpuLayers = Annotated[int, typer.Option(min=-1, help="The same for the draft.")]


def register(app: typer.Typer) -> None:
    """Add the commands to the tree."""

    @app.command()
    def calibrate(
        *,
        target: _Target,
        draft: _Drafts = None,
        engine: _EngineName = DEFAULT_ENGINE,
        n_ctx: _NCtx = None,
        threads: _Threads = None,
        gpu_layers: _GpuLayers = 0,
        draft_gpu_layers: _DraftGpuLayers = 0,
        json: JsonOption = False,
    ) -> None:
        """Time passes of every width: what verification and drafts cost on this machine."""
        from specdash.cli.advise import calibrate as measure_costs

        measure_costs(
            target,
            tuple(draft or ()),
            engine=engine,
            n_ctx=n_ctx,
            threads=threads,
            gpu_layers=gpu_layers,
            draft_gpu_layers=draft_gpu_layers,
            as_json=json,
        )

    @app.command()
    def recommend(
        *,
        target: _Target,
        workload: _Workload,
        draft: _Offered = None,
        budget: _Budget = 10.0,
        max_tokens: _MaxTokens = 256,
        mix: _Mix = None,
        engine: _EngineName = DEFAULT_ENGINE,
        n_ctx: _NCtx = None,
        threads: _Threads = None,
        gpu_layers: _GpuLayers = 0,
        draft_gpu_layers: _DraftGpuLayers = 0,
        json: JsonOption = False,
    ) -> None:
        """Which draft to use: predicted, searched, confirmed, with what to type."""
        from specdash.advisor.question import Wanted
        from specdash.cli.advise import recommend as ask_advisor

        ask_advisor(
            Wanted(
                target=target,
                workload=workload,
                drafts=_offered(draft),
                budget_s=60 * budget,
                max_tokens=max_tokens,
                engine=engine,
                mix=_weights(mix),
                n_ctx=n_ctx,
                threads=threads,
                gpu_layers=gpu_layers,
                draft_gpu_layers=draft_gpu_layers,
            ),
            as_json=json,
        )


def _offered(given: list[str] | None) -> tuple[str, ...] | None:
    """``None``: all that fit; :class:`UsageError` where ``none`` stands beside a draft."""
    if not given:
        return None
    if _NO_DRAFT not in given:
        return tuple(given)
    if len(given) > 1:
        raise UsageError(
            "--draft none stands beside another draft.", "Name the drafts on offer, or none."
        )
    return ()


def _weights(text: str | None) -> dict[str, float]:
    """``json=2,list=1`` as weights; :class:`UsageError` names the part that is none."""
    weights: dict[str, float] = {}
    for part in (text or "").split(","):
        if not part.strip():
            continue
        name, _, value = part.rpartition("=")
        name = name.strip()
        try:
            weight = float(value)
        except ValueError:
            name = ""
        if not name:
            raise UsageError(
                f"--mix: '{part.strip()}' is no weight.", "Write CATEGORY=WEIGHT, like json=2."
            )
        if name in weights:
            raise UsageError(f"--mix names '{name}' twice.", "Give each category one weight.")
        weights[name] = weight
    return weights
