from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from fixtures.errors import fails

from engine.core.errors import ModelError
from engine.encoders.hardware import Hardware
from engine.encoders.model_folder import ModelFolder
from engine.encoders.transformer import TransformerEncoder
from engine.training.config import TrainingConfig
from engine.training.data import TrainingData
from engine.training.model.lora import lora_parameters, target_modules, write_adapter
from engine.training.model.student import Student

CPU = Hardware(
    "cpu",
    "float32",
    1,
    (),
)


def architecture(kind: str) -> Any:
    import transformers as t

    small = {
        "hidden_size": 32,
        "num_hidden_layers": 2,
        "num_attention_heads": 2,
        "intermediate_size": 48,
        "vocab_size": 50,
    }
    decoder = {
        **small,
        "num_key_value_heads": 1,
        "head_dim": 16,
    }
    made: dict[str, Any] = {
        "bert": lambda: t.BertModel(t.BertConfig(**small)),
        "roberta": lambda: t.RobertaModel(t.RobertaConfig(**small)),
        "mpnet": lambda: t.MPNetModel(t.MPNetConfig(**small)),
        "modernbert": lambda: t.ModernBertModel(t.ModernBertConfig(**small, pad_token_id=0)),
        "qwen2": lambda: t.Qwen2Model(
            t.Qwen2Config(**{k: v for k, v in decoder.items() if k != "head_dim"})
        ),
        "mistral": lambda: t.MistralModel(t.MistralConfig(**decoder)),
    }
    return made[kind]()


@pytest.mark.parametrize(
    ("kind", "endings"),
    [
        (
            "bert",
            [
                "query",
                "key",
                "value",
                "attention.output.dense",
                "intermediate.dense",
                "output.dense",
            ],
        ),
        (
            "roberta",
            [
                "query",
                "key",
                "value",
                "attention.output.dense",
                "intermediate.dense",
                "output.dense",
            ],
        ),
        ("mpnet", ["attn.q", "attn.k", "attn.v", "attn.o", "intermediate.dense", "output.dense"]),
        ("modernbert", ["attn.Wqkv", "attn.Wo", "mlp.Wi", "mlp.Wo"]),
        ("qwen2", ["q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"]),
        ("mistral", ["q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"]),
    ],
)
def test_lora_goes_on_attention_and_feed_forward(kind: str, endings: list[str]) -> None:
    found = target_modules(architecture(kind))
    assert len(found) == 2 * len(endings)
    assert all(any(name.endswith(ending) for name in found) for ending in endings)
    assert not any("pooler" in name or "embed" in name for name in found)


def test_a_model_without_blocks_is_refused() -> None:
    with fails(ModelError, "model-unsupported"):
        target_modules(torch.nn.Sequential(torch.nn.Linear(3, 3)))


def test_a_fresh_adapter_changes_nothing(
    tiny: ModelFolder, recipe: TrainingConfig, data: TrainingData
) -> None:
    student = Student(tiny, recipe, CPU)
    with torch.no_grad():
        vectors = student.forward(student.chunk_rows(data.chunks[:20])).numpy()
    np.testing.assert_allclose(
        vectors,
        TransformerEncoder.load(tiny, hardware=CPU).encode_chunks(data.chunks[:20]),
        atol=2e-6,
    )


def test_only_lora_is_trainable(tiny: ModelFolder, recipe: TrainingConfig) -> None:
    student = Student(tiny, recipe, CPU)
    trainable = [name for name, p in student.transformer.named_parameters() if p.requires_grad]
    assert len(trainable) == 2 * 2 * 6  # A and B, two layers, six projections
    assert all("lora_" in name for name in trainable)
    assert sum(p.numel() for p in lora_parameters(student.transformer).values()) == 2 * 16 * (
        4 * 64 + 2 * 96
    )


def test_masters_stay_float32_beside_bfloat16_weights(
    tiny: ModelFolder, recipe: TrainingConfig
) -> None:
    student = Student(
        tiny,
        recipe,
        Hardware("cpu", "bfloat16", 1, ()),
    )
    assert {p.dtype for p in student.transformer.parameters()} == {torch.bfloat16}
    name, master = next(iter(student.masters.items()))
    before = master.detach().clone()
    with torch.no_grad():
        for _ in range(1000):
            master += 1e-6  # far below bfloat16's resolution, as a small learning rate is
    student.publish()
    assert (master - before).mean().item() == pytest.approx(1e-3, rel=0.05)
    working = dict(zip(student.masters, student.working, strict=True))[name]
    assert torch.equal(working.detach(), master.detach().to(torch.bfloat16))


def test_a_saved_adapter_gives_the_students_vectors(
    tiny: ModelFolder, recipe: TrainingConfig, data: TrainingData, tmp_path: Path
) -> None:
    student = Student(tiny, recipe, CPU)
    with torch.no_grad():
        for number, master in enumerate(student.masters.values()):
            master += 0.3 * torch.randn(
                master.shape, generator=torch.Generator().manual_seed(number)
            )
    student.publish()
    write_adapter(
        tmp_path / "adapter",
        student.adapter_settings,
        student.snapshot(),
    )
    with torch.no_grad():
        wanted = student.forward(student.chunk_rows(data.chunks[:20])).numpy()
    loaded = TransformerEncoder.load(
        tiny, adapter=tmp_path / "adapter", hardware=CPU
    ).encode_chunks(data.chunks[:20])
    np.testing.assert_allclose(
        loaded,
        wanted,
        atol=5e-6,
    )
    base = TransformerEncoder.load(tiny, hardware=CPU).encode_chunks(data.chunks[:20])
    assert np.abs(base - wanted).max() > 1e-2
    assert str(tiny.path) not in (tmp_path / "adapter" / "adapter_config.json").read_text()


def test_dropout_is_off_unless_the_recipe_has_it(
    tiny: ModelFolder, recipe: TrainingConfig, data: TrainingData
) -> None:
    def varies(**changes: Any) -> bool:
        student = Student(
            tiny,
            replace(recipe, **changes),
            CPU,
        )
        with torch.no_grad():
            for master in student.masters.values():
                master += 0.1
        student.publish()
        student.training_mode()
        rows = student.chunk_rows(data.chunks[:5])
        with torch.no_grad():
            return not torch.equal(student.forward(rows), student.forward(rows))

    assert not varies()
    assert varies(lora_dropout=0.5)
    assert varies(model_dropout=True)


def test_long_texts_are_cut_and_empty_ones_survive(
    tiny: ModelFolder, recipe: TrainingConfig
) -> None:
    student = Student(
        tiny,
        replace(recipe, max_tokens=16),
        CPU,
    )
    assert [len(row) for row in student.chunk_rows(["contract " * 50, "heat"])] == [16, 3]
    with torch.no_grad():
        norms = student.forward(student.chunk_rows(["", "\ud800", "heat"])).norm(dim=1)
    assert torch.allclose(norms, torch.ones(3), atol=1e-5)
