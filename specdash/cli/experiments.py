"""Options of ``run``, ``queue`` and ``compare``; ``measure``, which loads scipy, does the work."""

from collections.abc import Callable
from typing import Annotated

import typer

from specdash.cli.common import JsonOption

_Target = Annotated[str, typer.Option("--target", help="Registered name, path, or 'demo'.")]
_Workload = Annotated[str, typer.Option("--workload", help="Name, or NAME@VERSION.")]
_Arms = Annotated[
    list[str] | None,
    typer.Option(
        "--arm",
        help="METHOD[:key=value,...]; repeat it. 'off' is always added. "
        "Unset: what the server runs.",
    ),
]
_Rounds = Annotated[int, typer.Option(min=1, help="Times each prompt runs per arm.")]
_Precision = Annotated[
    float | None,
    typer.Option(help="Add rounds until each interval ends within this share: 0.03 is 3 %."),
]
_MaxRounds = Annotated[
    int | None, typer.Option(min=1, help="Most rounds with --precision; unset: 10.")
]
_Prompts = Annotated[
    int | None, typer.Option("--prompts", min=1, help="The first N prompts; unset: all.")
]
_MaxTokens = Annotated[int, typer.Option(min=1, help="Most tokens a run generates.")]
_EngineName = Annotated[
    str | None,
    typer.Option("--engine", help="What runs the models; unset: the server's, or llama-cpp."),
]
_Server = Annotated[
    str | None, typer.Option("--server", help="Registered server; unset: the target's, or ours.")
]
_Concurrency = Annotated[
    str | None,
    typer.Option("--concurrency", help="Also measure with so many parallel requests: 2,4,8."),
]
_NCtx = Annotated[int | None, typer.Option("--n-ctx", min=1, help="Context in tokens.")]
_Threads = Annotated[
    int | None, typer.Option(min=1, help="Threads; unset: the CPUs this process may use.")
]
_GpuLayers = Annotated[int, typer.Option(min=-1, help="Layers of the target on the GPU; -1: all.")]
_DraftGpuLayers = Annotated[int, typer.Option(min=-1, help="The same for the draft.")]
_KvType = Annotated[str, typer.Option(help="Type of the KV cache: f16, q8_0, ...")]
_DraftKvType = Annotated[str | None, typer.Option(help="The same for the draft; unset: equal.")]
_DraftThreads = Annotated[
    int | None, typer.Option(min=1, help="Threads of the draft; unset: as the target.")
]
_AnchorEvery = Annotated[
    int,
    typer.Option(min=0, help="Blocks between looks at the machine's own speed; 0: never look."),
]
_Seed = Annotated[
    int | None,
    typer.Option("--seed", min=0, help="Seed of the order of arms; unset: a fresh one."),
]
_FlashAttn = Annotated[str, typer.Option(help="auto, on or off.")]
_IgnoreEos = Annotated[
    bool, typer.Option("--ignore-eos", help="Fixed length: never compared with a natural stop.")
]
_Note = Annotated[str | None, typer.Option(help="A remark kept with the experiment.")]
_Tags = Annotated[list[str] | None, typer.Option("--tag", help="A tag; repeat it.")]


def register(app: typer.Typer) -> None:
    """Add the commands to the tree."""
    app.command("run", help="Measure now and print the verdicts.")(_experiment_command(wait=True))
    app.command("queue", help="Queue the same as run and return at once.")(
        _experiment_command(wait=False)
    )

    @app.command()
    def compare(
        experiments: Annotated[
            list[int],
            typer.Argument(
                min=0, max=2**53, metavar="EXPERIMENT [EXPERIMENT]", help="One or two ids."
            ),
        ],
        json: JsonOption = False,
    ) -> None:
        """Set the arms of one experiment, or the same arms of two, against each other."""
        from specdash.cli.measure import compare as set_against

        set_against(experiments, as_json=json)


def _experiment_command(*, wait: bool) -> Callable[..., None]:
    def command(
        *,
        target: _Target,
        workload: _Workload,
        arm: _Arms = None,
        rounds: _Rounds = 3,
        precision: _Precision = None,
        max_rounds: _MaxRounds = None,
        anchor_every: _AnchorEvery = 8,
        seed: _Seed = None,
        prompts: _Prompts = None,
        max_tokens: _MaxTokens = 256,
        engine: _EngineName = None,
        server: _Server = None,
        concurrency: _Concurrency = None,
        n_ctx: _NCtx = None,
        threads: _Threads = None,
        gpu_layers: _GpuLayers = 0,
        draft_gpu_layers: _DraftGpuLayers = 0,
        kv_type: _KvType = "f16",
        draft_kv_type: _DraftKvType = None,
        draft_threads: _DraftThreads = None,
        flash_attn: _FlashAttn = "auto",
        ignore_eos: _IgnoreEos = False,
        note: _Note = None,
        tag: _Tags = None,
        json: JsonOption = False,
    ) -> None:
        from specdash.cli.engines import parse_levels
        from specdash.cli.measure import queue, run
        from specdash.worker.request import Wish

        wish = Wish(
            target=target,
            workload=workload,
            arms=tuple(arm or ()),
            rounds=rounds,
            precision=precision,
            max_rounds=max_rounds,
            anchor_every=anchor_every,
            order_seed=seed,
            n_prompts=prompts,
            max_tokens=max_tokens,
            engine=engine,
            server=server,
            concurrency=parse_levels(concurrency),
            n_ctx=n_ctx,
            threads=threads,
            gpu_layers=gpu_layers,
            draft_gpu_layers=draft_gpu_layers,
            kv_type=kv_type,
            draft_kv_type=draft_kv_type,
            draft_threads=draft_threads,
            flash_attn=flash_attn,
            ignore_eos=ignore_eos,
            note=note,
            tags=tuple(tag or ()),
        )
        (run if wait else queue)(wish, as_json=json)

    return command
