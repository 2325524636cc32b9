"""`engine search`, in one project or in all, and `engine find`, in a folder that has none."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from engine.cli.app import AsJson, MaybeProject, Texts, app, opened, print_json
from engine.core.errors import (
    CancelledError,
    EngineError,
    NoDocumentsError,
    ProjectBusyError,
    SettingsError,
    UsageError,
)
from engine.core.messages.search import Found, FoundIn, Hit
from engine.core.text import harmless, short_names

if TYPE_CHECKING:
    from engine.api import Project


@dataclass(frozen=True)
class Shown:
    """How hits are printed."""

    files: bool
    as_json: bool
    dated: bool = False

    def __post_init__(self) -> None:
        if self.files and self.as_json:
            raise UsageError(
                "--files and --json cannot be used together.",
                "",
                "Use one.",
                code="options-conflict",
            )


Top = Annotated[int | None, typer.Option(metavar="N", help="number of hits")]
Types = Annotated[
    Texts,
    typer.Option("--type", metavar="TYPE", help="only this file type, such as md; may repeat"),
]
Files = Annotated[
    bool,
    typer.Option(
        "--files",
        help=(
            "print only the paths of files; of a document in an archive or email, the path of that"
        ),
    ),
]


@app.command()
def search(
    name: MaybeProject = None,
    query: Annotated[
        str | None,
        typer.Argument(
            metavar="QUERY", help='words, "an exact phrase", -word, word*, title:word, like:ID'
        ),
    ] = None,
    mode: Annotated[
        Literal["hybrid", "semantic", "keywords", "bm25"] | None,
        typer.Option(
            metavar="MODE",
            help="hybrid, semantic or keywords; search.mode of the project if left out",
        ),
    ] = None,
    top: Top = None,
    all_projects: Annotated[bool, typer.Option("--all", help="search all projects")] = False,
    also: Annotated[
        list[Path] | None,
        typer.Option(
            metavar="FOLDER", help="with --all: also a project outside your data folder; may repeat"
        ),
    ] = None,
    like: Annotated[
        str | None, typer.Option(metavar="ID", help="find documents like this one: its id or path")
    ] = None,
    sort: Annotated[
        Literal["score", "date"], typer.Option(metavar="score|date", help="best or newest first")
    ] = "score",
    passages: Annotated[
        bool, typer.Option("--passages", help="show every passage, not the best of each document")
    ] = False,
    files: Files = False,
    min_score: Annotated[
        float | None,
        typer.Option(metavar="SCORE", help="no hits with a lower score; scales differ by mode"),
    ] = None,
    literal: Annotated[
        bool, typer.Option("--literal", help='take ", -, *, title: and like: as plain text')
    ] = False,
    path: Annotated[
        list[str] | None,
        typer.Option(
            metavar="PATTERN",
            help=(
                "only paths that match, such as 'contracts/**' ('contracts/./': not its"
                " subfolders); may repeat"
            ),
        ),
    ] = None,
    file_type: Types = None,
    same_type: Annotated[Texts, typer.Option("--format", hidden=True)] = None,
    author: Annotated[
        Texts,
        typer.Option(
            metavar="NAME", help="only documents with this in the author's name; may repeat"
        ),
    ] = None,
    language: Annotated[
        Texts,
        typer.Option(
            metavar="LANG", help="only documents in this language, such as en; may repeat"
        ),
    ] = None,
    after: Annotated[
        str | None,
        typer.Option(metavar="YYYY-MM-DD", help="only documents dated on or after this day"),
    ] = None,
    before: Annotated[
        str | None, typer.Option(metavar="YYYY-MM-DD", help="only documents dated before this day")
    ] = None,
    rerank: Annotated[
        bool | None,
        typer.Option(
            "--rerank/--no-rerank", help="rerank or not; by default, if the reranker is in use"
        ),
    ] = None,
    facets: Annotated[
        bool,
        typer.Option(
            "--facets", help="also count the documents by type, author, language, year and folder"
        ),
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Search a project.

    Each hit is the best passage of a document, with its rank by keyword and by meaning.

    With --all, give no PROJECT: engine search --all QUERY. A query that begins with a minus goes
    after --.
    """
    from engine.search.filters import SearchFilter, parse_date

    if (all_projects and name and query) or (also and not all_projects):
        raise UsageError(
            "A search is of one project, or of all with --all and --also.",
            "",
            "Type engine search PROJECT QUERY, or engine search --all QUERY, with the query in"
            " quotation marks.",
            code="options-conflict",
        )
    if all_projects:
        name, query = None, query or name
    if (query is None and not like) or not (name or all_projects):
        raise UsageError(
            "There is nothing to look for.",
            "A project and a query are needed; --all needs no project, --like no query.",
            "Try 'engine search --help'.",
        )
    types = (*(file_type or ()), *(same_type or ()))
    start, end = (parse_date(day) if day else None for day in (after, before))
    where = SearchFilter(
        tuple(path or ()), types, start, end, tuple(author or ()), tuple(language or ())
    )
    if like:
        asked = f'like:"{like}" {query or ""}'
    else:
        asked = query or ""

    def look(project: Project) -> Found:
        return project.search(
            asked,
            mode=mode,
            top=top,
            where=where,
            with_facets=facets,
            syntax=not literal or like is not None,
            by_document=not passages,
            by_date=sort == "date",
            min_score=min_score,
            rerank=rerank,
        )

    shown = Shown(files, as_json, dated=sort == "date")
    _end(_in_one(name, look, shown) if name else _in_all(look, shown, also or ()), shown)


@app.command()
def find(
    folder: Annotated[
        str, typer.Argument(metavar="FOLDER", help="a folder of documents, or one file")
    ],
    words: Annotated[
        str, typer.Argument(metavar="WORDS", help="what to look for, as for 'engine search'")
    ],
    top: Top = None,
    file_type: Types = None,
    files: Files = False,
    as_json: AsJson = False,
) -> None:
    """Search a folder without a project, by keyword. 'engine find WORDS FOLDER' does the same.

    Its index is kept in your cache folder and follows the files. 'engine purge FOLDER' deletes it.
    """
    from engine.project.cached import cached_project
    from engine.search.filters import SearchFilter

    if not _is_there(folder) and _is_there(words):  # as grep has them
        folder, words = words, folder

    def look(project: Project) -> Found:
        _read(project, folder)
        where = SearchFilter(formats=tuple(file_type or ()))
        return project.search(words, mode="bm25", top=top, where=where, by_document=True)

    shown = Shown(files, as_json)
    _end(_in_one(str(cached_project(Path(folder)).path), look, shown), shown)


def _is_there(text: str) -> bool:
    try:
        return Path(text).expanduser().exists()
    except (OSError, RuntimeError, ValueError):  # words that no file can be called
        return False


def _read(project: Project, folder: str) -> None:
    """Bring a project of the cache, in which nobody should look for it, in line with its folder."""
    from engine.cli.app import stoppable
    from engine.cli.run_view import RunView
    from engine.core.events import Event, Progress

    with stoppable() as stop, RunView() as view:

        def show(event: Event) -> None:
            if isinstance(event, Progress):
                view(event)

        try:
            project.run(("ingest", "index"), on_event=show, should_stop=stop)
        except (CancelledError, ProjectBusyError) as error:
            error.to_do = "Search the folder again: what was read is kept."
            error.command = "find"
            raise
        except NoDocumentsError as error:
            what = f"Nothing in {folder} can be searched."
            if project.skipped():
                why = error.why
            else:
                why = "There is no file."
            raise NoDocumentsError(
                what, why, "Name a folder with text, office files, PDFs or emails."
            ) from None


def _end(found_any: bool, shown: Shown) -> None:
    if not found_any and not shown.as_json:
        print("Nothing was found.", file=sys.stderr)


def _in_one(name: str, look: Callable[[Project], Found], shown: Shown) -> bool:
    with opened(name) as project:
        found = look(project)
        if found.problem:
            raise found.problem
        _show(found, project, shown)
    return bool(found.hits or found.notes)


def _in_all(look: Callable[[Project], Found], shown: Shown, also: Iterable[Path]) -> bool:
    """Search the known projects and those of `also`, each for itself: their scores cannot be
    compared. One that cannot be searched is named.
    """
    from engine.project.folder import known_projects

    answers: list[FoundIn] = []
    for folder, name in short_names(dict.fromkeys([*known_projects(), *also])).items():
        try:
            with opened(str(folder)) as project:
                found = look(project)
                if not shown.as_json and found.hits:
                    print(harmless(f"{name}:"), file=sys.stderr if shown.files else sys.stdout)
                    _show(found, project, shown)
        except EngineError as error:
            if isinstance(error, UsageError) and not isinstance(error, SettingsError):
                raise  # of the query
            answers.append(FoundIn(name, folder, problem=error))
            if not shown.as_json:
                print(harmless(f"{name}: {error.what} {error.to_do}"), file=sys.stderr)
        else:
            answers.append(FoundIn(name, folder, found))
    problems = [one.found.problem for one in answers if one.found]
    if problems and all(problems):  # what one project lacks, another may have
        raise next(filter(None, problems))
    if shown.as_json:
        print_json(answers)
    return any(one.found and one.found.hits for one in answers)


def _show(found: Found, project: Project, shown: Shown) -> None:
    from engine.cli.console import output, show_found, show_notes

    if shown.as_json:
        print_json(found)
    elif shown.files:
        show_notes(found)
        for path in dict.fromkeys(map(_file_of, found.hits)):
            print(harmless(path))
    else:
        show_found(found, output(), _source_folders(project), dated=shown.dated)
        for kind, counts in found.facets.items():
            if counts:
                print(
                    harmless(
                        f"{kind}: "
                        + ", ".join(f"{value} ({count})" for value, count in counts.items())
                    )
                )


def _file_of(hit: Hit) -> str:
    """The file on the disk that a hit is in: of one inside an archive or an email, that."""
    path = Path(hit.source, hit.path)
    return str(next(filter(os.path.isfile, (path, *path.parents)), path))


def _source_folders(project: Project) -> set[str]:
    """The folders that documents come from, as hits name them."""
    sources = project.folder.sources(project.settings())
    return {os.path.normpath(path.parent if path.is_file() else path) for path in sources}
