"""One formula for the memory of a training graph: that of the model in training and that of the
doctor.
"""

from __future__ import annotations

import pytest

from engine.encoders.hardware import Hardware
from engine.encoders.model_folder import ModelFolder
from engine.encoders.model_size import model_size
from engine.training.config import TrainingConfig


@pytest.mark.parametrize("longest", [8, 128])
def test_the_doctor_counts_as_training_does(tiny: ModelFolder, longest: int) -> None:
    from engine.training.model.student import Student

    student = Student(
        tiny,
        TrainingConfig(max_tokens=128),
        Hardware("cpu", "float32", 1, ()),
    )
    for on in (False, True):
        estimate = model_size(tiny).graph_bytes_per_token(longest, 4, on)
        assert estimate == student.bytes_per_token(longest, checkpointing=on)
    assert model_size(tiny).adapter_parameters(16) == sum(
        master.numel() for master in student.masters.values()
    )
