"""What reading prompts costs llama.cpp: seconds of a processor for 512 tokens, by the tokens of one computation, and as one
prompt or four side by side.

The random model of `answers_at_once.py`. One thread, and its own time instead of the clock's, so that other programs disturb
little; the ways take turns and the best round of each counts.
"""

from __future__ import annotations

import os

os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")

import argparse
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))

from answers_at_once import FORMS, HUNDRED_MILLION, build_tiny_gguf, quantised

from engine.gguf.llama import library

TOKENS = 512
# Tokens of a computation, prompts, whether they are read side by side.
WAYS = [(64, 1, False), (128, 1, False), (256, 1, False), (512, 1, False), (128, 4, False), (256, 4, True)]


def read(lib: Any, model: Any, size: int, prompts: int, side_by_side: bool) -> float:
    """Processor seconds for all tokens of the prompts, `size` of them in one computation."""
    each = TOKENS // prompts
    params = lib.llama_context_default_params()
    params.n_ctx, params.n_batch, params.n_ubatch, params.n_seq_max = TOKENS, size, size, prompts
    params.n_threads = params.n_threads_batch = 1
    context = lib.llama_init_from_model(model, params)
    batch = lib.llama_batch_init(size, 0, 1)
    started = time.process_time()
    for first in range(0, TOKENS, size):
        for row in range(size):
            number = first + row
            prompt, place = (number % prompts, number // prompts) if side_by_side else divmod(number, each)
            batch.token[row], batch.pos[row], batch.n_seq_id[row] = 3 + number % 256, place, 1
            batch.seq_id[row][0], batch.logits[row] = prompt, row == size - 1
        batch.n_tokens = size
        assert lib.llama_decode(context, batch) == 0
    lib.llama_synchronize(context)
    spent = time.process_time() - started
    lib.llama_batch_free(batch)
    lib.llama_free(context)
    return spent


def main() -> None:
    """Print a line for each kind of weights."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--forms", default="Q8_0,F16")
    parser.add_argument("--rounds", type=int, default=2)
    asked = parser.parse_args()
    assert set(asked.forms.split(",")) <= set(FORMS)
    lib = library()
    with tempfile.TemporaryDirectory() as folder:
        source = build_tiny_gguf(Path(folder) / "F32.gguf", size=HUNDRED_MILLION)
        for form in asked.forms.split(","):
            params = lib.llama_model_default_params()
            params.n_gpu_layers, params.use_extra_bufts = 0, False
            model = lib.llama_model_load_from_file(os.fsencode(quantised(source, form)), params)
            best = dict.fromkeys(WAYS, float("inf"))
            for _ in range(asked.rounds):
                for way in WAYS:
                    best[way] = min(best[way], read(lib, model, *way))
            for (size, prompts, side_by_side), seconds in best.items():
                how = "side by side" if side_by_side else "one after the other"
                print(
                    f"{form}: {prompts} prompts {how}, {size} tokens at a time: {TOKENS / seconds:.0f} tokens/s",
                    flush=True,
                )
            lib.llama_model_free(model)


if __name__ == "__main__":
    main()
