"""The report of an evaluation: report.json holds everything, report.html shows it on one page."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from engine.core.errors import DamagedError
from engine.core.events import Choice, Warned, read
from engine.core.messages.report import QuerySetReport, SearchMode
from engine.evaluation.reporting.verdict import query_sets_of
from engine.evaluation.selection import ModeSelection
from engine.project.store.artifact_info import TrainingHistory

SCHEMA = 5
"""Version of the format of report.json."""


@dataclass(frozen=True, slots=True)
class ReportData:
    """Everything the report says; docs/report.md describes all of it.

    `created` is an ISO 8601 time in UTC, `settings` maps sections and names to values, `sizes`
    counts what the project holds.
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
    warnings: Sequence[str] = ()
    threshold: Mapping[str, Any] | None = None
    advice: str = ""
    reranker: Mapping[str, Any] | None = None


def read_choices_and_warnings(log: Path) -> tuple[list[Choice], list[str]]:
    """Return the last of each automatic choice and every distinct warning in a run's event log."""
    choices = {}
    warnings: dict[str, None] = {}
    for event, _ in read(log):
        if isinstance(event, Choice):
            choices[event.stage, event.setting] = event
        elif isinstance(event, Warned):
            warnings[event.text] = None
    return list(choices.values()), list(warnings)


def write_report(
    folder: Path,
    data: ReportData,
    project: str = "PROJECT",
) -> Path:
    """Write report.json and report.html into a folder and return the page's path.

    The folder is created if it is missing. The page is rendered from report.json with all text
    escaped. `project` is what commands call it. Numbers that are not finite become null. Raises
    OSError if the disk refuses.
    """
    folder.mkdir(
        mode=0o700,
        parents=True,
        exist_ok=True,
    )
    content = {"schema": SCHEMA, **to_json_types(asdict(data))}
    text = json.dumps(
        content,
        ensure_ascii=False,
        indent=1,
        allow_nan=False,
    )
    # Characters that UTF-8 has no bytes for, such as half of a pair, become question marks.
    (folder / "report.json").write_bytes(text.encode("utf-8", "replace"))
    return write_page(folder, project)


def write_page(
    folder: Path,
    project: str,
    lab: str = "",
) -> Path:
    """Write the page of a folder's report.json, and return its path.

    `lab`: the relative address of the page that the lab made of the same encoders, if any. Raises
    OSError if the disk refuses, DamagedError as `read_report`.
    """
    from engine.evaluation.reporting.page import render

    page = render(
        read_report(folder),
        project,
        lab,
    )
    (folder / "report.html").write_bytes(page.encode("utf-8"))
    return folder / "report.html"


def read_report(folder: Path) -> dict[str, Any]:
    """Read a folder's report.json.

    Raises DamagedError if it is missing, broken or of another schema.
    """
    try:
        report = json.loads((folder / "report.json").read_bytes())
        if report["schema"] != SCHEMA:
            raise ValueError(f"schema {report['schema']}, this program reads {SCHEMA}")
        # Parsing the query sets also finds damage in them.
        query_sets_of(report)
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        what = f"The report in {folder} cannot be read."
        why = f"{type(error).__name__}: {error}"
        raise DamagedError.of_stage(
            "evaluate",
            what,
            why,
            code="report-damaged",
        ) from error
    return dict(report)


def to_json_types(value: Any) -> Any:
    """Return a value of JSON types only.

    Tuples and sets become lists, keys become strings, NaN and infinity become null, and any other
    type its string.
    """
    if isinstance(value, Mapping):
        return {str(key): to_json_types(item) for key, item in value.items()}
    if isinstance(value, (list, tuple, set, frozenset)):
        return [to_json_types(item) for item in value]
    if isinstance(value, float):
        return float(value) if math.isfinite(value) else None
    if value is None or isinstance(value, (str, bool, int)):
        return value
    return str(value)
