"""The language model that writes a project's queries, ready to be asked; and what names it in
recipes.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from engine.cluster.nodes import cluster_address
from engine.core.errors import ModelError, SettingsError
from engine.core.extras import check_llm
from engine.project.stage import ProjectSnapshot, StageContext
from engine.project.store.artifact_info import LexicalInfo, QueriesInfo, WriterInfo
from engine.queries.choosing import EXTRACTIVE, MODELS, backend_of, resolve_backend, with_backend
from engine.queries.llm.chat_model import Reporter
from engine.queries.llm.cost import Patience

if TYPE_CHECKING:
    from engine.endpoint.address import Address
    from engine.queries.llm.chat_model import ChatModel
    from engine.queries.llm.nodes import NodesWriter
    from engine.queries.llm.prompted import Prompted


def corpus_language(snapshot: ProjectSnapshot) -> str:
    """The language that the index was built for; where there is none yet, the setting or what
    the texts look like.
    """
    index = snapshot.store.artifact(LexicalInfo)
    if index is not None:
        return index.info.language
    if snapshot.settings.lexical.language != "auto":
        return snapshot.settings.lexical.language
    from engine.lexical.languages import detect_language

    return detect_language(snapshot.store.sample_chunk_texts(200))[0]


def open_model(
    snapshot: ProjectSnapshot, reporter: Reporter, should_stop: Callable[[], bool]
) -> Prompted:
    """The language model behind `gguf` or `endpoint`.

    Raises SettingsError or ModelError where what it needs is not there, CancelledError.
    """
    from engine.queries.llm.prompted import Prompted

    settings = snapshot.settings.queries
    patience = Patience(should_stop)
    model = open_chat(snapshot, reporter, patience)
    try:
        return Prompted(
            model,
            settings.prompt,
            settings.per_chunk,
            settings.answer_tokens,
            snapshot.settings.training.seed,
            kinds=settings.kinds,
            clock=patience.clock,
        )
    except BaseException:
        model.close()
        raise


def open_writer(context: StageContext) -> Prompted | NodesWriter:
    """As `open_model`; a file's model on the nodes of a cluster, where the user wants that.

    Raises as `Nodes`, too.
    """
    if not cluster_address() or backend_of(context) != "gguf":
        return open_model(context, context, context.should_stop)
    from engine.gguf.file import gguf_file
    from engine.queries.llm.nodes import NodesWriter

    chosen = with_backend(context).queries
    seed = context.settings.training.seed
    writer = NodesWriter(
        gguf_file(context.project.path, chosen.model), chosen, seed, context.check_stop
    )
    context.choose(
        "writing",
        f"on {writer.nodes.count} nodes",
        "the model and chunks are sent to the cluster (--ray)",
    )
    return writer


def open_chat(
    snapshot: ProjectSnapshot, reporter: Reporter, should_stop: Callable[[], bool]
) -> ChatModel:
    """The language model behind `gguf` or `endpoint`, to be asked anything.

    Raises as `open_model`.
    """
    settings = with_backend(snapshot).queries
    folder = snapshot.project.path
    if backend_of(snapshot) == "gguf":
        from engine.gguf.file import gguf_file
        from engine.queries.llm.gguf_model import GgufModel

        return GgufModel(
            gguf_file(folder, settings.model), settings.context_tokens, reporter, should_stop
        )
    from engine.endpoint.servers import note_server
    from engine.queries.llm.endpoint_model import Endpoint

    address = _address(snapshot)
    concurrency = settings.concurrency or 1
    reporter.choose(
        "answers at once",
        concurrency,
        "queries.concurrency says how many messages a server gets at once",
    )
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


def model_identity(snapshot: ProjectSnapshot) -> list[str]:
    """What names the language model behind `gguf` or `endpoint`.

    Raises SettingsError or ModelError where it is not there, and has not made the queries that are.
    """
    settings, choice = snapshot.settings.queries, resolve_backend(snapshot.settings, snapshot.store)
    if choice.backend == "gguf":
        return ["gguf", choice.identity or _identity(snapshot)]
    return ["endpoint", _address(snapshot).url, settings.endpoint_model]


def check_model(snapshot: ProjectSnapshot) -> None:
    """Raises SettingsError or ModelError where a language model is to write queries and is not
    named or not there, UsageError where it is a file and llama.cpp is not installed.
    """
    if backend_of(snapshot) in MODELS:
        model_identity(snapshot)
    if resolve_backend(snapshot.settings, snapshot.store, present=True).backend == "gguf":
        check_llm()


def check_kinds(snapshot: ProjectSnapshot) -> None:
    """Raise SettingsError where the built-in generator is to write queries, and none of a kind
    that it can write.
    """
    if backend_of(snapshot) in EXTRACTIVE and set(snapshot.settings.queries.kinds) == {"everyday"}:
        raise SettingsError(
            "Everyday queries need a language model.",
            "queries.kinds names no other kind, and the built-in generator makes queries of the"
            " documents' own words.",
            "Set queries.backend to gguf or endpoint, or add a kind to queries.kinds.",
            code="kinds-need-language-model",
        )


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
    """What an artifact notes of a language model in a file, for the day on which that is gone;
    None of other writers.
    """
    if backend_of(snapshot) == "gguf":
        identity = model_identity(snapshot)
    else:
        identity = []
    if identity:
        return WriterInfo(snapshot.settings.queries.model, identity[1])
    return None


def _address(snapshot: ProjectSnapshot) -> Address:
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
