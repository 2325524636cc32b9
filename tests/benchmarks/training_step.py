"""One training step of the product beside a plain one, on the same batch, device and threads.

    python tests/benchmarks/training_step.py [--dataset FOLDER] [--queries N] [--negatives N]
    [--rounds N]

Plain: the model in training mode with its own dropouts and its default attention, every chunk
padded to 256 tokens, all chunks in one batch and one graph, operators on all threads. Ours: dropout
0, texts sorted by length into small micro-batches, one per thread, GradCache where the graphs would
not fit. Loss, LoRA layers and optimizer are the same. Each runs in a process of its own, so that
its peak memory can be told; the ratio is what counts on a busy machine. FOLDER is in BEIR layout
(corpus.jsonl); without it, synthetic text with the lengths of news passages is made. A query is
eight words of its chunk.
"""

from __future__ import annotations

import argparse
import json
import random
import re
import resource
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from engine.core.environment import prepare
from engine.encoders.hardware import choose_hardware
from engine.encoders.model_folder import resolve_model
from engine.training.batches import BatchSampler
from engine.training.config import PRESETS, TrainingConfig
from engine.training.data import TrainingData

WORDS = re.findall(
    r"\w+",
    "report market contract the of and pressure wing boundary layer agreement party notice court"
    " information which with during because analysis temperature company quarterly supersonic"
    " confidential receiving disclosure a in",
)
MAX_TOKENS = 256
BAR = 3.0  # times as fast as the plain step


def main() -> None:
    """Measure both, and print; exit with 1 if ours is slower than the bar."""
    options = _options()
    prepare()
    if options.child:
        print(json.dumps(CHILDREN[options.child](options)))
        return
    hardware = choose_hardware("cpu", purpose="train")
    for choice in hardware.choices:
        print(f"{choice.setting:8} {choice.value:10} {choice.reason}")
    results = {name: _run_child(name) for name in CHILDREN}
    for name, result in results.items():
        speed = f"{result['seconds']:7.2f} s a step"
        work = f"{result['tokens']} tokens in {result['padded']} places"
        print(
            f"{name:6} {speed}   peak {result['peak_mb']:6.0f} MB   loss {result['loss']:.4f}  "
            f" {work}"
        )
    ratio = results["plain"]["seconds"] / results["ours"]["seconds"]
    memory = results["ours"]["peak_mb"] / results["plain"]["peak_mb"]
    print(f"ours is {ratio:.1f} times as fast (bar: {BAR:g}), with {memory:.0%} of the memory")
    if ratio < BAR:
        sys.exit(1)


def measure_ours(options: argparse.Namespace) -> dict[str, float]:
    """Measure the engine's own step."""
    import torch

    from engine.training.compute.grad_cache import compute_gradients
    from engine.training.compute.micro_batches import MicroBatch, grid_length, micro_batches
    from engine.training.compute.workers import Workers
    from engine.training.model.student import Student
    from engine.training.objectives.objective import Objective

    data = build_training_data(options)
    recipe = _build_recipe(options)
    hardware = choose_hardware("cpu", purpose="train")
    batch = BatchSampler(data, recipe).batch(0)
    student = Student(
        resolve_model(options.model),
        recipe,
        hardware,
    )
    loss, _ = Objective(recipe, None, "cpu").build_loss(batch)
    masters = list(student.masters.values())
    optimizer = torch.optim.AdamW(masters, lr=recipe.learning_rate)
    queries = student.query_rows([data.queries[i] for i in batch.queries])
    rows = queries + student.chunk_rows([data.chunks[i] for i in batch.chunks])
    lengths = [len(row) for row in rows]
    batches = micro_batches(lengths[: len(queries)], recipe.micro_batch_tokens)
    batches += micro_batches(
        lengths[len(queries) :], recipe.micro_batch_tokens, offset=len(queries)
    )
    graph_limit = (recipe.graph_memory_mb or 512) * 2**20  # bytes
    keep_graphs = student.graph_bytes(rows, batches) <= graph_limit
    student.training_mode()

    def forward(micro: MicroBatch) -> torch.Tensor:
        return student.forward([rows[i] for i in micro.places])

    def step() -> float:
        loss_value, step_gradients = compute_gradients(
            forward,
            student.working,
            batches,
            loss,
            workers,
            keep_graphs=keep_graphs,
            dropout=student.has_dropout,
        )
        for master, gradient in zip(masters, step_gradients, strict=True):
            master.grad = gradient
        optimizer.step()
        student.publish()
        return loss_value

    padded = 0
    for micro in batches:
        longest = max(lengths[i] for i in micro.places)
        padded += len(micro.places) * grid_length(longest)
    with Workers(hardware.threads) as workers:
        return _measure(step, options.rounds) | {"tokens": sum(lengths), "padded": padded}


def measure_plain(options: argparse.Namespace) -> dict[str, float]:
    """Measure one padded batch in one graph, with the model's own dropouts."""
    import torch

    from engine.encoders.loading import load_sentence_transformer
    from engine.training.model.lora import add_lora, lora_parameters
    from engine.training.objectives.objective import Objective

    data = build_training_data(options)
    recipe = _build_recipe(options)
    hardware = choose_hardware("cpu", purpose="train")
    torch.set_num_threads(hardware.threads)
    batch = BatchSampler(data, recipe).batch(0)
    loaded = load_sentence_transformer(
        resolve_model(options.model),
        "cpu",
        hardware.dtype,
    )
    transformer = loaded[0].auto_model
    tokenizer = loaded.tokenizer
    torch.manual_seed(recipe.seed)
    add_lora(transformer, recipe)
    transformer.train()
    loss, _ = Objective(recipe, None, "cpu").build_loss(batch)
    optimizer = torch.optim.AdamW(lora_parameters(transformer).values(), lr=recipe.learning_rate)
    settings = {
        "truncation": True,
        "max_length": MAX_TOKENS,
        "return_tensors": "pt",
    }
    queries = tokenizer(
        [data.queries[i] for i in batch.queries],
        padding=True,
        **settings,
    )
    chunks = tokenizer(
        [data.chunks[i] for i in batch.chunks],
        padding="max_length",
        **settings,
    )

    def encode(inputs: dict[str, torch.Tensor]) -> torch.Tensor:
        hidden = transformer(**inputs).last_hidden_state.float()  # (b, t, d)
        mask = inputs["attention_mask"].unsqueeze(2).float()
        return torch.nn.functional.normalize((hidden * mask).sum(1) / mask.sum(1), dim=1)

    def step() -> float:
        optimizer.zero_grad()
        loss_value = loss(torch.cat([encode(queries), encode(chunks)]))
        loss_value.backward()
        optimizer.step()
        return loss_value.item()

    masks = [inputs["attention_mask"] for inputs in (queries, chunks)]
    counts = {
        "tokens": sum(int(mask.sum()) for mask in masks),
        "padded": sum(mask.numel() for mask in masks),
    }
    return _measure(step, options.rounds) | counts


CHILDREN: dict[str, Callable[[argparse.Namespace], dict[str, float]]] = {
    "plain": measure_plain,
    "ours": measure_ours,
}


def _measure(step: Callable[[], float], rounds: int) -> dict[str, float]:
    """Return the seconds of the fastest round, and the loss of a step before them."""
    loss = step()
    best = float("inf")
    for _ in range(rounds):
        started = time.perf_counter()
        step()
        best = min(best, time.perf_counter() - started)
    return {
        "seconds": best,
        "loss": loss,
        "peak_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
    }


def _run_child(name: str) -> dict[str, float]:
    """Measure in a process of its own."""
    command = [
        sys.executable,
        __file__,
        *sys.argv[1:],
        "--child",
        name,
    ]
    child = subprocess.run(
        command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, check=True
    )
    result: dict[str, float] = json.loads(child.stdout.splitlines()[-1])
    return result


def _build_recipe(options: argparse.Namespace) -> TrainingConfig:
    # Without the base encoder's part in the teacher, which is precomputed and no work of the step.
    return replace(
        PRESETS["standard"],
        queries_per_step=options.queries,
        negatives_per_query=options.negatives,
        teacher_bm25_weight=1.0,
    )


def build_training_data(options: argparse.Namespace) -> TrainingData:
    """Return data of a data set's chunks, or of made ones."""
    rng = random.Random(0)
    if options.dataset:
        with (options.dataset / "corpus.jsonl").open(encoding="utf-8") as lines:
            chunks = [json.loads(line)["text"] for line in lines][:2000]
    else:
        chunks = []
        for _ in range(500):
            word_count = int(rng.lognormvariate(3.6, 0.6))
            chunks.append(" ".join(rng.choices(WORDS, k=max(5, min(220, word_count)))))
    positives = [rng.randrange(len(chunks)) for _ in range(options.queries)]
    queries = [" ".join(rng.choices(chunks[row].split() or ["a"], k=8)) for row in positives]
    ids = np.array([rng.sample(range(len(chunks)), 50) for _ in queries])
    scores = np.linspace(20, 1, 50, dtype=np.float32)[None].repeat(len(ids), 0)
    return TrainingData(
        queries,
        np.array(positives),
        ids,
        scores,
        chunks,
    )


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--dataset",
        type=Path,
        help="folder in BEIR layout",
    )
    parser.add_argument(
        "--queries",
        type=int,
        default=16,
    )
    parser.add_argument(
        "--negatives",
        type=int,
        default=2,
    )
    parser.add_argument(
        "--rounds",
        type=int,
        default=2,
    )
    parser.add_argument("--model", default="all-MiniLM-L6-v2")
    parser.add_argument(
        "--child",
        choices=["ours", "plain"],
        help=argparse.SUPPRESS,
    )
    return parser.parse_args()


if __name__ == "__main__":
    main()
