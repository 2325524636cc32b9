"""The commands of the lab.

`engine study`: tables and figures of four papers on the user's data. `engine sweep`: a grid.
`engine lab`: checks of a project's encoders that decide nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from engine.cli.app import (
    AsJson,
    ProjectName,
    Texts,
    app,
    opened,
    parse_assignments,
    print_json,
    print_note,
    print_text,
    split_assignment,
    stoppable,
)
from engine.core.disk import expand_home
from engine.core.platforms.processes import quote_argument
from engine.core.text import format_count

if TYPE_CHECKING:
    from engine.api import Project
    from engine.lab.study.catalogue import Study
    from engine.lab.study.grid import Cell
    from engine.lab.study.running import StudyRun

ALL = "all"
"""The argument that stands for every study whose data exists."""
DryRun = Annotated[bool, typer.Option("--dry-run", help="list the trainings; start nothing")]
Force = Annotated[
    bool,
    typer.Option("--force", help="forget earlier results, and start from the project as it is now"),
]
MaybeTable = Annotated[
    str | None,
    typer.Argument(
        metavar="TABLE", help="a table or figure, such as bmembed-t2, or all; see --list"
    ),
]
Data = Annotated[
    Texts,
    typer.Argument(
        metavar="PROJECT",
        help="a project, or a BEIR folder with judgments; several also give their mean",
    ),
]


@app.command()
def study(
    table: MaybeTable = None,
    names: Data = None,
    listed: Annotated[
        bool,
        typer.Option("--list", help="list tables and figures; with a PROJECT, how long each takes"),
    ] = False,
    model: Annotated[
        Texts,
        typer.Option(
            metavar="MODEL",
            help="encoder to use instead of the project's: a folder, a GGUF file, or a server as"
            " ADDRESS#NAME; may repeat",
        ),
    ] = None,
    seeds: Annotated[
        int,
        typer.Option(
            metavar="N", min=1, max=10, help="number of seeds to repeat each training with"
        ),
    ] = 1,
    changes: Annotated[
        Texts,
        typer.Option(
            "--set",
            metavar="KEY=VALUE",
            help=(
                "a setting for all trainings, such as training.steps=60; of a BEIR folder also how"
                " its queries are made"
            ),
        ),
    ] = None,
    queries: Annotated[
        list[Path] | None,
        typer.Option(
            metavar="FILE",
            help=(
                "training queries of a BEIR folder: JSONL, or its qrels/train.tsv; may repeat; else"
                " extractive ones"
            ),
        ),
    ] = None,
    validation: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help=(
                "with --queries: queries that stop the training; qrels/dev.tsv next to a"
                " qrels/train.tsv if left out"
            ),
        ),
    ] = None,
    output: Annotated[
        Path | None,
        typer.Option(
            metavar="FOLDER", help="folder for the page; studies/ of the project if left out"
        ),
    ] = None,
    dry_run: DryRun = False,
    force: Force = False,
    as_json: AsJson = False,
) -> None:
    """Make a table or figure of a paper on your documents. As an HTML page, and as JSON.

    The project itself is not changed. Ctrl-C stops the study, and the same command continues it.
    """
    from engine.core.errors import UsageError
    from engine.encoders.kinds.chosen import named_model
    from engine.lab.study.catalogue import study_of

    models = []
    for name in model or ():
        if "://" not in name:  # ADDRESS#NAME of a server stays as it is
            name = named_model(name)
        models.append(name)
    settings = _parse_settings(changes or [])
    if listed:
        # Of `engine study --list PROJECT`, the project is in the place of the table.
        project = names[0] if names else table
        _list(
            project,
            models,
            seeds,
            settings,
            as_json,
        )
        return
    if table is None or not names:
        what = "No study was named."
        if table is not None:
            what = f"A study takes a project, and only '{table}' was named."
        raise UsageError(
            what,
            "",
            "Name a study and a project, or use --list.",
            code="study-not-named",
        )
    if validation and not queries:
        raise UsageError(
            "--validation names queries that stop the training, but there is no --queries.",
            "Queries that are made of the documents are stopped by those of held-out documents.",
            "Name the training queries by --queries, such as qrels/train.tsv.",
            code="validation-without-queries",
        )
    request = _Request(
        names,
        models,
        seeds,
        settings,
        queries or [],
        validation or _find_dev_split(queries or []),
        output,
        dry_run,
        as_json,
    )
    if table == ALL:
        _make_all(request, force)
        return
    if len(names) == 1:
        _make(
            study_of(table),
            request,
            force,
            print_each=True,
        )
        return
    pages = _make(
        study_of(table),
        request,
        force,
        print_each=False,
    )
    if dry_run:
        if as_json:
            print_json(pages)
        return
    mean = _make_mean(pages, request)
    if as_json:
        print_json({"sets": pages, "mean": mean})


def _parse_settings(texts: Sequence[str]) -> dict[str, Any]:
    """Return the values of `--set` by `section.key`, with the options of the lab (`lab.…`)."""
    from engine.lab.checks.options import PREFIX, split_options

    options = [text for text in texts if text.startswith(PREFIX)]
    values = parse_assignments([text for text in texts if text not in options])
    values.update(_parse_options(options))
    split_options(values)  # raises an error for an option that there is not
    return values


def _parse_options(texts: Sequence[str]) -> dict[str, Any]:
    """Return the values of `key=value` texts by key, without checking the keys."""
    values = {}
    for text in texts:
        key, value = split_assignment(text)
        values[key] = value
    return values


@dataclass(frozen=True, slots=True)
class _Request:
    """The arguments of `engine study`; `settings` are those of `--set`, by `section.key`."""

    names: list[str]
    models: list[str]
    seeds: int
    settings: dict[str, Any]
    queries: list[Path]
    validation: Path | None
    output: Path | None
    dry_run: bool
    as_json: bool


def _make_all(request: _Request, force: bool) -> None:
    """Make every study whose data exists; trainings that several share are made once.

    Raises StageError at the end if cells could not be trained.
    """
    from engine.core.errors import DatasetError, StageError
    from engine.lab.study.catalogue import catalogue

    pages: list[dict[str, Any]] = []
    failed: StageError | None = None
    for wanted in catalogue().values():
        try:
            made = _make(
                wanted,
                request,
                force,
                print_each=False,
            )
            if len(made) > 1 and not request.dry_run:
                _make_mean(made, request)
            pages += made
        except DatasetError as error:
            if error.code != "study-data-missing":
                raise
            print_note(f"{wanted.name} is left out: {error.what} {error.to_do}")
        except StageError as error:
            if error.code != "cells-failed":
                raise
            failed = failed or error
        force = False  # the trainings of one study are those of the next
    if request.as_json:
        print_json(pages)
    if failed:
        raise failed


def _choose_places(request: _Request) -> list[Path | None]:
    """Return the folder for the study of each data set: `--output`, or a folder within it for each.

    Such a folder is named like the data set's folder, with a number if several have that name.
    None: the default place.
    """
    output = request.output
    if output is None or len(request.names) == 1:
        return [output] * len(request.names)
    folder_names = [Path(name).name for name in request.names]
    places: list[Path | None] = []
    for number, folder_name in enumerate(folder_names, 1):
        if folder_names.count(folder_name) > 1:
            places.append(output / f"{folder_name}-{number}")
        else:
            places.append(output / folder_name)
    return places


def _make(
    wanted: Study,
    request: _Request,
    force: bool,
    print_each: bool,
) -> list[dict[str, Any]]:
    """Make a study of each data set, and return the JSON of the pages.

    `print_each`: with `--json`, print each as soon as it is made.
    """
    from engine.core.errors import UsageError
    from engine.lab.benchmark import DATA_SECTIONS
    from engine.lab.study.running import StudyRun, study_cells
    from engine.lab.study.workspace import basis_of

    pages: list[dict[str, Any]] = []
    for name, place in zip(request.names, _choose_places(request), strict=True):
        is_beir = _is_beir_folder(name)
        if request.queries and not is_beir:
            file = quote_argument(str(request.queries[0]))
            raise UsageError(
                f"{name} is a project, which has training queries.",
                "--queries gives them to a BEIR folder.",
                f"Run 'engine import-queries {quote_argument(name)} {file}' first.",
                code="queries-of-a-project",
            )
        data_settings: dict[str, Any] = {}
        training_settings: dict[str, Any] = {}
        for key, value in request.settings.items():
            if is_beir and key.partition(".")[0] in DATA_SECTIONS:
                data_settings[key] = value
            else:
                training_settings[key] = value
        with _open_project(name, place, request, data_settings) as project:
            basis, chunks = basis_of(project.folder)
            cells = study_cells(
                project.folder, wanted, chunks, request.models, request.seeds, training_settings
            )
            work = StudyRun(
                project.folder,
                wanted,
                cells,
                basis,
                place,
            )
            pages.append(_run(work, name, request.dry_run, force, request.as_json, print_each))
    return pages


@app.command()
def sweep(
    name: ProjectName,
    grid: Annotated[
        Texts,
        typer.Option(
            metavar="KEY=VALUES",
            help="a setting and its values, such as ranking.k=200,1000; may repeat",
        ),
    ] = None,
    dry_run: DryRun = False,
    force: Force = False,
    as_json: AsJson = False,
) -> None:
    """Train and measure every combination of settings.

    Works on a copy of the project, with settings of [ranking] and [training].

    The project's settings, its adapter and the encoder in use stay as they are. Each combination is
    compared with the base encoder: on judged questions and on titles and headings, if there are
    any, and on held-out queries, which flatter it because they are made from the documents. Ctrl-C
    stops the sweep, and the same command continues it.
    """
    from engine.lab.study.catalogue import sweep_of
    from engine.lab.study.grid import make_grid
    from engine.lab.study.running import StudyRun
    from engine.lab.study.workspace import basis_of

    with opened(name) as project:
        basis, chunks = basis_of(project.folder)
        cells = make_grid(
            grid or (),
            project.settings(),
            chunks,
        )
        work = StudyRun(
            project.folder,
            sweep_of(cells),
            cells,
            basis,
        )
        _run(
            work,
            name,
            dry_run,
            force,
            as_json,
        )


@app.command()
def lab(
    name: ProjectName,
    robustness: Annotated[
        bool,
        typer.Option(
            "--robustness",
            help=(
                "also measure queries with typos, masked and replaced words; judged questions go to"
                " the server that writes queries, if any"
            ),
        ),
    ] = False,
    pairs: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help=(
                "sentence pairs that people scored: .jsonl, .csv, .tsv (sentence1, sentence2,"
                " score)"
            ),
        ),
    ] = None,
    general: Annotated[
        Path | None,
        typer.Option(
            metavar="FOLDER",
            help="BEIR folder for the forgetting check, instead of the bundled questions",
        ),
    ] = None,
    changes: Annotated[
        Texts,
        typer.Option(
            "--set",
            metavar="KEY=VALUE",
            help="top_k, samples, sample_size or psi of the diagnostics, such as top_k=3",
        ),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Measure properties of a project's encoders.

    They decide nothing. Writes an HTML page and JSON: diagnostics of vectors and similarities, what
    adaptation forgot of general knowledge, and if wanted robustness and agreement with people's
    scores. The report links to the page.
    """
    from engine.cli.run_view import RunView
    from engine.lab.checks.measuring import measure_project
    from engine.lab.checks.options import parse_options
    from engine.lab.checks.page import write_lab

    values: dict[str, Any] = {"robustness": robustness}
    if pairs is not None:
        values["sentence_pairs"] = str(pairs)
    if general is not None:
        values["general_set"] = str(general)
    values.update(_parse_options(changes or ()))
    options = parse_options(values)
    with opened(name) as project, stoppable() as stop, RunView() as view:
        figures, report = measure_project(
            project.folder,
            options,
            view,
            stop,
        )
        data = write_lab(
            project.folder,
            figures,
            report,
        )
    if as_json:
        print_json(data)
    else:
        print_text(f"Page: {Path(data['folder']) / 'lab.html'}")


def _is_beir_folder(name: str) -> bool:
    return (expand_home(name) / "corpus.jsonl").is_file()


def _find_dev_split(queries: Sequence[Path]) -> Path | None:
    """Return the qrels/dev.tsv next to qrels/train.tsv, if those are the training queries."""
    for path in queries:
        dev = path.with_name("dev.tsv")
        if path.name == "train.tsv" and dev.is_file():
            return dev
    return None


@contextmanager
def _open_project(
    name: str, output: Path | None, request: _Request, settings: dict[str, Any]
) -> Iterator[Project]:
    """Open the project with that name, or one over a BEIR folder, with its queries made.

    The project of a BEIR folder lies next to the page, or in the user's data folder. It is the same
    for every --model, and another for other `queries` and `settings` of the data.
    """
    from engine.cli.run_view import RunView
    from engine.lab.benchmark import beir_project
    from engine.project.folder import locate
    from engine.project.stage import fingerprint

    if not _is_beir_folder(name):
        with opened(name) as project:
            yield project
        return
    dataset = expand_home(name)
    if output:
        place = output / "project"
    else:
        path = dataset.absolute()
        content: dict[str, Any] = {"path": str(path)}
        if request.queries:
            content["queries"] = [str(file.absolute()) for file in request.queries]
        if request.validation:
            content["validation"] = str(request.validation.absolute())
        if settings:
            content["settings"] = settings
        place = locate(f"study-{path.name}-{fingerprint(**content)[:8]}")
    sections: dict[str, dict[str, Any]] = {}
    for key, value in settings.items():
        section, _, setting = key.partition(".")
        sections.setdefault(section, {})[setting] = value
    made = beir_project(
        place,
        dataset,
        request.queries,
        sections,
        request.validation,
    )
    print_note(f"Project: {place}")
    with stoppable() as stop, RunView() as view:
        made.run(
            ("ingest", "index", "generate"),
            on_event=view,
            should_stop=stop,
        )
    yield made


def _make_mean(pages: list[dict[str, Any]], request: _Request) -> dict[str, Any]:
    """Return the mean over data sets; print it, and write it into `--output`."""
    from engine.cli.console import output, show_study
    from engine.lab.study.measures import average_pages
    from engine.lab.study.page import write_tables

    mean = average_pages(pages)
    if request.output:
        write_tables(request.output, mean)
    if not request.as_json:
        show_study(mean, output())
    return mean


def _run(
    work: StudyRun,
    name: str,
    dry_run: bool,
    force: bool,
    as_json: bool,
    prints_json: bool = True,
) -> dict[str, Any]:
    """Make a study or sweep, show it, and return its page's JSON, or its plan for `dry_run`.

    With `as_json` nothing is shown for people, and the JSON only if `prints_json`.
    """
    from engine.cli.console import output, show_study
    from engine.cli.run_view import RunView
    from engine.lab.study.running import failure

    if force and not dry_run:
        work.forget()
    _announce(work, name)
    if dry_run:
        plan = {
            "name": work.study.name,
            "project": name,
            "cells": [{**asdict(cell), "state": work.state(cell)} for cell in work.cells],
            "to_do": len(work.to_do()),
        }
        if as_json and prints_json:
            print_json(plan)
        elif not as_json:
            for cell in work.cells:
                print_text(f"{cell.number:>3}  {cell.name}  [{work.state(cell)}]")
        return plan

    def begin(cell: Cell) -> None:
        print_note(f"▸ cell {cell.number} of {len(work.cells)}: {cell.name}")

    with stoppable() as stop, RunView() as view:
        page = work.run(
            on_event=view,
            should_stop=stop,
            on_cell=begin,
        )
    if as_json and prints_json:
        print_json(page)
    elif not as_json:
        show_study(page, output())
        print_text(f"Page: {Path(page['folder']) / page['name']}.html")
        print_note(page["differs"])
    if work.failed:
        raise failure(work.failed)
    return page


def _announce(work: StudyRun, name: str) -> None:
    """Print how many cells are left to train and measure, and how many steps that takes."""
    from engine.lab.study.grid import steps_of, twin_of

    if not work.cells:  # a table without trainings
        return
    unfinished = work.to_do()
    trained = work.to_train()
    twins = sum(twin_of(work.cells, cell) is not None for cell in work.cells)
    finished = len(work.cells) - len(unfinished) - twins
    parts = [f"{len(trained)} to train and measure"]
    if len(unfinished) > len(trained):
        parts.append(f"{len(unfinished) - len(trained)} to measure after a training of another")
    if finished:
        parts.append(f"{finished} finished before")
    if twins:
        parts.append(f"{twins} identical to another")
    text = f"{format_count(len(work.cells), 'cell')}: {', '.join(parts)}."
    if unfinished:
        with closing(work.project.store()) as store:
            _, counts_by_split = store.query_counts()
        queries = counts_by_split.get("train", 0)
        settings = work.project.settings()
        steps = 0
        for cell in trained:
            steps += work.count_trainings(cell) * steps_of(cell, settings, queries)
        evaluations = format_count(len(unfinished), "evaluation")
        text += f" That takes {format_count(steps, 'training step')} and {evaluations}."
    print_note(text)
    if work.workspace.judged_since:
        print_note(
            "The judged questions have changed since this began; it still uses the earlier ones."
            f" To start again, add --force ({quote_argument(name)})."
        )


def _list(
    name: str | None, models: Sequence[str], seeds: int, settings: dict[str, Any], as_json: bool
) -> None:
    """List the studies, with how long each takes if a project is named."""
    from engine.lab.study.listing import listing

    if name and _is_beir_folder(name):
        name = None  # it has no project yet
    if name is None:
        rows = list(listing(None, models, seeds, settings))
    else:
        with opened(name) as project:
            rows = list(listing(project.folder, models, seeds, settings))
    if as_json:
        print_json(rows)
        return
    for row in rows:
        print_text(f"{row.name:<12} {row.source}: {row.shows}")
        print_text(f"{'':<12} {row.cost} {row.differs}")
    if name is None:
        print_note(
            "With a project it also says how long each takes here: engine study --list PROJECT"
        )
