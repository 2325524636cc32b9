"""The backend that `queries.backend` in project.toml names, ready to be asked."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from engine.core.errors import CancelledError, EngineError, ModelError, SettingsError
from engine.core.records import Chunk
from engine.corpus.imports import imported_queries
from engine.project.stage import ProjectSnapshot
from engine.project.store.artifact_info import LexicalInfo, QueriesInfo, WriterInfo
from engine.queries.backend import Fixed, Item, QueryBackend, Several
from engine.queries.choosing import MODELS, backend_of, resolve_backend, with_backend
from engine.queries.llm.cost import Patience
from engine.queries.reporter import Reporter

if TYPE_CHECKING:
    from engine.endpoint.address import Address
    from engine.queries.llm.chat_model import ChatModel
    from engine.queries.llm.prompted import Prompted


def open_backend(
    snapshot: ProjectSnapshot, chunks: Sequence[Chunk], reporter: Reporter, should_stop: Callable[[], bool]
) -> QueryBackend:
    """The project's backend. Raises SettingsError or ModelError where what it needs is not there, CancelledError."""
    name = backend_of(snapshot)
    if name in MODELS:
        return open_model(snapshot, reporter, should_stop)
    backends: list[QueryBackend] = []
    if name in ("extractive", "both"):
        backends.append(_extractive(snapshot, chunks, should_stop))
    if name in ("imported", "both"):
        backends.append(_imported(snapshot, chunks))
    return backends[0] if len(backends) == 1 else Several(backends)


def corpus_language(snapshot: ProjectSnapshot) -> str:
    """The language that the index was built for; where there is none yet, the setting or what the texts look like."""
    index = snapshot.store.artifact(LexicalInfo)
    if index is not None:
        return index.info.language
    if snapshot.settings.lexical.language != "auto":
        return snapshot.settings.lexical.language
    from engine.lexical.languages import detect_language

    return detect_language(snapshot.store.sample_chunk_texts(200))[0]


def _extractive(snapshot: ProjectSnapshot, chunks: Sequence[Chunk], should_stop: Callable[[], bool]) -> QueryBackend:
    from engine.queries.rules.extractive import Writer
    from engine.queries.rules.languages import language_of
    from engine.queries.rules.statistics import TermStatistics

    def check() -> None:
        if should_stop():
            raise CancelledError("The work was cancelled.", "You asked for it.")

    settings = snapshot.settings.queries
    table, language = TermStatistics.from_chunks(chunks, check=check), language_of(corpus_language(snapshot))
    return Writer(table, language, settings.kinds, settings.per_chunk, snapshot.settings.training.seed)


def _imported(snapshot: ProjectSnapshot, chunks: Sequence[Chunk]) -> QueryBackend:
    from engine.queries.imported import attach_imported

    attached, _ = attach_imported(imported_queries(snapshot.project), chunks, snapshot.store.documents())
    by_chunk: dict[int, list[Item]] = defaultdict(list)
    for query in attached:
        by_chunk[query.chunk_id].append(Item(query.text, query.evidence, query.kind))
    return Fixed(by_chunk)


def open_model(snapshot: ProjectSnapshot, reporter: Reporter, should_stop: Callable[[], bool]) -> Prompted:
    """The language model behind `gguf` or `endpoint`. Raises as `open_backend`."""
    from engine.queries.llm.prompted import Prompted

    settings, patience = snapshot.settings.queries, Patience(should_stop)
    model = open_chat(snapshot, reporter, patience)
    try:
        return Prompted(
            model, settings.prompt, settings.per_chunk, settings.answer_tokens, snapshot.settings.training.seed,
            kinds=settings.kinds, clock=patience.clock,
        )  # fmt: skip
    except BaseException:
        model.close()
        raise


def open_chat(snapshot: ProjectSnapshot, reporter: Reporter, should_stop: Callable[[], bool]) -> ChatModel:
    """The language model behind `gguf` or `endpoint`, to be asked anything. Raises as `open_backend`."""
    gguf = backend_of(snapshot) == "gguf"
    return _gguf(snapshot, reporter, should_stop) if gguf else _endpoint(snapshot, reporter, should_stop)


def model_identity(snapshot: ProjectSnapshot) -> list[str]:
    """What names the language model behind `gguf` or `endpoint`. Raises SettingsError or ModelError where it is not there, and
    has not made the queries that are."""
    settings, choice = snapshot.settings.queries, resolve_backend(snapshot.settings, snapshot.store)
    if choice.backend == "gguf":
        return ["gguf", choice.identity or _identity(snapshot)]
    return ["endpoint", _address(snapshot).url, settings.endpoint_model]


def _identity(snapshot: ProjectSnapshot) -> str:
    """Of a file that is gone, what it was when it made the queries: these stay what they are."""
    from engine.gguf.file import content_identity, gguf_file

    named = snapshot.settings.queries.model
    try:
        return content_identity(gguf_file(snapshot.project.path, named))
    except ModelError:
        made = snapshot.store.artifact(QueriesInfo)
        former = made.info.writer if made else None
        if former is None or former.named != named:
            raise
        return former.identity


def writer_noted(snapshot: ProjectSnapshot) -> WriterInfo | None:
    """What an artifact notes of a language model in a file, for the day on which that is gone; None of other writers."""
    identity = model_identity(snapshot) if backend_of(snapshot) == "gguf" else []
    return WriterInfo(snapshot.settings.queries.model, identity[1]) if identity else None


def out_of_reach(snapshot: ProjectSnapshot) -> str:
    """Why the file of the language model that has made the queries could not be asked again; empty where it could, or where
    none has made them."""
    if backend_of(snapshot) != "gguf":
        return ""
    from engine.gguf.file import content_identity, gguf_file

    try:
        content_identity(gguf_file(snapshot.project.path, with_backend(snapshot).queries.model))
    except EngineError as error:
        return f"{error.what.rstrip('.')} ({error.why.rstrip('.')})"
    return ""


def writer_recipe(snapshot: ProjectSnapshot) -> dict[str, Any]:
    """What decides the answers of a language model, besides the chunk: the model itself, the prompts, its limits.

    Raises SettingsError or ModelError where the model that is named is not there.
    """
    from engine.queries.llm.conversation import VERSION
    from engine.queries.llm.prompts import load_prompt

    settings = snapshot.settings.queries
    names = ("events", "questions") if settings.prompt == "two-step" else ("one-step",)
    return {
        "model": model_identity(snapshot), "prompts": [load_prompt(name).version for name in names], "version": VERSION,
        "per_chunk": settings.per_chunk, "kinds": settings.kinds, "context_tokens": settings.context_tokens,
        "answer_tokens": settings.answer_tokens, "seed": snapshot.settings.training.seed,
    }  # fmt: skip


def query_recipe(snapshot: ProjectSnapshot) -> dict[str, Any]:
    """The part of project.toml's [queries] that decides which queries are made, for the chosen backend."""
    settings, backend = snapshot.settings.queries, backend_of(snapshot)
    if backend in MODELS:
        from engine.queries.filters.quality import VERSION
        from engine.queries.llm.coverage import VERSION as ORDER

        shared = settings.model_dump(include={"max_queries", "max_hours", "consistency_top"})
        filters = VERSION if settings.quality_filters else 0
        return {"backend": backend, **shared, "order": ORDER, "filters": filters, "writer": writer_recipe(snapshot)}
    shared = settings.model_dump(include={"kinds", "per_chunk", "max_queries", "consistency_top"})
    return {"backend": backend, **shared}


def _gguf(snapshot: ProjectSnapshot, reporter: Reporter, should_stop: Callable[[], bool]) -> ChatModel:
    from engine.gguf.file import gguf_file
    from engine.queries.llm.gguf_model import GgufModel

    settings = with_backend(snapshot).queries
    return GgufModel(gguf_file(snapshot.project.path, settings.model), settings.context_tokens, reporter, should_stop)


def _endpoint(snapshot: ProjectSnapshot, reporter: Reporter, should_stop: Callable[[], bool]) -> ChatModel:
    from engine.endpoint.servers import note_server
    from engine.queries.llm.endpoint_model import Endpoint

    settings, address, folder = snapshot.settings.queries, _address(snapshot), snapshot.project.path
    concurrency = settings.concurrency or 1
    reason = (
        "queries.concurrency is set"
        if settings.concurrency
        else "queries.concurrency says how many messages a server gets at once"
    )
    reporter.choose("answers at once", concurrency, reason)
    return Endpoint(
        address,
        settings.endpoint_model,
        settings.context_tokens,
        settings.endpoint_seconds,
        should_stop,
        concurrency,
        reporter.choose,
        lambda: note_server(folder, address.url),
    )


def _address(snapshot: ProjectSnapshot) -> Address:
    from engine.endpoint.address import Address

    settings = snapshot.settings.queries
    if not settings.endpoint:
        raise SettingsError(
            "The backend endpoint needs the address of a server.",
            "queries.endpoint in project.toml is empty.",
            "Set queries.endpoint, such as to http://127.0.0.1:8080/v1, or queries.backend to extractive.",
            code="endpoint-not-chosen",
        )
    return Address.parse(settings.endpoint, settings.endpoint_allow_public)
