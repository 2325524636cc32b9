"""Sizes read from headers are those of the loaded model, and GPUs are counted as the system
lists them.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from engine.encoders.hardware import nvidia_cards
from engine.encoders.model_folder import resolve_model
from engine.encoders.model_size import ModelSize, model_size
from engine.encoders.weights_file import tensor_names, tensor_shapes


def test_the_bundled_model() -> None:
    # 6 blocks of 4 square matrices 384 × 384 and two of 384 × 1536
    size = model_size(resolve_model())
    sides = 6 * (4 * (384 + 384) + 2 * (384 + 1536))
    in_blocks = 6 * (4 * 384 * 384 + 2 * 384 * 1536)
    assert size == ModelSize(22_713_216, 6, 384, 12, sides, 1536, in_blocks)
    assert size.adapter_parameters(16) == 663_552
    assert size.graph_bytes_per_token(256, 4) == 6 * (24 * 384 + 2 * 12 * 256) * 4


def test_the_adapter_is_as_large_as_a_real_one(bundled_lora_parameters: int) -> None:
    assert model_size(resolve_model()).adapter_parameters(16) == bundled_lora_parameters


@pytest.fixture(scope="module")
def bundled_lora_parameters() -> int:
    from transformers import AutoConfig, AutoModel

    from engine.training.config import TrainingConfig
    from engine.training.model.lora import add_lora, lora_parameters

    transformer = AutoModel.from_config(
        AutoConfig.from_pretrained(resolve_model().transformer_path)
    )
    add_lora(transformer, TrainingConfig(lora_rank=16))
    return sum(parameter.numel() for parameter in lora_parameters(transformer).values())


def test_shapes_of_a_weights_file() -> None:
    (file,) = resolve_model().transformer_path.glob("*.safetensors")
    shapes = tensor_shapes(file)
    assert shapes["embeddings.word_embeddings.weight"] == (30522, 384)
    assert tensor_names(file) == shapes.keys()


def add_device(
    folder: Path,
    name: str,
    vendor: str,
    kind: str,
) -> None:
    (folder / name).mkdir()
    (folder / name / "vendor").write_text(vendor + "\n")
    (folder / name / "class").write_text(kind + "\n")


def test_nvidia_cards_are_counted(tmp_path: Path) -> None:
    assert nvidia_cards(tmp_path / "none") == 0
    add_device(tmp_path, "0000:01:00.0", "0x10de", "0x030000")
    add_device(tmp_path, "0000:01:00.1", "0x10de", "0x040300")  # its sound device
    add_device(tmp_path, "0000:02:00.0", "0x10de", "0x030200")
    add_device(tmp_path, "0000:03:00.0", "0x1002", "0x030000")
    (tmp_path / "0000:04:00.0").mkdir()
    assert nvidia_cards(tmp_path) == 2
