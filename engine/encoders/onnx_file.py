"""An encoder as one ONNX graph: token ids and mask → unit vectors, compared with torch before it is given away.

It is made in a process of its own, `python -m engine.encoders.onnx_file MODEL FOLDER`: where usearch was loaded before torch,
torch's tracer never ends (usearch 2.26.6, torch 2.13.0: streams of the C++ library fail in it).
"""

from __future__ import annotations

import shutil
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from engine.core.disk import disk_errors
from engine.core.errors import EngineError
from engine.core.extras import check_extra
from engine.core.subprocesses import answer, run_in_subprocess
from engine.encoders.loading import load_sentence_transformer
from engine.encoders.model_folder import ModelFolder, resolve_model

if TYPE_CHECKING:
    from torch import Tensor

TOLERANCE = 1e-4
_OPSET = 17
_INPUTS = ("input_ids", "attention_mask")


def check_onnx() -> None:
    """Raises UsageError where the packages are missing that write and run a graph."""
    check_extra("onnx", "ONNX cannot be written")


def save_onnx(model: ModelFolder, folder: Path) -> None:
    """Write `model.onnx` and the tokenizer's files into `folder`, which is made.

    The graph takes `input_ids` and `attention_mask`, (b, n) int64, and gives `vector`, (b, d). Raises EngineError for a
    model that has no such graph, or whose graph gives other vectors, ResourceError when the disk is full.
    """
    run_in_subprocess("engine.encoders.onnx_file", [str(model.path), str(folder)], f"Writing {model.name} as ONNX")


def work(_should_stop: Callable[[], bool], model: str, folder: str) -> None:
    """What the process does."""
    with disk_errors(f"The graph {folder} could not be written."):
        _write_graph(resolve_model(model), Path(folder))


def _write_graph(model: ModelFolder, folder: Path) -> None:
    import torch

    loaded = load_sentence_transformer(model, "cpu", "float32")
    whole = _whole(list(loaded))
    folder.mkdir()
    example = _example(loaded.tokenizer, 2, 7)
    both = {0: "texts", 1: "tokens"}
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # what a trace may get wrong is looked for below
            torch.onnx.export(
                whole, example, str(folder / "model.onnx"), dynamo=False, opset_version=_OPSET,
                input_names=list(_INPUTS), output_names=["vector"],
                dynamic_axes={**dict.fromkeys(_INPUTS, both), "vector": {0: "texts"}},
            )  # fmt: skip
        gap = _gap(whole, folder / "model.onnx", _example(loaded.tokenizer, 3, 19))
    except OSError:
        raise
    except Exception as error:
        raise _no_graph(model, f"{type(error).__name__}: {str(error).strip().splitlines()[0]}") from error
    if not gap < TOLERANCE:
        raise _no_graph(model, f"Its vectors differ by {gap:.1g} from the model's.")
    for name in ("tokenizer.json", "tokenizer_config.json"):
        if (model.transformer_path / name).is_file():
            shutil.copyfile(model.transformer_path / name, folder / name)


def _whole(modules: list[Any]) -> Any:
    """All modules of an encoder as one torch module of two tensors."""
    import torch

    class Whole(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.parts = torch.nn.ModuleList(modules)

        def forward(self, input_ids: Tensor, attention_mask: Tensor) -> Tensor:
            features: Any = {"input_ids": input_ids, "attention_mask": attention_mask, "modality": "text"}
            for part in self.parts:
                features = part(features)
            return torch.nn.functional.normalize(features["sentence_embedding"], dim=1)

    return Whole().eval()


def _example(tokenizer: Any, texts: int, tokens: int) -> tuple[Tensor, Tensor]:
    """Random tokens (texts, tokens); the last text is shorter than the others."""
    import torch

    ids = torch.randint(1, len(tokenizer), (texts, tokens), generator=torch.Generator().manual_seed(0))
    mask = torch.ones_like(ids)
    mask[-1, slice(3) if tokenizer.padding_side == "left" else slice(tokens - 3, None)] = 0
    return ids, mask


def _gap(whole: Any, file: Path, example: tuple[Tensor, Tensor]) -> float:
    """The largest difference of any number in the vectors, for texts of another length than those traced."""
    import numpy as np
    import onnxruntime
    import torch

    session = onnxruntime.InferenceSession(str(file), providers=["CPUExecutionProvider"])
    found = session.run(None, {name: part.numpy() for name, part in zip(_INPUTS, example, strict=True)})[0]
    with torch.inference_mode():
        return float(np.abs(found - whole(*example).numpy()).max())


def _no_graph(model: ModelFolder, why: str) -> EngineError:
    return EngineError(
        f"The model {model.name} cannot be written as ONNX.", why, "Export it for sentence-transformers: --only model.",
        code="onnx-unsupported", command="export",
    )  # fmt: skip


if __name__ == "__main__":
    answer(work)
