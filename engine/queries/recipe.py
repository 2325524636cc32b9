"""The recipe of a project's queries: everything but the documents that decides which are made.

Settings that a project leaves out follow this program's defaults, which may change with its
version. Queries keep the defaults by which they were made, and stay up to date until they are
generated again.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from engine.datasets.imports import imports_fingerprint
from engine.encoders.kinds.chosen import base_source
from engine.lexical.stage import VERSION as INDEX_VERSION
from engine.project.stage import ProjectSnapshot
from engine.project.store.artifact_info import QueriesInfo
from engine.queries.choosing import MODELS, backend_of
from engine.queries.opening import model_identity
from engine.settings.schema import EvaluationSettings, QuerySettings, Settings
from engine.settings.section import Section

Defaults = Mapping[str, Any]
SHIPPED_PROMPTS = {
    "events": "4228f1c4a27f5312",
    "questions": "860d12849ff13255",
    "one-step": "1001e2a71d782c06",
    "everyday": "ea590d40fecffa6a",
}
"""Versions of the prompts that ship with this program; another version was edited by the user."""
RECIPE_SETTINGS: Mapping[str, tuple[type[Section], tuple[str, ...]]] = {
    "queries": (
        QuerySettings,
        (
            "kinds",
            "per_chunk",
            "prompt",
            "context_tokens",
            "answer_tokens",
            "max_queries",
            "max_hours",
            "quality_filters",
            "consistency_top",
        ),
    ),
    "evaluation": (EvaluationSettings, ("heldout_share",)),
}
"""Section → keys that are part of the recipe."""


def current_defaults() -> dict[str, Any]:
    """Return the defaults of this version of the program."""
    from engine.queries.filters.quality import VERSION as FILTERS
    from engine.queries.llm.conversation import VERSION as CONVERSATION
    from engine.queries.llm.coverage import VERSION as ORDER
    from engine.queries.rules.extractive import VERSION as RULES

    settings = {}
    for name, (section, keys) in RECIPE_SETTINGS.items():
        settings[name] = {key: section.model_fields[key].get_default() for key in keys}
    return {
        **settings,
        "prompts": SHIPPED_PROMPTS,
        "conversation": CONVERSATION,
        "order": ORDER,
        "filters": FILTERS,
        "rules": RULES,
    }


def recorded_defaults(snapshot: ProjectSnapshot) -> Defaults:
    """Return the defaults by which the queries were made, or the current ones without queries."""
    queries = snapshot.store.artifact(QueriesInfo)
    if queries is None or not queries.info.defaults:
        return current_defaults()
    return queries.info.defaults


def recipe(
    snapshot: ProjectSnapshot,
    encoder: tuple[str, int] | None = None,
    defaults: Defaults | None = None,
) -> dict[str, Any]:
    """Return everything but the corpus that decides which queries are made.

    Judged queries are not part of it: a training query that is judged later is left out of the
    evaluation instead. `encoder`: the filtering encoder, by default that of the current queries,
    since encoders are compared on the same queries. `defaults`: by default those of the current
    queries.
    """
    defaults = defaults or recorded_defaults(snapshot)
    settings = with_defaults(snapshot.settings, defaults)
    queries = snapshot.store.artifact(QueriesInfo)
    if encoder is None and queries:
        encoder = queries.info.encoder
    return {
        "queries": query_recipe(snapshot, defaults),
        "imports": imports_fingerprint(snapshot.project, "queries"),
        "split": [settings.evaluation.heldout_share, settings.training.seed],
        "model": encoder or filter_encoder(snapshot),
        "index": [settings.lexical.language, INDEX_VERSION],
    }


def query_recipe(snapshot: ProjectSnapshot, defaults: Defaults | None = None) -> dict[str, Any]:
    """Return the part of the recipe that [queries] in project.toml decides for the backend.

    Raises SettingsError or ModelError if the named language model is missing.
    """
    defaults = defaults or recorded_defaults(snapshot)
    settings = with_defaults(snapshot.settings, defaults).queries
    backend = backend_of(snapshot)
    if backend in MODELS:
        shared = settings.model_dump(include={"max_queries", "max_hours", "consistency_top"})
        return {
            "backend": backend,
            **shared,
            "order": defaults["order"],
            "filters": defaults["filters"] if settings.quality_filters else 0,
            "writer": writer_recipe(snapshot, defaults),
        }
    shared = settings.model_dump(include={"per_chunk", "max_queries", "consistency_top"})
    # Only language models write everyday queries.
    kinds = [kind for kind in settings.kinds if kind != "everyday"]
    extractive = {
        "backend": backend,
        "kinds": kinds,
        **shared,
    }
    # Earlier versions did not record the version of the rules, which was 1.
    rules = defaults.get("rules", 1)
    return extractive if rules == 1 else {**extractive, "rules": rules}


def writer_recipe(snapshot: ProjectSnapshot, defaults: Defaults) -> dict[str, Any]:
    """Return what decides a language model's answers besides the chunk: model, prompts, limits.

    Raises SettingsError or ModelError if the named model is missing.
    """
    settings = with_defaults(snapshot.settings, defaults).queries
    return {
        "model": model_identity(snapshot),
        "prompts": [_find_prompt_version(name, defaults) for name in settings.prompt_names],
        "version": defaults["conversation"],
        "per_chunk": settings.per_chunk,
        "kinds": settings.kinds,
        "context_tokens": settings.context_tokens,
        "answer_tokens": settings.answer_tokens,
        "seed": snapshot.settings.training.seed,
    }


def _find_prompt_version(name: str, defaults: Defaults) -> str:
    """Return the version of a prompt: its own if the user has edited it, else the defaults'."""
    from engine.llm.prompts import load_prompt

    version: str = load_prompt(name).version
    if version != SHIPPED_PROMPTS[name]:
        return version
    default: str = defaults["prompts"].get(name, version)  # earlier versions had fewer prompts
    return default


def with_defaults(settings: Settings, defaults: Defaults) -> Settings:
    """Return the settings with these defaults for the keys that project.toml leaves out."""
    changed = {}
    for name, (_, keys) in RECIPE_SETTINGS.items():
        section: Section = getattr(settings, name)
        unset = {key: defaults[name][key] for key in keys if key not in section.model_fields_set}
        changed[name] = section.model_copy(update=unset)
    return settings.model_copy(update=changed)


def filter_encoder(snapshot: ProjectSnapshot) -> tuple[str, int]:
    """Return the fingerprint and maximum length of the encoder that filters queries."""
    settings = snapshot.settings.encoder
    return base_source(settings).fingerprint, settings.max_tokens
