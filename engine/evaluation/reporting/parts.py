"""Parts of report.json in the form in which they were measured."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from engine.core.figures import FigureTable
from engine.core.messages.report import GateRow, GateTable, QuerySetReport
from engine.core.messages.wire import from_json


def query_sets_of(report: Mapping[str, Any]) -> tuple[QuerySetReport, ...]:
    """Of what `read_report` gave."""
    return from_json(tuple[QuerySetReport, ...], report["query_sets"])


def tables_of(report: Mapping[str, Any]) -> dict[str, FigureTable]:
    """Kind of queries (`judged`, `synthetic`) → table, of what `read_report` gave."""
    return {one.kind: one.comparison for one in query_sets_of(report)}


def rung_of(report: Mapping[str, Any]) -> str:
    """The kind of evidence that decided, of what `read_report` gave; empty where none did."""
    decision = (report["selection"] or {}).get("decision") or {}
    return decision.get("rung") or ""


def gate_of(report: Mapping[str, Any]) -> GateTable | None:
    """What the gate compared with base, of what `read_report` gave."""
    decision = (report["selection"] or {}).get("decision") or {}
    if not decision.get("candidates"):
        return None
    mode = (report["settings"].get("search") or {}).get("mode", "hybrid")
    rung = decision["rung"] or decision["ladder"][0]["rung"]
    return GateTable(
        rung, decision["queries"], mode if mode == "semantic" else "hybrid",
        from_json(tuple[GateRow, ...], decision["candidates"]), decision["rung"] is not None,
    )  # fmt: skip
