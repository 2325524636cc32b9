"""The process that serves a GGUF file.

`python -m engine.llm.serving` reads a line, a `ServedFile`, from standard input, prints a line, a
`Served`, and serves until standard input ends, as it does when the parent process dies.
"""

from __future__ import annotations

import os
import socket
import threading

from engine.core.environment import prepare_process
from engine.core.errors import EngineError
from engine.core.platforms.sockets import listen_at
from engine.core.platforms.stopping import obey_parent, take_input
from engine.core.subprocesses import to_short_dict
from engine.gguf.llama import import_llama
from engine.llm.model_process import Served, ServedFile


def main() -> None:
    """Load the model, say so, and serve."""
    source = take_input()
    file = ServedFile.model_validate_json(source.readline())
    obey_parent(source, threading.Event())
    prepare_process()
    # The server would read this file, with which a user may configure another llama.cpp server.
    os.environ.pop("CONFIG_FILE", None)
    output = os.fdopen(
        os.dup(1),
        "w",
        encoding="utf-8",
    )
    # What native libraries print must not be read as an answer.
    os.dup2(2, 1)
    try:
        import_llama()
        import uvicorn

        from engine.llm.served_model import ModelLoader, adapt_library

        adapt_library()
        loader = ModelLoader(file)
        app = loader.load()
    except EngineError as error:
        print(
            Served(error=to_short_dict(error)).model_dump_json(),
            file=output,
            flush=True,
        )
        os._exit(1)
    listener = _listen(file.socket_path)
    port = 80  # of the address in requests, which a unix socket ignores
    if not file.socket_path:
        _, port = listener.getsockname()
    print(
        loader.served(port).model_dump_json(),
        file=output,
        flush=True,
    )
    config = uvicorn.Config(
        app,
        log_config=None,
        access_log=False,
        lifespan="off",
    )
    uvicorn.Server(config).run(sockets=[listener])
    # Native libraries must not hold up the exit, nor crash in it.
    os._exit(0)


def _listen(socket_path: str) -> socket.socket:
    """Return a listening socket: the unix socket at a path, or a free loopback port without one."""
    if not socket_path:
        return socket.create_server(("127.0.0.1", 0))
    return listen_at(socket_path)


if __name__ == "__main__":
    main()
