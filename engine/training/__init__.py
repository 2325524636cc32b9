"""Room: ranked lists → adapter.

In: queries with their evidence chunk and BM25 rankings (from `ranking`), chunk texts, a model folder. Out: a LoRA
adapter as a peft folder, with the held-out figures it was chosen by. Importing it loads no torch and no peft.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from engine.training.config import PRESETS as PRESETS
    from engine.training.config import TrainingConfig as TrainingConfig
    from engine.training.data import BatchSampler as BatchSampler
    from engine.training.data import SampledLists as SampledLists
    from engine.training.data import TrainingData as TrainingData
    from engine.training.trainer import TrainResult as TrainResult
    from engine.training.trainer import train as train

_HOMES = {
    "PRESETS": "config",
    "TrainingConfig": "config",
    "BatchSampler": "data",
    "SampledLists": "data",
    "TrainingData": "data",
    "TrainResult": "trainer",
    "train": "trainer",
}
__all__ = ["PRESETS", "BatchSampler", "SampledLists", "TrainResult", "TrainingConfig", "TrainingData", "train"]


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
