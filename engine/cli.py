"""The `engine` command. Data goes to standard output, narration to standard error.

Exit codes: 0 done, 1 internal fault, 2 wrong use or settings, 3 bad input or nothing built yet, 4 project busy, 5 stage
failed, 6 out of disk or memory, 7 damaged project, 130 cancelled.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from engine import environment

if TYPE_CHECKING:
    from engine.api import Project
    from engine.events import Event

app = typer.Typer(
    name="engine",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    help=__doc__,
)
ProjectName = Annotated[str, typer.Argument(metavar="PROJECT", help="a project's name, or the path of its folder")]
AsJson = Annotated[bool, typer.Option("--json", help="print JSON on standard output")]
MaybeProject = Annotated[
    str | None, typer.Argument(metavar="PROJECT", help="a project's name, or the path of its folder")
]
Force = Annotated[bool, typer.Option("--force", help="do it again even where it is up to date")]
Preset = Annotated[str, typer.Option(help="training preset: quick, standard or paper")]


def main() -> None:
    """Run the command; every expected error ends with its own exit code and no traceback."""
    environment.prepare_process()
    from engine.errors import EngineError

    try:
        app(standalone_mode=False)
        sys.stdout.flush()
    except EngineError as error:
        from engine.console import show_error

        show_error(error)
        sys.exit(error.exit_code)
    except typer.Exit as done:
        sys.exit(done.exit_code)
    except (KeyboardInterrupt, typer.Abort):
        sys.exit(130)
    except BrokenPipeError:
        _nobody_reads()
    except SystemExit as done:  # the command line library's own answer to a closed pipe
        if isinstance(done.__context__, BrokenPipeError):
            _nobody_reads()
        raise
    except Exception as error:
        _unexpected(error)


def _nobody_reads() -> None:
    """The reader of our output, such as `head`, has what it wanted: that is no fault."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # what is still buffered must not be written at exit
    sys.exit(0)


def _unexpected(error: Exception) -> None:
    """Wrong use as the command line library tells it; a full disk; or a fault of our own, without a traceback."""
    import errno

    if hasattr(error, "format_message") and hasattr(error, "exit_code"):
        command = getattr(getattr(error, "ctx", None), "command_path", "engine")
        if type(error).__name__ == "NoArgsIsHelpError":
            print(error.format_message(), file=sys.stderr)
        else:
            print(f"Error: {error.format_message()}\nTry '{command} --help'.", file=sys.stderr)
        sys.exit(2)
    if isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT):
        print(f"Error: The disk is full.\n{error}\nFree some disk space and try again.", file=sys.stderr)
        sys.exit(6)
    if isinstance(error, OSError):
        print(
            f"Error: A file could not be read or written.\n{error}\nCheck the path and its permissions.",
            file=sys.stderr,
        )
        sys.exit(3)
    print(f"Error: the engine met a fault of its own ({type(error).__name__}: {error}).", file=sys.stderr)
    sys.exit(1)


def _print_json(data: Any) -> None:
    print(json.dumps(data, ensure_ascii=False, indent=1))


@contextmanager
def _opened(name: str) -> Iterator[Project]:
    from engine.api import Project

    project = Project.open(name)
    try:
        yield project
    finally:
        project.close()


@contextmanager
def _stoppable() -> Iterator[Callable[[], bool]]:
    """Ctrl-C or SIGTERM asks for a stop at the next safe point; a second Ctrl-C ends at once."""
    asked = 0

    def ask(number: int, _frame: object) -> None:
        nonlocal asked
        asked += 1
        if asked > 1 and number == signal.SIGINT:
            raise KeyboardInterrupt
        print("Stopping at the next safe point …", file=sys.stderr)

    before = {number: signal.signal(number, ask) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield lambda: asked > 0
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _execute(project: Project, stages: tuple[str, ...], force: bool, as_json: bool) -> None:
    """Run stages with progress shown; with `--json`, every event goes to standard output, one JSON object a line.

    A reader of those lines that goes away stops the run at its next safe point, as Ctrl-C does.
    """
    from engine.console import RunView
    from engine.events import encode

    unread = False

    def as_line(event: Event) -> None:
        nonlocal unread
        try:
            print(encode(event), flush=True)
        except BrokenPipeError:
            unread = True
            os.dup2(os.open(os.devnull, os.O_WRONLY), 1)

    with _stoppable() as asked, RunView() as view:
        project.run(
            stages,
            force=stages if force else (),
            on_event=as_line if as_json else view,
            should_stop=lambda: unread or asked(),
        )


@app.command()
def new(
    project: ProjectName,
    documents: Annotated[list[Path], typer.Argument(help="folders or files: .txt, .md, .html, or a BEIR folder")],
    model: Annotated[
        str | None, typer.Option(help="folder of a sentence-transformers model; the bundled one if left out")
    ] = None,
    preset: Preset = "standard",
) -> None:
    """Create a project over documents. Nothing is read yet: 'engine run' does that."""
    from engine.api import Project
    from engine.errors import InputError

    for path in documents:
        if not path.expanduser().exists():
            raise InputError(f"{path} does not exist.", "The project would have no documents there.", "Check the path.")
    sections: dict[str, dict[str, Any]] = {"training": {"preset": preset}}
    if model:
        from engine.encoders import resolve_model

        sections["encoder"] = {"model": str(resolve_model(model).path)}
    made = Project.create(project, documents, **sections)
    print(made.path)
    print(f"Settings are in {made.path / 'project.toml'}. Next: engine run {project}", file=sys.stderr)


@app.command()
def run(project: ProjectName, force: Force = False, as_json: AsJson = False) -> None:
    """Bring every stage up to date: ingest, index, generate, rank, train, evaluate, embed. Resumes where it stopped."""
    from engine.stage import ORDER

    with _opened(project) as opened:
        _execute(opened, ORDER, force, as_json)
        if not as_json:
            print(f"Next: engine search {project} 'your question', or engine report {project}", file=sys.stderr)


def _stage_command(stage: str, text: str) -> None:
    def command(project: ProjectName, force: Force = False, as_json: AsJson = False) -> None:
        with _opened(project) as opened:
            _execute(opened, (stage,), force, as_json)

    command.__doc__ = text
    app.command(stage)(command)


for _name, _text in {
    "ingest": "Stage 1: read the documents and cut them into chunks. Only what changed is read.",
    "index": "Stage 2: build the BM25 index. BM25 search works from here on.",
    "generate": "Stage 3: make training queries from the chunks, or take the imported ones.",
    "rank": "Stage 4: mine BM25's ranking of every query.",
    "train": "Stage 5: train the adapter. Resumes from its last checkpoint.",
    "evaluate": "Stage 6: compare base, adapted and merged encoders on held-out queries, and choose what to serve.",
    "embed": "Stage 7: embed the chunks with the served encoder. Semantic search works from here on.",
}.items():
    _stage_command(_name, _text)


@app.command()
def search(
    project: ProjectName,
    query: Annotated[str, typer.Argument(help="what to look for")],
    mode: Annotated[str | None, typer.Option(help="hybrid, semantic or bm25; project.toml's if left out")] = None,
    top: Annotated[int | None, typer.Option(help="number of hits")] = None,
    path: Annotated[
        list[str] | None, typer.Option(help="only paths that match this glob, such as 'contracts/**'; may repeat")
    ] = None,
    file_type: Annotated[
        list[str] | None, typer.Option("--type", help="only this file type, such as md; may repeat")
    ] = None,
    after: Annotated[str | None, typer.Option(help="only files changed on or after YYYY-MM-DD")] = None,
    before: Annotated[str | None, typer.Option(help="only files changed before YYYY-MM-DD")] = None,
    as_json: AsJson = False,
) -> None:
    """Search a project. Each hit says which ranker found it, and at what rank."""
    from engine.console import output, show_found
    from engine.search.filters import SearchFilter, parse_date

    where = SearchFilter(
        tuple(path or ()),
        tuple(file_type or ()),
        parse_date(after) if after else None,
        parse_date(before) if before else None,
    )
    with _opened(project) as opened:
        found = opened.search(query, mode=mode, top=top, where=where)
    if as_json:
        _print_json(found.as_dict())
    else:
        show_found(found, output())
        if not found.hits:
            print("Nothing was found.", file=sys.stderr)


@app.command()
def serve(
    project: ProjectName,
    stdio: Annotated[bool, typer.Option("--stdio", help="speak JSON-RPC 2.0 on standard input and output")] = False,
) -> None:
    """Answer searches as JSON-RPC 2.0, one message a line; models stay loaded. No port is opened."""
    from engine.errors import UsageError

    if not stdio:
        raise UsageError(
            "The server speaks on standard input and output only.", "No port is ever opened.", "Add --stdio."
        )
    from engine.search.server import Server

    with _opened(project) as opened:
        answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
        os.dup2(2, 1)  # what a library prints must not mix with the answers
        Server(opened.folder, answers).serve(sys.stdin)


@app.command()
def status(project: MaybeProject = None, as_json: AsJson = False) -> None:
    """Show how far each stage of a project is; without a name, list the known projects."""
    if project is None:
        from engine.project import known_projects

        names = {path.name: str(path) for path in known_projects()}
        if as_json:
            _print_json(names)
        else:
            print("".join(f"{name}  {path}\n" for name, path in names.items()), end="")
        if not names:
            print("No projects yet: 'engine new' makes one.", file=sys.stderr)
        return
    from dataclasses import asdict

    from engine.pipeline import latest_run

    with _opened(project) as opened:
        stages, counts, skipped = opened.status(), opened.counts(), opened.skipped()
        place, running, newest = str(opened.path), opened.folder.is_running(), latest_run(opened.folder)
    if as_json:
        shown = [asdict(stage) for stage in stages]
        _print_json(
            {
                "project": place,
                "running": running,
                "counts": counts,
                "stages": shown,
                "latest_run": newest,
                "skipped": skipped,
            }
        )
        return
    print(f"{place}{'  (a run is going on)' if running else ''}")
    print(" · ".join(f"{name.replace('_', ' ')}: {count}" for name, count in counts.items()))
    for stage in stages:
        print(f"  {stage.stage:<9} {stage.state:<6} {stage.reason}")
    for path_text, reason in skipped.items():
        print(f"  skipped   {path_text}: {reason}")


@app.command()
def cancel(project: ProjectName) -> None:
    """Ask a running run to stop at its next safe point; the next run resumes there."""
    from engine import pipeline

    with _opened(project) as opened:
        print(f"Run {pipeline.cancel(opened.folder)} was asked to stop.", file=sys.stderr)


@app.command()
def report(project: ProjectName, as_json: AsJson = False) -> None:
    """Show what the last evaluation found: the table, what search serves, and why."""
    from engine.console import output, show_tables

    with _opened(project) as opened:
        found = opened.report()
    if as_json:
        _print_json(
            {"served": found["served"], "reason": found["reason"], "tables": found["tables"], "folder": found["folder"]}
        )
        return
    show_tables(found["tables"], output())
    print(found["reason"])
    print(f"Report: {Path(found['folder']) / 'report.html'}")


@app.command("import-queries")
def import_queries(
    project: ProjectName, path: Annotated[Path, typer.Argument(help="a .jsonl file, or a .json array")]
) -> None:
    """Add training queries: JSONL of {"query", "evidence", "document"}, or a JSON array of {"query", "evidence_list", "doc"}."""
    with _opened(project) as opened:
        count = opened.import_queries(path)
        backend = opened.settings().queries.backend
    print(f"{count} queries were imported.", file=sys.stderr)
    if backend == "extractive":
        print("They are used once queries.backend in project.toml is 'imported' or 'both'.", file=sys.stderr)


@app.command("import-judgments")
def import_judgments(
    project: ProjectName,
    path: Annotated[Path, typer.Argument(help="a .jsonl file, or a BEIR folder")],
    split: Annotated[str, typer.Option(help="which qrels/NAME.tsv of a BEIR folder")] = "test",
) -> None:
    """Add questions with known answers: JSONL of {"query", "evidence", "path"}, or a BEIR folder. They are never trained on."""
    with _opened(project) as opened:
        print(f"{opened.import_judgments(path, split)} judged queries were imported.", file=sys.stderr)


@app.command()
def benchmark(
    dataset: Annotated[Path, typer.Argument(help="a BEIR folder: corpus.jsonl, queries.jsonl, qrels/test.tsv")],
    queries: Annotated[
        Path | None, typer.Option(help="training queries; the extractive generator's if left out")
    ] = None,
    model: Annotated[str | None, typer.Option(help="folder of a sentence-transformers model")] = None,
    preset: Preset = "standard",
    seed: Annotated[int, typer.Option(help="seed of training and of the split")] = 0,
    keep: Annotated[Path | None, typer.Option(help="make the project here and keep it")] = None,
    as_json: AsJson = False,
) -> None:
    """Adapt to a BEIR data set and measure every system on its judgments, with 95 % intervals."""
    from engine.benchmark import benchmark as measure
    from engine.console import RunView, output, show_tables

    settings: dict[str, dict[str, Any]] = {"training": {"preset": preset, "seed": seed}}
    if model:
        settings["encoder"] = {"model": model}
    with RunView() as view:
        result = measure(dataset, queries=queries, settings=settings, keep=keep, on_event=view)
    if as_json:
        _print_json(result)
        return
    table = {"queries": result["queries"], "systems": result["systems"]}
    show_tables({"judged": table}, output(), ("bm25", "base", "adapted", "served", "rrf_base", "rrf_adapted"))
    print(f"{result['served']['reason']}")
    for name, row in result["differences"].items():
        gap = row["ndcg@10"]
        print(f"{name} − base: {gap['value']:+.2f} nDCG@10 ({gap['low']:+.2f} to {gap['high']:+.2f}): {gap['verdict']}")


@app.command()
def doctor(
    project: MaybeProject = None,
    model: Annotated[str | None, typer.Option(help="model folder to check")] = None,
    as_json: AsJson = False,
) -> None:
    """Examine this machine: device, precision, memory, disk, model files, versions, and what follows from each."""
    from engine.doctor import examine, project_findings

    findings = examine(model=model)
    if project:
        with _opened(project) as opened:
            findings += project_findings(opened.path)
    if as_json:
        _print_json([finding.as_dict() for finding in findings])
    else:
        for finding in findings:
            sign = {"good": "✓", "note": "·", "problem": "✗"}[finding.state]
            print(f"{sign} {finding.topic:<11} {finding.found}: {finding.follows}")
    if any(finding.state == "problem" for finding in findings):
        raise typer.Exit(3)


@app.command()
def demo(
    project: Annotated[str, typer.Option("--project", help="name or folder of the demo's project")] = "sample",
) -> None:
    """Run every stage on the sample corpus, show the table, and try three searches."""
    from engine.console import output, show_found, show_tables
    from engine.demo import SEARCHES, sample_project
    from engine.stage import ORDER

    sample = sample_project(project)
    _execute(sample, ORDER, force=False, as_json=False)
    console, found = output(), sample.report()
    console.print()
    show_tables(found["tables"], console)
    print(found["reason"])
    for query in SEARCHES:
        console.print()
        console.rule(query, align="left", style="dim")
        show_found(sample.search(query, top=3), console)
    sample.close()
    print(f"\nProject: {sample.path}\nReport:  {Path(found['folder']) / 'report.html'}")
    print(f"Next:    engine search {project} 'your question'")


if __name__ == "__main__":
    main()
