"""The Model Context Protocol on standard input and output: JSON-RPC 2.0, one message a line.

No port is opened.

It is spoken here since importing the official SDK takes longer than all else that a first search
needs, and brings an HTTP server with it (docs/log/libraries.md); the SDK's client is what the tests
talk to this server with. Clients of the revisions with a handshake (`initialize`) are served, and
those of the stateless one, whose requests carry their revision.

Nothing heavy is imported here, so that the handshake is answered at once; one thread opens the
projects and works off calls.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, TextIO

from engine.core.assets import asset_path
from engine.core.errors import EngineError, UsageError, fault_record
from engine.core.jsonrpc import INVALID_PARAMS, NO_ANSWER, NO_METHOD, Answers
from engine.version import __version__

if TYPE_CHECKING:
    from engine.assistants.tools import ProjectTools

HANDSHAKE = ("2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25")
STATELESS = "2026-07-28"
UNSUPPORTED_VERSION = -32022
_VERSION_KEY = "io.modelcontextprotocol/protocolVersion"
_SERVER_KEY = "io.modelcontextprotocol/serverInfo"
SERVER = {"name": "bmembed", "title": "bmembed documents", "version": __version__}
READ_ONLY = {
    "readOnlyHint": True,
    "destructiveHint": False,
    "idempotentHint": True,
    "openWorldHint": False,
}
MAX_LINE = 1_000_000  # bytes


class ToolServer:
    """Serves the tools over some projects, all where none is named."""

    def __init__(self, names: Sequence[str], output: TextIO) -> None:
        about = json.loads(asset_path("assistants/server.json").read_text(encoding="utf-8"))
        self._tools = {one["name"]: {**one, "annotations": READ_ONLY} for one in about["tools"]}
        self._tools["similar"]["outputSchema"] = self._tools["search"]["outputSchema"]
        self._instructions = about["instructions"].format(
            projects=", ".join(Path(one).name for one in names) or "all projects"
        )
        self._answers = Answers(output)
        self._thread = ThreadPoolExecutor(1)
        self._opening = self._thread.submit(_opened, names)

    def serve(self, source: BinaryIO) -> None:
        """Answer until the input ends or nobody reads; then finish what was asked for.

        Raises what opening the projects raised, which calls were answered with. Threads that load
        an encoder go on.
        """
        for line in _lines(source):
            if self._answers.unread:
                break
            if line.strip() and (request := self._answers.request(line)):
                self._take(
                    request.get("id", NO_ANSWER), request["method"], request.get("params") or {}
                )
        tools = self._opening.result()
        self._thread.submit(tools.close)
        self._thread.shutdown()

    def _take(self, key: Any, method: str, params: Any) -> None:
        if key is NO_ANSWER:
            return  # nothing here waits for a notification
        if isinstance(params, dict):
            meta = params.get("_meta")
        else:
            meta = None
        if isinstance(meta, dict):
            version = meta.get(_VERSION_KEY)
        else:
            version = None
        if not isinstance(params, dict):
            self._answers.give(key, error=(INVALID_PARAMS, "params must be an object", None))
        elif version not in (None, STATELESS):
            data = {"supported": [STATELESS], "requested": version}
            self._answers.give(
                key, error=(UNSUPPORTED_VERSION, "Unsupported protocol version", data)
            )
        elif method == "tools/call":
            self._later(key, params, version)
        elif (result := self._described(method, params, version)) is not None:
            self._answers.give(key, _enveloped(result, version))
        else:
            self._answers.give(key, error=(NO_METHOD, "Method not found", None))

    def _described(
        self, method: str, params: Mapping[str, Any], version: str | None
    ) -> dict[str, Any] | None:
        """What is known without the tools; None for a method that there is not."""
        about = {"capabilities": {"tools": {}}, "instructions": self._instructions}
        if version:
            fresh = {"ttlMs": 0, "cacheScope": "private"}
        else:
            fresh = {}
        if method == "initialize":
            asked = params.get("protocolVersion")
            return {
                **about,
                "protocolVersion": asked if asked in HANDSHAKE else HANDSHAKE[-1],
                "serverInfo": SERVER,
            }
        if method == "server/discover":
            return {**about, **fresh, "supportedVersions": [STATELESS, *HANDSHAKE]}
        if method == "tools/list":
            return {"tools": list(self._tools.values()), **fresh}
        return {} if method == "ping" else None

    def _later(self, key: Any, params: Mapping[str, Any], version: str | None) -> None:
        name = params.get("name")
        arguments = params.get("arguments") or {}
        if not isinstance(name, str) or name not in self._tools:
            self._answers.give(
                key,
                error=(
                    INVALID_PARAMS,
                    f"Unknown tool. The tools are {', '.join(self._tools)}",
                    None,
                ),
            )
        elif not isinstance(arguments, dict):
            self._answers.give(key, error=(INVALID_PARAMS, "arguments must be an object", None))
        else:
            self._thread.submit(
                lambda: self._answers.give(key, _enveloped(self._called(name, arguments), version))
            )

    def _called(self, name: str, arguments: dict[str, Any]) -> dict[str, Any]:
        """The result of a call: JSON as text and, unless it failed, as data."""
        try:
            tools = self._opening.result()
            given = {key: value for key, value in arguments.items() if value is not None}
            check(self._tools[name], given)
            text = _as_text(tools.call(name, given))
            return {
                "content": [{"type": "text", "text": text}],
                "structuredContent": json.loads(text),
                "isError": False,
            }
        except EngineError as error:
            problem = error
        except BaseException as fault:  # even a panic of native code must not end the server
            print(fault_record(fault), file=sys.stderr)
            what = f"The engine had an internal fault ({type(fault).__name__})."
            problem = EngineError(what, "", "Its standard error says more.", code="internal-fault")
        return {"content": [{"type": "text", "text": _as_text(problem.as_dict())}], "isError": True}


def _opened(names: Sequence[str]) -> ProjectTools:
    from engine.assistants.tools import ProjectTools

    return ProjectTools(names)


def _lines(source: BinaryIO) -> Iterator[bytes]:
    """Lines; of one that is too long its beginning, which is no message."""
    while line := source.readline(MAX_LINE):
        yield line
        while line and not line.endswith(b"\n"):
            line = source.readline(MAX_LINE)


def _enveloped(result: dict[str, Any], version: str | None) -> dict[str, Any]:
    """A result as the revision wants it."""
    if version:
        return {**result, "resultType": "complete", "_meta": {_SERVER_KEY: SERVER}}
    return result


def _as_text(value: Any) -> str:
    """JSON without halves of surrogate pairs, which names of files may hold."""
    return json.dumps(value, ensure_ascii=False).encode("utf-8", "replace").decode()


def check(tool: Mapping[str, Any], arguments: Mapping[str, Any]) -> None:
    """Hold a tool's arguments against its input schema.

    Raises UsageError, which quotes no value.
    """
    schema = tool["inputSchema"]
    name = tool["name"]
    known = schema["properties"]
    wrong = [one for one in schema.get("required", ()) if one not in arguments]
    wrong += [
        one for one, value in arguments.items() if one in known and not _fits(known[one], value)
    ]
    if wrong or not arguments.keys() <= known.keys():
        if wrong:
            why = f"Missing, or not as its input schema says: {', '.join(wrong)}."
        else:
            why = ""
        to_do = f"{name} takes {', '.join(known)}. Call it again as its input schema says."
        raise UsageError(
            f"{name} does not take these arguments.", why, to_do, code="arguments-invalid"
        )


def _fits(kind: Mapping[str, Any], value: Any) -> bool:
    if kind["type"] == "array":
        fits = isinstance(value, list) and len(value) <= kind["maxItems"]
        return fits and all(_fits(kind["items"], one) for one in value)
    if kind["type"] == "integer":
        return type(value) is int and kind["minimum"] <= value <= kind["maximum"]
    if "enum" in kind:
        return value in kind["enum"]
    return isinstance(value, str) and len(value) <= kind["maxLength"]
