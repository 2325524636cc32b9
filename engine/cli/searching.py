"""`engine search`, in one project or in all, and `engine find`, in a folder without a project."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from engine.cli.app import (
    AsJson,
    MaybeProject,
    Texts,
    app,
    opened,
    print_json,
    print_note,
    print_text,
    stoppable,
)
from engine.core.disk import expand_home, path_exists
from engine.core.errors import (
    CancelledError,
    EngineError,
    NoDocumentsError,
    ProjectBusyError,
    SettingsError,
    UsageError,
)
from engine.core.messages.search import Found, FoundIn, Hit, Search, read_mode
from engine.core.platforms.files import is_document
from engine.core.text import harmless, short_names

if TYPE_CHECKING:
    from engine.api import Project

BUSY_SECONDS = 60.0
"""How long `engine find` waits while another process updates the folder's index."""
_SEARCH_AGAIN = "Search the folder again: what was read is kept."


@dataclass(frozen=True)
class HitFormat:
    """How to print hits: as paths of files, as JSON, or else for people."""

    files: bool  # Only the paths of files.
    as_json: bool
    dated: bool = False  # For people: with the dates that the hits are sorted by.

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
            metavar="QUERY",
            help='words, "an exact phrase", -word, word*, *word, title:word, like:ID',
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
    tag: Annotated[
        Texts,
        typer.Option(metavar="TAG", help="only documents with this tag; may repeat"),
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
            "--facets",
            help="also count the documents by type, author, tag, language, year and folder",
        ),
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Search a project.

    Each hit is the best passage of a document, with its rank by keyword and by meaning.

    With --all, give no PROJECT: engine search --all QUERY. A query that begins with a minus goes
    after --.
    """
    if (all_projects and name and query) or (also and not all_projects):
        raise UsageError(
            "A search is of one project, or of all with --all and --also.",
            "",
            "Type engine search PROJECT QUERY, or engine search --all QUERY, with the query in"
            " quotation marks.",
            code="options-conflict",
        )
    if all_projects:
        query = query or name
        name = None
    if (query is None and not like) or not (name or all_projects):
        raise UsageError(
            "There is nothing to look for.",
            "A project and a query are needed; --all needs no project, --like no query.",
            "Try 'engine search --help'.",
        )
    text = query or ""
    if like:
        text = f'like:"{like}" {text}'

    request = Search(
        text,
        read_mode(mode),
        top,
        paths=tuple(path or ()),
        types=(*(file_type or ()), *(same_type or ())),
        after=after or None,
        before=before or None,
        authors=tuple(author or ()),
        languages=tuple(language or ()),
        tags=tuple(tag or ()),
        facets=facets,
        syntax=not literal or like is not None,
        by_document=not passages,
        by_date=sort == "date",
        min_score=min_score,
        rerank=rerank,
    )

    def search_project(project: Project) -> Found:
        return project.search(request)

    hit_format = HitFormat(
        files,
        as_json,
        dated=sort == "date",
    )
    if name:
        _search_one(name, search_project, hit_format)
    else:
        _search_all(
            search_project,
            hit_format,
            also or (),
        )


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
    from engine.project.cached import open_cached_project

    if not _exists(folder) and _exists(words):  # in grep's order
        folder, words = words, folder
    request = Search(
        words,
        "bm25",
        top,
        types=tuple(file_type or ()),
        by_document=True,
    )

    def search_folder(project: Project) -> Found:
        _update(project, folder)
        return project.search(request)

    hit_format = HitFormat(files, as_json)
    project_path = str(open_cached_project(folder).path)
    _search_one(project_path, search_folder, hit_format)


def _exists(text: str) -> bool:
    """Return whether a text is the path of a file or folder."""
    try:
        return path_exists(expand_home(text))
    except UsageError:  # the words cannot be a path
        return False


def _update(project: Project, folder: str) -> None:
    """Read what has changed in a folder into its cached project. Errors name the folder."""
    from engine.cli.run_view import RunView
    from engine.core.events import Event, Progress

    with stoppable() as stop, RunView() as view:

        def show(event: Event) -> None:
            if isinstance(event, Progress):
                view(event)

        try:
            _run_when_free(
                lambda: project.run(("ingest", "index"), on_event=show, should_stop=stop), stop
            )
        except ProjectBusyError:
            raise ProjectBusyError(
                f"Another 'engine find' has been reading {folder} for a minute.",
                "Two changes at once would overwrite each other.",
                _SEARCH_AGAIN,
                command="find",
            ) from None
        except CancelledError as error:
            error.to_do = _SEARCH_AGAIN
            error.command = "find"
            raise
        except NoDocumentsError as error:
            why = "There is no file."
            if project.skipped():
                why = error.why
            raise NoDocumentsError(
                f"Nothing in {folder} can be searched.",
                why,
                "Name a folder with text, office files, PDFs or emails.",
            ) from None


def _run_when_free(run: Callable[[], object], stop: Callable[[], bool]) -> None:
    """Call `run`; while another process updates the project, try again for a minute."""
    deadline = time.monotonic() + BUSY_SECONDS
    while True:
        try:
            run()
            return
        except ProjectBusyError:
            if stop() or time.monotonic() > deadline:
                raise
            time.sleep(0.2)


def _search_one(
    name: str, search_project: Callable[[Project], Found], hit_format: HitFormat
) -> None:
    """Print the hits of a project, or that there are none."""
    with opened(name) as project:
        found = search_project(project)
        if found.problem:
            raise found.problem
        _show(found, project, hit_format)
    if not (found.hits or found.notes or hit_format.as_json):
        print_note("Nothing was found.")


def _search_all(
    search_project: Callable[[Project], Found], hit_format: HitFormat, also: Iterable[Path]
) -> None:
    """Print the hits of the known projects and of the folders `also`, project by project.

    Scores of different projects cannot be compared, so the hits are not merged. A project that
    cannot be searched is named.
    """
    from engine.project.folder import known_projects

    answers: list[FoundIn] = []
    for folder, name in short_names(dict.fromkeys([*known_projects(), *also])).items():
        try:
            with opened(str(folder)) as project:
                found = search_project(project)
                if not hit_format.as_json and found.hits:
                    # Programs that read paths read nothing else.
                    stream = sys.stderr if hit_format.files else sys.stdout
                    print(harmless(f"{name}:"), file=stream)
                    _show(found, project, hit_format)
        except EngineError as error:
            if isinstance(error, UsageError) and not isinstance(error, SettingsError):
                raise  # the query is wrong, in every project
            answers.append(FoundIn(name, folder, problem=error))
            if not hit_format.as_json:
                print_note(f"{name}: {error.what} {error.to_do}")
        else:
            answers.append(FoundIn(name, folder, found))
    problems = [answer.found.problem for answer in answers if answer.found]
    if problems and problems[0] and all(problems):  # what one project lacks, another may have
        raise problems[0]
    if hit_format.as_json:
        print_json(answers)
    elif not any(answer.found and answer.found.hits for answer in answers):
        print_note("Nothing was found.")


def _show(
    found: Found,
    project: Project,
    hit_format: HitFormat,
) -> None:
    """Print hits and facets, or only the paths of files, in the wanted format."""
    from engine.cli.console import output, show_found, show_notes

    if hit_format.as_json:
        print_json(found)
    elif hit_format.files:
        show_notes(found)
        for path in dict.fromkeys(map(_find_file, found.hits)):
            print_text(path)
    else:
        show_found(
            found,
            output(),
            _list_source_folders(project),
            dated=hit_format.dated,
        )
        for kind, counts in found.facets.items():
            if counts:
                values = ", ".join(f"{value} ({count})" for value, count in counts.items())
                print_text(f"{kind}: {values}")


def _find_file(hit: Hit) -> str:
    """Return the path of the file on disk that contains a hit: for an attachment, the email."""
    path = Path(hit.source, hit.path)
    return str(next(filter(is_document, (path, *path.parents)), path))


def _list_source_folders(project: Project) -> set[str]:
    """Return the folders that documents come from, as hits name them."""
    folders = set()
    for path in project.folder.sources(project.settings()):
        folder = path.parent if is_document(path) else path
        folders.add(os.path.normpath(folder))
    return folders
