"""How large a model is, read from the headers of its files without loading it."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from typing import Any

from engine.core.errors import ModelError
from engine.encoders.model_folder import ModelFolder, read_modules, read_object
from engine.encoders.weights_file import tensor_shapes

# The name of a matrix of a block, such as encoder.layer.5.attention.self.query.weight.
_IN_BLOCK = re.compile(r"\.\d+\..*\.weight$")


@dataclass(frozen=True, slots=True)
class ModelSize:
    """The size of a model."""

    parameters: int
    """Number of parameters of all modules."""
    blocks: int
    """Number of the transformer's blocks."""
    width: int
    """Width of the transformer's hidden states."""
    heads: int
    """Number of attention heads of a block."""
    block_sides: int
    """Sum of rows and columns of all matrices in the blocks.

    It is the number of parameters of a LoRA adapter of rank 1.
    """
    inner: int | None = None
    """Width of the feed-forward layers; None: four times `width`."""
    in_blocks: int = 0
    """Number of parameters of the matrices in the blocks."""

    def graph_bytes_per_token(
        self, longest: int, weight_bytes: int, checkpointing: bool = False
    ) -> int:
        """Estimate the memory of a training graph per padded token of texts of `longest` tokens.

        A block takes eight vectors of its width, four of its feed-forward layer's width, and two
        rows of attention per head. With `checkpointing`, only every block's input and one block's
        graph are held. A model without blocks is treated as having one.
        """
        block = 8 * self.width + 4 * (self.inner or 4 * self.width) + 2 * self.heads * longest
        blocks = max(1, self.blocks)
        if checkpointing:
            return weight_bytes * (blocks * self.width + block)
        return weight_bytes * blocks * block

    def adapter_parameters(self, rank: int) -> int:
        """Return the parameters of a LoRA adapter on every matrix of the blocks."""
        return rank * self.block_sides


def model_size(model: ModelFolder) -> ModelSize:
    """Measure a checked model folder.

    Raises ModelError if its config.json lacks a size.
    """
    shapes: list[tuple[str, tuple[int, ...]]] = []
    for module in read_modules(model.path):
        for file in sorted(module.folder.glob("*.safetensors")):
            shapes += tensor_shapes(file).items()
    matrices = [shape for name, shape in shapes if len(shape) == 2 and _IN_BLOCK.search(name)]
    config: dict[str, Any] = read_object(model.transformer_path / "config.json")
    config = config.get("text_config") or config  # of a model that also reads pictures
    try:
        blocks = int(config["num_hidden_layers"])
        width = int(config["hidden_size"])
        heads = int(config["num_attention_heads"])
    except (KeyError, TypeError, ValueError) as error:
        raise ModelError(
            f"The size of the model in {model.path} is not known.",
            f"Its config.json lacks {error}.",
            "",
            code="model-incomplete",
        ) from error
    # Position ids are numbers from 0 on, which old files hold as well.
    counted = [shape for name, shape in shapes if not name.endswith("position_ids")]
    inner = config.get("intermediate_size")
    return ModelSize(
        parameters=sum(map(math.prod, counted)),
        blocks=blocks,
        width=width,
        heads=heads,
        block_sides=sum(map(sum, matrices)),
        inner=inner if isinstance(inner, int) else None,
        in_blocks=sum(map(math.prod, matrices)),
    )
