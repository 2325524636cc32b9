"""The model card: data sizes, settings, figures with intervals, hashes.

It holds no document text and no query.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path, PureWindowsPath
from typing import Any

from engine.core.errors import EngineError
from engine.core.figures import FigureTable
from engine.core.messages.report import IMPORTED_SET, QUERY_SETS, SearchMode
from engine.core.records import query_label
from engine.core.systems import IN_USE, IN_USE_ALONE, find_twins, label_of
from engine.core.text import about_count, metric_name
from engine.encoders.geometry.spaces import OwnLengths, read_geometry
from engine.evaluation.reporting.report import read_report
from engine.evaluation.reporting.verdict import own_systems_of, tables_of
from engine.export.models import (
    ADAPTER_FOLDER,
    CHUNK_FOLDER,
    MODEL_FOLDER,
    OF_SEMANTIC_SEARCH,
    QUERY_FOLDER,
)
from engine.export.serving import load_template
from engine.export.source import Source
from engine.project.store.artifact_info import AdapterInfo, EvaluationInfo
from engine.version import __version__

FORMAT = 1
METRICS = (
    "ndcg@10",
    "hit@1",
    "hit@4",
    "hit@10",
    "mrr@10",
    "recall@10",
)
_ENCODERS = (MODEL_FOLDER, QUERY_FOLDER, CHUNK_FOLDER)
_OF_ONE_ENCODER = (
    ADAPTER_FOLDER,
    *_ENCODERS,
    *(f"{name}-onnx" for name in _ENCODERS),
    *(f"{name}-gguf" for name in _ENCODERS),
)
PARTS = (*_OF_ONE_ENCODER, *(OF_SEMANTIC_SEARCH + name for name in _OF_ONE_ENCODER))
"""Folders of an export that may be used alone."""
_TEMPLATE = "card.md.j2"
# Settings that say where documents lie, or who gets them.
_PRIVATE = {
    ("corpus", "paths"),
    ("corpus", "include"),
    ("corpus", "exclude"),
    ("corpus", "passwords_file"),
    ("queries", "endpoint"),
    ("encoder", "endpoint"),
}


def collect_facts(source: Source, kinds: Sequence[str]) -> dict[str, Any]:
    """Return what the card and the manifest say.

    It has JSON types only, and no text of a document or a query.
    """
    evaluation = source.evaluation
    info = EvaluationInfo()
    own_systems: Sequence[str] = IN_USE_ALONE
    figures = {}
    if evaluation:
        info = evaluation.info
        report = read_report(source.project.folder_of(evaluation))
        own_systems = own_systems_of(report)
        figures = {kind: _select_figures(table) for kind, table in tables_of(report).items()}
    return {
        "format": FORMAT,
        "program": f"bmembed-tui {__version__}",
        "created": datetime.now(UTC).isoformat(timespec="seconds"),
        "kinds": [*kinds],
        **_describe_encoders(source),
        "adapter": _describe_adapter(source),
        "notes": [asdict(note) for note in source.notes(kinds)],
        "stale": _list_stale_stages(source),
        "sizes": _count_sizes(source),
        "settings": _select_settings(source),
        "in_use": {mode: chosen.name for mode, chosen in info.in_use.items()},
        "reasons": {mode: chosen.reason for mode, chosen in info.in_use.items()},
        "own_systems": own_systems,
        "fusion": asdict(info.fusion),
        "figures": figures,
    }


def write_cards(known: Mapping[str, Any], folder: Path) -> None:
    """Write README.md of the export, and of every folder in it that may be used alone.

    `known`: from `collect_facts`.
    """
    own_systems = known["own_systems"]
    hidden = find_twins(own_systems)

    def label_system(name: str) -> str:
        if name in own_systems and not name.endswith(IN_USE):
            return f"{label_of(name)} (in use)"
        return label_of(name)

    template = load_template(
        _TEMPLATE,
        label=label_system,
        metric=metric_name,
        about=about_count,
    )
    for part in ("", *PARTS):
        if (folder / part).is_dir():
            text = template.render(
                known=known,
                hidden=hidden,
                part=part.removeprefix(OF_SEMANTIC_SEARCH) or "all",
                is_semantic=part.startswith(OF_SEMANTIC_SEARCH),
                folder=folder,
                query_sets=QUERY_SETS,
                imported=IMPORTED_SET,
            )
            (folder / part / "README.md").write_text(
                text,
                encoding="utf-8",
                newline="\n",
            )


def _describe_encoders(source: Source) -> dict[str, Any]:
    """Return `encoder` (None before anything is embedded), and `semantic_encoder` if different."""
    try:
        by_mode = {mode: _describe_encoder(source, mode) for mode in source.modes}
    except EngineError:
        return {"encoder": None}
    if "semantic" not in by_mode:
        return {"encoder": by_mode["hybrid"]}
    return {"encoder": by_mode["hybrid"], "semantic_encoder": by_mode["semantic"]}


def _describe_encoder(source: Source, mode: SearchMode) -> dict[str, Any]:
    """Return what the card says of the encoder of a search mode.

    Raises EngineError if there is none.
    """
    encoder = source.encoders[mode]
    index = source.index
    if mode == "semantic" and source.semantic_index is not None:
        index = source.semantic_index
    folder = encoder.source.folder
    return {
        "base_model": _strip_markdown(encoder.source.name),
        "base_weights_sha256": folder.weights_sha256 if folder else "",
        "base_fingerprint": encoder.source.fingerprint,
        "interpolation_weight": encoder.weight,
        "adapter_scope": encoder.scope,
        "max_tokens": min(encoder.source.max_tokens, encoder.max_tokens),
        "prompts": {name: text for name, text in asdict(encoder.source.prompts).items() if text},
        "dimension": index.width,
        "query_encoder": encoder.encoder,
        "chunk_encoder": encoder.chunk_encoder,
        "vectors_stored_as": index.manifest["dtype"],
    }


def _describe_adapter(source: Source) -> dict[str, Any] | None:
    """Return what was trained, None if nothing was."""
    trained = source.store.artifact(AdapterInfo)
    if trained is None or not trained.info.adapter:
        return None
    info = trained.info
    folder, weights = source.adapter_weights()
    _, weight = source.adapter()
    small = source.settings.encoder.small_model
    geometry = read_geometry(folder)
    return {
        "small_model": _strip_markdown(Path(small).name),
        "length_scale": geometry.small_scale if isinstance(geometry, OwnLengths) else None,
        "digest": info.digest,
        "base_fingerprint": info.model,
        "adapter_scope": info.adapter_scope,
        "steps": info.steps,
        "best_step": info.best_step,
        "weight_in_use": weight,
        "weights_in_use": dict(weights),
    }


def _list_stale_stages(source: Source) -> list[str]:
    """Return the stages whose results are not up to date."""
    from engine.runs.pipeline import all_status

    return [status.stage for status in all_status(source) if status.state == "stale"]


def _count_sizes(source: Source) -> dict[str, int]:
    """Count documents, chunks, queries of each split and judged questions."""
    counts = source.store.counts()
    _, splits = source.store.query_counts()
    return {
        "documents": counts["documents"],
        "chunks": counts["chunks"],
        **{f"queries ({query_label(split)})": count for split, count in splits.items()},
        "judged questions": counts["judged_queries"],
    }


def _select_settings(source: Source) -> dict[str, dict[str, Any]]:
    """Return every setting that shaped the encoder.

    Files appear by name only, and nothing says where documents lie.
    """
    from engine.queries.choosing import with_backend
    from engine.training.recipe import config_of

    settings = with_backend(source)
    all_settings = settings.model_dump(mode="json", exclude={"search"})
    # The next run reports training settings that contradict each other; show them as they are.
    with suppress(EngineError):
        preset = all_settings["training"]["preset"]
        all_settings["training"] = {"preset": preset, **asdict(config_of(settings))}
    selected: dict[str, dict[str, Any]] = {}
    for section, values in all_settings.items():
        selected[section] = {}
        for name, value in values.items():
            if (section, name) not in _PRIVATE and value not in ("", None):
                selected[section][name] = _show_setting(value)
    return selected


def _show_setting(value: Any) -> Any:
    """Return a value as the card shows it: only the last part of a path, and no Markdown."""
    if isinstance(value, str):
        # A Windows path accepts both kinds of separators.
        return _strip_markdown(PureWindowsPath(value).name)
    if isinstance(value, (list, tuple)):
        return [_show_setting(item) for item in value]
    return value


def _select_figures(table: FigureTable) -> dict[str, Any]:
    """Return the figures of one set of queries, in percent, and the differences to base.

    Figures: system → metric → {value, low, high}.
    """
    data = asdict(table)
    systems = {}
    for system, cells in data["systems"].items():
        systems[system] = {name: cells[name] for name in METRICS if name in cells}
    differences = {}
    for system, cells in data["differences"].items():
        if "ndcg@10" in cells:
            differences[system] = cells["ndcg@10"]
    return {
        "queries": table.queries,
        "synthetic": table.synthetic,
        "left_out": table.left_out,
        "systems": systems,
        "differences": differences,
    }


def _strip_markdown(name: str) -> str:
    """Return a file's name without characters that Markdown would interpret."""
    return "".join(char for char in name if char.isprintable() and char not in "`|<>[]*")
