"""Tokens per second of the real training loop, and their share of the device's matrix speed.

    python tests/benchmarks/training_throughput.py [--shape minilm|decoder-1.5b|tiny] [--device
    auto|cpu|cuda] [--steps N]

The shapes have random weights: MiniLM's, that of Qwen2-1.5B, and a decoder small enough for a test
of this file. Half of the steps warm up (compiling, kernels); the others count. A token costs 2
operations per weight of the blocks' matrices forward, and as many backward, since frozen weights
take no gradient; what GradCache and gradient checkpointing compute twice counts once, as it brings
nothing. The matrix speed is the best of ten products of square matrices in the precision that
training takes.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from fixtures.tiny_decoder import build_tiny_decoder
from fixtures.tiny_model import write_json
from training_step import build_training_data

from engine.core.environment import prepare
from engine.core.events import Choice, Event, TrainStep
from engine.encoders.hardware import Hardware, choose_hardware
from engine.encoders.model_folder import resolve_model
from engine.encoders.model_size import model_size
from engine.training.config import PRESETS
from engine.training.job import Job
from engine.training.trainer import train

DECODERS = {
    "decoder-1.5b": {
        "hidden_size": 1536,
        "intermediate_size": 8960,
        "num_hidden_layers": 28,
        "num_attention_heads": 12,
        "num_key_value_heads": 2,
        "max_position_embeddings": 4096,
    },
    "tiny": {
        "hidden_size": 64,
        "intermediate_size": 128,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "max_position_embeddings": 512,
    },
}


def main() -> None:
    """Train, and print the speed."""
    prepare()
    options = _options()
    hardware = choose_hardware(options.device, purpose="train")
    with tempfile.TemporaryDirectory() as folder:
        if options.shape == "minilm":
            model = resolve_model()
        else:
            model = resolve_model(str(_build_decoder(Path(folder), options.shape)))
        size = model_size(model)
        steps = list[TrainStep]()

        def note(event: Event) -> None:
            if isinstance(event, Choice):
                print(f"{event.setting}: {event.value} ({event.reason})")
            elif isinstance(event, TrainStep):
                steps.append(event)

        # Random decoders diverge at the usual rate. The rate changes nothing about the speed.
        recipe = replace(
            PRESETS["standard"],
            steps=options.steps,
            eval_every=0,
            teacher="bm25",
            learning_rate=1e-6,
        )
        data = build_training_data(argparse.Namespace(dataset=None, queries=2000))
        train(Job(model, data, recipe, hardware, Path(folder) / "checkpoints", note, lambda: False))
        counted = [step.tokens_per_second for step in steps[len(steps) // 2 :]]
        tokens_per_second = sum(counted) / len(counted)
        matrix_speed = measure_matrix_speed(hardware)
    speed = tokens_per_second * 4 * size.in_blocks
    print(
        f"{options.shape}, {hardware.device}, {hardware.dtype}: {tokens_per_second:,.0f} tokens/s,"
        f" {speed / 1e12:.2f} of {matrix_speed / 1e12:.2f} TFLOP/s measured:"
        f" {speed / matrix_speed:.1%}; {steps[-1].memory_mb:,.0f} MB in use"
    )


def measure_matrix_speed(hardware: Hardware) -> float:
    """Return the operations per second of the best of ten matrix products."""
    import torch

    width = 1024 if hardware.device == "cpu" else 8192
    dtype = getattr(torch, hardware.dtype)
    matrix = torch.randn(width, width, device=hardware.device).to(dtype)
    best = float("inf")
    for _ in range(10):
        started = time.perf_counter()
        product = matrix @ matrix
        product[0, 0].item()  # waits for the GPU
        best = min(best, time.perf_counter() - started)
    return 2 * width**3 / best


def _build_decoder(folder: Path, shape: str) -> Path:
    """Put the tiny decoder's tokenizer around a model of another shape, in bfloat16."""
    import json

    import torch
    from transformers import Qwen2Config, Qwen2Model

    model_folder = build_tiny_decoder(folder / "model", "gte-qwen2")
    vocabulary_size = json.loads((model_folder / "config.json").read_text())["vocab_size"]
    torch.manual_seed(0)
    dimensions: dict[str, Any] = DECODERS[shape]
    config = Qwen2Config(
        vocab_size=vocabulary_size,
        use_cache=False,
        **dimensions,
    )
    Qwen2Model(config).to(torch.bfloat16).save_pretrained(model_folder)
    pooling_file = model_folder / "1_Pooling" / "config.json"
    pooling = json.loads(pooling_file.read_text())
    write_json(pooling_file, {**pooling, "word_embedding_dimension": dimensions["hidden_size"]})
    return model_folder


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--shape",
        choices=["minilm", *DECODERS],
        default="minilm",
    )
    parser.add_argument(
        "--device",
        choices=["auto", "cpu", "cuda"],
        default="auto",
    )
    parser.add_argument(
        "--steps",
        type=int,
        default=200,
    )
    return parser.parse_args()


if __name__ == "__main__":
    main()
