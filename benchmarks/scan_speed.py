"""How long a scan of many small models takes, cold and warm.

    python -m benchmarks.scan_speed [--files 1000]

Writes GGUF files of a small vocabulary into a temporary folder, scans them into a new database and
scans again. Passes with at most 10 s cold and 1 s warm for 1,000 files. Exit status 1 otherwise.
"""

import argparse
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
from gguf import GGUFWriter

from specdash.store.models import scan
from specdash.store.schema import upgrade
from specdash.store.session import make_engine

COLD_S_PER_1000 = 10.0
WARM_S_PER_1000 = 1.0
_TOKENS = [f"token {i}" for i in range(1_000)]


def _write(path: Path, number: int) -> None:
    writer = GGUFWriter(path, "llama")
    writer.add_context_length(2048)
    writer.add_embedding_length(32)
    writer.add_block_count(1)
    writer.add_head_count(4)
    writer.add_tokenizer_model("gpt2")
    writer.add_token_list(_TOKENS)
    writer.add_tensor("token_embd.weight", np.full((1_000, 32), number, dtype=np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def main() -> None:
    """Print seconds and MiB; exit with 1 above the limits."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--files", type=int, default=1_000)
    n_files: int = parser.parse_args().files
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        models = folder / "models"
        models.mkdir()
        for number in range(n_files):
            _write(models / f"model-{number:05d}.gguf", number)
        size = sum(p.stat().st_size for p in models.iterdir())
        url = f"sqlite:///{folder / 'store.sqlite3'}"
        upgrade(url)
        engine = make_engine(url)
        took = []
        for _ in range(2):
            began = time.perf_counter()
            result = scan(engine, [models])
            took.append(time.perf_counter() - began)
            if result.problems:
                sys.exit(f"{result.problems[0].path}: {result.problems[0].reason}")
        engine.dispose()
    cold, warm = took
    print(f"{n_files} files, {size / 2**20:.0f} MiB: cold {cold:.2f} s, warm {warm:.2f} s")
    share = n_files / 1_000
    if cold > COLD_S_PER_1000 * share or warm > WARM_S_PER_1000 * share:
        sys.exit(f"above {COLD_S_PER_1000 * share:g} s cold or {WARM_S_PER_1000 * share:g} s warm")


if __name__ == "__main__":
    main()
