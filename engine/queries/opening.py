"""Opening of the language model that writes a project's queries, and its identity in recipes."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from engine.cluster.nodes import cluster_address
from engine.core.errors import ModelError, SettingsError
from engine.core.extras import check_llm
from engine.llm.requests import Reporter, stop_check
from engine.project.stage import ProjectSnapshot, StageContext
from engine.project.store.artifact_info import LexicalInfo, QueriesInfo, WriterInfo
from engine.queries.choosing import EXTRACTIVE, MODELS, backend_of, resolve_backend, with_backend

if TYPE_CHECKING:
    from engine.endpoint.address import Address
    from engine.llm.chat import ChatModel
    from engine.queries.llm.nodes import NodesWriter
    from engine.queries.llm.prompted import PromptedWriter


def corpus_language(snapshot: ProjectSnapshot) -> str:
    """Return the language of the BM25 index; without an index that of the settings or texts."""
    index = snapshot.store.artifact(LexicalInfo)
    if index is not None:
        return index.info.language
    if snapshot.settings.lexical.language != "auto":
        return snapshot.settings.lexical.language
    from engine.lexical.languages import detect_language

    language, _reason = detect_language(snapshot.store.sample_chunk_texts(200))
    return language


def open_model(
    snapshot: ProjectSnapshot, reporter: Reporter, should_stop: Callable[[], bool]
) -> PromptedWriter:
    """Open the language model of the backend `gguf` or `endpoint` to write queries.

    Raises SettingsError or ModelError if something that it needs is missing, CancelledError.
    """
    from engine.queries.llm.prompted import PromptedWriter

    settings = snapshot.settings.queries
    model = open_chat(snapshot, reporter, should_stop)
    try:
        return PromptedWriter(
            model,
            settings.prompt,
            settings.per_chunk,
            settings.answer_tokens,
            snapshot.settings.training.seed,
            kinds=settings.kinds,
            check=stop_check(should_stop),
        )
    except BaseException:
        model.close()
        raise


def open_writer(context: StageContext) -> PromptedWriter | NodesWriter:
    """Open the language model here, or a file's model on the nodes of a cluster.

    Raises what `open_model` and `Nodes` raise.
    """
    if not cluster_address() or backend_of(context) != "gguf":
        return open_model(context, context, context.should_stop)
    from engine.gguf.file import find_gguf_file
    from engine.queries.llm.nodes import NodesWriter

    settings = with_backend(context).queries
    seed = context.settings.training.seed
    file = find_gguf_file(context.project.path, settings.model)
    writer = NodesWriter(
        file,
        settings,
        seed,
        context.check_stop,
    )
    context.report_choice(
        "writing",
        f"on {writer.nodes.count} nodes",
        "the model and chunks are sent to the cluster (--ray)",
    )
    return writer


def open_chat(
    snapshot: ProjectSnapshot, reporter: Reporter, should_stop: Callable[[], bool]
) -> ChatModel:
    """Open the language model of the backend `gguf` or `endpoint` for any request.

    Raises what `open_model` raises.
    """
    settings = with_backend(snapshot).queries
    folder = snapshot.project.path
    check = stop_check(should_stop)
    if backend_of(snapshot) == "gguf":
        from engine.gguf.file import find_gguf_file
        from engine.llm.chat import FileChatModel

        file = find_gguf_file(folder, settings.model)
        return FileChatModel(
            file,
            settings.context_tokens,
            reporter,
            check,
        )
    from engine.endpoint.address import read_server_key
    from engine.endpoint.client import Client
    from engine.endpoint.servers import note_server
    from engine.llm.chat import ChatModel

    address = _read_address(snapshot)
    client = Client(
        address,
        read_server_key(),
        lambda: note_server(folder, address.url),
    )
    concurrency = settings.concurrency or 1
    reporter.report_choice(
        "answers at once",
        concurrency,
        "queries.concurrency says how many messages a server gets at once",
    )
    return ChatModel(
        client,
        settings.endpoint_model,
        settings.context_tokens,
        settings.endpoint_seconds,
        check,
        concurrency,
        reporter,
    )


def model_identity(snapshot: ProjectSnapshot) -> list[str]:
    """Return what identifies the language model of the backend `gguf` or `endpoint`.

    Raises SettingsError or ModelError if it is missing, unless it has made the current queries.
    """
    choice = resolve_backend(snapshot.settings, snapshot.store)
    if choice.backend == "gguf":
        return ["gguf", choice.identity or _identify_file(snapshot)]
    return [
        "endpoint",
        _read_address(snapshot).url,
        snapshot.settings.queries.endpoint_model,
    ]


def check_model(snapshot: ProjectSnapshot) -> None:
    """Check that the language model of the backend, if any, can be used.

    Raises SettingsError or ModelError if it is not named or missing, UsageError if it is a file and
    llama.cpp is not installed.
    """
    if backend_of(snapshot) in MODELS:
        model_identity(snapshot)
    if resolve_backend(snapshot.settings, snapshot.store, present=True).backend == "gguf":
        check_llm()


def check_kinds(snapshot: ProjectSnapshot) -> None:
    """Check that the built-in generator can write some of the wanted kinds of queries.

    Raises SettingsError.
    """
    only_everyday = set(snapshot.settings.queries.kinds) == {"everyday"}
    if only_everyday and backend_of(snapshot) in EXTRACTIVE:
        raise SettingsError(
            "Everyday queries need a language model.",
            "queries.kinds names no other kind, and the built-in generator makes queries of the"
            " documents' own words.",
            "Set queries.backend to gguf or endpoint, or add a kind to queries.kinds.",
            code="kinds-need-language-model",
        )


def _identify_file(snapshot: ProjectSnapshot) -> str:
    """Return the identity of the model's file.

    If the file is gone, return the identity that was stored when it wrote the current queries.
    Raises ModelError if it did not write them.
    """
    from engine.gguf.file import content_identity, find_gguf_file

    name = snapshot.settings.queries.model
    try:
        return content_identity(find_gguf_file(snapshot.project.path, name))
    except ModelError:
        queries = snapshot.store.artifact(QueriesInfo)
        writer = queries.info.writer if queries else None
        if writer is None or writer.named != name:
            raise
        return writer.identity


def writer_info(snapshot: ProjectSnapshot) -> WriterInfo | None:
    """Return the name and identity of a language model's file, in case it is deleted later.

    None for other backends.
    """
    if backend_of(snapshot) != "gguf":
        return None
    _, identity = model_identity(snapshot)
    return WriterInfo(snapshot.settings.queries.model, identity)


def _read_address(snapshot: ProjectSnapshot) -> Address:
    """Return the server that queries.endpoint names. Raises SettingsError if it names none."""
    from engine.endpoint.address import Address

    settings = snapshot.settings.queries
    if not settings.endpoint:
        raise SettingsError(
            "The backend endpoint needs the address of a server.",
            "queries.endpoint in project.toml is empty.",
            "Set queries.endpoint, such as to http://127.0.0.1:8080/v1, or queries.backend to"
            " extractive.",
            code="endpoint-not-chosen",
        )
    return Address.parse(settings.endpoint, settings.endpoint_allow_public)
