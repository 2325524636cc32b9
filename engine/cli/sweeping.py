"""`engine sweep`: a grid of settings, each cell trained and measured in a copy of the project."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from engine.cli.app import AsJson, ProjectName, Texts, app, opened, print_json, stoppable
from engine.core.text import harmless

if TYPE_CHECKING:
    from engine.experiments.sweep.grid import Cell
    from engine.experiments.sweep.running import Sweep


@app.command()
def sweep(
    name: ProjectName,
    grid: Annotated[
        Texts, typer.Option(help="a setting and its values, such as ranking.k=200,1000; may repeat")
    ] = None,
    table: Annotated[
        str | None, typer.Option(help="the cells of a table of the BMEmbed paper: table-9 or table-10")
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="list the cells; train nothing")] = False,
    force: Annotated[
        bool, typer.Option("--force", help="forget what was measured, and begin with the project as it is now")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Train and measure every combination of settings of [ranking] and [training], in a copy of the project.

    The project itself stays as it is: its settings, its adapter, the encoder in use. Each cell is compared with the base
    encoder on held-out queries (synthetic: made from the documents) and on judged ones, if there are some. BM25 rankings
    and the base encoder's vectors are made once. Ctrl-C stops it; the same command goes on where it stopped.
    """
    from engine.cli.console import RunView, output, show_sweep
    from engine.experiments.sweep.grid import make_grid
    from engine.experiments.sweep.running import Sweep, failure
    from engine.experiments.sweep.tables import table as cells_of
    from engine.experiments.sweep.workspace import basis_of

    with opened(name) as project:
        basis, chunks = basis_of(project.folder)
        cells = make_grid(grid or (), project.settings(), chunks, cells_of(table) if table else ())
        work = Sweep(project.folder, cells, basis)
        if force and not dry_run:
            work.forget()
        _announce(work, name)
        if dry_run:
            _list(work, as_json)
            return

        def begin(cell: Cell) -> None:
            print(harmless(f"▸ cell {cell.number} of {len(cells.cells)}: {cell.name}"), file=sys.stderr)

        with stoppable() as stop, RunView() as snapshot:
            found = work.run(on_event=snapshot, should_stop=stop, on_cell=begin)
    if as_json:
        print_json(found)
    else:
        show_sweep(found, output())
        print(harmless(f"Report: {Path(found['folder']) / 'sweep.html'}"))
        advice = "Of many cells the best one owes part of its lead to luck. To use one, set its values in project.toml."
        print(advice, file=sys.stderr)
    if work.failed:
        raise failure(work.failed)


def _announce(work: Sweep, name: str) -> None:
    """What the sweep will cost, before it starts."""
    from engine.experiments.sweep.grid import steps_of

    cells, left = work.grid.cells, work.to_do()
    twins = sum(work.grid.twin_of(cell) is not None for cell in cells)
    done = len(cells) - len(left) - twins
    parts = [f"{len(left)} to train and measure"]
    parts += [f"{done} finished before"] if done else []
    parts += [f"{twins} that train exactly as another"] if twins else []
    text = f"{len(cells)} cell{'s' if len(cells) > 1 else ''}: {', '.join(parts)}."
    if left:
        steps = sum(steps_of(cell, work.project.settings()) for cell in left)
        text += f" That takes {steps:,} training steps and {len(left)} evaluation{'s' if len(left) > 1 else ''}."
    print(text, file=sys.stderr)
    if work.workspace.judged_since:
        text = "The judged queries have changed since this sweep began, which goes on with the former ones."
        print(f"{text} To begin anew: engine sweep {shlex.quote(name)} … --force", file=sys.stderr)


def _list(work: Sweep, as_json: bool) -> None:
    rows: list[dict[str, Any]] = [
        {"number": cell.number, "changes": dict(cell.changes), "state": work.state(cell)} for cell in work.grid.cells
    ]
    if as_json:
        print_json({"cells": rows, "to_do": len(work.to_do())})
        return
    for cell, row in zip(work.grid.cells, rows, strict=True):
        print(f"{cell.number:>3}  {cell.name}  [{row['state']}]")
