"""Which backend makes the queries. `auto` chooses once: what it has chosen stays, so that nothing is done anew by itself."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from engine.core.errors import ModelError
from engine.gguf.file import content_identity
from engine.project.store.artifact_info import QueriesInfo, QueryBackendInfo
from engine.project.store.artifacts import Artifact
from engine.project.store.store import Store

if TYPE_CHECKING:
    from engine.project.stage import ProjectSnapshot, StageContext
    from engine.settings.schema import Settings

MODELS = ("gguf", "endpoint")  # backends that ask a language model
BUILT = ("extractive", "both")  # backends that build queries from sentences
AUTO = "auto"


@dataclass(frozen=True, slots=True)
class Choice:
    """A backend and why. Where `auto` has found a language model: its file, and `content_identity` of it."""

    backend: str
    reason: str
    model: str = ""
    identity: str = ""


def backend_of(snapshot: ProjectSnapshot) -> str:
    """The backend that makes the queries; `auto` is never one."""
    return resolve_backend(snapshot.settings, snapshot.store).backend


def made_by(snapshot: ProjectSnapshot) -> str:
    """The backend that has made the queries that are there, or will make the first ones."""
    artifact = snapshot.store.artifact(QueriesInfo)
    return artifact.info.backend if artifact and artifact.info.backend else backend_of(snapshot)


def resolve_backend(settings: Settings, store: Store) -> Choice:
    """`auto` takes what is named in project.toml, a server first; then what it took before; and at first a model that was
    added to our own folder, or, where there is none, the built-in generator. It starts nothing and asks nobody."""
    return _named(settings) or _kept(store) or _found()


def resolve_first_backend(settings: Settings) -> Choice:
    """As `resolve_backend` before there are queries."""
    return _named(settings) or _found()


def resolve_available_backend(settings: Settings, store: Store) -> Choice:
    """As `resolve_backend`, but a language model that `auto` took before must still be there."""
    return _named(settings) or _still_there(store) or _found()


def resolve_and_keep_backend(context: StageContext) -> Choice:
    """What makes the queries of this run; what `auto` has chosen is kept for the runs after it. One that was asked for by
    force chooses anew."""
    named, before = _named(context.settings), _kept(context.store)
    choice = named or (None if context.forced else _still_there(context.store)) or _found()
    kept = None if named else choice
    if kept != before:
        context.store.put_artifact(Artifact(QueryBackendInfo(**asdict(kept)) if kept else QueryBackendInfo(), ""))
    return choice


def with_choice(settings: Settings, choice: Choice) -> Settings:
    """The settings with what `auto` has chosen in its place."""
    if settings.queries.backend != AUTO:
        return settings
    changes = {"backend": choice.backend} | ({"model": choice.model} if choice.model else {})
    return settings.model_copy(update={"queries": settings.queries.model_copy(update=changes)})


def with_backend(snapshot: ProjectSnapshot) -> Settings:
    """The settings with the backend of the queries that `queries.backend = "auto"` stands for."""
    return with_choice(snapshot.settings, resolve_backend(snapshot.settings, snapshot.store))


def added_since(snapshot: ProjectSnapshot) -> str:
    """The name of a language model that `auto` would choose by now instead of the built-in generator; else empty."""
    if _named(snapshot.settings) or (kept := _kept(snapshot.store)) is None or kept.backend in MODELS:
        return ""
    from engine.gguf.places import own_models

    own = own_models()
    return own[0].name if own else ""


def _found() -> Choice:
    from engine.gguf.places import find_models, own_models

    if own := own_models():
        reason = f"{own[0].name} was added with 'engine models add'"
        reason += f", the first by name of {len(own)}; queries.model names another" if len(own) > 1 else ""
        return Choice("gguf", reason, str(own[0]), content_identity(own[0]))
    others = len(find_models())
    lie = f"; {others} GGUF files lie elsewhere: 'engine models' lists them" if others else ""
    reason = f"no server and no language model is named, and none was added with 'engine models add'{lie}"
    return Choice("extractive", reason)


def _named(settings: Settings) -> Choice | None:
    queries = settings.queries
    if queries.backend != AUTO:
        return Choice(queries.backend, "it is set in project.toml")
    if queries.endpoint:
        return Choice("endpoint", "queries.endpoint names a server")
    if queries.model:
        return Choice("gguf", "queries.model names a language model")
    return None


def _kept(store: Store) -> Choice | None:
    artifact = store.artifact(QueryBackendInfo)
    return Choice(**artifact.info.to_dict()) if artifact and artifact.info.backend else None


def _still_there(store: Store) -> Choice | None:
    kept = _kept(store)
    if kept is None or not kept.model:
        return kept
    try:
        same = content_identity(Path(kept.model)) == kept.identity
    except ModelError:
        same = False
    return kept if same else None
