"""Commands that make something: projects, runs, single stages, imports, benchmarks."""

from __future__ import annotations

import os
import sys
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from engine.cli.app import (
    AsJson,
    Cluster,
    Force,
    Preset,
    ProjectName,
    Texts,
    Verbose,
    app,
    execute,
    opened,
    parse_assignments,
    print_json,
    print_line,
    print_note,
    print_text,
    stoppable,
)
from engine.core.platforms.processes import quote_argument
from engine.core.text import format_count, size_text

if TYPE_CHECKING:
    from engine.api import Project
    from engine.core.messages.encoders import EncoderProposal

Detach = Annotated[
    bool, typer.Option("--detach", help="run in the background; 'engine status' shows the progress")
]


@app.command()
def new(
    name: Annotated[
        str, typer.Argument(metavar="PROJECT", help="a name, or a path for the project's folder")
    ],
    documents: Annotated[
        list[str], typer.Argument(metavar="FOLDER", help="folders or files with documents")
    ],
    model: Annotated[
        str | None,
        typer.Option(
            metavar="FOLDER",
            help="encoder: a sentence-transformers folder; else one that fits the documents",
        ),
    ] = None,
    preset: Preset = "standard",
) -> None:
    """Create a project for a folder of documents. Only a few are read, to propose an encoder.

    'engine run' reads them all. Without --model the project gets the bundled encoder, or an
    installed one that knows the documents' language if the bundled one does not.
    """
    from engine.api import Project
    from engine.core.disk import expand_home
    from engine.core.errors import InputError
    from engine.project.folder import ProjectFolder, locate

    paths_as_typed: dict[Path, Path] = {}  # by the resolved path
    for text in documents:
        path = expand_home(text)
        if not path.exists():
            raise InputError(
                f"{path} does not exist.",
                "The project would have no documents there.",
                "Check the path.",
                code="path-missing",
            )
        paths_as_typed[path.resolve()] = path
    sections: dict[str, dict[str, Any]] = {"training": {"preset": preset}}
    # Before the documents are looked at, which takes some seconds.
    ProjectFolder.check_new(locate(name), sections)
    proposal = None
    if model:
        from engine.encoders.kinds.chosen import model_path

        sections["encoder"] = {"model": str(model_path(model))}
    else:
        proposal = _propose(list(paths_as_typed))
        if proposal and proposal.here:
            sections["encoder"] = {"model": proposal.model}
    project = Project.create(
        name,
        paths_as_typed.values(),
        **sections,
    )
    if len(paths_as_typed) < len(documents):
        print_note("A folder that is named twice is read once.")
    for place, path in paths_as_typed.items():
        if place.is_dir() and os.access(place, os.R_OK) and not any(place.iterdir()):
            print_note(f"Note: {path} is empty. Put documents there before you run it.")
    print_text(str(project.path))
    if proposal:
        _show_proposal(proposal, name)
    print_note(f"Next: engine run {quote_argument(name)}")


def _propose(sources: list[Path]) -> EncoderProposal | None:
    """Propose an encoder for documents, by a sample of them.

    Returns None if the bundled one will do, or if no sample can be read: a project can be created
    without a proposal.
    """
    from engine.core.errors import EngineError
    from engine.service.proposing import propose_for_files
    from engine.settings.schema import CorpusSettings, EncoderSettings

    if sys.stderr.isatty():
        print_note("Reading a few documents, to see which encoder suits them …")
    try:
        proposal = propose_for_files(
            sources,
            EncoderSettings(),
            CorpusSettings().chunk_tokens,
        )
    except (EngineError, OSError):
        return None
    if not proposal.model:
        return None
    return proposal


def _show_proposal(proposal: EncoderProposal, name: str) -> None:
    """Say which encoder suits the documents, and how to fetch it unless it is on this machine."""
    languages = f"A sample of the documents is {proposal.format_languages}."
    if proposal.here:
        note = f"{languages} The encoder {proposal.model} knows it and is used."
    else:
        if proposal.unknown:
            why = f"The encoder {proposal.encoder} was not trained on it. To fetch one that was"
        else:
            why = f"The encoder {proposal.encoder} knows it. To fetch one that should find more"
        note = (
            f"{languages} {why} ({size_text(proposal.size)}) and use it:\n"
            f"  engine models get {proposal.model}\n"
            f"  engine config set {quote_argument(name)} encoder.model {proposal.model}"
        )
    for line in note.splitlines():
        print_note(line)


@app.command()
def run(
    name: ProjectName,
    only: Annotated[
        str | None, typer.Option(metavar="STAGES", help="only these stages, such as ingest,index")
    ] = None,
    every: Annotated[
        bool, typer.Option("--all", help="also adapt the encoder, as 'engine adapt' does")
    ] = False,
    _ray: Cluster = None,
    force: Force = False,
    detach: Detach = False,
    verbose: Verbose = False,
    as_json: AsJson = False,
) -> None:
    """Make the documents searchable. Runs ingest (only what has changed), index and embed.

    A stopped run continues where it left off. Search by keyword works after 'index'; in a large new
    project already after a first part is indexed. While 'embed' runs, what is embedded so far is
    searched by meaning.
    """
    from engine.core.errors import UsageError
    from engine.project.stage import ORDER, SEARCH
    from engine.runs.pipeline import order_stages

    if every and only is not None:
        raise UsageError(
            "--all and --only cannot be used together.",
            "",
            "Leave one out.",
            code="options-conflict",
            command="run",
        )
    if only is not None:
        stages = order_stages(part.strip() for part in only.split(","))
    elif every:
        stages = ORDER
    else:
        stages = SEARCH
    _run(
        name,
        stages,
        force=force,
        detach=detach,
        as_json=as_json,
        verbose=verbose,
    )


@app.command()
def adapt(
    name: ProjectName,
    dry_run: Annotated[
        bool,
        typer.Option(
            "--dry-run",
            help="start nothing; say how long it takes and whether it could prove a gain",
        ),
    ] = False,
    force: Force = False,
    detach: Detach = False,
    verbose: Verbose = False,
    as_json: AsJson = False,
) -> None:
    """Adapt the encoder to your documents.

    Each search mode uses it where it is proved, or expected, to be better.

    Reads what has changed, makes training queries, trains, compares search before and after, and
    embeds.
    """
    from engine.project.stage import ORDER

    if dry_run:
        _show_offer(name, as_json)
    else:
        _run(
            name,
            ORDER,
            force=force,
            detach=detach,
            as_json=as_json,
            verbose=verbose,
        )


def _show_offer(name: str, as_json: bool) -> None:
    """Print how long an adaptation takes and whether it could prove a gain."""
    from engine.service.offer import adaptation_offer

    with opened(name) as project:
        offer = adaptation_offer(
            project.folder, on_timing=lambda: print_note("Estimating how long it takes …")
        )
    if as_json:
        print_json(offer)
        return
    for line in offer.lines():
        print_text(line)


def _run(
    name: str,
    stages: tuple[str, ...],
    *,
    force: bool,
    detach: bool,
    as_json: bool,
    verbose: bool,
) -> None:
    """Run stages, here or with `detach` in the background, and say what to do next."""
    quoted = quote_argument(name)
    with opened(name) as project:
        if detach:
            _detach(
                project,
                quoted,
                stages,
                force,
                as_json,
            )
            return
        execute(
            project,
            stages,
            force=force,
            as_json=as_json,
            verbose=verbose,
        )
        if as_json or "embed" not in stages:
            return
        if "evaluate" in stages:
            alternative = f"engine report {quoted}"
        else:
            alternative = f"engine adapt {quoted} --dry-run, which says whether adapting may help"
        print_note(f'Next: engine search {quoted} "your question", or {alternative}')
        if "train" in stages:
            _offer_teacher(project, quoted)


def _offer_teacher(project: Project, quoted: str) -> None:
    """Say that a reranker of this machine could teach the encoder, if none does.

    `quoted`: the project's name, for a shell.
    """
    from engine.project.stage import ProjectSnapshot
    from engine.runs.teaching import find_teacher

    settings = project.folder.settings()
    if settings.training.teacher == "cross-encoder":
        return
    with closing(project.folder.store()) as store:
        name = find_teacher(ProjectSnapshot(project.folder, settings, store))
    if name:
        print_note(
            f"The reranker {name} could teach the encoder: engine adapt {quoted} --dry-run says"
            " how long it takes"
        )


def _detach(
    project: Project, quoted: str, stages: tuple[str, ...], force: bool, as_json: bool
) -> None:
    """Start a run in the background, and print its id.

    `quoted`: the project as the user types it in the next command.
    """
    from engine.core.errors import UsageError
    from engine.runs.detached import start
    from engine.training.compute.launch import find_launch

    if find_launch() is not None:
        raise UsageError(
            "A run of several processes cannot run in the background.",
            "Its processes belong to the launcher that started them.",
            "Leave out --detach.",
            code="detach-distributed",
        )
    run_record = start(
        project.folder,
        stages,
        force=force,
    )
    if as_json:
        print_line(run_record)
        return
    print(run_record.run)
    print_note(
        f"It runs in the background. Next: engine status {quoted}, or engine cancel {quoted}"
    )


def _add_stage_command(stage: str, help_text: str) -> None:
    """Add the command that runs a single stage."""

    def command(
        name: ProjectName, force: Force = False, verbose: Verbose = False, as_json: AsJson = False
    ) -> None:
        with opened(name) as project:
            execute(
                project,
                (stage,),
                force=force,
                as_json=as_json,
                verbose=verbose,
            )

    command.__doc__ = help_text
    app.command(stage)(command)


for _stage, _help_text in {
    "ingest": "Stage 1: read the documents and cut them into chunks. Reads only what has changed.",
    "index": "Stage 2: build the keyword index (BM25). After it, search by keyword works.",
    "generate": "Stage 3: make training queries, or take imported ones.",
    "rank": "Stage 4: rank chunks by BM25 for each training query.",
    "train": "Stage 5: train the adapter. A stopped training continues from its last checkpoint.",
    "evaluate": "Stage 6: compare encoders, and choose which to use.",
    "embed": (
        "Stage 7: embed the chunks with the encoder in use. After it, search by meaning works."
    ),
}.items():
    _add_stage_command(_stage, _help_text)


@app.command("import-queries")
def import_queries(
    name: ProjectName,
    path: Annotated[
        Path, typer.Argument(metavar="FILE", help="JSONL, a JSON array, or qrels/NAME.tsv (BEIR)")
    ],
    validation: Annotated[
        bool,
        typer.Option(
            "--validation",
            help="do not train on them: 60 or more decide when training stops, as a dev split does",
        ),
    ] = False,
) -> None:
    """Add training queries.

    JSONL of {"query", "evidence", "document"}, or a JSON array of {"query", "evidence_list",
    "doc"}. A "kind" (question, keyword, title, claim, everyday) is kept. A "grade" of 1 or more
    says how relevant the evidence is (for the loss plackett_luce). A query may be there once per
    answer.
    """
    with opened(name) as project:
        count = project.import_queries(path, validation=validation)
        backend = project.settings().queries.backend
    print_note(f"Imported: {format_count(count, 'query', 'queries')}.")
    if backend not in ("imported", "both"):
        print_note("They are used once queries.backend in project.toml is 'imported' or 'both'.")


@app.command("import-judgments")
def import_judgments(
    name: ProjectName,
    path: Annotated[Path, typer.Argument(metavar="FILE", help="JSONL, or a BEIR folder")],
    split: Annotated[
        str, typer.Option(metavar="NAME", help="which qrels/NAME.tsv of a BEIR folder")
    ] = "test",
    measure: Annotated[
        bool,
        typer.Option(
            "--measure", help="let them measure what comes into use, with no part in choosing it"
        ),
    ] = False,
) -> None:
    """Add questions with known answers.

    JSONL of {"query", "evidence", "path"}, or a BEIR folder. They are never trained on.

    "also", a list of {"path", "evidence"}, names further documents that answer a question.
    """
    with opened(name) as project:
        count = project.import_judgments(
            path,
            split,
            measuring=measure,
        )
        print_note(f"Imported: {format_count(count, 'judged question')}.")
        if not project.counts()["documents"]:
            return
        judged = project.queries_by_origin("judged").queries
        lacking = sum(query.reason == "no-answer" for query in judged)
        if lacking:
            lacking_text = "1 does not count: no document holds its answer"
            if lacking > 1:
                lacking_text = f"{lacking:,} do not count: no document holds their answer"
            print_note(
                f"Of the project's {format_count(len(judged), 'judged question')}, {lacking_text}."
                f" To list them all: engine queries {project.folder.argument} --origin judged"
            )


@app.command()
def benchmark(
    dataset: Annotated[
        Path,
        typer.Argument(
            metavar="FOLDER", help="a BEIR folder: corpus.jsonl, queries.jsonl, qrels/test.tsv"
        ),
    ],
    queries: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="training queries; extractive ones if left out"),
    ] = None,
    model: Annotated[
        str | None, typer.Option(metavar="FOLDER", help="encoder: a sentence-transformers folder")
    ] = None,
    preset: Preset = "standard",
    seed: Annotated[int, typer.Option(metavar="N", help="seed of the training and the split")] = 0,
    keep: Annotated[
        Path | None, typer.Option(metavar="FOLDER", help="create the project here and keep it")
    ] = None,
    changes: Annotated[
        Texts,
        typer.Option(
            "--set", metavar="KEY=VALUE", help="a setting, such as training.steps=60; may repeat"
        ),
    ] = None,
    verbose: Verbose = False,
    as_json: AsJson = False,
) -> None:
    """Measure adaptation on a BEIR data set.

    Compares all ways to search on its judgments, with 95 % intervals.
    """
    from engine.cli.console import output, show_differences, show_tables
    from engine.cli.run_view import RunView
    from engine.core.figures import FigureTable
    from engine.core.messages.wire import from_json
    from engine.lab.benchmark import benchmark as measure
    from engine.settings.edit import apply_changes

    settings = apply_changes(
        {"training": {"preset": preset, "seed": seed}}, parse_assignments(changes or [])
    )
    if model:
        from engine.encoders.kinds.chosen import named_model

        settings.setdefault("encoder", {})["model"] = named_model(model)
    with stoppable() as stop, RunView(verbose=verbose) as view:
        result = measure(
            dataset,
            queries=queries,
            settings=settings,
            keep=keep,
            on_event=view,
            should_stop=stop,
        )
    if as_json:
        print_json(result)
        return
    table = from_json(FigureTable, result)
    show_tables(
        {"judged": table},
        output(),
        result["own_systems"],
        tuple(table.systems),
    )
    for chosen in result["in_use"].values():
        print(chosen["reason"])
    show_differences(
        {f"{name} − base": row for name, row in table.differences.items()} | dict(table.pairs),
        output(),
    )


@app.command()
def demo(
    project: Annotated[
        str,
        typer.Option("--project", metavar="PROJECT", help="name or folder of the demo's project"),
    ] = "sample",
    verbose: Verbose = False,
) -> None:
    """Adapt the encoder to the sample documents.

    Shows search before and after, and searches four times.
    """
    from engine.cli.console import output, show_found, show_verdict
    from engine.cli.demo import NARROW, SEARCHES, find_telling_change, sample_project, show_change
    from engine.core.errors import CancelledError
    from engine.core.systems import BASE
    from engine.project.stage import ORDER

    sample = sample_project(project)
    try:
        execute(
            sample,
            ORDER,
            force=False,
            as_json=False,
            verbose=verbose,
        )
    except CancelledError as error:
        error.to_do = f"Run 'engine demo --project {quote_argument(project)}' to resume."
        raise
    console = output()
    hits_shown = 2
    if console.width < NARROW:
        hits_shown = 1
    report = sample.report()
    console.print()
    show_verdict(report.verdict, console)
    change = find_telling_change(report)
    if change is not None:
        if report.in_use["semantic"].name == BASE:
            heading = "Adapted, not in use"
        else:
            heading = "Now in use"
        console.print()
        console.rule(
            f"{change.text} (semantic search)",
            align="left",
            style="dim",
        )
        show_change(change, heading, console)
    for query in SEARCHES:
        console.print()
        console.rule(
            query,
            align="left",
            style="dim",
        )
        show_found(sample.search(query, top=hits_shown, by_document=True), console)
    sample.close()
    print()
    print_text(f"Project: {sample.path}")
    print_text(f"Report:  {report.folder / 'report.html'}")
    print(f'Next:    engine search {quote_argument(project)} "your question"')
