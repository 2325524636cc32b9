"""The report of an evaluation: report.json holds everything, report.html shows it in one self-contained page."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from engine.core.assets import asset_path
from engine.core.errors import DamagedError
from engine.core.events import Choice, Event, Warned, read
from engine.core.systems import MERGE, SERVED, WAYS, is_merge, label_of, ordered, system_of
from engine.evaluation.reporting.ablation import breakdown_pairs, gain_breakdown, other_pairs
from engine.evaluation.reporting.changes import Changes
from engine.evaluation.reporting.charts import Bar, Line, bar_chart, change_chart, line_chart
from engine.evaluation.reporting.densities import KINDS
from engine.evaluation.reporting.geometry import Plane
from engine.evaluation.selection import Selection
from engine.metrics.bootstrap import Interval

if TYPE_CHECKING:
    from jinja2 import Environment

SCHEMA = 1
CHARTED = ("ndcg@10", "hit@1", "hit@10")
MAIN = ("ndcg@10", "hit@1", "hit@10", "mrr@10")
"""Metrics whose differences are told at once; those of the others are folded up."""
PERTURBED = {"typo": "mistyped words", "mask": "masked words", "substitute": "words exchanged"}
_TEMPLATE = "report/report.html.j2"
_AFTER = ("served", "adapted")


@dataclass(frozen=True, slots=True)
class QuerySetReport:
    """One set of queries: `comparison` is `Comparison.as_dict()`, in percent; `changes` are those of the served system
    (`changed_system`) against the comparison's base; `unmatched` names judged answers that the corpus does not have;
    `synthetic`: how many of the queries measured were made from the documents."""

    name: str
    kind: Literal["judged", "synthetic"]
    comparison: Mapping[str, Any]
    changes: Changes | None = None
    changed_system: str = ""
    unmatched: Sequence[str] = ()
    synthetic: int = 0


@dataclass(frozen=True, slots=True)
class TrainingCurve:
    """`losses`: (step, loss); `held_out`: (step, nDCG@10 in percent)."""

    losses: Sequence[tuple[int, float]] = ()
    held_out: Sequence[tuple[int, float]] = ()


@dataclass(frozen=True, slots=True)
class ChoiceMade:
    """An automatic choice and its reason, as the `Choice` event tells it."""

    stage: str
    setting: str
    value: str
    reason: str


@dataclass(frozen=True, slots=True)
class ReportData:
    """Everything the report says. `created`: ISO 8601 time, UTC. `settings`: section → name → value. `sizes`: what →
    how many. `fusion`: method, weight and reason of hybrid search. `diagnostics`: system → figure name → value, or mean
    with interval (geometry and other figures that decide nothing). `robustness`: `Robustness.as_dict()`, where it was
    asked for; `general`: what `measure_general` gives, where there is an adapter;
    `threshold`: what `learn_threshold` gives; `similarities`: what `densities` gives; `geometry`: where the candidates
    stand; `baseline`: what the CL baseline's training took, where it was asked for;
    `sentences`: what `SentencePairs.as_dict` gives;
    `advice`: what to set otherwise, where there is something. docs/report.md describes all of report.json."""

    project: str
    created: str
    version: str
    selection: Selection | None
    query_sets: Sequence[QuerySetReport]
    fusion: Mapping[str, Any] = field(default_factory=dict)
    training: TrainingCurve = field(default_factory=TrainingCurve)
    settings: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    choices: Sequence[ChoiceMade] = ()
    sizes: Mapping[str, int] = field(default_factory=dict)
    diagnostics: Mapping[str, Mapping[str, float | Interval]] = field(default_factory=dict)
    warnings: Sequence[str] = ()
    robustness: Mapping[str, Any] | None = None
    general: Mapping[str, Any] | None = None
    threshold: Mapping[str, Any] | None = None
    similarities: Mapping[str, Any] | None = None
    geometry: Plane | None = None
    baseline: Mapping[str, Any] | None = None
    sentences: Mapping[str, Any] | None = None
    advice: str = ""


def choices_made(log: Path) -> list[ChoiceMade]:
    """Every automatic choice that a run's event log tells, the last of each."""
    made = {(event.stage, event.setting): event for event in _told(log) if isinstance(event, Choice)}
    return [ChoiceMade(event.stage, event.setting, event.value, event.reason) for event in made.values()]


def warnings_logged(log: Path) -> list[str]:
    """Every warning that a run's event log tells, once each."""
    return list(dict.fromkeys(event.text for event in _told(log) if isinstance(event, Warned)))


def _told(log: Path) -> list[Event]:
    return [event for event, _ in read(log)] if log.exists() else []


def write_report(folder: Path, data: ReportData, template: Path | None = None) -> Path:
    """Write report.json and report.html into `folder` (made if missing) and return the page's path.

    The page is rendered from what report.json says, all text escaped. `template` None takes the one that ships with the
    product. Numbers that are not finite become null. OSError when the disk refuses.
    """
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    text = json.dumps({"schema": SCHEMA, **plain(asdict(data))}, ensure_ascii=False, indent=1, allow_nan=False)
    (folder / "report.json").write_bytes(text.encode("utf-8", "replace"))
    page = render(read_report(folder), template)
    (folder / "report.html").write_bytes(page.encode("utf-8"))
    return folder / "report.html"


def read_report(folder: Path) -> dict[str, Any]:
    """What report.json in `folder` says. DamagedError when it is missing, broken or of another schema."""
    try:
        report = json.loads((folder / "report.json").read_bytes())
        if report["schema"] != SCHEMA:
            raise ValueError(f"schema {report['schema']}, this program reads {SCHEMA}")
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise DamagedError(
            f"The report in {folder} cannot be read.", f"{type(error).__name__}: {error}", "Run the stage 'evaluate' again.",
            code="report-damaged", stage="evaluate", command="evaluate",
        ) from error  # fmt: skip
    return dict(report)


def render(report: Mapping[str, Any], template: Path | None = None) -> str:
    """The HTML page of a report as `read_report` gives it."""
    from markupsafe import Markup

    from engine.core.text import metric_name

    source = (template or asset_path(_TEMPLATE)).read_text(encoding="utf-8")
    charts = {name: Markup(svg) for name, svg in _curves(report).items()}  # charts.py escapes every label
    bars = [[(name, Markup(svg)) for name, svg in _bars(query_set, report)] for query_set in report["query_sets"]]
    shifts = [Markup(_shift(part, report)) for part in report["query_sets"]]
    blows = {name: Markup(svg) for name, svg in _robustness(report).items()}
    curves = [(name, Markup(svg)) for name, svg in _densities(report)]
    plane, distances = Markup(_plane(report)), Markup(_distances(report))
    environment = pages()
    environment.filters |= {
        "metric": metric_name, "system": _Names(report), "merges": _merges, "merged": is_merge, "without": _without,
    }  # fmt: skip
    return environment.from_string(source).render(
        report=report, charts=charts, bars=bars, shifts=shifts, blows=blows, densities=curves, plane=plane, distances=distances,
        hidden=_twins(report),
        parts=[gain_breakdown(part["comparison"], report["fusion"].get("plain_system") or "") for part in report["query_sets"]],
        hubs=bool(report["fusion"].get("hub_queries")),
        alike=_alike(report), only=breakdown_pairs, without=other_pairs,
        known=[system_of(name) for name in ordered(_shown(report))], main=MAIN,
        diagnosed=list(dict.fromkeys(figure for row in report["diagnostics"].values() for figure in row)),
    )  # fmt: skip


def pages() -> Environment:
    """What renders pages: all text escaped, templates of assets/report, `figure` for numbers."""
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    found = Environment(
        loader=FileSystemLoader(asset_path("report")), autoescape=True, undefined=StrictUndefined, trim_blocks=True,
        lstrip_blocks=True,
    )  # fmt: skip
    found.filters["figure"] = _figure
    found.filters["commas"] = "{:,}".format
    return found


def _twins(report: Mapping[str, Any]) -> set[str]:
    """Systems that the page leaves out, because what is served is base or adapted itself, whose rows say the same."""
    choice = report["selection"]
    if not choice or choice["strength"] not in (0, 1) or report["fusion"].get("hub_queries"):
        return set()
    return {f"{way}{SERVED}" for way in WAYS}


def _alike(report: Mapping[str, Any]) -> set[str]:
    """Systems whose vectors are those of base or adapted, whatever is taken off hubs."""
    choice = report["selection"]
    return {SERVED} if choice and choice["strength"] in (0, 1) else set()


def _without(rows: Mapping[str, Any], names: set[str]) -> dict[str, Any]:
    return {name: row for name, row in rows.items() if name not in names}


def _merges(rows: Mapping[str, Any], wanted: bool) -> dict[str, Any]:
    """Of rows by system, those of merges, or all the others."""
    return {name: row for name, row in rows.items() if is_merge(name) is wanted}


def _shown(report: Mapping[str, Any]) -> set[str]:
    """Systems that stand in some table of the page."""
    return {name for part in report["query_sets"] for name in part["comparison"]["systems"]} - _twins(report)


class _Names:
    """System → how the page calls it."""

    def __init__(self, report: Mapping[str, Any]) -> None:
        self._served = report["selection"]["served"] if _twins(report) else None

    def __call__(self, system: str) -> str:
        name = label_of(system)
        alike = system.rpartition("_")[2] == self._served
        return f"{name} (served)" if self._served and alike else name


def _bars(query_set: Mapping[str, Any], report: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Metric → a bar for each system."""
    from engine.core.text import metric_name

    systems, named, hidden = query_set["comparison"]["systems"], _Names(report), _twins(report)
    charts = []
    for metric in CHARTED:
        cells = [
            (_colour(name), named(name), figures[metric])
            for name, figures in systems.items()
            if metric in figures and name not in hidden and not is_merge(name)
        ]
        bars = [Bar(name, cell["value"], cell["low"], cell["high"], colour) for colour, name, cell in cells]
        charts.append((metric, bar_chart(f"{metric_name(metric)} on {query_set['name']}, percent", bars)))
    return charts


def _shift(query_set: Mapping[str, Any], report: Mapping[str, Any]) -> str:
    """How each query's nDCG@10 changed, from the largest gain to the largest loss."""
    changes, named = query_set["changes"], _Names(report)
    if not changes or not changes.get("differences"):
        return ""
    base = query_set["comparison"]["base"]
    title = f"Change of nDCG@10 from {named(base)} to {named(query_set['changed_system'])}, query by query"
    order = "queries, from the largest gain to the largest loss"
    return change_chart(title, changes["differences"], order, "change of nDCG@10, points")


def _colour(name: str) -> int:
    """BM25, encoders, and each way of joining them have a colour each."""
    return next((number for number, way in enumerate(("bm25", "rrf_", "weighted_")) if name.startswith(way)), 3)


def _curves(report: Mapping[str, Any]) -> dict[str, str]:
    training, selection = report["training"], report["selection"]
    rows = [row for row in (selection["table"] if selection else ()) if row["figure"]]
    merged = Line(
        "nDCG@10", [(row["strength"], row["figure"]["value"]) for row in rows], 1,
        [(row["figure"]["low"], row["figure"]["high"]) for row in rows],
    )  # fmt: skip
    losses = Line("loss", _drawable(training["losses"]), 0)
    held_out = Line("nDCG@10", _drawable(training["held_out"]), 1)
    return {
        "loss": line_chart("Training loss by step", [losses], "step", "loss"),
        "held_out": line_chart("Held-out nDCG@10 by step", [held_out], "step", "nDCG@10, percent"),
        "merge": line_chart(
            "Held-out nDCG@10 by merge strength", [merged], "λ (0 = base, 1 = adapted)", "nDCG@10, percent"
        ),
    }


def _robustness(report: Mapping[str, Any]) -> dict[str, str]:
    """What was done to the queries → nDCG@10 of every system by the number of words that it was done to."""
    charts, named = {}, _Names(report)
    found = report.get("robustness")
    for kind, what in PERTURBED.items() if found else ():
        rows = [row for row in found["rows"] if row["kind"] in ("clean", kind)] if found else []
        lines = []
        for number, system in enumerate(name for name in rows[0]["systems"] if name not in _twins(report)):
            cells = [(row["words"], row["systems"][system]["ndcg@10"]) for row in rows]
            ends = [(cell["low"], cell["high"]) for _, cell in cells]
            lines.append(Line(named(system), [(words, cell["value"]) for words, cell in cells], number, ends))
        charts[kind] = line_chart(f"nDCG@10 by {what} per query", lines, f"{what} per query", "nDCG@10, percent")
    return charts


def _densities(report: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Before and after: system → its three densities, on axes that both share."""
    found = report.get("similarities")
    if not found:
        return []
    names = {"correct": "correct chunks", "top": f"best {found['k']} chunks", "random": "random chunks"}
    after = next((name for name in _AFTER if name in found["systems"] and name not in _twins(report)), None)
    shown = ["base", after] if after else ["base"]
    most = max(max(found["systems"][name][kind]["density"]) for name in shown for kind in KINDS)
    charts = []
    for name in shown:
        lines = [
            Line(names[kind], list(zip(found["cosines"], found["systems"][name][kind]["density"], strict=True)), colour)
            for kind, colour in zip(KINDS, (1, 2, 0), strict=True)
        ]
        scale = (
            "cosine less what is taken off hubs" if found["systems"][name].get("less_hubs") else "cosine with the query"
        )
        title = f"Density of similarities to correct, best and random chunks: {name}"
        charts.append((name, line_chart(title, lines, scale, "density", most)))
    return charts


def _distances(report: Mapping[str, Any]) -> str:
    """Densities of the chunks' distances to general knowledge, by every encoder."""
    found = (report.get("general") or {}).get("distances")
    if not found:
        return ""
    hidden = _twins(report) | _alike(report)
    shown = [(name, cell) for name, cell in found["systems"].items() if name not in hidden]
    lines = [
        Line(_Names(report)(name), list(zip(found["axis"], cell["density"], strict=True)), number)
        for number, (name, cell) in enumerate(shown)
    ]
    return line_chart("Density of distances to general knowledge", lines, "distance to the nearest passage", "density")


def _plane(report: Mapping[str, Any]) -> str:
    """Alignment against uniformity: a sign for each candidate, joined in order of λ."""
    found = report.get("geometry")
    if not found:
        return ""
    merges = [one for one in found["places"] if one["strength"] is not None]
    path = Line("", [(one["uniformity"], one["alignment"]) for one in merges], 0)
    signs = [
        Line(_named(one, report), [(one["uniformity"], one["alignment"])], number)
        for number, one in enumerate(found["places"], start=1)
    ]
    return line_chart(
        "Alignment against uniformity", [path, *signs], "uniformity (higher: chunks fill the sphere more evenly)",
        "alignment (lower: answers lie nearer to their queries)",
    )  # fmt: skip


def _named(place: Mapping[str, Any], report: Mapping[str, Any]) -> str:
    return f"λ = {place['strength']:g}" if place["name"].startswith(MERGE) else _Names(report)(place["name"])


def _drawable(points: Sequence[Sequence[Any]]) -> list[tuple[float, float]]:
    return [(x, y) for x, y in points if x is not None and y is not None]


def _figure(value: Any, digits: int = 1) -> str:
    """A number for reading; a dash for null."""
    return "–" if value is None else f"{value:.{digits}f}"


def plain(value: Any) -> Any:
    """JSON types only: tuples become lists, mappings' keys texts, NaN and infinity null, anything else its text."""
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple, set, frozenset)):
        return [plain(item) for item in value]
    if isinstance(value, float):
        return float(value) if math.isfinite(value) else None
    return value if value is None or isinstance(value, (str, bool, int)) else str(value)
