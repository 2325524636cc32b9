"""Pre-training, fine-tuning, or both: where each applies, and what it makes of the other."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest
import torch
from fixtures.errors import fails
from fixtures.shown_numbers import numbers
from fixtures.training import adapter, same
from safetensors.numpy import load_file, save_file

from engine.core.errors import CancelledError, ModelError
from engine.core.events import Choice, Event, TrainStep, Warned
from engine.encoders.hardware import Hardware
from engine.encoders.loading import WHOLE
from engine.encoders.model_folder import ModelFolder
from engine.encoders.transformer import TransformerEncoder
from engine.project.stage import StageContext
from engine.training.config import TrainingConfig
from engine.training.data import TrainingData
from engine.training.job import Job
from engine.training.methods import PRETRAINING, learn
from engine.training.model.student import Student
from engine.training.pretraining.loop import pretrain
from engine.training.pretraining.masked_batches import MaskedBatches
from engine.training.pretraining.mlm_head import MIN_TOKENS, why_unsuitable
from engine.training.trainer import TrainResult, train

CPU = Hardware(
    "cpu",
    "float32",
    2,
    (),
)
pytestmark = pytest.mark.usefixtures("every_step_is_reported")
Pretrain = Callable[..., TrainResult]


def context(reported: list[Event]) -> StageContext:
    nothing = cast(Any, None)
    return StageContext(
        nothing, nothing, nothing, "train", "f", "r", reported.append, lambda: False
    )


# Where it does not apply


def changed(
    tiny: ModelFolder,
    folder: Path,
    change: Callable[[Path], None],
) -> ModelFolder:
    shutil.copytree(tiny.path, folder)
    change(folder)
    return replace(tiny, path=folder)


def make_decoder(folder: Path) -> None:
    from transformers import Qwen2Config

    Qwen2Config(
        vocab_size=99, hidden_size=32, num_hidden_layers=2, num_attention_heads=2
    ).save_pretrained(folder)


def drop_mask_token(folder: Path) -> None:
    for name in ("tokenizer_config.json", "special_tokens_map.json"):
        if (folder / name).is_file():
            content = json.loads((folder / name).read_text())
            content.pop("mask_token", None)
            (folder / name).write_text(json.dumps(content))


def test_it_does_not_apply_to_decoders(
    tiny: ModelFolder, tmp_path: Path, data: TrainingData
) -> None:
    reason = why_unsuitable(changed(tiny, tmp_path / "decoder", make_decoder), data.chunks)
    assert "qwen2" in reason


def test_it_does_not_apply_without_a_mask_token(
    tiny: ModelFolder, tmp_path: Path, data: TrainingData
) -> None:
    reason = why_unsuitable(changed(tiny, tmp_path / "no-mask", drop_mask_token), data.chunks)
    assert reason


def test_it_does_not_apply_to_too_little_text(tiny: ModelFolder) -> None:
    assert why_unsuitable(tiny, ["heat law"] * (MIN_TOKENS // 2)) == ""
    reason = why_unsuitable(tiny, ["heat law"] * (MIN_TOKENS // 2 - 1))
    assert MIN_TOKENS - 2 in numbers(reason)
    assert 0 in numbers(why_unsuitable(tiny, ["☃ ☂"] * MIN_TOKENS))


# All weights


def weights_of(encoder: TransformerEncoder) -> dict[str, np.ndarray]:
    transformer = encoder.text_model.modules[0].auto_model
    return {name: value.detach().numpy().copy() for name, value in transformer.named_parameters()}


def test_all_weights_are_trained_served_and_interpolated(
    go: Pretrain,
    masked: TrainingConfig,
    bare: TrainingData,
    tiny: ModelFolder,
    with_head: ModelFolder,
) -> None:
    one = {
        "pretrain_steps": 1,
        "warmup": 0.0,
        "weight_decay": 0.0,
        "pretrain_learning_rate": 1e-3,
    }
    result = go(
        masked,
        given=bare,
        model=with_head,
        pretrain_weights="all",
        **one,
    )
    held = adapter(result)
    assert not any(value.any() for name, value in held.items() if "lora_B" in name)
    base = weights_of(TransformerEncoder.load(tiny, hardware=CPU))
    after = {
        name.removeprefix(WHOLE): value for name, value in held.items() if name.startswith(WHOLE)
    }
    assert after.keys() == base.keys()
    # AdamW's first step moves every weight that has a gradient by the learning rate, whatever the
    # gradient's size.
    moves = np.concatenate(
        [np.abs(after[name] - base[name]).ravel() for name in base if "pooler" not in name]
    )
    assert moves.max() == pytest.approx(1e-3, rel=1e-3)
    assert (moves > 0.99e-3).mean() > 0.8
    served = weights_of(TransformerEncoder.load(tiny, adapter=result.adapter, hardware=CPU))
    half = weights_of(
        TransformerEncoder.load(tiny, adapter=result.adapter, adapter_scale=0.5, hardware=CPU)
    )
    for name, value in base.items():
        np.testing.assert_array_equal(served[name], after[name])
        np.testing.assert_allclose(
            half[name],
            (value + after[name]) / 2,
            atol=1e-7,
        )


def test_fine_tuning_begins_with_all_weights_that_pre_training_changed(
    tiny: ModelFolder, bare: TrainingData, masked: TrainingConfig, tmp_path: Path
) -> None:
    config = replace(
        masked,
        method="PT-FT",
        pretrain_weights="all",
        steps=2,
    )
    result, _ = learn(
        context([]),
        tiny,
        bare,
        config,
        CPU,
        tmp_path,
    )
    assert result is not None
    before = load_file(tmp_path / PRETRAINING / "adapter" / "adapter_model.safetensors")
    after = adapter(result)
    assert before.keys() == after.keys()
    changed = {name for name in after if not np.array_equal(before[name], after[name])}
    assert changed
    assert all("lora_" in name for name in changed)
    student = Student(tiny, config, CPU)
    student.load({name: torch.from_numpy(value) for name, value in after.items()})
    texts = list(bare.queries[:5])
    with torch.no_grad():
        vectors = student.forward(student.query_rows(texts), student.query_prompt_length)
    encoder = TransformerEncoder.load(
        tiny,
        adapter=result.adapter,
        hardware=CPU,
    )
    np.testing.assert_allclose(
        encoder.encode_queries(texts),
        vectors,
        atol=1e-5,
    )
    untouched = TransformerEncoder.load(tiny, hardware=CPU).encode_queries(texts)
    assert np.abs(encoder.encode_queries(texts) - untouched).max() > 1e-2


def test_weights_of_another_model_are_refused(
    go: Pretrain, masked: TrainingConfig, bare: TrainingData, tiny: ModelFolder
) -> None:
    result = go(
        masked,
        given=bare,
        pretrain_weights="all",
        pretrain_steps=1,
    )
    file = result.adapter / "adapter_model.safetensors"
    save_file({**load_file(file), f"{WHOLE}nowhere.weight": np.zeros(3, np.float32)}, file)
    with fails(ModelError, "adapter-mismatch"):
        TransformerEncoder.load(
            tiny,
            adapter=result.adapter,
            hardware=CPU,
        )


# Methods


def test_pt_ft_begins_with_the_pre_trained_adapter(
    tiny: ModelFolder, data: TrainingData, masked: TrainingConfig, tmp_path: Path
) -> None:
    reported: list[Event] = []
    config = replace(
        masked,
        method="PT-FT",
        steps=1,
        learning_rate=1e-9,
        weight_decay=0.0,
    )
    result, reason = learn(
        context(reported),
        tiny,
        data,
        config,
        CPU,
        tmp_path,
    )
    assert result is not None
    assert reason == ""
    before = load_file(tmp_path / PRETRAINING / "adapter" / "adapter_model.safetensors")
    assert any(value.any() for name, value in before.items() if "lora_B" in name)
    for name, value in adapter(result).items():
        np.testing.assert_allclose(
            value,
            before[name],
            atol=1e-8,
        )
    steps = [(event.step, event.steps) for event in reported if isinstance(event, TrainStep)]
    assert steps == [*((step, 10) for step in range(1, 11)), (1, 1)]
    chosen = {event.setting: event.value for event in reported if isinstance(event, Choice)}
    assert chosen["pre-training"] == "10 steps"
    assert chosen["first adapter"] == "pre-trained"


def test_step_0_of_pt_ft_is_the_pre_trained_model(
    tiny: ModelFolder, data: TrainingData, masked: TrainingConfig, tmp_path: Path
) -> None:
    config = replace(masked, method="PT-FT")
    start = pretrain(Job(tiny, data, config, CPU, tmp_path / "pt")).adapter
    handed = train(Job(tiny, data, config, CPU, tmp_path / "handed", start=start))
    plain = train(Job(tiny, data, config, CPU, tmp_path / "plain"))
    assert handed.history[0]["ndcg_at_10"] != plain.history[0]["ndcg_at_10"]


@pytest.mark.parametrize("phase", [PRETRAINING, ""])
def test_pt_ft_broken_off_ends_as_an_unbroken_one(
    tiny: ModelFolder, data: TrainingData, masked: TrainingConfig, tmp_path: Path, phase: str
) -> None:
    config = replace(masked, method="PT-FT")

    def stopping() -> bool:  # at the first safe point after two steps of that phase
        return len(list((tmp_path / "broken" / phase).glob("step-*"))) > 0

    whole, _ = learn(
        context([]),
        tiny,
        data,
        config,
        CPU,
        tmp_path / "whole",
    )
    broken = replace(context([]), should_stop=stopping)
    with pytest.raises(CancelledError):
        learn(
            broken,
            tiny,
            data,
            config,
            CPU,
            tmp_path / "broken",
        )
    reported: list[Event] = []
    resumed, _ = learn(
        context(reported),
        tiny,
        data,
        config,
        CPU,
        tmp_path / "broken",
    )
    assert whole is not None
    assert resumed is not None
    assert same(adapter(whole), adapter(resumed))
    assert whole.history == resumed.history
    steps = [event.step for event in reported if isinstance(event, TrainStep)]
    assert len(steps) == (12 + 10 - 3 if phase else 12 - 3)


def test_pt_ft_falls_back_to_ft(
    tiny: ModelFolder, data: TrainingData, masked: TrainingConfig, tmp_path: Path
) -> None:
    model = changed(
        tiny,
        tmp_path / "no-mask",
        drop_mask_token,
    )
    reported: list[Event] = []
    result, reason = learn(
        context(reported), model, data, replace(masked, method="PT-FT"), CPU, tmp_path / "run"
    )
    plain, _ = learn(
        context([]), model, data, replace(masked, method="FT"), CPU, tmp_path / "plain"
    )
    assert result is not None
    assert plain is not None
    assert reason == ""
    assert same(adapter(result), adapter(plain))
    (warning,) = (event.text for event in reported if isinstance(event, Warned))
    assert why_unsuitable(model, data.chunks) in warning


def test_where_it_does_not_apply_pt_makes_no_adapter(
    tiny: ModelFolder, data: TrainingData, masked: TrainingConfig, tmp_path: Path
) -> None:
    model = changed(
        tiny,
        tmp_path / "decoder",
        make_decoder,
    )
    reported: list[Event] = []
    result, reason = learn(
        context(reported),
        model,
        data,
        masked,
        CPU,
        tmp_path / "run",
    )
    assert (result, "qwen2" in reason) == (None, True)
    assert not (tmp_path / "run").exists()


def test_pt_that_finds_nothing_better_makes_no_adapter(
    tiny: ModelFolder, data: TrainingData, masked: TrainingConfig, tmp_path: Path
) -> None:
    copies = replace(data, heldout_queries=[data.chunks[p] for p in data.heldout_positives])
    config = replace(
        masked,
        pretrain_learning_rate=0.3,
        heldout_pool=200,
    )
    result, reason = learn(
        context([]),
        tiny,
        copies,
        config,
        CPU,
        tmp_path,
    )
    assert result is None
    assert "of 10" in reason
    fixed = replace(config, keep="last")
    last, reason = learn(
        context([]),
        tiny,
        copies,
        fixed,
        CPU,
        tmp_path / "last",
    )
    assert last is not None, "a table of the paper shows what it harms"
    assert (last.best_step, reason) == (10, "")


def test_an_adapter_of_another_shape_is_no_start(
    tiny: ModelFolder, data: TrainingData, masked: TrainingConfig, tmp_path: Path, go: Pretrain
) -> None:
    start = go(masked, method="PT-FT").adapter
    with fails(ModelError, "adapter-mismatch"):
        train(Job(tiny, data, replace(masked, lora_rank=8), CPU, tmp_path / "ft", start=start))


def test_a_pre_trained_adapter_is_used_and_interpolated_as_any_other(
    go: Pretrain, masked: TrainingConfig, bare: TrainingData, tiny: ModelFolder
) -> None:
    result = go(
        masked,
        given=bare,
        pretrain_steps=30,
    )
    one = Hardware(
        "cpu",
        "float32",
        1,
        (),
    )
    texts = bare.chunks[:20]

    def vectors(scale: float) -> np.ndarray:
        encoder = TransformerEncoder.load(
            tiny, adapter=result.adapter, adapter_scale=scale, hardware=one
        )
        return encoder.encode_chunks(texts)

    base = TransformerEncoder.load(tiny, hardware=one).encode_chunks(texts)
    np.testing.assert_allclose(
        vectors(0.0),
        base,
        atol=1e-6,
    )
    half = vectors(0.5)
    whole = vectors(1.0)
    assert np.abs(whole - base).max() > 1e-2
    assert (base * half).sum(1).mean() > (base * whole).sum(1).mean()
    student = Student(tiny, masked, one)
    student.load({name: torch.from_numpy(value) for name, value in adapter(result).items()})
    with torch.no_grad():
        np.testing.assert_allclose(
            student.forward(student.chunk_rows(texts)).numpy(), whole, atol=1e-5
        )


def test_counting_the_corpus_can_be_stopped(
    tiny: ModelFolder, masked: TrainingConfig, go: Pretrain
) -> None:
    with fails(CancelledError, "cancelled", "step 0"):
        go(masked, should_stop=lambda: True)
    student = Student(tiny, masked, CPU)
    calls: list[int] = []
    MaskedBatches(
        student,
        ["heat"] * 1200,
        masked,
        lambda: calls.append(1),
    )
    assert len(calls) == 3
