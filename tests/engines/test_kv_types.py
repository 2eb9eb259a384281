"""The KV types that a request may name are those the library's wrapper knows."""

from specdash.engines.base import FLASH_ATTN_NAMES, KV_TYPE_NAMES
from specdash.engines.llama_cpp_library import FLASH_ATTN, kv_type_id


def test_every_name_has_a_number_of_its_own() -> None:
    assert len({kv_type_id(name) for name in KV_TYPE_NAMES}) == len(KV_TYPE_NAMES)
    assert set(FLASH_ATTN) == set(FLASH_ATTN_NAMES)
