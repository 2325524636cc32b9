"""Pooled vectors as points of hyperbolic space, and what an adapter's folder keeps of that."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.numpy import save_file

from engine.encoders.geometry.lorentz import Lorentz
from engine.encoders.geometry.spaces import Hyperbolic, OwnLengths, read_geometry


def test_points_by_hand() -> None:
    found = Hyperbolic(curvature=1.0, scale=0.5).vectors(
        torch.tensor([[2.0, 0.0], [0.0, -4.0], [0.0, 0.0]])
    )
    assert found.numpy() == pytest.approx(
        np.array([[math.sinh(1), 0], [0, -math.sinh(2)], [0, 0]]), rel=1e-6
    )
    assert Hyperbolic(4.0, 1.0).vectors(torch.tensor([[0.5]])).item() == pytest.approx(
        math.sinh(1) / 2
    )


def test_float16_holds_points_of_the_longest_vectors() -> None:
    vectors = torch.tensor([[1e6, 0.0], [0.0, 20.0]], requires_grad=True)
    found = Hyperbolic(0.1, 1.0).vectors(vectors)
    assert np.isfinite(found.detach().half().numpy()).all()
    lengths = [2**14 / math.sqrt(0.1), math.sinh(20 * math.sqrt(0.1)) / math.sqrt(0.1)]
    assert found.detach().norm(dim=1).tolist() == pytest.approx(lengths, rel=1e-4)
    found.sum().backward()
    assert vectors.grad is not None
    assert torch.isfinite(vectors.grad).all()


def test_an_adapter_is_stored_with_its_space(tmp_path: Path) -> None:
    geometry = Hyperbolic(0.5, 0.1)
    tensors = {"a": np.zeros(1, np.float32)}
    save_file(tensors, tmp_path / "adapter_model.safetensors")
    assert read_geometry(tmp_path) is None
    save_file(
        tensors,
        tmp_path / "adapter_model.safetensors",
        geometry.metadata,
    )
    assert read_geometry(tmp_path) == geometry
    assert geometry.similarity == Lorentz(0.5)
    lengths = OwnLengths(2.0)
    save_file(
        tensors,
        tmp_path / "adapter_model.safetensors",
        lengths.metadata,
    )
    assert read_geometry(tmp_path) == lengths
    stored = lengths.vectors(torch.tensor([[1.5, 2.0]])).half().numpy()
    assert lengths.similarity.restore(stored).tolist() == [[3.0, 4.0]], "the cache keeps lengths"
