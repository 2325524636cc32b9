"""The encoder of queries as an ONNX graph, so that search starts without torch.

Importing torch and sentence-transformers takes seconds. The embed stage makes the graph and keeps
it only if its vectors are the encoder's: with the vector index or, without an adapter, in the data
folder (shared_graphs.py). If it is missing or damaged, the whole encoder is loaded.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from itertools import cycle, islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from engine.core.processors import available_cores
from engine.encoders.encoder import Progress
from engine.encoders.geometry.spaces import read_geometry
from engine.encoders.graph.graph_files import (
    FOLDER,
    MODEL,
    TOKENIZER,
    copy_graph,
    read_facts,
    write_facts,
)
from engine.encoders.graph.native_libraries import can_run_graphs
from engine.encoders.graph.shared_graphs import (
    find_graph,
    is_pointer_closed_to_group,
    publish_graph,
    use_shared_graph,
)
from engine.encoders.kinds.folder import FolderSource
from engine.encoders.model_folder import folder_facts
from engine.encoders.text_model import encodable

if TYPE_CHECKING:
    from engine.encoders.encoder import Encoder, EncoderSource
    from engine.encoders.model_folder import ModelFolder
    from engine.encoders.transformer import TransformerEncoder

TOLERANCE = 1e-4
"""Greatest difference between a number of the graph's vectors and the encoder's."""
MAX_WEIGHTS = 600_000_000
"""Maximum bytes of a model's weights for a graph.

Larger weights take longer to read than the libraries to import, and a graph is a second copy.
"""
# Lengths in characters of the texts on which a graph is compared with its encoder, and of one text
# that exceeds the encoder's `max_tokens`.
_LENGTHS = (
    1,
    30,
    100,
    300,
    1000,
)
_LONG = 12_000
_log = logging.getLogger(__name__)


class QueryGraph:
    """A graph that is ready to run, made by `QueryGraph.open`."""

    def __init__(self, folder: Path, facts: dict[str, Any]) -> None:
        import onnxruntime
        from tokenizers import Tokenizer

        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads, _ = available_cores()
        # Otherwise threads that wait for work keep their cores busy.
        options.add_session_config_entry("session.intra_op.allow_spinning", "0")
        options.log_severity_level = 4  # fatal errors only; others are raised as well
        self._session = onnxruntime.InferenceSession(
            str(folder / MODEL), options, providers=["CPUExecutionProvider"]
        )
        self._tokenizer = Tokenizer.from_file(str(folder / TOKENIZER))
        self._prompt = str(facts["prompt"])
        self._filler = int(facts["filler"])  # the token that stands for an empty text
        self.fingerprint = str(facts["encoder"])

    @classmethod
    def open(cls, index: Path, fingerprint: str) -> QueryGraph | None:
        """Open the graph of an index; None if it is missing, unusable or of another encoder."""
        folder = find_graph(index)
        facts = read_facts(folder)
        if facts is None or facts["encoder"] != fingerprint or not can_run_graphs():
            return None
        try:
            return cls(folder, facts)
        # onnxruntime may raise anything or be missing; the encoder is used instead.
        except Exception as error:
            _log.info("The graph in %s is not used: %s", index, error)
            return None

    def encode_queries(self, texts: Sequence[str], progress: Progress | None = None) -> np.ndarray:
        """See `QueryEncoder`."""
        vectors = []
        for done, text in enumerate(texts, 1):
            ids = self._tokenizer.encode(encodable(self._prompt + text)).ids or [self._filler]
            row = np.array([ids], np.int64)
            inputs = {"input_ids": row, "attention_mask": np.ones_like(row)}
            (batch, *_) = self._session.run(None, inputs)
            vectors.append(batch[0])
            if progress is not None:
                progress(done)
        return np.array(vectors, np.float32)


def is_settled(index: Path) -> bool:
    """Return whether an index needs no new graph.

    It has or points to an intact graph, or can have none.
    """
    folder = index / FOLDER
    if not folder.is_dir():
        return False
    if not any(folder.iterdir()):  # `write_query_graph` left it empty
        return True
    return read_facts(find_graph(index)) is not None and not is_pointer_closed_to_group(index)


def take_over(former: Path, index: Path) -> bool:
    """Reuse the intact graph of another index, as a pointer if the data folder has it.

    Returns whether there was such a graph.
    """
    graph = find_graph(former)
    facts = read_facts(graph)
    if facts is None:
        return False
    (index / FOLDER).mkdir(mode=0o700, parents=True)
    if not use_shared_graph(index, facts["encoder"]):
        copy_graph(
            graph,
            index / FOLDER,
            link=graph == former / FOLDER,
        )
    return True


def write_query_graph(
    source: EncoderSource,
    max_tokens: int,
    adapter: Path | None,
    weight: float,
    index: Path,
    texts: Sequence[str],
    loaded: Encoder | None = None,
    max_weights: int = MAX_WEIGHTS,
) -> None:
    """Write the graph of the encoder that `source.load` returns to the folder of its index.

    The graph is compared with the encoder on `texts`. Without an adapter it is stored in the data
    folder, unless a group reads the project, and the index gets a pointer; an existing graph is
    reused. The index's sub-folder stays empty if no graph is possible: for encoders of other kinds,
    with weights of more than `max_weights` bytes, and if the vectors differ. `loaded` is an encoder
    that is already loaded, perhaps the same.
    """
    folder = index / FOLDER
    folder.mkdir(mode=0o700)
    if not isinstance(source, FolderSource) or not can_run_graphs():
        return
    if folder_facts(source.folder.path).weights_size > max_weights:
        return
    if adapter and read_geometry(adapter):  # torch cannot export the sinh of hyperbolic encoders
        return
    try:
        fingerprint = source.vectors_fingerprint(max_tokens, adapter, weight)
        is_base = fingerprint == source.vectors_fingerprint(max_tokens)
        if is_base and use_shared_graph(index, fingerprint):
            return
        encoder = _reuse_encoder(loaded, fingerprint)
        if encoder is None:
            encoder = _load_in_float32(
                source.folder,
                max_tokens,
                adapter,
                weight,
            )
        _write(
            encoder,
            source.prompts.query,
            folder,
        )
        _compare(
            encoder,
            QueryGraph.open(index, fingerprint),
            texts,
        )
        if is_base:
            publish_graph(index, fingerprint)
    # Model libraries may raise anything; search works without a graph.
    except Exception as error:
        _log.info("The query encoder was not kept as a graph: %s", error)
        for file in folder.iterdir():
            file.unlink()


def _reuse_encoder(loaded: Encoder | None, fingerprint: str) -> TransformerEncoder | None:
    """Return the loaded encoder if it has this fingerprint and computes in float32, else None."""
    from engine.encoders.transformer import TransformerEncoder

    if not isinstance(loaded, TransformerEncoder) or loaded.fingerprint != fingerprint:
        return None
    if (loaded.hardware.device, loaded.hardware.dtype) == ("cpu", "float32"):
        return loaded
    return None


def _load_in_float32(
    model: ModelFolder, max_tokens: int, adapter: Path | None, weight: float
) -> TransformerEncoder:
    """Load an encoder as the graph is to compute: on the CPU, in float32."""
    from engine.encoders.hardware import choose_hardware
    from engine.encoders.transformer import TransformerEncoder

    hardware = choose_hardware("cpu", "float32")
    return TransformerEncoder.load(
        model, adapter=adapter, adapter_scale=weight, hardware=hardware, max_tokens=max_tokens
    )


def _write(
    encoder: TransformerEncoder,
    prompt: str,
    folder: Path,
) -> None:
    """Write graph, tokenizer and facts of an encoder of queries that `prompt` precedes."""
    from tokenizers import Tokenizer

    from engine.encoders.graph.onnx_file import write_graph

    text_model = encoder.text_model
    write_graph(
        text_model,
        text_model.prompt_length(prompt),
        folder / MODEL,
    )
    tokenizer = Tokenizer.from_str(text_model.tokenizer.backend_tokenizer.to_str())
    tokenizer.no_padding()
    tokenizer.enable_truncation(encoder.max_tokens, direction=text_model.tokenizer.truncation_side)
    tokenizer.save(str(folder / TOKENIZER))
    ((filler,),) = text_model.fill_empty([[]])  # the token of the only row
    write_facts(folder, {"encoder": encoder.fingerprint, "prompt": prompt, "filler": filler})


def _compare(
    encoder: TransformerEncoder,
    graph: QueryGraph | None,
    texts: Sequence[str],
) -> None:
    """Raise ValueError if the vectors differ, for texts from one letter to over `max_tokens`."""
    samples = [text[:length] for text, length in zip(cycle(texts), _LENGTHS, strict=False)]
    # As many texts as the encoder reads tokens are longer than it reads.
    too_long = " ".join(islice(cycle(texts), encoder.max_tokens))
    samples.append(too_long[:_LONG])
    if graph is None:
        raise ValueError("it cannot be read back")
    differences = graph.encode_queries(samples) - encoder.encode_queries(samples)
    gap = float(np.abs(differences).max())
    if not gap < TOLERANCE:
        raise ValueError(f"its vectors differ by {gap:.1g}")
