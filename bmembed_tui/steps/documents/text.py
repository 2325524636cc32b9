"""The texts and table rows of step Documents, as pure functions."""

from __future__ import annotations

from collections import Counter

from rich.text import Text
from textual.content import Content

from bmembed_tui.client.progress import format_activity
from bmembed_tui.client.run_state import RunState
from bmembed_tui.widgets.change_line import format_error
from bmembed_tui.widgets.plain import plain, rich_text
from engine.core.errors import EngineError
from engine.core.messages.documents import Scanned, UnreadFiles
from engine.core.messages.project import ProjectStatus
from engine.core.text import format_count, size_text

STAGES = ("ingest", "index")  # what this step runs
FORMATS = {
    "txt": "plain text",
    "md": "Markdown",
    "html": "HTML",
    "beir": "BEIR data set",
}
MAX_SHOWN = 500  # rows of the table of files that are left out


def format_status(
    status: ProjectStatus,
    run: RunState,
    scan: Scanned | None,
    error: EngineError | None,
    *,
    is_reading: bool,
) -> Content:
    """Return how far the documents are read, and what to do next.

    `scan`: the files that the folders contain now; None before they are counted. `error`: what is
    wrong with the settings or the count.
    """
    if is_reading:
        activity = format_activity(run) if run.current in STAGES else "▶ starting …"
        return plain(activity, "bold $text-accent")
    has_failed = any(run.stage(stage).state == "failed" for stage in STAGES)
    if error is None and has_failed and not status.done(*STAGES):
        error = run.error
    if error is not None:
        return format_error(error)
    if status.done("ingest"):
        return plain(f"✓ {_format_counts(status)}", "$text-success")
    if status.built("ingest"):
        reason = status.stage("ingest").reason
        return plain(f"~ {_format_counts(status)} Out of date: {reason}.", "$text-warning")
    if scan is None:
        return plain("looking …", "$text-muted")
    if not scan.files:
        return plain(
            "No file here can be read yet. Add a folder, or put documents into it.", "$text-warning"
        )
    return plain(f"{format_files(scan)} can be read. Press Enter to read them.")


def _format_counts(status: ProjectStatus) -> str:
    """Return `Read: 4 files with 132 documents, 140 chunks.` and what was left out."""
    files = status.counts.get("files", 0)
    documents = status.counts.get("documents", 0)
    chunks = format_count(status.counts.get("chunks", 0), "chunk")
    files_text = ""
    if files != documents:  # archives, and mails with attachments, contain several documents
        files_text = f"{format_count(files, 'file')} with "
    left_out_text = ""
    left_out = _count_left_out(status)
    if left_out:
        left_out_text = f" Left out: {format_count(left_out, 'file')}."
    return f"Read: {files_text}{format_count(documents, 'document')}, {chunks}.{left_out_text}"


def _count_left_out(status: ProjectStatus) -> int:
    return status.counts.get("skipped", 0) + status.counts.get("quarantined", 0)


def format_left_out(status: ProjectStatus, total: int) -> str:
    """Return `Left out: 4 files, and 2 inside files`.

    `total`: how many files and parts of files, such as entries of archives, are left out.
    """
    files = total
    if status.done("ingest"):
        files = min(total, _count_left_out(status))
    text = f"Left out: {format_count(files, 'file')}"
    if total > files:
        text += f", and {total - files:,} inside files"
    return text


def format_files(scan: Scanned) -> str:
    """Return `132 files (1.2 MB)`."""
    return f"{format_count(scan.files, 'file')} ({size_text(scan.bytes)})"


def build_format_rows(scan: Scanned | None) -> list[tuple[Text, Text, Text]]:
    """Return rows of format, files and size, with the sums in the last row."""
    if scan is None:
        return []
    rows = []
    for group in scan.formats:
        name = FORMATS.get(group.format, group.format)
        rows.append(_build_row(name, group.files, group.bytes, ""))
    rows.append(_build_row("total", scan.files, scan.bytes, "bold"))
    return rows


def _build_row(
    name: str,
    files: int,
    size: int,
    style: str,
) -> tuple[Text, Text, Text]:
    """Return a row of format, files and size, the numbers aligned to the right."""
    files_cell = rich_text(f"{files:,}", style)
    files_cell.justify = "right"
    size_cell = rich_text(size_text(size), style)
    size_cell.justify = "right"
    return rich_text(name, style), files_cell, size_cell


def build_skipped_rows(
    unread: UnreadFiles, scan: Scanned | None
) -> tuple[list[tuple[str, str]], int]:
    """Return (path, reason) of the first files that are left out, and how many there are.

    `unread`: the files that the last run could not read; only those that can be tried again are
    returned. `scan`: the present count of the files, with those that are passed over now. A path
    that occurs in several folders is shown with its folder.
    """
    # `unread.files` and `scan.skipped` name only the first files; the totals count all. A file is
    # known by its folder and its path.
    failed = {(file.source, file.path): file.reason for file in unread.files if file.retryable}
    total = max(len(failed), unread.retryable)
    passed_over: dict[tuple[str, str], str] = {}
    if scan is not None:
        passed_over = {(file.source, file.path): file.reason for file in scan.skipped}
        total += max(0, scan.skipped_total - len(passed_over))
    total += len(passed_over.keys() - failed.keys())
    reasons = list({**passed_over, **failed}.items())[:MAX_SHOWN]
    occurrences = Counter(path for (_, path), _ in reasons)
    rows = []
    for (source, path), reason in reasons:
        label = path
        if occurrences[path] > 1:
            label += f" (in {source})"
        rows.append((label, reason))
    return rows, total
