"""`engine serve`: answers to other programs, over standard input and output or by HTTP."""

from __future__ import annotations

import os
import signal
from typing import Annotated

import typer

from engine.cli.app import app, handling, opened, print_note
from engine.core.errors import UsageError
from engine.core.platforms.stopping import take_input


@app.command()
def serve(
    names: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="PROJECT", help="a project; with --http several, or all if left out"
        ),
    ] = None,
    stdio: Annotated[
        bool, typer.Option("--stdio", help="answer JSON-RPC 2.0 on standard input and output")
    ] = False,
    http: Annotated[
        str | None,
        typer.Option(
            metavar="ADDRESS", help="answer HTTP on a loopback address, such as 127.0.0.1:8765"
        ),
    ] = None,
    show_token: Annotated[
        bool, typer.Option("--show-token", help="print the token that --http asks for")
    ] = False,
) -> None:
    """Answer searches from other programs.

    As JSON-RPC 2.0, one message a line, or as a local HTTP API. Models stay loaded.
    """
    if show_token:
        from engine.assistants.http.token import read_token, token_file

        print(read_token(token_file()))
    elif http and not stdio:
        _serve_http(http, names or [])
    elif stdio and not http and names and len(names) == 1:
        _serve_stdio(names[0])
    else:
        raise UsageError(
            "The command does not say how to answer.",
            "--stdio serves one project, --http ADDRESS any number.",
            "Add one of these.",
            code="stdio-required",
        )


def _serve_stdio(name: str) -> None:
    """Answer JSON-RPC on standard input and output until the input ends."""
    from engine.search.server import Server
    from engine.service import methods

    with opened(name) as project:
        answers = os.fdopen(
            os.dup(1),
            "w",
            encoding="utf-8",
        )
        os.dup2(2, 1)  # what a library prints goes to standard error, not among the answers
        Server(project.folder, answers, extra=methods(project.folder)).serve(take_input())


def _serve_http(address: str, names: list[str]) -> None:
    """Answer HTTP at a loopback address until Ctrl-C."""
    import threading

    from engine.assistants.http.api import LocalApi
    from engine.assistants.http.listener import Listener, loopback_address
    from engine.assistants.http.token import read_token, token_file

    place = loopback_address(address)
    api = LocalApi(names)
    listener = Listener(
        place,
        read_token(token_file()),
        api.answer,
    )
    print_note(f"{listener.url} serves {', '.join(names) or 'all projects'}. Token: {token_file()}")
    stop = threading.Event()
    with handling(lambda *_: stop.set(), signal.SIGINT, signal.SIGTERM):
        listener.serve(stop)
    os._exit(0)  # does not wait for an encoder that is being loaded
