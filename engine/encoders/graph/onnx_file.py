"""Export of an encoder as one ONNX graph: token ids and mask → unit vectors.

The graph is compared with torch before it is handed out. It is made in a separate process, `python
-m engine.encoders.graph.onnx_file MODEL FOLDER`, since the caller may have loaded any library
before (see native_libraries.py).
"""

from __future__ import annotations

import shutil
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from engine.core.disk import disk_errors
from engine.core.errors import EngineError, first_line
from engine.core.subprocesses import run_as_child, run_in_subprocess
from engine.encoders.loading import load_sentence_transformer
from engine.encoders.model_folder import ModelFolder, resolve_model
from engine.encoders.text_model import TextModel

if TYPE_CHECKING:
    from torch import Tensor

TOLERANCE = 1e-4
"""Greatest difference between a number of the graph's vectors and the model's."""
_OPSET = 17  # the version of ONNX's operators
INPUTS = ("input_ids", "attention_mask")


def save_onnx(model: ModelFolder, folder: Path) -> None:
    """Write `model.onnx` and the tokenizer's files into `folder`, which is created.

    The graph takes `input_ids` and `attention_mask`, (b, n) int64, and returns `vector`, (b, d).
    Raises EngineError for a model that has no such graph, or whose graph gives other vectors,
    ResourceError if the disk is full.
    """
    run_in_subprocess(
        "engine.encoders.graph.onnx_file",
        [str(model.path), str(folder)],
        f"Writing {model.name} as ONNX",
    )


def work(
    _should_stop: Callable[[], bool],
    model: str,
    folder: str,
) -> None:
    """Export the model: the entry point of the process."""
    with disk_errors(f"The graph {folder} could not be written."):
        _write_graph(resolve_model(model), Path(folder))


def _write_graph(model: ModelFolder, folder: Path) -> None:
    """Write the graph and the tokenizer's files, and compare the graph with the model.

    Raises EngineError for a model that cannot be a graph, or whose graph gives other vectors.
    """
    loaded = load_sentence_transformer(model, "cpu", "float32")
    text_model = TextModel(
        loaded,
        "cpu",
        model.max_tokens,
    )
    folder.mkdir()
    try:
        write_graph(
            text_model,
            0,
            folder / "model.onnx",
        )
        gap = _measure_gap(text_model, folder / "model.onnx")
    except OSError:
        raise
    except Exception as error:
        raise _unsupported_error(model, f"{type(error).__name__}: {first_line(error)}") from error
    if not gap < TOLERANCE:
        raise _unsupported_error(model, f"Its vectors differ by {gap:.1g} from the model's.")
    for name in ("tokenizer.json", "tokenizer_config.json"):
        if (model.transformer_path / name).is_file():
            shutil.copyfile(model.transformer_path / name, folder / name)


def write_graph(
    text_model: TextModel,
    prompt_length: int,
    file: Path,
) -> None:
    """Write all modules of an encoder as one graph.

    `prompt_length` is the number of leading tokens that pooling may leave out.
    """
    import torch

    axes = {0: "texts", 1: "tokens"}
    with warnings.catch_warnings():
        # The tracer warns of what might go wrong; callers compare the vectors.
        warnings.simplefilter("ignore")
        torch.onnx.export(
            _build_module(text_model, prompt_length),
            _build_example(text_model.tokenizer, 2, 7),
            str(file),
            dynamo=False,
            opset_version=_OPSET,
            input_names=list(INPUTS),
            output_names=["vector"],
            dynamic_axes={**dict.fromkeys(INPUTS, axes), "vector": {0: "texts"}},
        )


def _build_module(text_model: TextModel, prompt_length: int) -> Any:
    """Return a text model as one torch module: token ids and mask (b, n) to vectors (b, d)."""
    import torch

    class Whole(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.parts = torch.nn.ModuleList(text_model.modules)  # so that torch knows the weights

        def forward(self, input_ids: Tensor, attention_mask: Tensor) -> Tensor:
            return text_model.vectors(
                {"input_ids": input_ids, "attention_mask": attention_mask}, prompt_length
            )

    return Whole().eval()


def _build_example(
    tokenizer: Any,
    texts: int,
    tokens: int,
) -> tuple[Tensor, Tensor]:
    """Return random tokens (texts, tokens) with a mask; the last text is the shortest."""
    import torch

    generator = torch.Generator().manual_seed(0)
    ids = torch.randint(
        1,
        len(tokenizer),
        (texts, tokens),
        generator=generator,
    )
    mask = torch.ones_like(ids)
    if tokenizer.padding_side == "left":
        mask[-1, :3] = 0
    else:
        mask[-1, -3:] = 0
    return ids, mask


def _measure_gap(text_model: TextModel, file: Path) -> float:
    """Return the largest difference between the vectors of torch and of the graph.

    The texts have another length than those traced.
    """
    import numpy as np
    import onnxruntime
    import torch

    ids, mask = _build_example(
        text_model.tokenizer,
        3,
        19,
    )
    session = onnxruntime.InferenceSession(str(file), providers=["CPUExecutionProvider"])
    (vectors, *_) = session.run(None, {"input_ids": ids.numpy(), "attention_mask": mask.numpy()})
    with torch.inference_mode():
        expected = _build_module(text_model, 0)(ids, mask).numpy()
    return float(np.abs(vectors - expected).max())


def _unsupported_error(model: ModelFolder, why: str) -> EngineError:
    return EngineError(
        f"The model {model.name} cannot be written as ONNX.",
        why,
        "Export it for sentence-transformers: --only model.",
        code="onnx-unsupported",
        command="export",
    )


if __name__ == "__main__":
    run_as_child(work)
