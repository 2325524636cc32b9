"""Queries with known answers → figures, the choice of what to serve, and the report.

In: systems' rankings, judged queries or held-out generated ones, chunks and documents. Out: `Comparison`, `Selection`,
report.json and report.html. Source: METHODS.md §1 (Metrics, Baselines), §5 (never worse than base).
"""

from engine.evaluation.changes import Changes, query_changes
from engine.evaluation.comparison import Comparison, collapse, compare
from engine.evaluation.judgments import Judgment, from_queries, relevant_chunks
from engine.evaluation.report import ChoiceMade, QuerySetReport, ReportData, TrainingCurve, read_report, write_report
from engine.evaluation.selection import Selection, candidate_name, choose_served, strength_of

__all__ = [
    "Changes",
    "ChoiceMade",
    "Comparison",
    "Judgment",
    "QuerySetReport",
    "ReportData",
    "Selection",
    "TrainingCurve",
    "candidate_name",
    "choose_served",
    "collapse",
    "compare",
    "from_queries",
    "query_changes",
    "read_report",
    "relevant_chunks",
    "strength_of",
    "write_report",
]
