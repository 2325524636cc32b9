"""How large a model is, read from its files' headers without loading it."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from typing import Any

from engine.encoders.model_folder import ModelFolder, module_folders, read_object
from engine.encoders.safetensors_header import tensor_shapes
from engine.errors import ModelError

_IN_BLOCK = re.compile(r"\.\d+\..*\.weight$")


@dataclass(frozen=True, slots=True)
class ModelSize:
    """`parameters` of all modules; `blocks`, `width` and `heads` of the transformer; `block_sides`: the sum of rows and
    columns over the matrices of its blocks, which is what a LoRA adapter of rank 1 has parameters.
    """

    parameters: int
    blocks: int
    width: int
    heads: int
    block_sides: int

    def graph_bytes_per_token(self, longest: int, weight_bytes: int) -> int:
        """Memory of a training graph for each padded token of texts that are `longest` tokens long (an estimate).

        A block of a BERT-like model keeps about 24 vectors of its width per token, and two rows of attention per head.
        """
        return self.blocks * (24 * self.width + 2 * self.heads * longest) * weight_bytes

    def adapter_parameters(self, rank: int) -> int:
        """Parameters of a LoRA adapter on every matrix of the blocks."""
        return rank * self.block_sides


def model_size(model: ModelFolder) -> ModelSize:
    """Measure a checked model folder. Raises ModelError where its config.json does not tell its measures."""
    shapes: list[tuple[str, tuple[int, ...]]] = []
    for _, folder in module_folders(model.path):
        for file in sorted(folder.glob("*.safetensors")):
            shapes += tensor_shapes(file).items()
    matrices = [shape for name, shape in shapes if len(shape) == 2 and _IN_BLOCK.search(name)]
    config: dict[str, Any] = read_object(model.transformer_path / "config.json")
    config = config.get("text_config") or config
    try:
        blocks, width, heads = (int(config[key]) for key in ("num_hidden_layers", "hidden_size", "num_attention_heads"))
    except (KeyError, TypeError, ValueError) as error:
        raise ModelError(
            f"How large the model in {model.path} is cannot be told.", f"Its config.json lacks {error}.", ""
        ) from error
    parameters = sum(math.prod(shape) for name, shape in shapes if not name.endswith("position_ids"))
    return ModelSize(parameters, blocks, width, heads, sum(map(sum, matrices)))
