"""Keys and words of METHOD 9."""

import pytest

from specdash.domain.comparability import (
    ARM_KEY_FIELDS,
    BASE_KEY_FIELDS,
    arm_key,
    base_key,
    comparable,
    differences,
    lasting_arm_key,
    shown,
)

BASE: dict[str, object] = {
    "target_hash": "3f2a9c1188aa",
    "machine_fingerprint": "box",
    "n_ctx": 4096,
    "n_threads": 2,
    "n_threads_batch": 2,
    "stop_rule": "natural",
    "prompt_set_hash": "0011223344556677",
}
CALL = {"method": "ngram-simple", "size_n": 3, "size_m": 8}
ARM: dict[str, object] = {
    "engine": "llama-cpp",
    "engine_version": "0.3.36",
    "engine_commit": "0c1e57098",
    "method": "ngram-simple",
    "parameters": {"calls": [CALL]},
}


@pytest.mark.parametrize("field", BASE_KEY_FIELDS)
def test_every_base_field_changes_the_key_and_is_named(field: str) -> None:
    other = {**BASE, field: "another"}
    assert base_key(other) != base_key(BASE)
    found = comparable(BASE, other)
    assert not found.is_comparable
    assert [d.field for d in found.differences] == [field]
    assert found.differences[0].label in found.words


@pytest.mark.parametrize("field", ARM_KEY_FIELDS)
def test_every_arm_field_changes_the_key(field: str) -> None:
    assert arm_key({**ARM, field: "another"}) != arm_key(ARM)


def test_order_of_fields_and_absent_fields_change_nothing() -> None:
    assert base_key(dict(reversed(BASE.items()))) == base_key(BASE)
    assert base_key({**BASE, "chat_template_hash": None}) == base_key(BASE)


def test_a_field_of_another_key_is_refused() -> None:
    with pytest.raises(ValueError, match="not fields of this key: method"):
        base_key({**BASE, "method": "off"})


def test_words_name_the_field_and_both_values() -> None:
    found = comparable(BASE, {**BASE, "n_ctx": 2048, "stop_rule": None})
    assert found.words == (
        "Not comparable because of context length: 4096 / 2048; stop rule: natural / unknown."
    )
    assert comparable(BASE, dict(BASE)).words == (
        "Comparable: same target, machine, settings and prompts."
    )


def test_arms_may_differ_and_the_difference_is_shown() -> None:
    other = {**ARM, "parameters": {"calls": [{**CALL, "size_n": 4}], "cold": "anew"}}
    (found,) = differences(ARM, other)
    assert found.words() == (
        "drafting parameters: ngram-simple: size_m=8, size_n=3 / "
        "ngram-simple: size_m=8, size_n=4; cold=anew"
    )


def test_each_method_of_a_chain_shows_its_own_parameters() -> None:
    draft = {"method": "draft-simple", "model": "0123456789abcdef", "n_max": 3}
    words = shown("parameters", {"calls": [CALL, draft]})
    assert words == "ngram-simple: size_m=8, size_n=3 + draft-simple: model=01234567, n_max=3"
    assert shown("draft_hash", "0123456789+ffffffffff") == "01234567+ffffffff"


def test_hashes_are_shown_short() -> None:
    (found,) = differences(BASE, {**BASE, "target_hash": "ffffffffffffffff"})
    assert found.words() == "target model: 3f2a9c11 / ffffffff"


def test_a_new_engine_build_stays_in_the_trend() -> None:
    newer = {**ARM, "engine_version": "0.4.0", "engine_commit": "abc", "build_flags": "AVX512"}
    assert arm_key(newer) != arm_key(ARM)
    assert lasting_arm_key(newer) == lasting_arm_key(ARM)
    assert lasting_arm_key({**ARM, "draft_gpu_layers": 9}) != lasting_arm_key(ARM)
