"""Launch commands, word for word, and whether a llama-server takes its own."""

from dataclasses import replace
from pathlib import Path

import pytest

from specdash.advisor.decision import Launch
from specdash.advisor.launch import Files, launches, llama_server
from specdash.domain.arms import parse_arm
from specdash.engines.base import GenerationSettings
from specdash.engines.llama_server_binary import ServerBinary, parse_help

SETTINGS = GenerationSettings(n_ctx=2048, n_threads=2)
FILES = Files(
    "/models/my target.gguf",
    "target",
    {"d": "/models/d.gguf", "e": "/models/e.gguf"},
)
SERVER = (
    "llama-server --model '/models/my target.gguf' --ctx-size 2048 --parallel 1 --batch-size 2048 "
    "--ubatch-size 512 --threads 2 --threads-batch 2 --cache-type-k f16 --cache-type-v f16 "
    "--n-gpu-layers 0 --flash-attn auto --fit off "
)
NO_SERVER = "No llama-server runs on this machine: these are the flags of b11434."
WEIGHTS = (
    "vLLM serves the original weights, not the GGUF: put their repository or folder in place of "
    "each model's name."
)


def _launches(arm: str) -> dict[str, Launch]:
    return {entry.engine: entry for entry in launches(parse_arm(arm), FILES, SETTINGS)}


@pytest.mark.parametrize(
    ("arm", "flags"),
    [
        ("off", "--spec-type none"),
        (
            "ngram-simple:size_n=3,size_m=8",
            "--spec-type ngram-simple --spec-ngram-simple-size-n 3 --spec-ngram-simple-size-m 8",
        ),
        (
            "ngram-map-k4v:min_hits=2",
            "--spec-type ngram-map-k4v --spec-ngram-map-k4v-size-n 12 "
            "--spec-ngram-map-k4v-size-m 48 --spec-ngram-map-k4v-min-hits 2",
        ),
        (
            "ngram-mod",
            "--spec-type ngram-mod --spec-ngram-mod-n-match 24 --spec-ngram-mod-n-min 48 "
            "--spec-ngram-mod-n-max 64",
        ),
        ("ngram-cache", "--spec-type ngram-cache"),
        (
            "draft-simple:model=d,n_max=4,p_min=0.75",
            "--spec-type draft-simple --spec-draft-n-max 4 --spec-draft-n-min 0 "
            "--spec-draft-p-min 0.75 --spec-draft-model /models/d.gguf --spec-draft-ngl 0 "
            "--spec-draft-type-k f16 --spec-draft-type-v f16 --spec-draft-threads 2 "
            "--spec-draft-threads-batch 2",
        ),
        (
            "draft-mtp:n_max=2",
            "--spec-type draft-mtp --spec-draft-n-max 2 --spec-draft-n-min 0 "
            "--spec-draft-p-min 0.0 --spec-draft-ngl 0 "
            "--spec-draft-type-k f16 --spec-draft-type-v f16 "
            "--spec-draft-threads 2 --spec-draft-threads-batch 2",
        ),
    ],
)
def test_llama_server_gets_every_value_written_out(arm: str, flags: str) -> None:
    entry = _launches(arm)["llama-server"]
    assert entry.text == SERVER + flags + " --host 127.0.0.1 --port 8080"
    assert entry.note == NO_SERVER


def test_llama_server_chains_and_says_its_own_order() -> None:
    entry = _launches("ngram-cache+draft-simple:model=d")["llama-server"]
    assert entry.text is not None
    assert "--spec-type ngram-cache,draft-simple " in entry.text
    assert entry.note == NO_SERVER
    turned = _launches("draft-simple:model=d+ngram-cache")["llama-server"]
    assert turned.note is not None
    assert "always asks n-gram methods before a draft" in turned.note


HELP = """\
-m, --model FNAME              model
-c, --ctx-size N               context
-np, --parallel N              slots
-b, --batch-size N             batch
-ub, --ubatch-size N           micro-batch
-t, --threads N                threads
-tb, --threads-batch N         threads
-ctk, --cache-type-k TYPE      K
-ctv, --cache-type-v TYPE      V
-ngl, --gpu-layers N           layers
-fa, --flash-attn              enable flash attention
-nr, --no-repack               no repacking
--metrics                      counts
--slots                        slots
-md, --model-draft FNAME       draft
--draft-max N                  most
--draft-min N                  least
--draft-p-min P                probability
-ngld, --gpu-layers-draft N    layers
-ctkd, --cache-type-k-draft T  K
-ctvd, --cache-type-v-draft T  V
-td, --threads-draft N         threads
-tbd, --threads-batch-draft N  threads
"""
OLD_SERVER = ServerBinary(Path("/opt/old/llama-server"), "b4000", None, "", parse_help(HELP))


def test_the_command_has_the_flags_of_the_binary_that_is_there() -> None:
    files = replace(FILES, server=OLD_SERVER, repack=False, server_args="--mlock --spec-x 1")
    settings = replace(SETTINGS, flash_attn="on")
    entry = llama_server(parse_arm("draft-simple:model=d,n_max=4"), files, settings)
    assert entry.text == (
        "/opt/old/llama-server --model '/models/my target.gguf' --ctx-size 2048 --parallel 1 "
        "--batch-size 2048 --ubatch-size 512 --threads 2 --threads-batch 2 --cache-type-k f16 "
        "--cache-type-v f16 --gpu-layers 0 --flash-attn --no-repack --draft-max 4 --draft-min 0 "
        "--draft-p-min 0.0 --model-draft /models/d.gguf --gpu-layers-draft 0 "
        "--cache-type-k-draft f16 --cache-type-v-draft f16 --threads-draft 2 "
        "--threads-batch-draft 2 --mlock --spec-x 1 --host 127.0.0.1 --port 8080"
    )
    assert entry.note == (
        "Flags as b4000 has them. Left out is what only a benchmark needs: --metrics --slots."
    )


@pytest.mark.parametrize(
    ("arm", "flash_attn", "words"),
    [
        ("ngram-mod", "on", "has no --spec-type: it only drafts with a model."),
        ("off", "auto", "cannot choose flash attention by itself."),
    ],
)
def test_what_the_binary_cannot_do_is_said_in_place_of_a_command(
    arm: str, flash_attn: str, words: str
) -> None:
    settings = replace(SETTINGS, flash_attn=flash_attn)
    entry = llama_server(parse_arm(arm), replace(FILES, server=OLD_SERVER), settings)
    assert entry.text is None
    assert entry.note is not None
    assert words in entry.note


def test_gpu_layers_below_zero_mean_all() -> None:
    settings = GenerationSettings(gpu_layers=-1, draft_gpu_layers=-1)
    entry = launches(parse_arm("draft-simple:model=d"), FILES, settings)[0]
    assert entry.text is not None
    assert "--n-gpu-layers all" in entry.text
    assert "--spec-draft-ngl all" in entry.text


def test_prompt_lookup_is_a_snippet_that_python_reads() -> None:
    entry = _launches("prompt-lookup:max_ngram_size=3,num_pred_tokens=8")["llama-cpp"]
    assert entry.text == (
        "from llama_cpp import Llama\n"
        "from llama_cpp.llama_speculative import LlamaPromptLookupDecoding\n"
        "\n"
        "llm = Llama(\n"
        "    model_path='/models/my target.gguf',\n"
        "    n_ctx=2048,\n"
        "    n_batch=2048,\n"
        "    n_ubatch=512,\n"
        "    n_threads=2,\n"
        "    n_threads_batch=2,\n"
        "    n_gpu_layers=0,\n"
        "    logits_all=True,\n"
        "    draft_model=LlamaPromptLookupDecoding(max_ngram_size=3, num_pred_tokens=8),\n"
        ")\n"
    )
    compile(entry.text, "snippet", "exec")


def test_llama_cpp_python_gets_a_command_for_what_its_class_does_not_offer() -> None:
    entry = _launches("ngram-simple:size_n=3,size_m=8")["llama-cpp"]
    assert entry.language == "bash"
    assert entry.text == (
        "python -m specdash run --target target --workload WORKLOAD --arm "
        "ngram-simple:size_n=3,size_m=8 --engine llama-cpp --n-ctx 2048 --threads 2 "
        "--gpu-layers 0 --draft-gpu-layers 0 --kv-type f16 --flash-attn auto"
    )
    assert entry.note is not None
    assert "offers prompt lookup only" in entry.note


def test_llama_cpp_python_has_nothing_for_drafts_from_hidden_states() -> None:
    entry = _launches("draft-eagle3:model=e")["llama-cpp"]
    assert (entry.text, entry.note) == (
        None,
        "draft-eagle3 needs llama-server; the library lacks it.",
    )


def test_lm_studio_settings_carry_its_names() -> None:
    entry = _launches("draft-simple:model=d,n_max=4,p_min=0.5")["lm-studio"]
    assert entry.text == (
        "Draft model: d\n"
        "Max draft tokens: 4\n"
        "Min draft tokens: 0\n"
        "Draft probability (Drafting Probability Cutoff): 0.5"
    )
    assert entry.note is not None
    assert "'Manually choose model load parameters'" in entry.note
    assert entry.note.endswith(
        "lms load target --speculative-draft-simple --speculative-draft-model d "
        "--speculative-draft-max-tokens 4 --speculative-draft-min-tokens 0 "
        "--speculative-draft-min-continue-probability 0.5"
    )
    assert _launches("ngram-mod")["lm-studio"].text is None
    assert _launches("off")["lm-studio"].text == "Speculative Decoding: off"


@pytest.mark.parametrize(
    ("arm", "config", "note"),
    [
        (
            "draft-simple:model=d,n_max=5",
            '{"method": "draft_model", "model": "d", "num_speculative_tokens": 5}',
            WEIGHTS,
        ),
        (
            "draft-eagle3:model=e,n_max=2,p_min=0.3",
            '{"method": "eagle3", "model": "e", "num_speculative_tokens": 2}',
            f"{WEIGHTS} vLLM has no p_min 0.3.",
        ),
        ("draft-mtp", '{"method": "mtp", "num_speculative_tokens": 3}', WEIGHTS),
        (
            "prompt-lookup",
            '{"method": "ngram", "num_speculative_tokens": 10, "prompt_lookup_max": 2, '
            '"prompt_lookup_min": 1}',
            f"{WEIGHTS} Its n-gram lookup is the nearest to prompt-lookup, not the same.",
        ),
        (
            "ngram-simple:size_n=4,size_m=16",
            '{"method": "ngram", "num_speculative_tokens": 16, "prompt_lookup_max": 4, '
            '"prompt_lookup_min": 4}',
            f"{WEIGHTS} Its n-gram lookup is the nearest to ngram-simple, not the same.",
        ),
    ],
)
def test_vllm_gets_a_speculative_config(arm: str, config: str, note: str) -> None:
    entry = _launches(arm)["vllm"]
    assert entry.text == f"vllm serve target --speculative-config '{config}'"
    assert entry.note == note


@pytest.mark.parametrize(
    ("arm", "flags"),
    [
        (
            "draft-simple:model=d,n_max=3",
            "--speculative-algorithm STANDALONE --speculative-draft-model-path d "
            "--speculative-num-steps 3 --speculative-eagle-topk 1 --speculative-num-draft-tokens 4",
        ),
        (
            "draft-mtp:n_max=2",
            "--speculative-algorithm NEXTN --speculative-num-steps 2 --speculative-eagle-topk 1 "
            "--speculative-num-draft-tokens 3",
        ),
        (
            "prompt-lookup",
            "--speculative-algorithm NGRAM --speculative-num-draft-tokens 10 "
            "--speculative-ngram-max-match-window-size 2",
        ),
    ],
)
def test_sglang_gets_its_flags(arm: str, flags: str) -> None:
    assert _launches(arm)["sglang"].text == (
        f"python -m sglang.launch_server --model-path target {flags}"
    )


@pytest.mark.parametrize("engine", ["vllm", "sglang"])
def test_an_engine_without_the_method_says_so(engine: str) -> None:
    for arm, words in (
        ("ngram-mod", "has nothing like ngram-mod."),
        ("ngram-simple+draft-simple:model=d", "runs one speculative method at a time."),
    ):
        entry = _launches(arm)[engine]
        assert entry.text is None
        assert entry.note is not None
        assert entry.note.endswith(words)


def test_llama_server_says_so_where_it_cannot_run_a_chain() -> None:
    arm = parse_arm("draft-simple:model=d+draft-eagle3:model=d")
    entry = llama_server(arm, FILES, GenerationSettings())
    assert (entry.text, entry.note) == (None, "llama-server takes one draft at a time.")
