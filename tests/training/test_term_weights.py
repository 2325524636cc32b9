"""Learning the weights of query words: the loss by hand, and what is learned."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from engine.training.term_weights import BATCH, PENALTY, Example, batch_loss, learn_weights, pad


def example(terms: list[int], parts: list[list[float]], cosines: list[float], right: int, rest: float = 0.0) -> Example:
    columns = np.arange(len(cosines))
    return Example(
        np.array(terms), np.array(parts, np.float32).reshape(len(terms), len(cosines)),
        np.full(len(cosines), rest, np.float32), np.array(cosines, np.float32), columns == right,
    )  # fmt: skip


def test_the_loss_is_that_of_the_formula() -> None:
    batch = pad([example([0, 1], [[2.0, 0.0], [0.0, 1.0]], [0.1, 0.3], right=0)], 2)
    thetas, scales = torch.tensor([math.log(0.5), 0.0]), torch.tensor([math.log(2.0), math.log(10.0)])
    first, second = 2 * (0.5 * 2.0) + 10 * 0.1, 2 * 1.0 + 10 * 0.3  # z of both chunks: 3 and 5
    wanted = math.log(1 + math.exp(second - first)) + PENALTY * math.log(0.5) ** 2 / BATCH
    assert batch_loss(thetas.double(), scales.double(), batch).item() == pytest.approx(wanted, rel=1e-6)


def test_a_word_that_misleads_counts_less_and_none_counts_more() -> None:
    """Word 0 stands in the right chunk, word 1 in a wrong one, word 2 in no query."""
    examples = [example([0, 1], [[3.0, 0.0], [0.0, 3.0]], [0.3, 0.3], right=0)] * 640
    weights = learn_weights(examples, 3, seed=0)
    assert weights[0] == 1.0
    assert weights[1] < 0.4
    assert weights[2] == 1.0
    assert learn_weights(examples, 3, seed=0).tolist() == weights.tolist()


def test_learning_can_be_stopped() -> None:
    def stop() -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        learn_weights([example([0], [[1.0, 0.0]], [0.0, 0.0], right=0)], 1, 0, stop)
