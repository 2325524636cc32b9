"""The head for masked words: its scores, its start, and the loss and gradients that come of it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest
import torch

from engine.encoders.hardware import Hardware
from engine.encoders.model_folder import ModelFolder
from engine.training.compute.workers import Workers
from engine.training.config import TrainingConfig
from engine.training.model.student import Student
from engine.training.pretraining.loop import masked_gradients
from engine.training.pretraining.masked_batches import MaskedText
from engine.training.pretraining.mlm_head import MaskedLanguageHead
from engine.training.trainer import TrainResult

CPU = Hardware(
    "cpu",
    "float32",
    2,
    (),
)
Pretrain = Callable[..., TrainResult]


# The head


def test_scores_equal_those_of_the_whole_model(
    with_head: ModelFolder, masked: TrainingConfig
) -> None:
    from transformers import AutoModelForMaskedLM

    whole = AutoModelForMaskedLM.from_pretrained(str(with_head.path)).eval()
    student = Student(with_head, masked, CPU)
    head = MaskedLanguageHead(
        student,
        np.zeros(whole.config.vocab_size, int),
        0,
    )
    assert not head.fresh
    rows = student.chunk_rows(["contract party law", "heat", "sound market share company report"])
    longest = max(map(len, rows))
    ids = torch.tensor([[*row, *[0] * (longest - len(row))] for row in rows])
    with torch.no_grad():
        wanted = whole(input_ids=ids, attention_mask=(ids != 0).long()).logits[ids != 0]
        found = head.scores(student.token_states(rows))
    torch.testing.assert_close(
        found,
        wanted,
        atol=2e-5,
        rtol=1e-5,
    )


@pytest.mark.parametrize(
    "kind", ["Roberta", "MPNet", "DistilBert", "ModernBert", "Electra", "DebertaV2", "XLMRoberta"]
)
def test_heads_of_other_architectures(kind: str, tmp_path: Path) -> None:
    """Stored with its head, each gives the scores of transformers' whole model; without, a fresh
    one is made.
    """
    import transformers

    if kind == "DistilBert":
        names = {
            "dim": 32,
            "n_layers": 1,
            "n_heads": 2,
            "hidden_dim": 48,
        }
    else:
        names = {
            "hidden_size": 32,
            "num_hidden_layers": 1,
            "num_attention_heads": 2,
            "intermediate_size": 48,
        }
    torch.manual_seed(1)
    config = getattr(transformers, f"{kind}Config")(
        vocab_size=60,
        pad_token_id=1,
        **names,
    )
    whole = getattr(transformers, f"{kind}ForMaskedLM")(config).eval()
    with torch.no_grad():
        for parameter in whole.parameters():
            parameter += 0.1 * torch.randn(parameter.shape)
    ids = torch.tensor([[5, 6, 7, 8, 9]])
    for part, fresh in ((whole, False), (getattr(whole, whole.base_model_prefix), True)):
        part.save_pretrained(tmp_path / str(fresh), safe_serialization=True)
        base = (
            transformers.AutoModel.from_pretrained(tmp_path / str(fresh))
            .eval()
            .requires_grad_(False)
        )
        folder = SimpleNamespace(transformer_path=tmp_path / str(fresh), name=kind)
        head = MaskedLanguageHead(
            cast(Any, SimpleNamespace(model=folder, transformer=base, device="cpu")),
            np.zeros(60, int),
            0,
        )
        assert head.fresh is fresh
        with torch.no_grad():
            found = head.scores(base(ids).last_hidden_state[0])
            wanted = whole(ids).logits[0]
        assert torch.allclose(found, wanted, atol=1e-4) is not fresh
        gradients = torch.autograd.grad(
            head.scores(torch.ones(3, 32)).sum(), head.working, allow_unused=True
        )
        assert sum(gradient is not None for gradient in gradients) >= 3


def test_a_fresh_head_starts_as_the_identity_and_at_the_tokens_frequencies(
    tiny: ModelFolder, masked: TrainingConfig
) -> None:
    student = Student(tiny, masked, CPU)
    size = student.transformer.config.vocab_size
    counts = np.zeros(size, int)
    counts[7] = 99
    head = MaskedLanguageHead(student, counts, 0)
    assert head.fresh
    assert head.vocabulary == size
    (bias,) = (value for value in head.masters.values() if value.shape == (size,))
    (dense,) = (value for value in head.masters.values() if value.dim() == 2)
    assert torch.equal(dense.detach(), torch.eye(32))
    assert bias[7].item() == pytest.approx(np.log(100 / (99 + size)), rel=1e-5)
    assert bias[8].item() == pytest.approx(np.log(1 / (99 + size)), rel=1e-5)


def test_the_decoder_is_the_frozen_word_embeddings(
    tiny: ModelFolder, masked: TrainingConfig
) -> None:
    student = Student(tiny, masked, CPU)
    head = MaskedLanguageHead(
        student,
        np.zeros(student.transformer.config.vocab_size, int),
        0,
    )
    width = 32
    size = student.transformer.config.vocab_size
    shapes = sorted(tuple(value.shape) for value in head.masters.values())
    assert shapes == sorted([(width, width), (width,), (width,), (width,), (size,)])
    assert [tuple(p.shape) for p in head.working] == [
        tuple(value.shape) for value in head.masters.values()
    ]
    assert not student.transformer.get_input_embeddings().weight.requires_grad


def test_a_head_follows_the_students_precision(tiny: ModelFolder, masked: TrainingConfig) -> None:
    student = Student(
        tiny,
        masked,
        Hardware("cpu", "bfloat16", 1, ()),
    )
    head = MaskedLanguageHead(
        student,
        np.zeros(student.transformer.config.vocab_size, int),
        0,
    )
    assert {value.dtype for value in head.masters.values()} == {torch.float32}
    assert {value.dtype for value in head.working} == {torch.bfloat16}
    with torch.no_grad():
        assert (
            head.scores(student.token_states(student.chunk_rows(["heat"]))).dtype == torch.float32
        )


# Loss and gradients


def test_loss_and_gradients_by_hand_and_padding_does_not_count(
    with_head: ModelFolder, masked: TrainingConfig
) -> None:
    """Against transformers' own loss on one padded batch, however the texts are cut into
    micro-batches.
    """
    from transformers import AutoModelForMaskedLM

    student = Student(with_head, masked, CPU)
    head = MaskedLanguageHead(
        student,
        np.zeros(student.transformer.config.vocab_size, int),
        0,
    )
    student.load({name: value + 0.05 for name, value in student.snapshot().items()})
    texts = [
        MaskedText(np.array([2, 4, 30, 31, 3]), np.array([1]), np.array([29])),
        MaskedText(
            np.array([2, 40, 4, 4, 41, 42, 43, 44, 45, 46, 3]),
            np.array([2, 3, 5]),
            np.array([50, 51, 42]),
        ),
        MaskedText(np.array([2, 4, 3]), np.array([1]), np.array([33])),
    ]
    whole = AutoModelForMaskedLM.from_pretrained(str(with_head.path)).eval()
    whole.bert = student.transformer
    longest = 11
    ids = torch.tensor([text.ids.tolist() + [0] * (longest - len(text.ids)) for text in texts])
    labels = torch.full_like(ids, -100)
    for line, text in enumerate(texts):
        labels[line, text.places] = torch.from_numpy(text.targets)
    wanted = whole(input_ids=ids, attention_mask=(ids != 0).long(), labels=labels).loss
    gradients = torch.autograd.grad(wanted, student.working)
    for budget in (1, 40, 10_000):
        with Workers(2) as workers:
            value, found = masked_gradients(
                student,
                head,
                texts,
                workers,
                budget,
            )
        assert value == pytest.approx(wanted.item(), rel=1e-5)
        for one, other in zip(found, gradients, strict=False):
            torch.testing.assert_close(
                one,
                other,
                atol=1e-6,
                rtol=1e-3,
            )
    with Workers(1) as workers:
        value, found = masked_gradients(
            student,
            head,
            texts,
            workers,
            40,
            head_alone=True,
        )
    assert value == pytest.approx(wanted.item(), rel=1e-5)
    assert [gradient.shape for gradient in found] == [
        master.shape for master in head.masters.values()
    ]


def test_token_states_leave_padding_out(tiny: ModelFolder, masked: TrainingConfig) -> None:
    student = Student(tiny, masked, CPU)
    rows = student.chunk_rows(["heat", "contract party law wing flow pressure"])
    with torch.no_grad():
        together = student.token_states(rows)
        apart = torch.cat([student.token_states([row]) for row in rows])
    assert len(together) == sum(map(len, rows))
    torch.testing.assert_close(
        together,
        apart,
        atol=1e-5,
        rtol=1e-4,
    )
