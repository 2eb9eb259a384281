"""A loaded model's vocabulary, and what the library's log becomes."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from specdash.engines.llama_cpp_library import (
    LibraryLog,
    buffer_sizes,
    start_library,
)
from specdash.engines.llama_cpp_model import LlamaModel
from specdash.engines.llama_log import (
    resolved_batches,
    resolved_flash_attn,
    resolved_gpu_layers,
)


@pytest.fixture
def model(tiny_llama: Path) -> Iterator[LlamaModel]:
    start_library()
    made = LlamaModel(str(tiny_llama), name="tiny")
    yield made
    made.close()


def byte_ids(text: str) -> list[int]:
    """Byte tokens of the tiny vocabulary start at 3."""
    return [3 + b for b in text.encode()]


def test_a_character_split_over_tokens_comes_with_its_last_token(model: LlamaModel) -> None:
    assert model.texts(byte_ids("aé!")) == ("a", "", "é", "!")


def test_broken_utf8_becomes_a_replacement_character(model: LlamaModel) -> None:
    assert model.texts([3 + 0xC3]) == ("\ufffd",)
    assert model.texts([3 + 0xC3, 3 + ord("a")]) == ("", "\ufffda")


def test_the_end_token_has_no_text(model: LlamaModel) -> None:
    assert model.texts([*byte_ids("a"), 2]) == ("a", "")


def test_end_tokens_are_asked_of_the_library(model: LlamaModel) -> None:
    assert 2 in model.eog_ids
    assert not model.eog_ids & set(byte_ids("abc"))


def test_vocabulary_facts(model: LlamaModel) -> None:
    facts = model.vocab_facts()
    assert (facts.vocab_type, facts.n_vocab) == (1, 259)
    assert (facts.add_bos, facts.bos_id, facts.eos_id) == (True, 1, 2)
    assert facts.texts[:4] == (b"<unk>", b"<s>", b"</s>", b"<0x00>")


def test_tokenising_adds_bos_once_and_reads_special_text_only_when_told(
    model: LlamaModel,
) -> None:
    assert model.tokenize("ab", add_special=True, parse_special=True) == [1, *byte_ids("ab")]
    assert model.tokenize("<s>a", add_special=True, parse_special=True) == [1, *byte_ids("a")]
    assert model.tokenize("<s>", add_special=False, parse_special=False) == byte_ids("<s>")


def test_a_model_without_a_template_says_none(model: LlamaModel) -> None:
    assert model.chat_template is None
    assert model.special_text("bos") == "<s>"


def test_only_warnings_and_errors_reach_the_log(capsys: pytest.CaptureFixture[str]) -> None:
    log = LibraryLog()
    with log.capture() as lines:
        log.receive(2, b"info\n", None)
        log.receive(3, b"warning\n", None)
        log.receive(5, b"continued\n", None)
        log.receive(4, b"load: error: bad magic\n", None)
    assert lines == ["info\n", "warning\n", "continued\n", "load: error: bad magic\n"]
    assert capsys.readouterr().err == "warning\ncontinued\nload: error: bad magic\n"
    assert log.reason() == "bad magic"


def test_without_an_error_the_reason_says_so() -> None:
    assert LibraryLog().reason() == "the library gave no reason"


def test_reported_buffers_are_summed_by_name() -> None:
    lines = [
        "load_tensors:   CPU_Mapped model buffer size =    92.10 MiB\n",
        "load_tensors:   CPU_Mapped model buffer size =     7.90 MiB\n",
        "llama_kv_cache:        CPU KV buffer size =    90.00 MiB\n",
        "sched_reserve:        CPU compute buffer size =    86.38 MiB\n",
        "print_info: file size   = 92.10 MiB (5.74 BPW)\n",
    ]
    assert buffer_sizes(lines) == {
        "CPU_Mapped model": 100.0,
        "CPU KV": 90.0,
        "CPU compute": 86.38,
    }


@pytest.mark.parametrize(
    ("asked", "lines", "expected"),
    [
        ("on", [], "on"),
        ("off", [], "off"),
        ("auto", ["resolve_fused_ops: Flash Attention enabled\n"], "on"),
        ("auto", ["llama_context: flash_attn = auto\n"], None),
    ],
)
def test_what_became_of_flash_attention(asked: str, lines: list[str], expected: str | None) -> None:
    assert resolved_flash_attn(asked, lines) == expected


@pytest.mark.parametrize(
    ("asked", "lines", "expected"),
    [
        (0, [], 0),
        (33, ["load_tensors: offloaded 33/33 layers to GPU\n"], 33),
        (-1, ["0.00.100.001 I load_tensors: offloaded 31/31 layers to GPU"], 31),
        (
            99,
            ["load_tensors: offloaded 31/31 layers to GPU", "load_tensors: offloaded 9/9 layers"],
            31,
        ),
        (33, ["warning: no usable GPU found, --gpu-layers option will be ignored"], 0),
        (33, ["load_tensors: CPU_Mapped model buffer size = 92.10 MiB"], None),
    ],
)
def test_what_became_of_the_gpu_layers(asked: int, lines: list[str], expected: int | None) -> None:
    assert resolved_gpu_layers(asked, lines) == expected


def test_the_first_context_names_its_batches() -> None:
    lines = [
        "0.00.100.001 I llama_context: n_batch               = 256\n",
        "0.00.100.001 I llama_context: n_ubatch              = 128\n",
        "0.00.200.001 I llama_context: n_batch               = 64\n",
    ]
    assert resolved_batches(lines) == {"n_batch": 256, "n_ubatch": 128}
    assert resolved_batches([]) == {}
