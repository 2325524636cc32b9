"""`engine demo`: every stage on the sample corpus that ships with the product."""

from __future__ import annotations

from collections.abc import Sequence
from textwrap import shorten

from rich.console import Console
from rich.table import Table
from rich.text import Text

from engine.api import Project, Report
from engine.core.assets import asset_path
from engine.core.errors import UsageError
from engine.core.messages.report import Change, FoundHit
from engine.core.text import harmless
from engine.datasets.imports import imported_queries
from engine.evaluation.reporting.report import read_report
from engine.evaluation.reporting.verdict import query_sets_of
from engine.project.folder import (
    SAMPLE_MEASURING,
    SAMPLE_QUERIES,
    SAMPLE_QUESTIONS,
    SAMPLE_SETTINGS,
    locate,
)

NAME = "sample"
NARROW = 100  # columns below which two hits for each search take more than 60 lines
SEARCHES = (
    "who may release a batch without the final test",
    "KL-4400/B shows a straight line in dry ice",
    "what the night shift did when the power failed",
)
EXCERPT = 110  # characters


def sample_project(name: str = NAME) -> Project:
    """Return the project over the sample corpus, with its judged questions.

    It is created where it does not exist.
    """
    if (locate(name) / "project.toml").exists():
        project = Project.open(name)
        if str(asset_path("sample/documents")) not in project.settings().corpus.paths:
            raise UsageError(
                f"{project.path} is not the sample project.",
                "It was created over other documents.",
                "Give another name with --project.",
                code="folder-taken",
            )
    else:
        project = Project.create(
            name,
            [asset_path("sample/documents")],
            **SAMPLE_SETTINGS,
        )
    if project.settings().queries.backend == "imported" and not imported_queries(project.folder):
        project.import_queries(asset_path(SAMPLE_QUERIES))
    project.import_judgments(asset_path(SAMPLE_QUESTIONS))
    project.import_judgments(asset_path(SAMPLE_MEASURING), measuring=True)
    return project


def find_telling_change(report: Report) -> Change | None:
    """Return a question that semantic search answers only after adaptation; None if there is none.

    Questions that only measure come first; among several, the one whose answer ranks highest.
    """
    query_sets = query_sets_of(read_report(report.folder))
    for query_set in sorted(query_sets, key=lambda query_set: query_set.kind != "measuring"):
        if query_set.kind not in ("measuring", "judged"):
            continue
        newly_answered = [
            change
            for change in query_set.changes.better
            if change.before == 0 and any(hit.right for hit in change.hits_after)
        ]
        if newly_answered:
            return max(newly_answered, key=lambda change: change.after)
    return None


def show_change(
    change: Change,
    after: str,
    console: Console,
) -> None:
    """Print the first hits of semantic search before and after adaptation.

    They are printed side by side in a wide terminal. `after`: the heading of the second list.
    """
    lists = (("Before adaptation", change.hits_before), (after, change.hits_after))
    if console.width < NARROW:
        for heading, hits in lists:
            console.print(Text(heading, style="bold"))
            console.print(_hits_text(hits))
        return
    table = Table(
        show_edge=False,
        expand=True,
        box=None,
        padding=(0, 2, 0, 0),
    )
    for heading, _ in lists:
        table.add_column(heading, ratio=1)
    table.add_row(*(_hits_text(hits) for _, hits in lists))
    console.print(table)


def _hits_text(hits: Sequence[FoundHit]) -> Text:
    """Return a paragraph for each hit; a check mark precedes a right one."""
    text = Text()
    for hit in hits:
        mark = " "
        style = "bold"
        if hit.right:
            mark = "✓"
            style = "bold green"
        text.append(f"{mark} {hit.rank}. {harmless(hit.title)}\n", style=style)
        text.append(f"  {shorten(harmless(hit.excerpt), EXCERPT, placeholder=' …')}\n", style="dim")
    return text
