"""The report of an evaluation: report.json holds everything, report.html shows it in one
self-contained page.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from engine.core.errors import DamagedError
from engine.core.events import Choice, Warned, read
from engine.core.figures import Interval
from engine.core.messages.report import QuerySetReport, SearchMode
from engine.evaluation.choosing import ModeSelection
from engine.evaluation.reporting.verdict import query_sets_of
from engine.evaluation.studies.forgetting import Forgetting
from engine.evaluation.studies.robustness import Robustness
from engine.evaluation.studies.sentence_pairs import SentenceFigures
from engine.project.store.artifact_info import TrainingHistory

SCHEMA = 4
_CHOICE_KEYS = {"served": "in_use", "strength": "weight"}
"""Of `selection` in schema 1, key → its name now."""
_NAMES = ("in_use", "changed_system", "base")
"""What holds the name of a system."""


@dataclass(frozen=True, slots=True)
class ReportData:
    """Everything the report says; docs/report.md describes all of it.

    `created`: ISO 8601 time, UTC. `settings`: section → name → value. `sizes`: what → how many.
    `diagnostics`: system → figure name → value, or mean with interval.
    """

    project: str
    created: str
    version: str
    selection: Mapping[SearchMode, ModeSelection]
    query_sets: Sequence[QuerySetReport]
    fusion: Mapping[str, Any] = field(default_factory=dict)
    training: TrainingHistory = field(default_factory=TrainingHistory)
    settings: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    choices: Sequence[Choice] = ()
    sizes: Mapping[str, int] = field(default_factory=dict)
    diagnostics: Mapping[str, Mapping[str, float | Interval]] = field(default_factory=dict)
    warnings: Sequence[str] = ()
    robustness: Robustness | None = None
    general: Forgetting | None = None
    threshold: Mapping[str, Any] | None = None
    similarities: Mapping[str, Any] | None = None
    sentences: SentenceFigures | None = None
    advice: str = ""
    reranker: Mapping[str, Any] | None = None


def choices_and_warnings(log: Path) -> tuple[list[Choice], list[str]]:
    """Of a run's event log: every automatic choice, the last of each, and every warning, once
    each.
    """
    events = [event for event, _ in read(log)]
    choices = {(event.stage, event.setting): event for event in events if isinstance(event, Choice)}
    return list(choices.values()), list(
        dict.fromkeys(event.text for event in events if isinstance(event, Warned))
    )


def write_report(
    folder: Path, data: ReportData, template: Path | None = None, project: str = "PROJECT"
) -> Path:
    """Write report.json and report.html into `folder` (made if missing) and return the page's
    path.

    The page is rendered from what report.json says, all text escaped. `template` None takes the one
    that ships with the product. `project`: what commands call it. Numbers that are not finite
    become null. OSError when the disk refuses.
    """
    from engine.evaluation.reporting.page import render

    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    text = json.dumps(
        {"schema": SCHEMA, **plain(asdict(data))}, ensure_ascii=False, indent=1, allow_nan=False
    )
    (folder / "report.json").write_bytes(text.encode("utf-8", "replace"))
    page = render(read_report(folder), template, project)
    (folder / "report.html").write_bytes(page.encode("utf-8"))
    return folder / "report.html"


def read_report(folder: Path) -> dict[str, Any]:
    """What report.json in `folder` says, under the present keys.

    DamagedError when it is missing, broken or of another schema.
    """
    try:
        report = json.loads((folder / "report.json").read_bytes())
        if report["schema"] != SCHEMA:
            raise ValueError(f"schema {report['schema']}, this program reads {SCHEMA}")
        query_sets_of(report)  # what is no such set is damaged, too
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        what = f"The report in {folder} cannot be read."
        why = f"{type(error).__name__}: {error}"
        raise DamagedError.of_stage("evaluate", what, why, code="report-damaged") from error
    return dict(report)


def plain(value: Any) -> Any:
    """JSON types only: tuples become lists, mappings' keys texts, NaN and infinity null,
    anything else its text.
    """
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple, set, frozenset)):
        return [plain(item) for item in value]
    if isinstance(value, float):
        if math.isfinite(value):
            return float(value)
        return None
    if value is None or isinstance(value, (str, bool, int)):
        return value
    return str(value)
