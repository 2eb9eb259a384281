import subprocess
import sys

import numpy as np
import pytest

pytest.importorskip("llama_cpp")

from llama_cpp.llama_speculative import LlamaPromptLookupDecoding

from specdash.drafting.prompt_lookup import PromptLookup


def test_it_proposes_what_the_library_proposes_while_the_history_outgrows_its_buffer() -> None:
    library = LlamaPromptLookupDecoding(max_ngram_size=2, num_pred_tokens=5)
    ids = [(i * i) % 37 for i in range(2600)]
    drafter = PromptLookup(max_ngram_size=2, num_pred_tokens=5)
    drafter.begin(ids[:10])
    for length in (10, 11, 500, 1023, 1024, 1025, 2500):
        expected = library(np.array(ids[: length + 1], dtype=np.intc)).tolist()
        assert drafter.draft(ids[:length], ids[length], 100) == expected


def test_nothing_without_an_earlier_match() -> None:
    assert PromptLookup(2, 10).draft([1, 2, 3], 4, 100) == []


def test_the_native_library_stays_out_of_the_process() -> None:
    code = (
        "import sys; from specdash.drafting.prompt_lookup import PromptLookup; "
        "assert PromptLookup(2, 3).draft([1, 2, 3, 1], 2, 9) == [3, 1, 2]; "
        "assert 'llama_cpp' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
