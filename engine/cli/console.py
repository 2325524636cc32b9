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
from engine.core.text import duration, harmless, metric_name, short_names

if TYPE_CHECKING:
    from engine.core.figures import Difference, Differences, FigureTable, Interval
    from engine.core.messages.search import Found, Hit

BAR_WIDTH = 40  # columns of 100 percent
MAX_COLUMN = 40  # characters of a column of a study, beyond which its texts are broken
METRICS = ("hit@1", "hit@4", "hit@10", "mrr@10", "ndcg@10")


def progress_console() -> Console:
    """Return the console for everything that is not data.

    A file gets plain lines, even where FORCE_COLOR is set.
    """
    tty = sys.stderr.isatty()
    return Console(
        stderr=True, highlight=False, soft_wrap=not tty, color_system=_colours(), force_terminal=tty
    )


def output() -> Console:
    """Return the console for data. Programs that read a pipe get whole lines."""
    piped = not sys.stdout.isatty()
    return Console(
        highlight=False, soft_wrap=piped, width=120 if piped else None, color_system=_colours()
    )


def _colours() -> Literal["auto"] | None:
    """Return None for no escape sequences at all, since Rich itself leaves out only colours."""
    return None if os.environ.get("NO_COLOR") else "auto"


def show_tables(
    tables: Mapping[str, FigureTable],
    console: Console,
    own: Collection[str] = IN_USE_ALONE,
    systems: Iterable[str] = SYSTEMS,
) -> None:
    """Print a table of systems × metrics for each kind of queries, in percent.

    Every figure has its 95 % interval. `own`: the systems whose rows are those of what is in use
    (`own_systems`); they are marked, and listed once.
    """
    hidden = find_twins(own)
    for kind, table in tables.items():
        some = kind == "judged" and table.synthetic
        if some:
            made = f", {table.synthetic} of them made from the documents (synthetic: they flatter)"
        else:
            made = ""
        if kind != "synthetic" or table.synthetic:
            what = QUERY_SETS[kind]
        else:
            what = IMPORTED_SET
        shown = _table(
            f"{table.queries} {what}{made} · percent, 95 % interval",
            "system",
            *map(metric_name, METRICS),
        )
        for name in systems:
            if (figures := table.systems.get(name)) and name not in hidden:
                if name in own and not name.endswith(IN_USE):
                    label = f"{label_of(name)} (in use)"
                else:
                    label = label_of(name)
                shown.add_row(label, *(_cell(figures[metric]) for metric in METRICS))
        console.print(shown)
        if table.lopsided_text:
            console.print(table.lopsided_text)


def show_verdict(found: ReportVerdict, console: Console) -> None:
    """Print a sentence and a bar for each way to search of each mode, and what to do next."""
    if not found.modes:
        console.print(
            Text("Nothing was measured: there are no questions to measure with.", style="bold")
        )
    for one in found.modes:
        console.print(Text(one.sentence, style="bold"))
        width = max((len(bar.label) for bar in one.bars), default=0)
        for bar in one.bars:
            filled = round(bar.figure.value / 100 * BAR_WIDTH)
            console.print(f"  {bar.label:<{width}}  {bar.figure.value:5.1f}  {'█' * filled}")
        if one.bars and one.format_difference:
            console.print(Text(f"  {one.format_difference}"))
    if any(one.bars for one in found.modes):
        console.print(Text(SCALE, style="dim"))
    for note in found.notes:
        console.print(Text(note))
    if len(found.to_do) == 1:
        console.print(Text(f"Next: {found.to_do[0]}"))
    else:
        for number, step in enumerate(found.to_do, 1):
            console.print(Text(f"  {number}. {step}"))


def show_gate(gate: GateTable, console: Console) -> None:
    """Print what was compared with the reference to decide what comes into use in a mode."""
    if gate.rung:
        on = f"{gate.queries:,} {KINDS[gate.rung][gate.queries != 1]}"
    else:
        on = "no queries"
    title = (
        f"{gate.mode.capitalize()} search, compared with base: {on} · nDCG@10, points, 95 %"
        " interval"
    )
    shown = _table(title, "candidate", "difference", "expected", "risk", "outcome")
    for row in gate.candidates:
        if row.share is None:
            label = label_of(row.encoder)
        else:
            label = f"{label_of(row.encoder)}, share {row.share:g}"
        if row.difference is not None:
            gap = _gap(row.difference)
        else:
            gap = "–"
        expected = "–"
        risk = "–"
        if row.expectation is not None:
            expected = (
                f"{row.expectation.mean:+.2f} ({row.expectation.low:+.2f} to"
                f" {row.expectation.high:+.2f})"
            )
            risk = f"{100 * row.expectation.risk:.0f} %"
        shown.add_row(
            label, gap, expected, risk, f"{row.outcome}, in use" if row.in_use else row.outcome
        )
    console.print(shown)
    if gate.strictness_note:
        console.print(gate.strictness_note)


def _table(title: str, *columns: str) -> Table:
    """Return a table whose first column holds names, the others figures."""
    table = Table(title=title, title_justify="left")
    for place, name in enumerate(columns):
        table.add_column(name, justify="right" if place else "left")
    return table


def _cell(figure: Interval) -> str:
    return f"{figure.value:.1f} ({figure.low:.0f}–{figure.high:.0f})"


def show_differences(rows: Differences, console: Console) -> None:
    """Print a line for each pair of systems: the paired difference in nDCG@10, with its interval.

    Differences are in points, intervals at 95 %.
    """
    for name, row in rows.items():
        one, _, other = name.partition(" − ")
        gap = row["ndcg@10"]
        console.print(
            f"{label_of(one)} − {label_of(other)}: {_gap(gap)} nDCG@10:"
            f" {gap.verdict_text}{gap.needed_text}"
        )


def differences_in_use(table: FigureTable, method: str) -> Differences:
    """Return the differences of what is in use, as `show_differences` takes them.

    They are those against base in semantic and hybrid search (fused by `method`), and against
    keywords. Where base itself is in use, the adapted encoder takes its place.
    """
    rows = {}
    for way in ("", f"{method}_"):
        name = f"{way}{IN_USE}"
        same = name in table.systems and table.systems[name] == table.systems.get(f"{way}{BASE}")
        if same and f"{way}{ADAPTED}" in table.systems:
            name = f"{way}{ADAPTED}"
        pair = f"{name} − {way}{BASE}"
        row = table.pairs.get(pair) or (table.differences.get(name) if not way else None)
        if row and name != f"{way}{BASE}":
            rows[pair] = row
    against_keywords = f"{method}_{IN_USE} − {BM25}"
    if against_keywords in table.pairs:
        rows[against_keywords] = table.pairs[against_keywords]
    return rows


def show_study(found: Mapping[str, Any], console: Console) -> None:
    """Print the table of a study, as its JSON gives it, and the remarks below it.

    A table with more columns than fit is printed in several parts below each other.
    """
    _show_study_table(found, console)
    for remark in _list_study_remarks(found):
        console.print(harmless(remark))


def _show_study_table(found: Mapping[str, Any], console: Console) -> None:
    from engine.lab.study.tables import format_figure, format_interval

    names = [metric_name(column) for column in found["columns"]]
    labels = [harmless(row["label"]) for row in found["rows"]]
    columns = []
    for column in found["columns"]:
        values = [row["values"].get(column) for row in found["rows"]]
        cells = []
        for value in values:
            cells.append(f"{harmless(format_figure(value))}\n{format_interval(value)}".rstrip())
        columns.append(cells)
    title = f"{found['source']}: {found['shows']}"
    for start, end in _parts_that_fit(labels, names, columns, console.width):
        table = _table(title if start == 0 else "", "", *names[start:end])
        for number, label in enumerate(labels):
            table.add_row(Text(label), *(Text(cells[number]) for cells in columns[start:end]))
        console.print(table)


def _list_study_remarks(found: Mapping[str, Any]) -> Iterator[str]:
    """Yield why cells have no adapter, what the figures are of, notes and correlations."""
    for cell in found["cells"]:
        if cell["reason"]:
            name = ", ".join(filter(None, (cell["model"], cell["label"])))
            yield f"{name}: no adapter, since {cell['reason']}."
    basis = found["similarities_of"]
    if basis and basis["columns"]:
        yield f"Of {basis['queries']:,} {basis['name']}: {', '.join(basis['columns'])}."
    yield from found.get("notes", ())
    if found.get("general_text"):
        yield f"General text: {found['general_text']}."
    for correlation in found["correlations"]:
        r = correlation["r"]
        figure = "–" if r is None else f"{r:.3f}"
        yield f"{' and '.join(correlation['of'])}: r = {figure} over {correlation['rows']} rows"


def _parts_that_fit(
    labels: Sequence[str], names: Sequence[str], columns: Sequence[Sequence[str]], width: int
) -> list[tuple[int, int]]:
    """Return the first and the last + 1 of the columns that fit next to the labels, part by part.

    Each part has at least one column. A heading may be broken between words, a cell between lines.
    """
    room = width - max((len(label) for label in labels), default=0) - 4
    parts = []
    start = 0
    left = room
    for place, (name, cells) in enumerate(zip(names, columns, strict=True)):
        lines = [name[:20], *name.split(), *(line for cell in cells for line in cell.split("\n"))]
        wanted = min(max(map(len, lines), default=0), MAX_COLUMN) + 3
        if wanted > left and place > start:
            parts.append((start, place))
            start = place
            left = room
        left -= wanted
    parts.append((start, len(names)))
    return parts


def _gap(gap: Difference) -> str:
    return f"{gap.value:+.2f} ({gap.low:+.2f} to {gap.high:+.2f})"


def show_found(
    found: Found, console: Console, sources: Iterable[str] = (), *, dated: bool = False
) -> None:
    """Print hits with snippets and marked terms, and each hit's rank by every ranker.

    `sources`: the project's folders; if there are several, a path begins with the name of its
    folder. `dated`: print the day that the hits are sorted by.
    """
    show_notes(found)
    names = short_names(
        {Path(source) for source in (*sources, *(hit.source for hit in found.hits))}
    )
    for hit in found.hits:
        console.print(_heading(hit, names[Path(hit.source)] if len(names) > 1 else "", dated))
        body = Text("   " + harmless(hit.snippet))
        for start, end in hit.marks:
            body.stylize("bold yellow", start + 3, end + 3)
        console.print(body)


def show_notes(found: Found) -> None:
    """Print what the user should know of a search."""
    for note in found.notes:
        progress_console().print(Text(harmless(note), style="yellow"))
    if found.reranked:
        passages = f"{found.reranked.passages} passage{'' if found.reranked.passages == 1 else 's'}"
        progress_console().print(
            Text(f"{passages} reranked in {duration(found.reranked.seconds)}", style="dim")
        )


def _heading(hit: Hit, source: str, dated: bool) -> Text:
    if source:
        path = str(Path(source, hit.path))
    else:
        path = hit.path
    page = hit.page_name
    if page:
        line = f", {harmless(page)}"
    elif hit.format in LINED:
        line = f":{hit.line}"
    else:
        line = ""
    place = " › ".join(dict.fromkeys(part for part in (hit.title, *hit.headings) if part))
    ranks = {
        MODE_NAMES[name]: one.document_rank or one.rank for name, one in sorted(hit.rankers.items())
    }
    found = ", ".join(f"{name} #{rank}" for name, rank in ranks.items())
    date = day(hit.date if dated else hit.changed or hit.created)
    said = "".join(f"  {harmless(part)}" for part in (hit.author, date) if part)
    copies = f"{hit.copies} copies  " if hit.copies > 1 else ""
    more = f"+{hit.more} more  " if hit.more else ""
    return Text.assemble(
        (f"{hit.rank}. {harmless(path)}", "bold"),
        f"{line}  {harmless(place)}{said}  ",
        (f"{copies}{more}[{found}]", "dim"),
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
