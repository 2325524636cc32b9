"""The words and rows of the step Documents. Pure: what is known in, what is shown out."""

from __future__ import annotations

from collections import Counter

from rich.text import Text
from textual.content import Content

from bmembed_tui.client.progress import count, doing
from bmembed_tui.client.run_state import RunState
from bmembed_tui.widgets.change_line import error_text
from bmembed_tui.widgets.plain import plain, rich_text
from engine.core.errors import EngineError
from engine.core.messages.documents import Scanned, UnreadFiles
from engine.core.messages.project import ProjectStatus
from engine.core.text import size_text

STAGES = ("ingest", "index")  # what this step runs
FORMATS = {"txt": "plain text", "md": "Markdown", "html": "HTML", "beir": "BEIR data set"}
SHOWN = 500  # files that are left out, in the table


def format_status(
    status: ProjectStatus,
    run: RunState,
    scan: Scanned | None,
    error: EngineError | None,
    *,
    is_reading: bool,
) -> Content:
    """How far the documents are, and what to do next."""
    if is_reading:
        return plain(doing(run) if run.current in STAGES else "▶ starting …", "bold $text-accent")
    if (
        error is None
        and not status.done(*STAGES)
        and any(run.stage(stage).state == "failed" for stage in STAGES)
    ):
        error = run.error
    if error is not None:
        return error_text(error)
    if status.done("ingest"):
        return plain(f"✓ {_counts(status)}", "$text-success")
    if status.built("ingest"):
        return plain(
            f"~ {_counts(status)} Out of date: {status.stage('ingest').reason}.", "$text-warning"
        )
    if scan is None:
        return plain("looking …", "$text-muted")
    if not scan.files:
        return plain(
            "No file here can be read yet. Add a folder, or put documents into it.", "$text-warning"
        )
    return plain(f"{files_text(scan)} can be read. Press Enter to read them.")


def _counts(status: ProjectStatus) -> str:
    counts = status.counts
    left_out = _left_out(status)
    if left_out:
        rest = f" Left out: {count(left_out, 'file')}."
    else:
        rest = ""
    files = counts.get("files", 0)
    documents = counts.get("documents", 0)
    # such as archives and mails with attachments
    if files != documents:
        held = f"{count(files, 'file')} with "
    else:
        held = ""
    return (
        f"Read: {held}{count(documents, 'document')},"
        f" {count(counts.get('chunks', 0), 'chunk')}.{rest}"
    )


def _left_out(status: ProjectStatus) -> int:
    return status.counts.get("skipped", 0) + status.counts.get("quarantined", 0)


def left_out_title(status: ProjectStatus, total: int) -> str:
    """`Left out: 4 files, and 2 inside files`: of the `total`, what is no file of its own is a
    part of one that was read.
    """
    if status.done("ingest"):
        files = min(total, _left_out(status))
    else:
        files = total
    if total > files:
        inside = f", and {total - files:,} inside files"
    else:
        inside = ""
    return f"Left out: {count(files, 'file')}{inside}"


def files_text(scan: Scanned) -> str:
    """`132 files (1.2 MB)`."""
    return f"{count(scan.files, 'file')} ({size_text(scan.bytes)})"


def formats_rows(scan: Scanned | None) -> list[tuple[Text, Text, Text]]:
    """Format, files, size; a last row with the sums."""
    if scan is None:
        return []
    rows = [
        _row(FORMATS.get(one.format, one.format), one.files, one.bytes, "") for one in scan.formats
    ]
    return [*rows, _row("total", scan.files, scan.bytes, "bold")]


def _row(name: str, files: int, size: int, style: str) -> tuple[Text, Text, Text]:
    cells = (
        rich_text(name, style),
        rich_text(f"{files:,}", style),
        rich_text(size_text(size), style),
    )
    cells[1].justify = cells[2].justify = "right"
    return cells


def skipped_rows(unread: UnreadFiles, scan: Scanned | None) -> tuple[list[tuple[str, str]], int]:
    """(path, reason) of the first files that are left out, and how many there are: tried in
    vain, or passed over.

    Paths that several folders have are shown with their folder.
    """
    tried = {(one.source, one.path): one.reason for one in unread.files if one.known}
    passed = {(one.source, one.path): one.reason for one in (scan.skipped if scan else ())}
    total = len(tried.keys() | passed.keys()) + max(0, unread.known - len(tried))
    total += max(0, scan.skipped_total - len(passed)) if scan else 0
    rows = [*{**passed, **tried}.items()][:SHOWN]
    times = Counter(path for (_, path), _ in rows)
    return [
        (f"{path} (in {source})" if times[path] > 1 else path, why) for (source, path), why in rows
    ], total
