"""The choice of the backend that makes the queries.

`auto` chooses once. Its choice is stored in the project, because another backend would make all
queries again.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from engine.core.errors import ModelError
from engine.core.extras import describe_missing, missing_packages
from engine.gguf.file import content_identity
from engine.project.store.artifact_info import QueriesInfo, QueryBackendInfo
from engine.project.store.artifacts import Artifact
from engine.project.store.store import Store

if TYPE_CHECKING:
    from engine.core.records import Query
    from engine.project.stage import ProjectSnapshot, StageContext
    from engine.settings.schema import Settings

# Backends that ask a language model, use sentences of the documents, or read the user's files.
MODELS = ("gguf", "endpoint")
EXTRACTIVE = ("extractive", "both")
IMPORTED = ("imported", "both")
AUTO = "auto"


def backend_of(snapshot: ProjectSnapshot) -> str:
    """Return the backend that makes the queries, never `auto`."""
    return resolve_backend(snapshot.settings, snapshot.store).backend


def backend_of_queries(snapshot: ProjectSnapshot) -> str:
    """Return the backend that has made the current queries, or will make the first ones."""
    artifact = snapshot.store.artifact(QueriesInfo)
    if artifact and artifact.info.backend:
        return artifact.info.backend
    return backend_of(snapshot)


def is_extractive(query: Query, backend: str) -> bool:
    """Return whether a backend's query is built from a sentence of its chunk."""
    return backend in EXTRACTIVE and not query.imported


def resolve_backend(
    settings: Settings, store: Store | None = None, *, present: bool = False
) -> QueryBackendInfo:
    """Return the backend that the settings name, or else the choice of `auto`.

    `auto` takes a server or a model that project.toml names; then its earlier choice, if `store`
    has one; then a model that the user has added; then the built-in generator. Nothing is started
    or connected to. `present`: an earlier choice counts only if its model still exists and can run.
    """
    set_by_user = _find_named(settings)
    if set_by_user is not None:
        return set_by_user
    earlier_choice = None
    if store is not None:
        earlier_choice = _read_present_choice(store) if present else _read_choice(store)
    return earlier_choice or _choose()


def resolve_and_keep_backend(context: StageContext) -> QueryBackendInfo:
    """Return the backend for this run, and keep the choice of `auto` for later runs.

    A forced run chooses again.
    """
    earlier_choice = _read_choice(context.store)
    set_by_user = _find_named(context.settings)
    if set_by_user is not None:
        if earlier_choice is not None:
            # An empty record: `auto` would choose again.
            context.store.put_artifact(Artifact(QueryBackendInfo(), ""))
        return set_by_user
    choice = None
    if not context.forced:
        choice = _read_present_choice(context.store)
    if choice is None:
        choice = _choose()
    if choice != earlier_choice:
        context.store.put_artifact(Artifact(choice, ""))
    return choice


def with_choice(settings: Settings, choice: QueryBackendInfo) -> Settings:
    """Return the settings with `auto` replaced by its choice (see `resolve_backend`)."""
    if settings.queries.backend != AUTO:
        return settings
    changes = {"backend": choice.backend}
    if choice.model:
        changes["model"] = choice.model
    return settings.model_copy(update={"queries": settings.queries.model_copy(update=changes)})


def with_backend(snapshot: ProjectSnapshot) -> Settings:
    """Return the settings of a project with `auto` replaced by the backend that it stands for."""
    return with_choice(snapshot.settings, resolve_backend(snapshot.settings, snapshot.store))


def _choose() -> QueryBackendInfo:
    """Return a model that the user has added and that can run, or the built-in generator."""
    from engine.gguf.places import find_models, own_models

    models = own_models()
    if models:
        reason = f"{models[0].name} was added with 'engine models add'"
        missing = describe_missing("llm")
        if missing:
            return QueryBackendInfo("extractive", f"{reason}, but {missing}")
        if len(models) > 1:
            reason += f", the first by name of {len(models)}; queries.model names another"
        return QueryBackendInfo(
            "gguf",
            reason,
            str(models[0]),
            content_identity(models[0]),
        )
    reason = "no server and no language model is named, and none was added with 'engine models add'"
    elsewhere_count = len(find_models())
    if elsewhere_count:
        reason += f"; GGUF files elsewhere: {elsewhere_count} ('engine models' lists them)"
    return QueryBackendInfo("extractive", reason)


def _find_named(settings: Settings) -> QueryBackendInfo | None:
    """Return the backend that project.toml decides; None if `auto` has to choose.

    A server (queries.endpoint) or a model (queries.model) decides, too.
    """
    queries = settings.queries
    if queries.backend != AUTO:
        return QueryBackendInfo(queries.backend, "it is set in project.toml")
    if queries.endpoint:
        return QueryBackendInfo("endpoint", "queries.endpoint names a server")
    if queries.model:
        return QueryBackendInfo("gguf", "queries.model names a language model")
    return None


def _read_choice(store: Store) -> QueryBackendInfo | None:
    """Return the earlier choice of `auto` that is kept in a project, or None."""
    artifact = store.artifact(QueryBackendInfo)
    if artifact and artifact.info.backend:
        return artifact.info
    return None


def _read_present_choice(store: Store) -> QueryBackendInfo | None:
    """Return the earlier choice, or None if its model is gone, has changed or cannot run."""
    earlier_choice = _read_choice(store)
    if earlier_choice is None or not earlier_choice.model:
        return earlier_choice
    if missing_packages("llm"):
        return None
    try:
        if content_identity(Path(earlier_choice.model)) == earlier_choice.identity:
            return earlier_choice
    except ModelError:
        pass
    return None
