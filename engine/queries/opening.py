"""The backend that `queries.backend` in project.toml names, ready to be asked."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Protocol

from engine.core.errors import CancelledError, EngineError, ModelError, SettingsError
from engine.core.records import Chunk
from engine.corpus.imports import imported_queries
from engine.project.stage import View
from engine.queries.backend import Fixed, Item, QueryBackend, Several
from engine.queries.choosing import MODELS, backend_of, chosen, with_backend
from engine.queries.llm.cost import Patience

if TYPE_CHECKING:
    from engine.endpoint.address import Address
    from engine.queries.llm.chat_model import ChatModel
    from engine.queries.llm.prompted import Prompted


WRITER = "writer"  # what the queries' artifact notes of a language model's file


class Teller(Protocol):
    """Who hears of automatic choices and of what needs a look: a stage's context, or nobody."""

    def choose(self, setting: str, value: object, reason: str) -> None:
        """An automatic choice and its reason."""

    def warn(self, text: str) -> None:
        """Something that stops nothing."""


class Nobody:
    """Hears nothing."""

    def choose(self, setting: str, value: object, reason: str) -> None:
        """Not told."""

    def warn(self, text: str) -> None:
        """Not told."""


def open_backend(view: View, chunks: Sequence[Chunk], teller: Teller, should_stop: Callable[[], bool]) -> QueryBackend:
    """The project's backend. Raises SettingsError or ModelError where what it needs is not there, CancelledError."""
    name = backend_of(view)
    if name in MODELS:
        return open_model(view, teller, should_stop)
    backends: list[QueryBackend] = []
    if name in ("extractive", "both"):
        backends.append(_extractive(view, chunks, should_stop))
    if name in ("imported", "both"):
        backends.append(_imported(view, chunks))
    return backends[0] if len(backends) == 1 else Several(backends)


def corpus_language(view: View) -> str:
    """The language that the index was built for; where there is none yet, the setting or what the texts look like."""
    index = view.store.artifact("lexical")
    if index is not None and "language" in index.info:
        return str(index.info["language"])
    if view.settings.lexical.language != "auto":
        return view.settings.lexical.language
    from engine.lexical.languages import detect_language

    return detect_language(view.store.sample_chunk_texts(200))[0]


def _extractive(view: View, chunks: Sequence[Chunk], should_stop: Callable[[], bool]) -> QueryBackend:
    from engine.queries.rules.extractive import Writer
    from engine.queries.rules.languages import language_of
    from engine.queries.rules.statistics import TermStatistics

    def check() -> None:
        if should_stop():
            raise CancelledError("The work was cancelled.", "You asked for it.")

    settings = view.settings.queries
    table, language = TermStatistics.from_chunks(chunks, check=check), language_of(corpus_language(view))
    return Writer(table, language, settings.kinds, settings.per_chunk, view.settings.training.seed)


def _imported(view: View, chunks: Sequence[Chunk]) -> QueryBackend:
    from engine.queries.imported import attach_imported

    attached, _ = attach_imported(imported_queries(view.project), chunks, view.store.documents())
    by_chunk: dict[int, list[Item]] = defaultdict(list)
    for query in attached:
        by_chunk[query.chunk_id].append(Item(query.text, query.evidence, query.kind))
    return Fixed(by_chunk)


def open_model(view: View, teller: Teller, should_stop: Callable[[], bool]) -> Prompted:
    """The language model behind `gguf` or `endpoint`. Raises as `open_backend`."""
    from engine.queries.llm.prompted import Prompted

    settings, patience = view.settings.queries, Patience(should_stop)
    model = open_chat(view, teller, patience)
    try:
        return Prompted(
            model, settings.prompt, settings.per_chunk, settings.answer_tokens, view.settings.training.seed,
            kinds=settings.kinds, clock=patience.clock,
        )  # fmt: skip
    except BaseException:
        model.close()
        raise


def open_chat(view: View, teller: Teller, should_stop: Callable[[], bool]) -> ChatModel:
    """The language model behind `gguf` or `endpoint`, to be asked anything. Raises as `open_backend`."""
    gguf = backend_of(view) == "gguf"
    return _gguf(view, teller, should_stop) if gguf else _endpoint(view, teller, should_stop)


def model_identity(view: View) -> list[str]:
    """What names the language model behind `gguf` or `endpoint`. Raises SettingsError or ModelError where it is not there, and
    has not made the queries that are."""
    settings, choice = view.settings.queries, chosen(view.settings, view.store)
    if choice.backend == "gguf":
        return ["gguf", choice.identity or _identity(view)]
    return ["endpoint", _address(view).url, settings.endpoint_model]


def _identity(view: View) -> str:
    """Of a file that is gone, what it was when it made the queries: these stay what they are."""
    from engine.gguf.file import content_identity, gguf_file

    named = view.settings.queries.model
    try:
        return content_identity(gguf_file(view.project.path, named))
    except ModelError:
        made = view.store.artifact("queries")
        former = made.info.get(WRITER) if made else None
        if not former or former["named"] != named:
            raise
        return str(former["identity"])


def writer_noted(view: View) -> dict[str, Any]:
    """What an artifact notes of a language model in a file, for the day on which that is gone; nothing of other writers."""
    identity = model_identity(view) if backend_of(view) == "gguf" else []
    return {WRITER: {"named": view.settings.queries.model, "identity": identity[1]}} if identity else {}


def out_of_reach(view: View) -> str:
    """Why the file of the language model that has made the queries could not be asked again; empty where it could, or where
    none has made them."""
    if backend_of(view) != "gguf":
        return ""
    from engine.gguf.file import content_identity, gguf_file

    try:
        content_identity(gguf_file(view.project.path, with_backend(view).queries.model))
    except EngineError as error:
        return f"{error.what.rstrip('.')} ({error.why.rstrip('.')})"
    return ""


def writer_recipe(view: View) -> dict[str, Any]:
    """What decides the answers of a language model, besides the chunk: the model itself, the prompts, its limits.

    Raises SettingsError or ModelError where the model that is named is not there.
    """
    from engine.queries.llm.conversation import VERSION
    from engine.queries.llm.prompts import load_prompt

    settings = view.settings.queries
    names = ("events", "questions") if settings.prompt == "two-step" else ("one-step",)
    return {
        "model": model_identity(view), "prompts": [load_prompt(name).version for name in names], "version": VERSION,
        "per_chunk": settings.per_chunk, "kinds": settings.kinds, "context_tokens": settings.context_tokens,
        "answer_tokens": settings.answer_tokens, "seed": view.settings.training.seed,
    }  # fmt: skip


def query_recipe(view: View) -> dict[str, Any]:
    """The part of project.toml's [queries] that decides which queries are made, for the chosen backend."""
    settings, backend = view.settings.queries, backend_of(view)
    if backend in MODELS:
        from engine.queries.filters.quality import VERSION
        from engine.queries.llm.coverage import VERSION as ORDER

        shared = settings.model_dump(include={"max_queries", "max_hours", "consistency_top"})
        filters = VERSION if settings.quality_filters else 0
        return {"backend": backend, **shared, "order": ORDER, "filters": filters, "writer": writer_recipe(view)}
    shared = settings.model_dump(include={"kinds", "per_chunk", "max_queries", "consistency_top"})
    return {"backend": backend, **shared}


def _gguf(view: View, teller: Teller, should_stop: Callable[[], bool]) -> ChatModel:
    from engine.gguf.file import gguf_file
    from engine.queries.llm.gguf_model import GgufModel

    settings = with_backend(view).queries
    return GgufModel(
        gguf_file(view.project.path, settings.model), settings.context_tokens, teller, should_stop, settings.at_once
    )


def _endpoint(view: View, teller: Teller, should_stop: Callable[[], bool]) -> ChatModel:
    from engine.endpoint.servers import note_server
    from engine.queries.llm.endpoint_model import Endpoint

    settings, address, folder = view.settings.queries, _address(view), view.project.path
    at_once = settings.at_once or 1
    reason = (
        "queries.at_once is set" if settings.at_once else "queries.at_once says how many messages a server gets at once"
    )
    teller.choose("answers at once", at_once, reason)
    return Endpoint(
        address,
        settings.endpoint_model,
        settings.context_tokens,
        settings.endpoint_seconds,
        should_stop,
        at_once,
        teller.choose,
        lambda: note_server(folder, address.url),
    )


def _address(view: View) -> Address:
    from engine.endpoint.address import Address

    settings = view.settings.queries
    if not settings.endpoint:
        raise SettingsError(
            "The backend endpoint needs the address of a server.",
            "queries.endpoint in project.toml is empty.",
            "Set queries.endpoint, such as to http://127.0.0.1:8080/v1, or queries.backend to extractive.",
        )
    return Address.parse(settings.endpoint, settings.endpoint_allow_public)
