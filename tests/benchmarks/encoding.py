"""Speed and fidelity of `TransformerEncoder`, against `SentenceTransformer.encode` in float32.

    python tests/benchmarks/encoding.py [--dataset FOLDER] [--limit N] [--rounds N] [--model SPEC]
    [--threads N]

FOLDER is in BEIR layout (corpus.jsonl); without it, synthetic text of varied lengths is made. All
peers run in this one process and take turns; the best of their rounds counts. On a machine that
does other work as well, only the ratio means anything.
"""

from __future__ import annotations

import argparse
import json
import random
import re
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from engine.core.environment import prepare
from engine.encoders.hardware import choose_hardware
from engine.encoders.loading import load_sentence_transformer
from engine.encoders.model_folder import resolve_model
from engine.encoders.transformer import TransformerEncoder

PASSAGE_WORDS = 180
WORDS = re.findall(
    r"\w+",
    "report market contract the of and pressure wing boundary layer agreement party notice court"
    " information which with during because analysis temperature company quarterly supersonic"
    " confidential receiving disclosure a in",
)


def main() -> None:
    options = _options()
    prepare()
    if options.dataset:
        texts = dataset_texts(options.dataset)
    else:
        texts = synthetic_texts(options.limit)
    texts = texts[: options.limit]
    model = resolve_model(options.model)
    hardware = choose_hardware()
    if options.threads:
        hardware = replace(hardware, threads=options.threads)
    for choice in hardware.choices:
        print(f"{choice.setting:8} {choice.value:10} {choice.reason}")
    reference = load_sentence_transformer(
        model,
        hardware.device,
        "float32",
    )
    reference.max_seq_length = model.max_tokens
    fast = TransformerEncoder.load(model, hardware=hardware)
    exact = TransformerEncoder.load(model, hardware=replace(hardware, dtype="float32"))
    peers: dict[str, Callable[[], np.ndarray]] = {
        "SentenceTransformer float32": lambda: reference.encode(texts, normalize_embeddings=True),
        f"TransformerEncoder {hardware.dtype}": lambda: fast.encode_chunks(texts),
        "TransformerEncoder float32": lambda: exact.encode_chunks(texts),
    }
    seconds, vectors = alternate(peers, options.rounds)
    tokens = [len(ids) for ids in fast.text_model.tokenizer(texts)["input_ids"]]
    report(seconds, vectors, texts, tokens)


def alternate(
    peers: dict[str, Callable[[], np.ndarray]], rounds: int
) -> tuple[dict[str, list[float]], dict[str, np.ndarray]]:
    """Let the peers take turns; return the seconds of each round and the vectors of each peer."""
    seconds: dict[str, list[float]] = {name: [] for name in peers}
    vectors: dict[str, np.ndarray] = {}
    for _ in range(rounds):
        for name, encode in peers.items():
            start = time.perf_counter()
            vectors[name] = encode()
            seconds[name].append(time.perf_counter() - start)
    return seconds, vectors


def report(
    seconds: dict[str, list[float]],
    vectors: dict[str, np.ndarray],
    texts: list[str],
    tokens: list[int],
) -> None:
    """Print each peer's speed and vectors, compared with those of the first."""
    first = next(iter(seconds))
    print(
        f"{len(texts)} texts, tokens mean {np.mean(tokens):.0f}, median {np.median(tokens):.0f},"
        f" max {max(tokens)}"
    )
    print(
        f"{'peer':30} {'texts/s':>9} {'ratio':>7} {'ratios by round':>24} {'mean cosine':>12}"
        f" {'least':>8}"
    )
    for name, times in seconds.items():
        cosine = np.sum(vectors[name] * vectors[first], axis=1)
        rounds = zip(
            seconds[first],
            times,
            strict=True,
        )
        ratios = " ".join(f"{base / own:.2f}" for base, own in rounds)
        best = min(seconds[first]) / min(times)
        print(
            f"{name:30} {len(texts) / min(times):9.1f} {best:6.2f}x {ratios:>24} "
            f"{cosine.mean():12.6f} {min(cosine):8.5f}"
        )


def dataset_texts(folder: Path) -> list[str]:
    """Return passages of at most 180 words of a BEIR corpus, in a fixed random order."""
    texts = []
    with (folder / "corpus.jsonl").open(encoding="utf-8") as file:
        for line in file:
            words = json.loads(line)["text"].split()
            for start in range(0, max(1, len(words)), PASSAGE_WORDS):
                texts.append(" ".join(words[start : start + PASSAGE_WORDS]))
    random.Random(0).shuffle(texts)
    return texts


def synthetic_texts(count: int) -> list[str]:
    """Return random words, of log-normal length: median 90 words, one in ten longer than 250."""
    rng = random.Random(0)
    texts = []
    for _ in range(count):
        length = max(1, int(rng.lognormvariate(4.5, 0.8)))
        texts.append(" ".join(rng.choices(WORDS, k=length)))
    return texts


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--dataset",
        type=Path,
        help="a folder in BEIR layout",
    )
    parser.add_argument(
        "--limit",
        type=int,
        default=512,
        help="texts to encode (default 512)",
    )
    parser.add_argument(
        "--rounds",
        type=int,
        default=3,
        help="turns of each peer (default 3)",
    )
    parser.add_argument(
        "--model", default="all-MiniLM-L6-v2", help="a model folder, or the bundled model"
    )
    parser.add_argument(
        "--threads", type=int, default=0, help="threads (default: the physical cores)"
    )
    return parser.parse_args()


if __name__ == "__main__":
    main()
