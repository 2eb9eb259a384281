"""Every pair of about twenty real vocabularies, ours against the rule asked of the library."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from specdash.domain.pairing import PairVerdict
from specdash.engines.probe_client import check_pairs, read_vocab
from specdash.gguf.child import HeaderReader
from specdash.gguf.header import ModelKind
from tests.helpers.real_vocabularies import vocabulary_files

# The five tests of common_speculative_are_compatible written down a second time, on the library's
# own answers, in a process of its own: nothing here is shared with the code under test.
_REFERENCE = """
import json, sys
from llama_cpp import llama_cpp as lib

quiet = lib.llama_log_callback(lambda *_: None)
lib.llama_log_set(quiet, None)
lib.llama_backend_init()
found = []
for path in json.load(sys.stdin):
    params = lib.llama_model_default_params()
    params.vocab_only = True
    model = lib.llama_model_load_from_file(path.encode(), params)
    v = lib.llama_model_get_vocab(model)
    found.append((
        lib.llama_vocab_type(v),
        (lib.llama_vocab_get_add_bos(v), lib.llama_vocab_get_add_bos(v) and lib.llama_vocab_bos(v)),
        (lib.llama_vocab_get_add_eos(v), lib.llama_vocab_get_add_eos(v) and lib.llama_vocab_eos(v)),
        [lib.llama_vocab_get_text(v, i) for i in range(lib.llama_vocab_n_tokens(v))],
    ))
    lib.llama_model_free(model)

def compatible(a, b):
    if a[:3] != b[:3] or abs(len(a[3]) - len(b[3])) > 128:
        return False
    n = min(len(a[3]), len(b[3]))
    return a[3][5:n] == b[3][5:n]

print(json.dumps([[compatible(a, b) for b in found] for a in found]))
"""


@pytest.fixture(scope="module")
def files(pytestconfig: pytest.Config) -> list[Path]:
    found = vocabulary_files(Path(pytestconfig.cache.mkdir("specdash_vocabularies")))
    assert len(found) >= 18
    return found


def test_every_pair_gets_the_librarys_answer(files: list[Path]) -> None:
    names = [str(f) for f in files]
    reference = subprocess.run(
        [sys.executable, "-c", _REFERENCE],
        input=json.dumps(names),
        capture_output=True,
        text=True,
        check=True,
    )
    expected = json.loads(reference.stdout)
    verdicts = check_pairs([(t, d) for t in files for d in files])
    ours = iter(verdicts)
    for target, row in zip(files, expected, strict=True):
        for draft, answer in zip(files, row, strict=True):
            verdict = next(ours)
            assert isinstance(verdict, PairVerdict), f"{target.name} + {draft.name}: {verdict}"
            assert verdict.compatible == answer, f"{target.name} + {draft.name}: {verdict.reason}"
            assert (verdict.failed_rule is None) == answer
    assert sum(map(sum, expected)) > len(files)


def test_the_header_reader_sees_the_same_token_lists(files: list[Path]) -> None:
    with HeaderReader() as reader:
        for path in files:
            facts, info = reader.facts([path]), read_vocab(path)
            assert facts.kind == ModelKind.VOCAB_ONLY
            assert facts.n_vocab == info.n_vocab, path.name
