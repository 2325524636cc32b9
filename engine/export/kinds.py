"""What can be exported: names, availability in a project, and writers."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

from engine.core.errors import EngineError, NotBuiltError, UsageError, unknown_name
from engine.core.extras import EXTRAS, check_extra
from engine.encoders.geometry.spaces import Hyperbolic, read_geometry
from engine.encoders.loading import WHOLE
from engine.encoders.weights_file import tensor_names
from engine.export.arrow import write_lance, write_parquet
from engine.export.gguf_file import check_bert
from engine.export.models import write_adapter, write_gguf, write_models, write_onnx
from engine.export.opensearch import write_opensearch
from engine.export.qdrant import write_qdrant
from engine.export.serving import check_complete, check_searchable
from engine.export.source import Source
from engine.export.texts import write_beir, write_chunks, write_vectors
from engine.project.store.artifact_info import CorpusInfo


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of export. If it needs an extra, it has the name of the extra."""

    name: str
    what: str  # A description in a few words.
    holds_text: bool  # Whether it contains words of the documents.
    check: Callable[[Source], object]  # Raises EngineError if a project does not have it.
    write: Callable[[Source, Path], None]  # Writes it into a folder.


def _check_adapter(source: Source) -> None:
    """Raise EngineError if there is no adapter, or peft could not load it."""
    folder, _ = source.adapter()
    if any(name.startswith(WHOLE) for name in tensor_names(folder / "adapter_model.safetensors")):
        to_do = "Export the model (--only model)."
        if source.settings.encoder.small_model:
            to_do = "Export vectors or chunks."
        raise UsageError(
            "The adapter cannot be exported alone.",
            "Training changed all weights, and peft would load none of them.",
            to_do,
            code="adapter-of-all-weights",
            command="export",
        )


# The next two checks read properties that raise the errors.


def _check_model(source: Source) -> None:
    """Raise EngineError if an encoder in use cannot be exported."""
    for encoder in source.encoders.values():
        _ = encoder.folder


def _check_vectors(source: Source) -> None:
    """Raise EngineError if a vector index is missing or damaged."""
    _ = source.index
    _ = source.semantic_index


def _check_chunks(source: Source) -> None:
    """Raise NotBuiltError if no documents were read."""
    source.need(CorpusInfo)


def _check_onnx(source: Source) -> None:
    _check_model(source)
    _refuse_hyperbolic(source, "ONNX", code="onnx-unsupported")


def _check_gguf(source: Source) -> None:
    check_bert(source.in_use.folder)
    _refuse_hyperbolic(source, "GGUF", code="gguf-unsupported")


def _refuse_hyperbolic(
    source: Source,
    form: str,
    code: str,
) -> None:
    """Raise UsageError for a hyperbolic encoder. `form`: the file format, such as `ONNX`."""
    adapters = [encoder.adapter for encoder in source.encoders.values() if encoder.adapter]
    if any(isinstance(read_geometry(adapter), Hyperbolic) for adapter in adapters):
        raise UsageError(
            f"A hyperbolic encoder is not written as {form}.",
            "Its readers make vectors of unit length; the encoder's are not.",
            "Export it for sentence-transformers: --only model.",
            code=code,
            command="export",
        )


def _check_queries(source: Source) -> None:
    """Raise NotBuiltError if the project has neither training queries nor judged questions."""
    if not (source.store.queries() or source.store.judged()):
        raise NotBuiltError(
            f"The project {source.project.name} has no queries yet.",
            "'engine adapt' makes them, and 'engine import-judgments' takes yours.",
            f"Run 'engine adapt {source.project.argument}'.",
            stage="generate",
            command="adapt",
        )


KINDS = {
    kind.name: kind
    for kind in (
        Kind("adapter", "the adapter as a peft folder", False, _check_adapter, write_adapter),
        Kind(
            "model",
            "the encoder in use, for sentence-transformers",
            False,
            _check_model,
            write_models,
        ),
        Kind("onnx", "the encoder in use, as ONNX", False, _check_onnx, write_onnx),
        Kind(
            "gguf",
            "the encoder in use, as GGUF in float32 and float16",
            False,
            _check_gguf,
            write_gguf,
        ),
        Kind(
            "vectors",
            "the chunks' vectors as .npy, their ids as .jsonl",
            True,
            _check_vectors,
            write_vectors,
        ),
        Kind(
            "parquet",
            "chunks, vectors and BM25 terms as Parquet",
            True,
            check_complete,
            write_parquet,
        ),
        Kind("qdrant", "chunks, vectors and BM25 for Qdrant", True, check_searchable, write_qdrant),
        Kind(
            "lancedb", "chunks, vectors and BM25 for LanceDB", True, check_searchable, write_lance
        ),
        Kind(
            "opensearch",
            "chunks, vectors and BM25 for OpenSearch",
            True,
            check_searchable,
            write_opensearch,
        ),
        Kind("chunks", "the chunks as .jsonl", True, _check_chunks, write_chunks),
        Kind(
            "beir",
            "queries, judgments and preferences in BEIR's layout",
            True,
            _check_queries,
            write_beir,
        ),
    )
}
ALL = tuple(KINDS)
DEFAULT = ("adapter", "model")


def parse_kinds(names: Iterable[str]) -> tuple[str, ...]:
    """Return the kinds with these names, each once, in a fixed order.

    Raises UsageError.
    """
    wanted = {name.strip() for name in names}
    for name in sorted(wanted - set(KINDS)):
        raise unknown_name(
            "export",
            name,
            (*KINDS, "all"),
            code="export-unknown",
        )
    return tuple(name for name in KINDS if name in wanted)


def find_available(
    source: Source, kinds: Iterable[str], *, insist: bool
) -> tuple[list[Kind], dict[str, str]]:
    """Return the kinds that the project has, and for each of the others why it is missing.

    Raises the first EngineError if the project has none of them or, with `insist`, lacks one.
    """
    present = []
    errors: dict[str, EngineError] = {}
    for name in kinds:
        try:
            if name in EXTRAS:
                check_extra(
                    name,
                    f"The export {name} cannot be written",
                    "Nothing else needs it.",
                )
            KINDS[name].check(source)
            present.append(KINDS[name])
        except EngineError as error:
            errors[name] = error
    if errors and (insist or not present):
        raise next(iter(errors.values()))
    reasons = {}
    for name, lack in errors.items():
        reasons[name] = f"{lack.what} {lack.why}".rstrip()
    return present, reasons
