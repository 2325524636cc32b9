"""Which backend makes the queries.

`auto` chooses once: what it has chosen stays, so that nothing is done anew by itself.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from engine.core.errors import ModelError
from engine.core.extras import lack, missing_packages
from engine.gguf.file import content_identity
from engine.project.store.artifact_info import QueriesInfo, QueryBackendInfo
from engine.project.store.artifacts import Artifact
from engine.project.store.store import Store

if TYPE_CHECKING:
    from engine.core.records import Query
    from engine.project.stage import ProjectSnapshot, StageContext
    from engine.settings.schema import Settings

MODELS = ("gguf", "endpoint")  # backends that ask a language model
EXTRACTIVE = ("extractive", "both")  # backends that make queries of the documents' own sentences
IMPORTED = ("imported", "both")  # backends that take the queries of the user's files
AUTO = "auto"


def backend_of(snapshot: ProjectSnapshot) -> str:
    """The backend that makes the queries; `auto` is never one."""
    return resolve_backend(snapshot.settings, snapshot.store).backend


def made_by(snapshot: ProjectSnapshot) -> str:
    """The backend that has made the queries that are there, or will make the first ones."""
    artifact = snapshot.store.artifact(QueriesInfo)
    if artifact and artifact.info.backend:
        return artifact.info.backend
    return backend_of(snapshot)


def is_extractive(query: Query, backend: str) -> bool:
    """Whether the query of a backend is made of a sentence of its chunk, rather than worded as a
    question would be.
    """
    return backend in EXTRACTIVE and not query.imported


def resolve_backend(
    settings: Settings, store: Store | None = None, *, present: bool = False
) -> QueryBackendInfo:
    """`auto` takes what is named in project.toml, a server first; then what it took before, by
    the `store` of a project; then a model that was added to our own folder, or, where there is
    none, the built-in generator. It starts nothing and connects to nobody. `present`: a language
    model that it took before must still be there, and so must what runs it.
    """
    if (named := _named(settings)) is not None:
        return named
    if store is None:
        before = None
    elif present:
        before = _still_there(store)
    else:
        before = _kept(store)
    return before or _found()


def resolve_and_keep_backend(context: StageContext) -> QueryBackendInfo:
    """What makes the queries of this run; what `auto` has chosen is kept for the runs after it.

    A forced one chooses anew.
    """
    named = _named(context.settings)
    before = _kept(context.store)
    choice = named or (None if context.forced else _still_there(context.store)) or _found()
    kept = None if named else choice
    if kept != before:
        context.store.put_artifact(Artifact(kept or QueryBackendInfo(), ""))
    return choice


def with_choice(settings: Settings, choice: QueryBackendInfo) -> Settings:
    """The settings with what `auto` has chosen in its place."""
    if settings.queries.backend != AUTO:
        return settings
    changes = {"backend": choice.backend} | ({"model": choice.model} if choice.model else {})
    return settings.model_copy(update={"queries": settings.queries.model_copy(update=changes)})


def with_backend(snapshot: ProjectSnapshot) -> Settings:
    """The settings with the backend of the queries that `queries.backend = "auto"` stands for."""
    return with_choice(snapshot.settings, resolve_backend(snapshot.settings, snapshot.store))


def _found() -> QueryBackendInfo:
    from engine.gguf.places import find_models, own_models

    own = own_models()
    if own and (why := lack("llm")):
        return QueryBackendInfo(
            "extractive", f"{own[0].name} was added with 'engine models add', but {why}"
        )
    if own:
        reason = f"{own[0].name} was added with 'engine models add'"
        reason += (
            f", the first by name of {len(own)}; queries.model names another"
            if len(own) > 1
            else ""
        )
        return QueryBackendInfo("gguf", reason, str(own[0]), content_identity(own[0]))
    others = len(find_models())
    if others:
        lie = f"; {others} GGUF files are elsewhere; 'engine models' lists them"
    else:
        lie = ""
    reason = (
        "no server and no language model is named, and none was added with 'engine models"
        f" add'{lie}"
    )
    return QueryBackendInfo("extractive", reason)


def _named(settings: Settings) -> QueryBackendInfo | None:
    queries = settings.queries
    if queries.backend != AUTO:
        return QueryBackendInfo(queries.backend, "it is set in project.toml")
    if queries.endpoint:
        return QueryBackendInfo("endpoint", "queries.endpoint names a server")
    if queries.model:
        return QueryBackendInfo("gguf", "queries.model names a language model")
    return None


def _kept(store: Store) -> QueryBackendInfo | None:
    artifact = store.artifact(QueryBackendInfo)
    if artifact and artifact.info.backend:
        return artifact.info
    return None


def _still_there(store: Store) -> QueryBackendInfo | None:
    kept = _kept(store)
    if kept is None or not kept.model:
        return kept
    if missing_packages("llm"):
        return None
    try:
        same = content_identity(Path(kept.model)) == kept.identity
    except ModelError:
        same = False
    return kept if same else None
