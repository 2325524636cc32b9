"""What the terminal shows.

Notes and errors go to standard error, tables and hits to standard output.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from rich.console import Console
from rich.table import Table
from rich.text import Text

from engine.core.dates import day
from engine.core.errors import CancelledError, EngineError
from engine.core.messages.report import (
    IMPORTED_SET,
    KINDS,
    QUERY_SETS,
    SCALE,
    GateTable,
    ReportVerdict,
)
from engine.core.messages.search import LINED, MODE_NAMES
from engine.core.platforms.pipes import discard_output
from engine.core.systems import (
    ADAPTED,
    BASE,
    BM25,
    IN_USE,
    IN_USE_ALONE,
    SYSTEMS,
    find_twins,
    label_of,
)
from engine.core.text import duration, format_count, harmless, metric_name, short_names

if TYPE_CHECKING:
    from engine.core.figures import Difference, Differences, FigureTable, Interval
    from engine.core.messages.search import Found, Hit

BAR_WIDTH = 40  # characters of a bar of 100 percent
PIPED_WIDTH = 120  # characters of a line for a program that reads a pipe
MAX_COLUMN = 40  # characters of a column of a study, beyond which its texts are broken
MIN_HEADING = 20  # characters of a heading of a study that are not broken
COLUMN_FRAME = 3  # characters of a column's border and padding
TABLE_FRAME = 4  # characters of the first column's borders and padding
HIT_INDENT = "   "
METRICS = (
    "hit@1",
    "hit@4",
    "hit@10",
    "mrr@10",
    "ndcg@10",
)


class _NotesConsole(Console):
    """A console on standard error. If nobody reads it any longer, what it prints is dropped."""

    def on_broken_pipe(self) -> None:
        """Go on without output, where Rich would end the process."""
        discard_output(2)


def progress_console() -> Console:
    """Return the console for everything that is not data.

    A file gets plain lines, even where FORCE_COLOR is set.
    """
    is_terminal = sys.stderr.isatty()
    return _NotesConsole(
        stderr=True,
        highlight=False,
        soft_wrap=not is_terminal,
        color_system=_colour_system(),
        force_terminal=is_terminal,
    )


def output() -> Console:
    """Return the console for data. Programs that read a pipe get whole lines."""
    if sys.stdout.isatty():
        return Console(
            highlight=False,
            soft_wrap=False,
            color_system=_colour_system(),
        )
    return Console(
        highlight=False, soft_wrap=True, width=PIPED_WIDTH, color_system=_colour_system()
    )


def _colour_system() -> Literal["auto"] | None:
    """Return the argument `color_system` for Rich; None if NO_COLOR is set.

    Rich by itself would then drop colours but still write other escape sequences.
    """
    if os.environ.get("NO_COLOR"):
        return None
    return "auto"


def show_tables(
    tables: Mapping[str, FigureTable],
    console: Console,
    own: Collection[str] = IN_USE_ALONE,
    systems: Iterable[str] = SYSTEMS,
) -> None:
    """Print a table of systems × metrics for each kind of queries, in percent.

    Every figure has its 95 % interval. `own`: the systems that are in use (`own_systems` of a
    report); they are marked, and the rows that would repeat their figures are left out.
    """
    twins = find_twins(own)
    for kind, table in tables.items():
        query_set = QUERY_SETS[kind]
        if kind == "synthetic" and not table.synthetic:
            query_set = IMPORTED_SET
        if kind == "judged" and table.synthetic:
            query_set += (
                f", {table.synthetic} of them made from the documents (synthetic: they flatter)"
            )
        rows = _make_table(
            f"{table.queries} {query_set} · percent, 95 % interval",
            "system",
            *map(metric_name, METRICS),
        )
        for name in systems:
            figures = table.systems.get(name)
            if not figures or name in twins:
                continue
            label = label_of(name)
            if name in own and not name.endswith(IN_USE):
                label += " (in use)"
            rows.add_row(label, *(_format_interval(figures[metric]) for metric in METRICS))
        console.print(rows)
        if table.lopsided_text:
            console.print(table.lopsided_text)


def show_verdict(verdict: ReportVerdict, console: Console) -> None:
    """Print a sentence and a bar for each way to search of each mode, and what to do next."""
    if not verdict.modes:
        console.print(
            Text("Nothing was measured: there are no questions to measure with.", style="bold")
        )
    for mode in verdict.modes:
        console.print(Text(mode.sentence, style="bold"))
        width = max((len(bar.label) for bar in mode.bars), default=0)
        for bar in mode.bars:
            filled = round(bar.figure.value / 100 * BAR_WIDTH)
            console.print(f"  {bar.label:<{width}}  {bar.figure.value:5.1f}  {'█' * filled}")
        if mode.bars and mode.format_difference:
            console.print(Text(f"  {mode.format_difference}"))
    if any(mode.bars for mode in verdict.modes):
        console.print(Text(SCALE, style="dim"))
    for note in verdict.notes:
        console.print(Text(note))
    if len(verdict.to_do) == 1:
        console.print(Text(f"Next: {verdict.to_do[0]}"))
    else:
        for number, step in enumerate(verdict.to_do, 1):
            console.print(Text(f"  {number}. {step}"))


def show_gate(gate: GateTable, console: Console) -> None:
    """Print what was compared with the reference to decide what comes into use in a mode."""
    evidence = "no queries"
    if gate.rung:
        singular, plural = KINDS[gate.rung]
        evidence = format_count(
            gate.queries,
            singular,
            plural,
        )
    title = (
        f"{gate.mode.capitalize()} search, compared with base: {evidence} · nDCG@10, points, 95 %"
        " interval"
    )
    table = _make_table(
        title,
        "candidate",
        "difference",
        "expected",
        "risk",
        "outcome",
    )
    for row in gate.candidates:
        label = label_of(row.encoder)
        if row.share is not None:
            label += f", share {row.share:g}"
        difference = "–"
        if row.difference is not None:
            difference = _format_difference(row.difference)
        expected = "–"
        risk = "–"
        if row.expectation is not None:
            expected = (
                f"{row.expectation.mean:+.2f} ({row.expectation.low:+.2f} to"
                f" {row.expectation.high:+.2f})"
            )
            risk = f"{100 * row.expectation.risk:.0f} %"
        outcome: str = row.outcome
        if row.in_use:
            outcome += ", in use"
        table.add_row(
            label,
            difference,
            expected,
            risk,
            outcome,
        )
    console.print(table)
    if gate.strictness_note:
        console.print(gate.strictness_note)


def _make_table(
    title: str,
    names: str,
    *figures: str,
) -> Table:
    """Return an empty table with headings: a column of names, and columns of figures."""
    table = Table(title=title, title_justify="left")
    table.add_column(names, justify="left")
    for heading in figures:
        table.add_column(heading, justify="right")
    return table


def _format_interval(figure: Interval) -> str:
    """Return `61.2 (55–67)`."""
    return f"{figure.value:.1f} ({figure.low:.0f}–{figure.high:.0f})"


def show_differences(rows: Differences, console: Console) -> None:
    """Print a line for each pair of systems: the paired difference in nDCG@10, with its interval.

    Differences are in points, intervals at 95 %.
    """
    for name, row in rows.items():
        system, _, reference = name.partition(" − ")
        difference = row["ndcg@10"]
        console.print(
            f"{label_of(system)} − {label_of(reference)}: {_format_difference(difference)} nDCG@10:"
            f" {difference.verdict_text}{difference.needed_text}"
        )


def differences_in_use(table: FigureTable, method: str) -> Differences:
    """Return the differences of what is in use, as `show_differences` takes them.

    Semantic and hybrid search (fused by `method`) are compared with base, and hybrid search also
    with keywords. If base itself is in use, the adapted encoder takes its place.
    """
    rows = {}
    for prefix in ("", f"{method}_"):  # names of systems of semantic and of hybrid search
        base = f"{prefix}{BASE}"
        adapted = f"{prefix}{ADAPTED}"
        name = f"{prefix}{IN_USE}"
        is_base_in_use = name in table.systems and table.systems[name] == table.systems.get(base)
        if is_base_in_use and adapted in table.systems:
            name = adapted
        pair = f"{name} − {base}"
        if pair in table.pairs:
            rows[pair] = table.pairs[pair]
        elif not prefix and name in table.differences:  # the comparisons with base
            rows[pair] = table.differences[name]
    against_keywords = f"{method}_{IN_USE} − {BM25}"
    if against_keywords in table.pairs:
        rows[against_keywords] = table.pairs[against_keywords]
    return rows


def show_study(found: Mapping[str, Any], console: Console) -> None:
    """Print the table of a study and the remarks below it.

    `found`: the JSON of the study's page. A table with more columns than fit is printed in several
    parts below each other.
    """
    _show_study_table(found, console)
    for remark in _list_study_remarks(found):
        console.print(harmless(remark))


def _show_study_table(page: Mapping[str, Any], console: Console) -> None:
    """Print the table of a study, in parts that fit the width of the terminal."""
    from engine.lab.study.tables import format_figure, format_interval

    names = [metric_name(column) for column in page["columns"]]
    labels = [harmless(row["label"]) for row in page["rows"]]
    columns = []
    for column in page["columns"]:
        values = [row["values"].get(column) for row in page["rows"]]
        cells = []
        for value in values:
            cells.append(f"{harmless(format_figure(value))}\n{format_interval(value)}".rstrip())
        columns.append(cells)
    title = f"{page['source']}: {page['shows']}"
    for start, end in _find_fitting_parts(labels, names, columns, console.width):
        if start > 0:
            title = ""
        table = _make_table(
            title,
            "",
            *names[start:end],
        )
        for number, label in enumerate(labels):
            table.add_row(Text(label), *(Text(cells[number]) for cells in columns[start:end]))
        console.print(table)


def _list_study_remarks(page: Mapping[str, Any]) -> Iterator[str]:
    """Yield what stands below a study's table: cells without an adapter, notes, correlations."""
    for cell in page["cells"]:
        if cell["reason"]:
            name = ", ".join(filter(None, (cell["model"], cell["label"])))
            yield f"{name}: no adapter, since {cell['reason']}."
    basis = page["similarities_of"]
    if basis and basis["columns"]:
        yield f"Of {basis['queries']:,} {basis['name']}: {', '.join(basis['columns'])}."
    yield from page.get("notes", ())
    if page.get("general_text"):
        yield f"General text: {page['general_text']}."
    for correlation in page["correlations"]:
        figure = "–"
        if correlation["r"] is not None:
            figure = f"{correlation['r']:.3f}"
        yield f"{' and '.join(correlation['of'])}: r = {figure} over {correlation['rows']} rows"


def _find_fitting_parts(
    labels: Sequence[str], names: Sequence[str], columns: Sequence[Sequence[str]], width: int
) -> list[tuple[int, int]]:
    """Divide columns into parts that fit next to the labels; return the slices of the parts.

    Each part has at least one column. A heading may be broken between words, a cell between lines.
    """
    room = width - max((len(label) for label in labels), default=0) - TABLE_FRAME
    parts = []
    start = 0
    room_left = room
    for number, (name, cells) in enumerate(zip(names, columns, strict=True)):
        lines = [name[:MIN_HEADING], *name.split()]
        for cell in cells:
            lines += cell.split("\n")
        column_width = min(max(map(len, lines)), MAX_COLUMN) + COLUMN_FRAME
        if column_width > room_left and number > start:
            parts.append((start, number))
            start = number
            room_left = room
        room_left -= column_width
    parts.append((start, len(names)))
    return parts


def _format_difference(difference: Difference) -> str:
    """Return `+1.30 (-0.42 to +3.05)`."""
    return f"{difference.value:+.2f} ({difference.low:+.2f} to {difference.high:+.2f})"


def show_found(
    found: Found, console: Console, sources: Iterable[str] = (), *, dated: bool = False
) -> None:
    """Print hits with snippets and marked terms, and each hit's rank by every ranker.

    `sources`: the project's folders; if there are several, a path begins with the name of its
    folder. `dated`: print the day that the hits are sorted by.
    """
    show_notes(found)
    folders = {Path(source) for source in sources} | {Path(hit.source) for hit in found.hits}
    names = short_names(folders)
    for hit in found.hits:
        path = hit.path
        if len(folders) > 1:
            path = str(Path(names[Path(hit.source)], path))
        console.print(_format_heading(hit, path, dated))
        snippet = Text(harmless(hit.snippet))
        for start, end in hit.marks:
            snippet.stylize("bold yellow", start, end)
        console.print(Text.assemble(HIT_INDENT, snippet))


def show_notes(found: Found) -> None:
    """Print the notes of a search, and what the reranker did."""
    for note in found.notes:
        progress_console().print(Text(harmless(note), style="yellow"))
    if found.reranked:
        passages = format_count(found.reranked.passages, "passage")
        progress_console().print(
            Text(f"{passages} reranked in {duration(found.reranked.seconds)}", style="dim")
        )


def _format_heading(
    hit: Hit,
    path: str,
    dated: bool,
) -> Text:
    """Return `1. path:line  Title › Section  author  date  [keywords #2, meaning #1]`."""
    page = hit.page_name
    if page:
        place = f", {harmless(page)}"
    elif hit.format in LINED:
        place = f":{hit.line}"
    else:
        place = ""
    # A title is often the first heading, too.
    titles = " › ".join(dict.fromkeys(filter(None, (hit.title, *hit.headings))))
    details = [titles]
    if hit.author:
        details.append(hit.author)
    date = day(hit.date if dated else hit.changed or hit.created)
    if date:
        details.append(date)
    counts = ""
    if hit.copies > 1:
        counts += f"{hit.copies} copies  "
    if hit.more:
        counts += f"+{hit.more} more  "
    ranks = [
        f"{MODE_NAMES[ranker]} #{rank.document_rank or rank.rank}"
        for ranker, rank in sorted(hit.rankers.items())
    ]
    return Text.assemble(
        (f"{hit.rank}. {harmless(path)}", "bold"),
        f"{place}  {harmless('  '.join(details))}  ",
        (f"{counts}[{', '.join(ranks)}]", "dim"),
    )


def show_error(error: EngineError) -> None:
    """Print an error: what happened, why, what to do. A cancellation is not shown as an error."""
    console = progress_console()
    if isinstance(error, CancelledError):
        console.print(Text(harmless(error.what), style="bold"))
    else:
        console.print(Text(harmless(f"Error: {error.what}"), style="bold red"))
    for line in (error.why, error.to_do):
        if line:
            console.print(Text(harmless(line)))
