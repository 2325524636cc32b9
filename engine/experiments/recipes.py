"""Training recipes by name, to compare on one data set: what each changes in the settings of `[training]`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from engine.core.errors import UsageError
from engine.settings.schema import Settings

if TYPE_CHECKING:
    pass

LOSSES: dict[str, dict[str, Any]] = {
    name: {"objective": name}
    for name in ("mixed", "shared_listnet", "listnet", "listmle", "infonce", "triplet", "plackett_luce")
}
TEACHERS: dict[str, dict[str, Any]] = {
    "teacher-bm25": {"teacher": "bm25"},
    "teacher-mixture": {"teacher": "mixture"},
    "teacher-rrf": {"teacher": "rrf"},
    "teacher-cross-encoder": {"teacher": "cross-encoder"},
    "teacher-entropy": {"target": "entropy"},
    "refresh": {"adapter_scope": "both", "refresh_every": 50},
    "false-negatives-drop": {"false_negatives": "drop"},
    "false-negatives-relabel": {"false_negatives": "relabel"},
}
METHODS: dict[str, dict[str, Any]] = {
    "PT": {"adapter_scope": "both", "method": "PT"},
    "PT-FT": {"adapter_scope": "both", "method": "PT-FT"},
    "adapter-scope-both": {"adapter_scope": "both"},
    "adapter-scope-queries": {"adapter_scope": "queries"},
    "adapter-scope-both-then-queries": {"adapter_scope": "both-then-queries"},
    "early-stopping-off": {"patience": 10_000_000},
}
MEMORY: dict[str, dict[str, Any]] = {
    "gradcache": {"graph_memory_mb": 0.0},
    "checkpointing": {"gradient_checkpointing": "on"},
    "compiled": {"compile": "on"},
}
PUBLISHED: dict[str, dict[str, Any]] = {"paper": {"preset": "paper"}, "cl": {"preset": "cl"}}
GROUPS = {"losses": LOSSES, "teachers": TEACHERS, "methods": METHODS, "memory": MEMORY, "published": PUBLISHED}
DEFAULT = "default"
RECIPES: dict[str, dict[str, Any]] = {DEFAULT: {}, **LOSSES, **TEACHERS, **METHODS, **MEMORY, **PUBLISHED}


def untrainable(name: str, settings: Settings) -> str:
    """Why the recipe `name`, which is in `settings`, cannot be trained on this machine; empty where it can."""
    from engine.training.recipe import config_of

    if name == "teacher-cross-encoder" and not settings.training.cross_encoder:
        return "no cross-encoder is named: --set training.cross_encoder=FOLDER"
    try:
        config = config_of(settings)
    except UsageError as error:
        return f"{error.what} {error.why}"
    if config.never_refreshes:
        return f"hard negatives would be mined after {config.refresh_every} steps, and there are {config.steps}"
    from engine.encoders.hardware import choose_hardware

    if (
        config.compile == "on"
        and choose_hardware(settings.encoder.device, settings.encoder.dtype, "train").device == "cpu"
    ):
        return "blocks are compiled on a GPU only"
    return ""


def numbers_of(settings: Settings, first: float | None = None) -> dict[str, Any]:
    """Every number of the recipe in `settings`, what is automatic resolved: recipes with the same ones are one training.

    `first`: what `engine.ranking.hit_at_1.bm25_hit_at_1` gives. Raises SettingsError for values that do not go together.
    """
    from engine.training.recipe import config_of

    config = config_of(settings, first)
    return {**asdict(config), "teacher": config.used_teacher, "lists": settings.ranking.model_dump()}


def recipes_of(wanted: Sequence[str]) -> dict[str, dict[str, Any]]:
    """Name → settings of `[training]`; a group's name stands for its recipes, `all` for every one. The first is `default`.

    Raises UsageError for a name that is none.
    """
    names = [DEFAULT]
    for name in wanted:
        if name == "all":
            names += RECIPES
        elif name in GROUPS:
            names += GROUPS[name]
        elif name in RECIPES:
            names.append(name)
        else:
            raise UsageError(
                f"There is no recipe {name!r}.", f"Groups: all, {', '.join(GROUPS)}. Recipes: {', '.join(RECIPES)}.",
                "Name some of these, with commas between.", code="recipe-unknown",
            )  # fmt: skip
    return {name: RECIPES[name] for name in dict.fromkeys(names)}
