"""The vocabulary rule of draft-simple, test by test."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from specdash.domain.pairing import PairVerdict, VocabFacts, check_pair, first_different_token

TEXTS = tuple(f"t{i}".encode() for i in range(400))
BASE = VocabFacts(
    vocab_type=2, n_vocab=400, add_bos=False, bos_id=1, add_eos=False, eos_id=2, texts=TEXTS
)


def with_text(token: int, text: bytes) -> VocabFacts:
    return replace(BASE, texts=(*TEXTS[:token], text, *TEXTS[token + 1 :]))


def of_size(n: int) -> VocabFacts:
    return replace(BASE, n_vocab=n, texts=tuple(f"t{i}".encode() for i in range(n)))


def test_the_same_vocabulary_fits() -> None:
    assert check_pair(BASE, BASE) == PairVerdict(True, None, "same vocabulary")


@pytest.mark.parametrize(
    ("target", "draft", "rule", "reason"),
    [
        (
            replace(BASE, vocab_type=1),
            BASE,
            "vocab_type",
            "vocabulary types differ (1 vs 2: target SPM, draft BPE)",
        ),
        (
            replace(BASE, add_bos=True),
            BASE,
            "bos",
            "BOS rules differ: the target adds BOS, the draft does not",
        ),
        (
            BASE,
            replace(BASE, add_bos=True),
            "bos",
            "BOS rules differ: the draft adds BOS, the target does not",
        ),
        (
            replace(BASE, add_bos=True),
            replace(BASE, add_bos=True, bos_id=7),
            "bos",
            "BOS tokens differ (target 1, draft 7)",
        ),
        (
            replace(BASE, add_eos=True),
            replace(BASE, add_eos=True, eos_id=7),
            "eos",
            "EOS tokens differ (target 2, draft 7)",
        ),
        (
            of_size(600),
            of_size(400),
            "vocab_size",
            "sizes differ by 200, at most 128 allowed (target 600, draft 400 tokens)",
        ),
        (BASE, with_text(139, b"x"), "token_text", "token 139 differs: 't139' / 'x'"),
        (
            replace(BASE, vocab_type=0),
            replace(BASE, vocab_type=0),
            "no_vocabulary",
            "neither file holds a vocabulary",
        ),
    ],
)
def test_the_first_failing_test_is_named(
    target: VocabFacts, draft: VocabFacts, rule: str, reason: str
) -> None:
    verdict = check_pair(target, draft)
    assert (verdict.compatible, verdict.failed_rule, verdict.reason) == (False, rule, reason)


def test_earlier_tests_win_over_later_ones() -> None:
    draft = replace(with_text(139, b"x"), add_eos=True)
    assert check_pair(BASE, draft).failed_rule == "eos"


def test_token_ids_nobody_adds_do_not_count() -> None:
    assert check_pair(BASE, replace(BASE, bos_id=9, eos_id=9)).compatible


def test_the_first_five_tokens_do_not_count() -> None:
    assert check_pair(BASE, with_text(4, b"x")).compatible
    assert not check_pair(BASE, with_text(5, b"x")).compatible


def test_sizes_may_differ_by_128_with_a_warning() -> None:
    assert check_pair(of_size(528), of_size(400)).compatible
    assert not check_pair(of_size(529), of_size(400)).compatible
    assert check_pair(of_size(500), of_size(400)).warnings == (
        "the draft lacks the target's last 100 tokens and never proposes them",
    )
    assert check_pair(of_size(400), of_size(500)).warnings == (
        "the draft has 100 tokens more than the target; any it proposes is rejected",
    )


def test_another_pre_tokeniser_is_only_a_warning() -> None:
    verdict = check_pair(replace(BASE, pre="qwen2"), replace(BASE, pre="gpt-2"))
    assert verdict.compatible
    assert verdict.warnings == (
        "pre-tokenisers differ ('qwen2' / 'gpt-2'): drafts may fit less often",
    )


def test_texts_end_at_a_nul_as_c_strings_do() -> None:
    assert check_pair(with_text(50, b"a\0b"), with_text(50, b"a\0c")).compatible


def test_reasons_stay_on_one_line() -> None:
    verdict = check_pair(with_text(9, b"\n\xff"), with_text(9, b"\x1b[31m"))
    assert verdict.reason == "token 9 differs: '\\n\\xff' / '\\x1b[31m'"


@given(st.lists(st.binary(max_size=3), max_size=40), st.lists(st.binary(max_size=3), max_size=40))
def test_the_first_difference_does_not_depend_on_the_side(
    left: list[bytes], right: list[bytes]
) -> None:
    assert first_different_token(left, right) == first_different_token(right, left)
