"""`engine judge`: a person judges the hits of queries, or says which of two lists is better."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, cast

import typer

from engine.cli.app import AsJson, ProjectName, Texts, app, opened, print_json
from engine.core.platforms.processes import quote_argument

if TYPE_CHECKING:
    from engine.core.messages.preferences import ListMode


@app.command()
def judge(
    name: ProjectName,
    query: Annotated[
        Texts, typer.Option(metavar="QUERY", help="a query to judge; may repeat")
    ] = None,
    queries: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="a text file of queries to judge, one a line"),
    ] = None,
    depth: Annotated[
        int,
        typer.Option(
            metavar="N",
            help="hits of each search mode to ask about, with --all or before an adaptation",
            min=1,
            max=100,
        ),
    ] = 10,
    most: Annotated[
        int, typer.Option(metavar="N", help="maximum number of the project's own queries", min=1)
    ] = 20,
    lists: Annotated[
        bool,
        typer.Option(
            "--lists", help="show two lists of hits side by side, and ask which is better"
        ),
    ] = False,
    every_hit: Annotated[
        bool,
        typer.Option("--all", help="ask about every hit, also those that change no comparison"),
    ] = False,
    mode: Annotated[
        str | None,
        typer.Option(metavar="MODE", help="semantic or hybrid; by default that of the project"),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Judge hits as right or wrong.

    Keys: y(es), n(o), s(kip), u(ndo), q(uit). Every answer is saved at once and counts in the next
    'engine adapt'; the next 'engine judge' goes on with the hits that are left. You never see what
    found a hit. A hit that nobody judges counts as wrong.

    Once an adapter is trained, it asks only about passages that tell the adapted encoder from base:
    those that one of them lists alone, or at another rank. A question with the same list twice
    needs no look. Before, and with --all, it asks about the hits of keyword, semantic and hybrid
    search, and of the encoder that is not in use.

    With --lists it shows both lists of a query, without names and in random order: answer 1, 2 or
    s(ame).

    Without --query and --queries it asks about the project's own queries: judged ones with unjudged
    hits, then held-out ones that were made from the documents.

    Without a terminal, it reads one letter a line from standard input.
    """
    from engine.cli.judging.hits import JudgingSession, show_summary
    from engine.cli.judging.lists import compare_lists
    from engine.service.judging_queue import KnownAnswers, name_queries, read_queries, worth_judging
    from engine.service.pooling import open_pooler
    from engine.service.system_lists import SystemLists

    wanted = list(query or [])
    if queries:
        wanted += read_queries(queries)
    quoted = quote_argument(name)
    with opened(name) as project:
        if lists:
            compare_lists(
                project.folder,
                name_queries(wanted),
                _check_mode(mode),
                quoted,
                as_json=as_json,
            )
            return
        system_lists = SystemLists(project.folder, _check_mode(mode))
        pooler = open_pooler(
            project.folder,
            system_lists,
            depth,
            every_hit=every_hit,
        )
        try:
            session = JudgingSession(
                project.folder,
                pooler,
                KnownAnswers(project.folder),
            )
            if wanted:
                ended = session.run(name_queries(wanted), None)
            else:
                ended = session.run(worth_judging(project.folder), most)
        finally:
            pooler.close()
            system_lists.close()
        summary = session.summary(quoted, ended)
    if as_json:
        print_json(summary)
    else:
        show_summary(summary)
    if ended == "interrupted":
        raise typer.Exit(130)


def _check_mode(mode: str | None) -> ListMode | None:
    """Return the search mode that `--mode` names. Raises UsageError."""
    from engine.core.errors import unknown_name

    if mode in (None, "semantic", "hybrid"):
        return cast("ListMode | None", mode)
    raise unknown_name(
        "search mode",
        str(mode),
        ("semantic", "hybrid"),
        code="search-mode-unknown",
    )
