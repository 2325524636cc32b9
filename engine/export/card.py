"""The model card: data sizes, settings, figures with intervals, hashes.

It holds no document text and no query.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path, PureWindowsPath
from typing import Any

from engine.core.assets import asset_path
from engine.core.errors import EngineError
from engine.core.figures import FigureTable
from engine.core.messages.report import SearchMode
from engine.core.records import query_label
from engine.core.systems import IN_USE, IN_USE_ALONE, label_of, twins
from engine.encoders.geometry import OwnLengths, read_geometry
from engine.evaluation.reporting.report import read_report
from engine.evaluation.reporting.verdict import own_systems_of, tables_of
from engine.export.models import (
    ADAPTER_FOLDER,
    CHUNK_FOLDER,
    MODEL_FOLDER,
    OF_SEMANTIC_SEARCH,
    QUERY_FOLDER,
)
from engine.export.source import Source
from engine.project.store.artifact_info import AdapterInfo, EvaluationInfo
from engine.version import __version__

FORMAT = 1
METRICS = ("ndcg@10", "hit@1", "hit@4", "hit@10", "mrr@10", "recall@10")
_ENCODERS = (MODEL_FOLDER, QUERY_FOLDER, CHUNK_FOLDER)
_OF_ONE_ENCODER = (
    ADAPTER_FOLDER,
    *_ENCODERS,
    *(f"{name}-onnx" for name in _ENCODERS),
    *(f"{name}-gguf" for name in _ENCODERS),
)
PARTS = (*_OF_ONE_ENCODER, *(OF_SEMANTIC_SEARCH + name for name in _OF_ONE_ENCODER))
_TEMPLATE = "export/card.md.j2"
_PRIVATE = {
    ("corpus", "paths"),
    ("corpus", "include"),
    ("corpus", "exclude"),
    ("corpus", "passwords_file"),
    ("queries", "endpoint"),
    ("encoder", "endpoint"),
}


def facts(source: Source, kinds: Sequence[str]) -> dict[str, Any]:
    """What the card and the manifest say; JSON types only, and nothing of it is text of a
    document or a query.
    """
    evaluation = source.evaluation
    if evaluation:
        info = evaluation.info
    else:
        info = EvaluationInfo()
    if evaluation:
        report = read_report(source.project.folder_of(evaluation))
    else:
        report = None
    if report:
        tables = tables_of(report)
    else:
        tables = {}
    return {
        "format": FORMAT,
        "program": f"bmembed-tui {__version__}",
        "created": datetime.now(UTC).isoformat(timespec="seconds"),
        "kinds": [*kinds],
        **_encoders(source),
        "adapter": _adapter(source),
        "notes": [asdict(note) for note in source.notes(kinds)],
        "stale": _stale(source),
        "sizes": _sizes(source),
        "settings": _settings(source),
        "in_use": {mode: chosen.name for mode, chosen in info.in_use.items()},
        "reasons": {mode: chosen.reason for mode, chosen in info.in_use.items()},
        "own_systems": own_systems_of(report) if report else IN_USE_ALONE,
        "fusion": asdict(info.fusion),
        "figures": {kind: _figures(table) for kind, table in tables.items()},
    }


def write_cards(known: Mapping[str, Any], folder: Path) -> None:
    """README.md of the export, and of every folder in it that may be taken alone."""
    from jinja2 import Environment, StrictUndefined

    environment = Environment(
        autoescape=False, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    own = known["own_systems"]
    hidden = twins(own)
    environment.filters["label"] = lambda name: (
        f"{label_of(name)} (in use)"
        if name in own and not name.endswith(IN_USE)
        else label_of(name)
    )
    template = environment.from_string(asset_path(_TEMPLATE).read_text(encoding="utf-8"))
    for part in ("", *PARTS):
        if (folder / part).is_dir():
            text = template.render(
                known=known,
                hidden=hidden,
                part=part.removeprefix(OF_SEMANTIC_SEARCH) or "all",
                is_semantic=part.startswith(OF_SEMANTIC_SEARCH),
                folder=folder,
            )
            (folder / part / "README.md").write_text(text, encoding="utf-8")


def _encoders(source: Source) -> dict[str, Any]:
    """`encoder`: what search uses, None before anything is embedded; `semantic_encoder`: that of
    semantic search, where it is another.
    """
    try:
        described = {mode: _encoder(source, mode) for mode in source.modes}
    except EngineError:
        return {"encoder": None}
    if "semantic" not in described:
        return {"encoder": described["hybrid"]}
    return {"encoder": described["hybrid"], "semantic_encoder": described["semantic"]}


def _encoder(source: Source, mode: SearchMode) -> dict[str, Any]:
    encoder = source.encoders[mode]
    if mode == "semantic":
        index = source.semantic_index
    else:
        index = None
    index = index or source.index
    return {
        "base_model": _plain(encoder.source.name),
        "base_weights_sha256": (
            encoder.source.folder.weights_sha256 if encoder.source.folder else ""
        ),
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


def _adapter(source: Source) -> dict[str, Any] | None:
    """What was trained; None where nothing was."""
    trained = source.store.artifact(AdapterInfo)
    if trained is None or not trained.info.adapter:
        return None
    info = trained.info
    folder, weights = source.adapter_weights()
    small = source.settings.encoder.small_model
    geometry = read_geometry(folder)
    return {
        "small_model": _plain(Path(small).name),
        "length_scale": geometry.small_scale if isinstance(geometry, OwnLengths) else None,
        "digest": info.digest,
        "base_fingerprint": info.model,
        "adapter_scope": info.adapter_scope,
        "steps": info.steps,
        "best_step": info.best_step,
        "weight_in_use": source.adapter()[1],
        "weights_in_use": dict(weights),
    }


def _stale(source: Source) -> list[str]:
    from engine.runs.pipeline import all_status

    return [status.stage for status in all_status(source) if status.state == "stale"]


def _sizes(source: Source) -> dict[str, int]:
    counts = source.store.counts()
    _, splits = source.store.query_counts()
    return {
        "documents": counts["documents"],
        "chunks": counts["chunks"],
        **{f"queries ({query_label(split)})": count for split, count in splits.items()},
        "judged questions": counts["judged_queries"],
    }


def _settings(source: Source) -> dict[str, dict[str, Any]]:
    """Every setting that shaped the encoder; of files their names alone, and nothing about where
    documents lie.
    """
    from engine.queries.choosing import with_backend
    from engine.training.recipe import config_of

    settings = with_backend(source)
    chosen = settings.model_dump(mode="json", exclude={"search"})
    try:
        chosen["training"] = {
            "preset": chosen["training"]["preset"],
            **asdict(config_of(settings)),
        }
    except EngineError:  # settings that do not go together are reported by the next run
        chosen["training"] = {
            key: value for key, value in chosen["training"].items() if value is not None
        }
    return {
        section: {
            name: _setting(value)
            for name, value in values.items()
            if (section, name) not in _PRIVATE and value not in ("", None)
        }
        for section, values in chosen.items()
    }


def _setting(value: Any) -> Any:
    """A value as the card shows it: of everything that looks like a path its last part alone,
    and no Markdown.
    """
    if isinstance(value, str):
        return _plain(PureWindowsPath(value).name)  # takes both kinds of separators
    if isinstance(value, (list, tuple)):
        return [_setting(one) for one in value]
    return value


def _figures(table: FigureTable) -> dict[str, Any]:
    """Of one set of queries: system → metric → {value, low, high} in percent, and the
    differences to base.
    """
    data = asdict(table)
    shown = {
        system: {name: cells[name] for name in METRICS if name in cells}
        for system, cells in data["systems"].items()
    }
    gaps = {
        system: cells["ndcg@10"]
        for system, cells in data["differences"].items()
        if "ndcg@10" in cells
    }
    counts = {"queries": table.queries, "synthetic": table.synthetic, "left_out": table.left_out}
    return {**counts, "systems": shown, "differences": gaps}


def _plain(name: str) -> str:
    """A file's name, fit for a line of Markdown."""
    return "".join(char for char in name if char.isprintable() and char not in "`|<>[]*")
