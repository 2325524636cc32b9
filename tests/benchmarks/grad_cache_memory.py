"""Peak memory of a step with GradCache on the bundled model: 64 lists of 9 chunks of 256 tokens.

    python tests/benchmarks/grad_cache_memory.py [--lists N] [--chunks N] [--tokens N] [--model
    FOLDER]

Every chunk is exactly that long, so that nothing is saved by short ones. The step is the engine's
own: plan, workers, micro-batches, ListNet on lists, gradients. The figure is the highest resident
memory of the whole process.
"""

from __future__ import annotations

import argparse
import re
import sys
import time
from dataclasses import replace
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from engine.core.environment import prepare
from engine.encoders.hardware import choose_hardware
from engine.encoders.model_folder import DEFAULT_MODEL, resolve_model
from engine.training.config import PRESETS

BAR_GB = 3.0
WORDS = re.findall(
    r"\w+", "pressure contract boundary notice wing court report market speed heat agreement layer"
)


def main() -> None:
    """Run one step and print its memory; exit with 1 if that is over the bar."""
    options = _options()
    prepare()
    import torch

    from engine.runs.stage_process import peak_memory_mb
    from engine.training.compute.grad_cache import compute_gradients
    from engine.training.compute.micro_batches import MicroBatch, micro_batches
    from engine.training.compute.plan import free_memory, make_plan
    from engine.training.compute.workers import Workers, choose_workers
    from engine.training.model.student import Student
    from engine.training.objectives import losses

    hardware = choose_hardware(options.device, purpose="train")
    recipe = replace(PRESETS["standard"], max_tokens=options.tokens)
    student = Student(
        resolve_model(options.model),
        recipe,
        hardware,
    )
    plan = make_plan(
        student,
        recipe,
        hardware,
        free_memory(hardware),
    )
    for choice in (*hardware.choices, *plan.choices):
        print(f"{choice.setting:24} {choice.value:10} {choice.reason}")
    if plan.checkpointing:
        student.checkpoint_blocks()
    before = peak_memory_mb()

    texts = [
        " ".join([WORDS[(i + j) % len(WORDS)] for j in range(2 * options.tokens)])
        for i in range(options.lists * options.chunks)
    ]
    queries = student.query_rows(
        [f"which {word} is meant here" for word in WORDS * options.lists][: options.lists]
    )
    rows = queries + student.chunk_rows(texts)
    lengths = [len(row) for row in rows]
    batches = micro_batches(lengths[: options.lists], plan.micro_batch_tokens)
    batches += micro_batches(
        lengths[options.lists :], plan.micro_batch_tokens, offset=options.lists
    )
    is_candidate = (
        torch.eye(options.lists, dtype=torch.bool)
        .repeat_interleave(options.chunks, 1)
        .to(hardware.device)
    )  # (q, c)
    teacher = (
        torch.linspace(10, 1, options.chunks)
        .repeat(options.lists, options.lists)
        .to(hardware.device)
    )  # (q, c)

    def loss(vectors: torch.Tensor) -> torch.Tensor:
        scores = vectors[: options.lists] @ vectors[options.lists :].T
        return losses.listnet(
            scores,
            teacher,
            candidates=is_candidate,
        )

    def forward(micro: MicroBatch) -> torch.Tensor:
        return student.forward([rows[i] for i in micro.places])

    keep_graphs = student.graph_bytes(rows, batches) <= plan.graph_bytes
    worker_count, threads, _ = choose_workers(
        student,
        recipe,
        hardware,
        free_memory(hardware),
    )
    student.training_mode()
    started = time.perf_counter()
    with Workers(worker_count, threads) as workers:
        loss_value, step_gradients = compute_gradients(
            forward,
            student.working,
            batches,
            loss,
            workers,
            keep_graphs=keep_graphs,
            dropout=False,
        )
    seconds = time.perf_counter() - started
    norm = float(torch.stack([gradient.norm() for gradient in step_gradients]).norm())
    peak = peak_memory_mb()
    print(
        f"{options.lists} lists × {options.chunks} chunks × {max(lengths)} tokens in {len(batches)}"
        f" micro-batches, {worker_count} at a time; texts run {'once' if keep_graphs else 'twice'}"
    )
    print(
        f"loss {loss_value:.4f}, gradient {norm:.4f}, {seconds:.1f} s,"
        f" {sum(lengths) / seconds:,.0f} tokens/s"
    )
    print(
        f"peak memory of the process {peak / 1000:.2f} GB (before the step {before / 1000:.2f} GB;"
        f" bar {BAR_GB:g} GB)"
    )
    if hardware.device != "cpu":
        print(f"peak memory on the GPU {torch.cuda.max_memory_allocated() / 1e9:.2f} GB")
    if peak > BAR_GB * 1000:
        sys.exit(1)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--lists",
        type=int,
        default=64,
    )
    parser.add_argument(
        "--chunks",
        type=int,
        default=9,
    )
    parser.add_argument(
        "--tokens",
        type=int,
        default=256,
    )
    parser.add_argument("--model", default=DEFAULT_MODEL)
    parser.add_argument("--device", default="cpu")
    return parser.parse_args()


if __name__ == "__main__":
    main()
