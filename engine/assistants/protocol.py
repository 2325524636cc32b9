"""The Model Context Protocol on standard input and output: JSON-RPC 2.0, one message a line.

The official SDK is not used, because importing it takes longer than the rest of a first search
(docs/log/libraries.md); the tests use its client. Nothing heavy is imported here, so that the
handshake is answered at once.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, TextIO

from engine.core.assets import asset_path
from engine.core.errors import EngineError, UsageError, fault_record
from engine.core.jsonrpc import INVALID_PARAMS, NO_ANSWER, NO_METHOD, Answers
from engine.version import __version__

if TYPE_CHECKING:
    from engine.assistants.tools import ProjectTools

HANDSHAKE = ("2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25")
"""Revisions of the protocol that begin with `initialize`."""
STATELESS = "2026-07-28"
"""The revision without `initialize`: each request names it (`_VERSION_KEY`)."""
UNSUPPORTED_VERSION = -32022
_VERSION_KEY = "io.modelcontextprotocol/protocolVersion"
_SERVER_KEY = "io.modelcontextprotocol/serverInfo"
SERVER = {
    "name": "bmembed",
    "title": "bmembed documents",
    "version": __version__,
}
READ_ONLY = {
    "readOnlyHint": True,
    "destructiveHint": False,
    "idempotentHint": True,
    "openWorldHint": False,
}
MAX_LINE = 1_000_000
"""Maximum length of a message in bytes."""


class ToolServer:
    """Serves the tools for the named projects, or for all of them.

    One thread opens the projects and works through the calls. In the methods, `version` is the
    protocol revision that a request names; None for clients that begin with `initialize`.
    """

    def __init__(self, names: Sequence[str], output: TextIO) -> None:
        server = json.loads(asset_path("assistants/server.json").read_text(encoding="utf-8"))
        self._tools: dict[str, dict[str, Any]] = {}
        for tool in server["tools"]:
            self._tools[tool["name"]] = {**tool, "annotations": READ_ONLY}
        self._tools["similar"]["outputSchema"] = self._tools["search"]["outputSchema"]
        projects = ", ".join(Path(name).name for name in names) or "all projects"
        self._instructions = server["instructions"].format(projects=projects)
        self._answers = Answers(output)
        self._thread = ThreadPoolExecutor(1)
        self._opening = self._thread.submit(_open_projects, names)

    def serve(self, source: IO[bytes]) -> None:
        """Answer until the input ends or nobody reads the answers; then finish all calls.

        Threads that load an encoder go on. If the projects could not be opened, all calls were
        answered with that error, and it is raised at the end.
        """
        for line in _read_lines(source):
            if self._answers.unread:
                break
            request = self._answers.request(line) if line.strip() else None
            if request:
                request_id = request.get("id", NO_ANSWER)
                self._dispatch(
                    request_id,
                    request["method"],
                    request.get("params") or {},
                )
        tools = self._opening.result()
        self._thread.submit(tools.close)
        self._thread.shutdown()

    def _dispatch(
        self,
        request_id: Any,
        method: str,
        params: Any,
    ) -> None:
        """Answer a request at once, or queue it if it is a call of a tool."""
        if request_id is NO_ANSWER:
            return  # notifications need no action
        if not isinstance(params, dict):
            self._answers.give(request_id, error=(INVALID_PARAMS, "params must be an object", None))
            return
        meta = params.get("_meta")
        version = meta.get(_VERSION_KEY) if isinstance(meta, dict) else None
        if version not in (None, STATELESS):
            data = {"supported": [STATELESS], "requested": version}
            error = (UNSUPPORTED_VERSION, "Unsupported protocol version", data)
            self._answers.give(request_id, error=error)
            return
        if method == "tools/call":
            self._queue_call(request_id, params, version)
            return
        result = self._describe(method, params, version)
        if result is None:
            self._answers.give(request_id, error=(NO_METHOD, "Method not found", None))
        else:
            self._answers.give(request_id, _add_envelope(result, version))

    def _describe(
        self, method: str, params: Mapping[str, Any], version: str | None
    ) -> dict[str, Any] | None:
        """Return the answer to a method that needs no projects; None for an unknown method."""
        server = {"capabilities": {"tools": {}}, "instructions": self._instructions}
        # Only the stateless revision asks how long an answer may be cached.
        caching = {"ttlMs": 0, "cacheScope": "private"} if version else {}
        if method == "initialize":
            requested = params.get("protocolVersion")
            return {
                **server,
                "protocolVersion": requested if requested in HANDSHAKE else HANDSHAKE[-1],
                "serverInfo": SERVER,
            }
        if method == "server/discover":
            return {
                **server,
                **caching,
                "supportedVersions": [STATELESS, *HANDSHAKE],
            }
        if method == "tools/list":
            return {"tools": list(self._tools.values()), **caching}
        if method == "ping":
            return {}
        return None

    def _queue_call(
        self,
        request_id: Any,
        params: Mapping[str, Any],
        version: str | None,
    ) -> None:
        """Queue a call of a tool for the thread, or answer it with an error if it is malformed."""
        name = params.get("name")
        arguments = params.get("arguments") or {}
        if not isinstance(name, str) or name not in self._tools:
            what = f"Unknown tool. The tools are {', '.join(self._tools)}"
            self._answers.give(request_id, error=(INVALID_PARAMS, what, None))
        elif not isinstance(arguments, dict):
            self._answers.give(
                request_id, error=(INVALID_PARAMS, "arguments must be an object", None)
            )
        else:
            self._thread.submit(
                self._answer_call,
                request_id,
                name,
                arguments,
                version,
            )

    def _answer_call(
        self, request_id: Any, name: str, arguments: dict[str, Any], version: str | None
    ) -> None:
        """Call a tool, and answer with its result."""
        result = self._call(name, arguments)
        self._answers.give(request_id, _add_envelope(result, version))

    def _call(self, name: str, arguments: dict[str, Any]) -> dict[str, Any]:
        """Return the result of a call: JSON as text and, unless it failed, also as data."""
        try:
            tools = self._opening.result()
            without_nulls = {key: value for key, value in arguments.items() if value is not None}
            check_arguments(self._tools[name], without_nulls)
            text = _format_json(tools.call(name, without_nulls))
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
            to_do = "Its standard error says more."
            problem = EngineError(
                what,
                "",
                to_do,
                code="internal-fault",
            )
        text = _format_json(problem.as_dict())
        return {"content": [{"type": "text", "text": text}], "isError": True}


def _open_projects(names: Sequence[str]) -> ProjectTools:
    """Import the tools, which takes a while, and open the projects."""
    from engine.assistants.tools import ProjectTools

    return ProjectTools(names)


def _read_lines(source: IO[bytes]) -> Iterator[bytes]:
    """Yield lines. A line that is too long is cut, and then rejected as an invalid message."""
    while line := source.readline(MAX_LINE):
        yield line
        while line and not line.endswith(b"\n"):
            line = source.readline(MAX_LINE)


def _add_envelope(result: dict[str, Any], version: str | None) -> dict[str, Any]:
    """Return a result with the fields that the request's revision of the protocol adds."""
    if version:
        return {
            **result,
            "resultType": "complete",
            "_meta": {_SERVER_KEY: SERVER},
        }
    return result


def _format_json(value: Any) -> str:
    """Return JSON without half surrogate pairs, which file names may contain."""
    return json.dumps(value, ensure_ascii=False).encode("utf-8", "replace").decode()


def check_arguments(tool: Mapping[str, Any], arguments: Mapping[str, Any]) -> None:
    """Check a tool's arguments against its input schema. Raises UsageError.

    The error's text contains no values, as they may quote documents or queries.
    """
    schema = tool["inputSchema"]
    name = tool["name"]
    known = schema["properties"]
    invalid = [key for key in schema.get("required", ()) if key not in arguments]
    for key, value in arguments.items():
        if key in known and not _is_valid(known[key], value):
            invalid.append(key)
    if invalid or not arguments.keys() <= known.keys():
        why = ""
        if invalid:
            why = f"Missing, or not as its input schema says: {', '.join(invalid)}."
        to_do = f"{name} takes {', '.join(known)}. Call it again as its input schema says."
        raise UsageError(
            f"{name} does not take these arguments.", why, to_do, code="arguments-invalid"
        )


def _is_valid(schema: Mapping[str, Any], value: Any) -> bool:
    """Return whether a value meets a schema of assets/assistants/server.json."""
    if schema["type"] == "array":
        if not isinstance(value, list) or len(value) > schema["maxItems"]:
            return False
        return all(_is_valid(schema["items"], item) for item in value)
    if schema["type"] == "integer":
        # True and False are integers for isinstance.
        return type(value) is int and schema["minimum"] <= value <= schema["maximum"]
    if "enum" in schema:
        return value in schema["enum"]
    return isinstance(value, str) and len(value) <= schema["maxLength"]
