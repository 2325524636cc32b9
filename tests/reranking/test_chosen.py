"""The reranker that a setting names: with which precision it is loaded."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from engine.encoders import hardware
from engine.encoders.hardware import AMD, AMX, AVX512, Hardware, Machine
from engine.reranking import cross_encoder
from engine.reranking.chosen import FolderReranker
from engine.reranking.folder import CrossEncoderFolder
from engine.settings.schema import EncoderSettings


@pytest.mark.parametrize(
    ("processor", "dtype", "expected"),
    [
        (None, "auto", "float32"),
        (AVX512, "auto", "float32"),
        (AMX, "auto", "bfloat16"),
        (AMD, "auto", "bfloat16"),
        (AMX, "float32", "float32"),
        (None, "bfloat16", "bfloat16"),
    ],
)
def test_it_computes_in_bfloat16_where_the_processor_is_fast_at_it(
    monkeypatch: pytest.MonkeyPatch, processor: str | None, dtype: str, expected: str
) -> None:
    loaded: list[Hardware] = []

    class Recorder:
        def __init__(self, _path: Path, chosen: Hardware) -> None:
            loaded.append(chosen)

        def scores(self, _query: str, passages: list[str]) -> NDArray[np.float32]:
            return np.zeros(len(passages), np.float32)

    machine = Machine(
        2,
        "cores",
        cpu_bf16=processor,
    )
    monkeypatch.setattr(
        hardware,
        "detect_machine",
        lambda **_: machine,
    )
    monkeypatch.setattr(cross_encoder, "CrossEncoder", Recorder)
    folder = CrossEncoderFolder(
        Path("x"),
        "f",
        Path("y"),
    )
    settings = EncoderSettings.model_validate({"device": "cpu", "dtype": dtype})
    reranker = FolderReranker(folder, settings)
    reranker.load()
    assert reranker.scores("q", ["a", "b"]).tolist() == [0.0, 0.0]
    assert [(chosen.device, chosen.dtype) for chosen in loaded] == [("cpu", expected)]
