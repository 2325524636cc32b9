"""The cells of a sweep: every combination of the values of some settings."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from engine.core.errors import SettingsError, UsageError
from engine.lab.checks.options import split_options
from engine.project.stage import fingerprint
from engine.settings.edit import apply_changes
from engine.settings.load import format_toml_value, parse_value, validate
from engine.settings.schema import Settings
from engine.training.recipe import config_of, set_steps

SECTIONS = ("ranking", "training")
"""Sections whose settings a sweep can change."""
MEASURING = ("evaluation", "lab", "search")
"""Sections that no training depends on."""
_EXAMPLE = "For example: --grid ranking.k=200,1000."


@dataclass(frozen=True, slots=True)
class Cell:
    """A training and its measurement."""

    number: int
    """Position, from 1."""
    changes: Mapping[str, Any]
    """Setting, such as `training.seed` → value, None for the default."""
    key: str
    """Equal for cells that train and are measured exactly the same."""
    label: str = ""
    """Name among the cells of the same `model`; cells with equal labels differ in their `seed`."""
    model: str = ""
    """Base model, empty for the project's."""
    seed: int | None = None
    training: str = ""
    """Equal for cells that train the same, though they may be measured differently."""

    @property
    def name(self) -> str:
        """The name for users, such as `MODEL, k 200, seed 1`; the number if there is none."""
        seed = "" if self.seed is None else f"seed {self.seed}"
        name = ", ".join(filter(None, (self.model, self.label, seed)))
        return name or str(self.number)


def make_grid(
    axes: Sequence[str],
    settings: Settings,
    chunks: int,
) -> tuple[Cell, ...]:
    """Return a cell for every combination of values of `axes` ("section.key=value,value").

    Cells that share BM25 rankings follow one another. `chunks`: the number of chunks, which limits
    the depth of rankings. Raises UsageError without any axis or value, and SettingsError for an
    unknown setting or value (with the nearest) and for a cell that cannot be trained.
    """
    wanted: dict[str, list[Any]] = {}
    for text in axes:
        name, values = _parse_axis(text)
        if name in wanted:
            raise UsageError(
                f"The setting {name} is given twice.",
                "Each setting has one --grid.",
                f"List all values of {name} in one --grid.",
                code="grid-setting-twice",
            )
        wanted[name] = values
    if not wanted:
        raise UsageError(
            "The sweep has no grid.", "It would train nothing.", _EXAMPLE, code="grid-invalid"
        )
    # Cells of the same depth follow one another, in the order in which the depths were given.
    depths = wanted.get("ranking.k", [None])
    by_depth = sorted(
        combinations(wanted), key=lambda changes: depths.index(changes.get("ranking.k"))
    )
    # A setting with a single value does not distinguish cells, so it is not in their labels.
    varied = [name for name, values in wanted.items() if len(values) > 1] or list(wanted)
    cells = []
    for number, changes in enumerate(by_depth, 1):
        changed = changed_settings(settings, changes)
        cells.append(
            Cell(
                number=number,
                changes=changes,
                key=cell_key(changes, changed, chunks),
                label=label_of({name: changes[name] for name in varied}),
                training=training_key(changes, changed, chunks),
            )
        )
    return tuple(cells)


def twin_of(cells: Sequence[Cell], cell: Cell) -> Cell | None:
    """Return the earlier cell that trains and is measured exactly the same, or None."""
    for earlier in cells:
        if earlier.key == cell.key and earlier.number < cell.number:
            return earlier
    return None


def combinations(axes: Mapping[str, Sequence[Any]]) -> list[dict[str, Any]]:
    """Return every combination of the values of settings."""
    return [dict(zip(axes, values, strict=True)) for values in itertools.product(*axes.values())]


def label_of(varied: Mapping[str, Any]) -> str:
    """Describe settings without the names of their sections, such as "m 6, strategy uniform"."""
    parts = []
    for name, value in varied.items():
        _, _, key = name.partition(".")
        parts.append(f"{key.replace('_', ' ')} {value}")
    return ", ".join(parts)


def _parse_axis(text: str) -> tuple[str, list[Any]]:
    """Return the setting and the distinct values of an axis, such as `ranking.k=100, 1000`.

    Raises UsageError, SettingsError.
    """
    name, _, values = text.partition("=")
    name = name.strip()
    parts = [part.strip() for part in values.split(",")]
    if not all(parts):
        raise UsageError(
            f"'{text}' is not a grid.",
            "A grid is a setting, '=' and values separated by commas.",
            _EXAMPLE,
            code="grid-invalid",
        )
    section, _, key = name.rpartition(".")
    parsed = [parse_value(part) for part in parts]
    for value in parsed:
        setting = {key: value}
        validate({section: setting} if section else setting, f"--grid {name}")
    if section not in SECTIONS:
        raise SettingsError(
            f"A sweep cannot change the setting '{name}'.",
            f"It trains a model for each value; {name} is not among [ranking] and [training], which"
            " say how.",
            "To compare its values, set one after the other in project.toml, and run 'engine adapt'"
            " each time.",
            code="grid-setting-untrained",
        )
    return name, list(dict.fromkeys(parsed))


def cell_key(
    changes: Mapping[str, Any],
    changed: Settings,
    chunks: int,
    encoder: str = "",
    times: Sequence[int] = (),
) -> str:
    """Return a fingerprint of what the figures of a cell with these `changes` depend on.

    `changed` are all its settings (`changed_settings`), `chunks` the number of the project's
    chunks. `encoder`: the fingerprint of a base encoder other than the project's. `times`:
    modification times of the files that the cell is measured with.
    """
    parts = _trained_parts(changed, chunks)
    if times:
        parts["times"] = times
    measured = _without_sections(changes, SECTIONS)
    return fingerprint(
        encoder=encoder,
        measured=measured,
        **parts,
    )


def training_key(
    changes: Mapping[str, Any], changed: Settings, chunks: int, encoder: str = ""
) -> str:
    """Return a fingerprint of what the cell's training depends on.

    It takes the arguments of `cell_key`, and leaves out what the cell is measured with.
    """
    others = _without_sections(changes, (*SECTIONS, *MEASURING))
    parts = _trained_parts(changed, chunks)
    return fingerprint(
        encoder=encoder,
        chosen=others,
        **parts,
    )


def _without_sections(changes: Mapping[str, Any], sections: Sequence[str]) -> dict[str, Any]:
    """Return the changes to settings that are not in `sections`."""
    others = {}
    for name, value in changes.items():
        if name.partition(".")[0] not in sections:
            others[name] = value
    return others


def _trained_parts(changed: Settings, chunks: int) -> dict[str, Any]:
    """Return the values of [ranking] and [training] in a cell that have an effect with its loss.

    Cells that differ only in other settings, which have no effect, thus get the same key.
    """
    ranking = changed.ranking
    config = config_of(changed)
    lists: dict[str, Any] = {}
    if config.uses_lists:
        lists = ranking.model_dump(include={"m", "strategy", "lists_per_query"})
        if not ranking.keep_evidence:
            lists["keep_evidence"] = False
    depth = min(ranking.k, max(1, chunks))
    recipe = config.numbers()
    # Without a teacher its settings have no effect.
    if not config.needs_teacher:
        depth = min(depth, config.negative_ranks[1])
        for name in ("teacher", "teacher_temperature", "target", "target_entropy"):
            del recipe[name]
    if changed.training.query_source != "all":
        recipe["query_source"] = changed.training.query_source
    return {
        "config": recipe,
        "lists": lists,
        "k": depth,
        "share": changed.training.query_share,
    }


def steps_of(
    cell: Cell,
    settings: Settings,
    queries: int,
) -> int:
    """Return the maximum number of training steps of a cell with this many training queries."""
    changed = changed_settings(settings, cell.changes)
    config = set_steps(
        config_of(changed),
        changed,
        queries,
    )
    steps = 0
    if config.method != "PT":
        steps += config.steps
    if config.method != "FT":
        steps += config.pretrain_steps
    return steps


def changed_settings(settings: Settings, changes: Mapping[str, Any]) -> Settings:
    """Return all settings of a cell with these changes. Raises SettingsError that names them."""
    try:
        changes_of_settings, _ = split_options(changes)
        dumped = settings.model_dump(exclude_none=True)
        changed = validate(apply_changes(dumped, changes_of_settings))
        # Raises SettingsError for settings that exclude each other.
        config_of(changed)
    except SettingsError as error:
        assignments = ", ".join(
            f"{name} = {format_toml_value(value)}" for name, value in changes.items()
        )
        raise SettingsError(
            f"The cell {assignments} cannot be trained.",
            f"{error.what} {error.why}",
            error.to_do,
            code="cell-invalid",
        ) from None
    return changed
