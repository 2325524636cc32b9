"""Embedding on the nodes of a cluster: each gets the weights once, then blocks of texts."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from engine.cluster.nodes import Nodes, cluster_address
from engine.core.disk import read_tree, write_tree
from engine.encoders.encoder import Encoder, EncoderSource
from engine.encoders.kinds.chosen import encoder_source
from engine.encoders.model_folder import LOADED
from engine.encoders.transformer import TransformerEncoder
from engine.project.stage import StageContext

if TYPE_CHECKING:
    from engine.core.arrays import Floats
Texts = Sequence[str]
NodeArguments = tuple[EncoderSource, str, dict[str, bytes], dict[str, bytes], int, float]
"""Source, dtype, files of the model and of the adapter, maximum tokens, interpolation weight."""


def embedding_on_nodes(
    context: StageContext, encoder: Encoder, adapter: Path | None, weight: float
) -> Callable[[Iterable[Texts]], Iterator[Floats]] | None:
    """Return a function that encodes shards of texts on the nodes of the cluster, in order.

    The vectors are those of `encoder`. None if there is no cluster, or if the encoder has no files
    of weights that could be sent.
    """
    if not cluster_address():
        return None
    settings = context.settings.encoder
    source = encoder_source(settings)
    weights = source.weights
    if weights is None:
        return None

    def encode_shards(shards: Iterable[Texts]) -> Iterator[Floats]:
        dtype = encoder.hardware.dtype if isinstance(encoder, TransformerEncoder) else ""
        model_files = read_tree(weights, LOADED)
        adapter_files = read_tree(adapter, LOADED) if adapter else {}
        arguments = (
            source,
            dtype,
            model_files,
            adapter_files,
            settings.max_tokens,
            weight,
        )
        nodes = Nodes[Texts, "Floats"](
            open_embedding,
            arguments,
            context.check_stop,
        )
        with closing(nodes):
            context.report_choice(
                "embedding",
                f"on {nodes.count} nodes",
                "weights and texts are sent to the cluster (--ray)",
            )
            yield from nodes.in_order(shards)

    return encode_shards


def open_embedding(arguments: NodeArguments) -> Callable[[Texts], Floats]:
    """Load the encoder on a node, and return the function that encodes chunks.

    The files are deleted once the encoder is loaded.
    """
    source, dtype, model_files, adapter_files, max_tokens, weight = arguments
    # Windows cannot delete files that the loaded encoder has mapped.
    with TemporaryDirectory(prefix="bmembed-", ignore_cleanup_errors=True) as folder:
        model = Path(folder) / "model"
        adapter = Path(folder) / "adapter"
        write_tree(model_files, model)
        write_tree(adapter_files, adapter)
        moved = source.moved(model, dtype)
        encoder = moved.load(
            max_tokens,
            adapter if adapter_files else None,
            weight,
        )
    return encoder.encode_chunks
