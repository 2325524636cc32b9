"""Embedding on the nodes of a cluster: weights go there once, then the texts of one shard after
the other.
"""

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
    import numpy as np
    from numpy.typing import NDArray

Texts = Sequence[str]
_Given = tuple[EncoderSource, str, dict[str, bytes], dict[str, bytes], int, float]


def embedding_on_nodes(
    context: StageContext, encoder: Encoder, adapter: Path | None, weight: float
) -> Callable[[Iterable[Texts]], Iterator[NDArray[np.float32]]] | None:
    """What encodes shards of chunks' texts as the loaded `encoder` does, in their order; None
    where that is done here.
    """
    if not cluster_address():
        return None
    chosen = context.settings.encoder
    source = encoder_source(chosen)
    if (weights := source.weights) is None:
        return None

    def vectors(shards: Iterable[Texts]) -> Iterator[NDArray[np.float32]]:
        if isinstance(encoder, TransformerEncoder):
            dtype = encoder.hardware.dtype
        else:
            dtype = ""
        files = read_tree(weights, LOADED), read_tree(adapter, LOADED) if adapter else {}
        given = (source, dtype, *files, chosen.max_tokens, weight)
        with closing(
            Nodes[Texts, "NDArray[np.float32]"](open_embedding, given, context.check_stop)
        ) as nodes:
            context.choose(
                "embedding",
                f"on {nodes.count} nodes",
                "weights and texts are sent to the cluster (--ray)",
            )
            yield from nodes.in_order(shards)

    return vectors


def open_embedding(given: _Given) -> Callable[[Texts], NDArray[np.float32]]:
    """On a node: the encoder, loaded from files that are deleted once it is."""
    source, dtype, weights, adapter, max_tokens, weight = given
    with TemporaryDirectory(prefix="bmembed-") as folder:
        write_tree(weights, Path(folder) / "model")
        write_tree(adapter, Path(folder) / "adapter")
        there = source.moved(Path(folder) / "model", dtype)
        encoder = there.load(max_tokens, Path(folder) / "adapter" if adapter else None, weight)
    return encoder.encode_chunks
