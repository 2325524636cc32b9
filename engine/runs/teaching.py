"""The reranker that could teach the encoder, and how long its scoring takes on this machine."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path
from typing import Any

from engine.core.messages.offer import TeacherCost
from engine.core.subprocesses import run_as_child, run_in_subprocess
from engine.encoders.kinds.chosen import encoder_source
from engine.lexical.languages import UNKNOWN
from engine.models.installed import find_entry_of, list_installed
from engine.project.folder import ProjectFolder
from engine.project.stage import ProjectSnapshot
from engine.training.recipe import config_of, name_teacher, set_steps


def find_teacher(snapshot: ProjectSnapshot) -> str:
    """Return the name of the reranker that teaches or could teach; empty if there is none.

    It is the one that the settings name, else an installed one that knows the documents' main
    language.
    """
    chosen_name = name_teacher(snapshot.settings)
    if chosen_name:
        return chosen_name
    characters = snapshot.store.characters_by_language(UNKNOWN)
    language = max(
        characters,
        key=lambda code: characters[code],
        default="",
    )
    for model in list_installed():
        if model.kind != "reranker":
            continue
        entry = find_entry_of(model.folder)
        if entry is None or not language or entry.knows(language):
            return model.name
    return ""


def count_passages(snapshot: ProjectSnapshot, name: str) -> int:
    """Return how many passages the cross-encoder `name` scores as a teacher, at most.

    0 if the encoder is not trained, or the recipe has no lists of candidates. Raises SettingsError.
    """
    if not encoder_source(snapshot.settings.encoder).trains:
        return 0
    changes = {"teacher": "cross-encoder", "cross_encoder": name}
    training = snapshot.settings.training.model_copy(update=changes)
    settings = snapshot.settings.model_copy(update={"training": training})
    counts = snapshot.store.counts()
    expected = min(settings.queries.max_queries, settings.queries.per_chunk * counts["chunks"])
    queries = counts["queries"] or expected
    config = set_steps(
        config_of(settings),
        settings,
        queries,
    )
    if not config.uses_candidates:
        return 0
    return min(queries, config.steps * config.queries_per_step) * config.list_width


def estimate_teacher(snapshot: ProjectSnapshot) -> TeacherCost | None:
    """Return what the reranker costs that teaches or could teach; None if there is none.

    Its speed is measured in another process. Raises EngineError.
    """
    name = find_teacher(snapshot)
    passages = count_passages(snapshot, name) if name else 0
    if not passages:
        return None
    arguments = [str(snapshot.project.path), name]
    rate = run_in_subprocess(__name__, arguments, "The measurement")
    chosen = snapshot.settings.training.teacher == "cross-encoder"
    return TeacherCost(name, passages, rate, chosen)


def _measure(
    _should_stop: Any,
    folder: str,
    name: str,
) -> float:
    """Return how many passages of the project a cross-encoder scores a second."""
    from engine.reranking.budget import MAX_PASSAGES, measure_speed
    from engine.reranking.chosen import FolderReranker
    from engine.reranking.folder import find_cross_encoder

    project = ProjectFolder(Path(folder))
    settings = project.settings()
    reranker = FolderReranker(find_cross_encoder(project.path, name), settings.encoder)
    reranker.load()
    with closing(project.store()) as store:
        passages = store.sample_chunk_texts(MAX_PASSAGES)
    speed = measure_speed(
        reranker,
        passages,
        settings.search.rerank_seconds,
    )
    return speed.passages_per_second


if __name__ == "__main__":
    run_as_child(_measure)
