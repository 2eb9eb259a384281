"""The command line of a llama-server: every value written out, in the words of its build."""

from pathlib import Path

import pytest

from specdash.domain.arms import parse_arm
from specdash.engines.base import GenerationSettings, ModelFile
from specdash.engines.llama_server_binary import ServerBinary, parse_help
from specdash.engines.llama_server_flags import (
    arm_flags,
    common_flags,
    extra_flags,
    in_server_order,
    is_synthetic,
    keeps_state,
    measuring_flags,
    serving_flags,
)
from specdash.errors import UnsupportedError, UsageError

COMMON = """\
-m,    --model FNAME                    model path
-t,    --threads N                      threads
-tb,   --threads-batch N                threads
-c,    --ctx-size N                     context
-b,    --batch-size N                   batch
-ub,   --ubatch-size N                  micro-batch
-ctk,  --cache-type-k TYPE              K
-ctv,  --cache-type-v TYPE              V
-np,   --parallel N                     slots
--metrics                               metrics
--slots                                 slots
-md,   --model-draft FNAME              draft
-ngld, --gpu-layers-draft N             layers of the draft
-ctkd, --cache-type-k-draft TYPE        K of the draft
-ctvd, --cache-type-v-draft TYPE        V of the draft
-td,   --threads-draft N                threads of the draft
-tbd,  --threads-batch-draft N          threads of the draft
"""
NEW = (
    COMMON
    + """\
-ngl,  --gpu-layers, --n-gpu-layers N   layers, a number, 'auto' or 'all'
-fa,   --flash-attn [on|off|auto]       flash attention
--no-ui, --no-webui                     no pages
-cram, --cache-ram N                    cache
-fit,  --fit [on|off]                   fit
-nr,   --no-repack                      no repacking
--spec-type none,draft-simple,draft-eagle3,draft-mtp,draft-dflash,draft-dspark,ngram-simple,\
ngram-map-k,ngram-map-k4v,ngram-mod,ngram-cache
                                        types
--spec-draft-n-max N                    most
--spec-draft-n-min N                    least
--spec-draft-p-min, --draft-p-min P     probability
--spec-ngram-mod-n-min N                least
--spec-ngram-mod-n-max N                most
--spec-ngram-mod-n-match N              match
--spec-ngram-simple-size-n N            n
--spec-ngram-simple-size-m N            m
--spec-ngram-map-k-size-n N             n
--spec-ngram-map-k-size-m N             m
--spec-ngram-map-k-min-hits N           hits
--spec-ngram-map-k4v-size-n N           n
--spec-ngram-map-k4v-size-m N           m
--spec-ngram-map-k4v-min-hits N         hits
"""
)
OLD = (
    COMMON
    + """\
-ngl,  --gpu-layers, --n-gpu-layers N   layers
-fa,   --flash-attn                     enable flash attention
--draft-max, --draft, --draft-n N       most
--draft-min, --draft-n-min N            least
--draft-p-min P                         probability
"""
)
DRAFT = {"D": ModelFile("draft", "/m/draft.gguf", "d")}
SETTINGS = GenerationSettings(n_ctx=2048, n_batch=512, n_ubatch=256, n_threads=3)
OF_THE_DRAFT = (
    "--gpu-layers-draft 0 --cache-type-k-draft f16 --cache-type-v-draft f16"
    " --threads-draft 3 --threads-batch-draft 3"
)


def build(text: str) -> ServerBinary:
    return ServerBinary(Path("/opt/llama-server"), "b1", None, "", parse_help(text))


def flags(text: str, help_text: str = NEW) -> list[str]:
    return arm_flags(build(help_text), parse_arm(text), DRAFT, SETTINGS)


def common(help_text: str = NEW, **changes: object) -> list[str]:
    settings = GenerationSettings(n_ctx=2048, n_batch=512, n_ubatch=256, n_threads=3, **changes)  # type: ignore[arg-type]
    return common_flags(build(help_text), ModelFile("t", "/m/t.gguf", "t"), settings)


def test_what_all_arms_share_is_written_out() -> None:
    assert " ".join(common()) == (
        "--model /m/t.gguf --ctx-size 2048 --parallel 1 --batch-size 512 --ubatch-size 256"
        " --threads 3 --threads-batch 3 --cache-type-k f16 --cache-type-v f16"
        " --n-gpu-layers 0 --flash-attn auto --fit off"
        " --metrics --slots --no-webui --cache-ram 0"
    )


def test_what_serves_is_what_is_measured_without_what_only_a_benchmark_needs() -> None:
    binary, target = build(NEW), ModelFile("t", "/m/t.gguf", "t")
    serving = serving_flags(binary, target, SETTINGS, repack=False)
    assert serving[-3:] == ["--fit", "off", "--no-repack"]
    assert common_flags(binary, target, SETTINGS, repack=False) == [
        *serving,
        *measuring_flags(binary),
    ]
    assert " ".join(measuring_flags(binary)) == "--metrics --slots --no-webui --cache-ram 0"


def test_a_chain_is_put_into_the_order_of_the_server() -> None:
    turned = in_server_order(parse_arm("draft-simple:model=D+ngram-mod"))
    assert [call.method for call in turned.calls] == ["ngram-mod", "draft-simple"]
    assert in_server_order(parse_arm("off")).is_off


def test_the_log_tells_what_became_of_auto_where_a_build_has_that_level() -> None:
    level = "-lv,   --verbosity, --log-verbosity N   threshold:\n      - 4: trace (more info)\n"
    words = common(NEW + level)
    assert words[words.index("--log-verbosity") + 1] == "4"
    assert "--log-verbosity" not in common(NEW + level.replace("4: trace", "4: everything"))


def test_parallel_slots_have_the_context_of_one_each() -> None:
    words = common_flags(build(NEW), ModelFile("t", "/m/t", "t"), SETTINGS, n_parallel=4)
    assert words[words.index("--ctx-size") + 1] == "8192"
    assert words[words.index("--parallel") + 1] == "4"


def test_weights_are_not_repacked_where_the_embedded_engine_cannot() -> None:
    words = common_flags(build(NEW), ModelFile("t", "/m/t", "t"), SETTINGS, repack=False)
    assert "--no-repack" in words


@pytest.mark.parametrize(("layers", "word"), [(12, "12"), (-1, "all")])
def test_layers_below_zero_are_all(layers: int, word: str) -> None:
    words = common(gpu_layers=layers)
    assert words[words.index("--n-gpu-layers") + 1] == word


def test_flash_attention_of_a_build_that_only_has_a_switch() -> None:
    assert "--flash-attn" in common(OLD, flash_attn="on")
    assert "--flash-attn" not in common(OLD, flash_attn="off")
    with pytest.raises(UsageError, match="on or off"):
        common(OLD, flash_attn="auto")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("off", "--spec-type none"),
        (
            "ngram-simple:size_n=3,size_m=8",
            "--spec-type ngram-simple --spec-ngram-simple-size-n 3 --spec-ngram-simple-size-m 8",
        ),
        (
            "ngram-map-k:min_hits=2",
            "--spec-type ngram-map-k --spec-ngram-map-k-size-n 12 --spec-ngram-map-k-size-m 48"
            " --spec-ngram-map-k-min-hits 2",
        ),
        (
            "ngram-map-k4v",
            "--spec-type ngram-map-k4v --spec-ngram-map-k4v-size-n 12"
            " --spec-ngram-map-k4v-size-m 48 --spec-ngram-map-k4v-min-hits 1",
        ),
        (
            "ngram-mod:n_match=8,n_min=2,n_max=16",
            "--spec-type ngram-mod --spec-ngram-mod-n-match 8 --spec-ngram-mod-n-min 2"
            " --spec-ngram-mod-n-max 16",
        ),
        ("ngram-cache", "--spec-type ngram-cache"),
        (
            "draft-simple:model=D",
            "--spec-type draft-simple --spec-draft-n-max 3 --spec-draft-n-min 0"
            f" --spec-draft-p-min 0.0 --model-draft /m/draft.gguf {OF_THE_DRAFT}",
        ),
        (
            "draft-mtp",
            "--spec-type draft-mtp --spec-draft-n-max 3 --spec-draft-n-min 0"
            f" --spec-draft-p-min 0.0 {OF_THE_DRAFT}",
        ),
    ],
)
def test_a_method_with_all_its_values(text: str, expected: str) -> None:
    assert " ".join(flags(text)) == expected


@pytest.mark.parametrize("method", ["draft-eagle3", "draft-dflash", "draft-dspark"])
def test_drafts_made_for_a_target_have_their_own_type(method: str) -> None:
    words = flags(f"{method}:model=D,n_max=7")
    assert words[:4] == ["--spec-type", method, "--spec-draft-n-max", "7"]
    assert words[words.index("--model-draft") + 1] == "/m/draft.gguf"


def test_a_chain_names_its_methods_in_one_list() -> None:
    words = flags("ngram-simple+draft-simple:model=D")
    assert words[1] == "ngram-simple,draft-simple"
    assert "--spec-ngram-simple-size-n" in words
    assert "--spec-draft-n-max" in words


def test_an_older_build_drafts_with_a_model_under_its_own_names() -> None:
    assert " ".join(flags("draft-simple:model=D,n_max=8", OLD)) == (
        f"--draft-max 8 --draft-min 0 --draft-p-min 0.0 --model-draft /m/draft.gguf {OF_THE_DRAFT}"
    )


@pytest.mark.parametrize(
    ("text", "help_text", "reason"),
    [
        ("ngram-mod", OLD, "no --spec-type"),
        ("ngram-mod", COMMON + "--spec-type ngram-simple   types\n", "does not run ngram-mod"),
        ("prompt-lookup", NEW, "does not run prompt-lookup"),
        ("draft-simple:model=D+draft-eagle3:model=D", NEW, "one draft at a time"),
        ("draft-simple:model=D+ngram-mod", NEW, "ngram-mod first"),
        ("draft-simple:model=E", NEW, "'E' was not given"),
    ],
)
def test_what_a_build_cannot_do_is_said(text: str, help_text: str, reason: str) -> None:
    with pytest.raises(UnsupportedError, match=reason):
        flags(text, help_text)


def test_a_missing_flag_is_named() -> None:
    without = NEW.replace("--spec-draft-n-min N ", "--another N ")
    with pytest.raises(UnsupportedError, match="no flag --spec-draft-n-min"):
        flags("draft-simple:model=D", without)


def test_further_flags_for_speculation_stay_away_from_off() -> None:
    text = "--spec-synth-rates 0.7,0.4 --verbosity 4"
    assert extra_flags(text, parse_arm("off")) == ["--verbosity", "4"]
    on = extra_flags(text, parse_arm("ngram-mod"))
    assert on == ["--spec-synth-rates", "0.7,0.4", "--verbosity", "4"]
    assert is_synthetic(on)
    assert not is_synthetic(["--verbosity", "4"])


def test_further_flags_with_an_open_quote_are_refused() -> None:
    with pytest.raises(UsageError, match="SPECDASH_LLAMA_SERVER_ARGS"):
        extra_flags("--alias 'x", parse_arm("off"))


@pytest.mark.parametrize(
    ("text", "keeps"),
    [
        ("off", False),
        ("ngram-simple", False),
        ("draft-simple:model=D", False),
        ("ngram-mod", True),
        ("ngram-cache", True),
        ("ngram-map-k", True),
        ("ngram-map-k4v", True),
        ("ngram-simple+ngram-mod", True),
    ],
)
def test_which_methods_remember_earlier_requests(text: str, keeps: bool) -> None:
    assert keeps_state(parse_arm(text)) is keeps
