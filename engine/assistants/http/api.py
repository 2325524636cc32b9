"""The HTTP API: models and embeddings like OpenAI's, reranking like Cohere's and Jina's, search."""

from __future__ import annotations

import base64
import json
import sys
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, Literal, TypeVar, get_args

from engine.assistants.http.listener import Answer, Refused, Request, error_body
from engine.assistants.served import label_projects, project_missing_error
from engine.core.errors import EngineError, ResourceError, UsageError, fault_record
from engine.core.messages.report import SearchMode
from engine.core.messages.search import read_mode
from engine.core.messages.wire import from_json
from engine.project.folder import ProjectFolder
from engine.search.encoding import Encoded, Side
from engine.search.methods import answer, is_light, read_request
from engine.search.workers import ThreadSearcher

MAX_TEXTS = 2048
"""Maximum number of texts in a request, as OpenAI has it."""
MAX_SEARCH = 32_768
"""Maximum size of a search request in bytes, since each of its globs is matched with each path."""
SIDES: tuple[Side, ...] = get_args(Side)
"""What is encoded: queries or documents."""
SEMANTIC_SUFFIX = ":semantic"
"""Ending of the names of models that encode for semantic search."""
STATUS = {
    2: 400,
    3: 409,
    4: 503,
    6: 503,
}
"""HTTP status by the exit code of an error; 500 for all others."""
Body = TypeVar("Body")


@dataclass(frozen=True)
class Embeddings:
    """The body of `/v1/embeddings`."""

    model: str
    """PROJECT, then `:semantic` for the encoder of semantic search, then `:query` or `:document`.

    Both endings are optional: `contracts:semantic:query`.
    """
    input: tuple[str, ...]
    """The texts."""
    input_type: Side | None = None
    """Overrides `:query` or `:document` in `model`."""
    mode: SearchMode | None = None
    """Overrides `:semantic` in `model`."""
    encoding_format: Literal["float", "base64"] = "float"
    dimensions: int | None = None
    """Must be the encoder's dimension, if it is given."""
    terms: bool = False
    """Return the BM25 weights of queries as well, for an exported index."""
    user: str | None = None
    """Ignored."""


@dataclass(frozen=True)
class Rerank:
    """The body of `/v1/rerank`."""

    model: str
    """As in `Embeddings`; only the project counts."""
    query: str
    documents: tuple[str, ...]
    top_n: int | None = None
    """Maximum number of results; None for all."""
    return_documents: bool = False
    """Return the texts as well."""


class LocalApi:
    """Answers requests about the named projects, or about all. Thread-safe.

    A request that takes more than `work_seconds` is abandoned. Raises UsageError if there are no
    projects.
    """

    def __init__(self, names: Sequence[str], work_seconds: float = 300.0) -> None:
        folders = label_projects(names)
        self._seconds = work_seconds
        self._projects = {label: _Worker(folder, work_seconds) for label, folder in folders.items()}
        # Path → method and handler.
        self._routes: dict[str, tuple[str, Callable[[Request], Any]]] = {
            "/v1/models": ("GET", self._models),
            "/v1/embeddings": ("POST", self._embeddings),
            "/v1/rerank": ("POST", self._rerank),
            "/search": ("POST", self._search),
        }

    def answer(self, request: Request) -> Answer:
        """Return the answer to a request; errors are answered as well."""
        try:
            return Answer(200, self._handle(request))
        except Refused as refused:
            return refused.answer
        except EngineError as error:
            status = STATUS.get(error.exit_code, 500)
            sentences = (
                error.what,
                error.why,
                error.to_do,
            )
            text = " ".join(filter(None, sentences))
            return Answer(status, error_body(status, error.code, text))
        except BaseException as fault:  # even a panic of native code must not end the server
            print(fault_record(fault), file=sys.stderr)
            text = f"The engine had an internal fault ({type(fault).__name__})."
            return Answer(500, error_body(500, "internal-fault", text))

    def _handle(self, request: Request) -> Any:
        """Return the data of the answer. Raises Refused for an unknown path or a wrong method."""
        method, handler = self._routes.get(request.path, ("", None))
        if handler is None:
            what = f"There is no such path. The paths are {', '.join(self._routes)}."
            raise Refused(404, "path-unknown", what)
        if request.method != method:
            what = f"{request.path} takes only {method}."
            raise Refused(
                405,
                "method-not-allowed",
                what,
                Allow=method,
            )
        return handler(request)

    def _models(self, _request: Request) -> Any:
        """List the names that `/v1/embeddings` takes as models."""
        encoders: list[str] = []
        for label, worker in self._projects.items():
            encoders.append(label)
            if worker.do(_has_two_encoders, light=True):
                encoders.append(f"{label}{SEMANTIC_SUFFIX}")
        names: list[str] = []
        for encoder in encoders:
            names += [
                encoder,
                f"{encoder}:query",
                f"{encoder}:document",
            ]
        model = {
            "object": "model",
            "created": 0,
            "owned_by": "bmembed",
        }
        models = [{"id": name, **model} for name in names]
        return {"object": "list", "data": models}

    def _search(self, request: Request) -> Any:
        """Search a project. The body has the fields of `Search`, and `project`."""
        if len(request.body) > MAX_SEARCH:
            what = f"A search request is limited to {MAX_SEARCH:,} bytes."
            raise Refused(413, "request-too-large", what)
        params = _read_body(request)
        label = params.pop("project", None)
        params.setdefault("by_document", True)
        params["mode"] = read_mode(params.get("mode"))
        search = _parse_params(lambda given: read_request("search", given), params)
        worker = self._worker(label)
        # A search without the encoder does not wait for searches with it.
        light = worker.do(lambda searcher: is_light(search, searcher), light=True)
        result = worker.do(lambda searcher: answer(searcher, search), light=light)
        if result["problem"]:
            raise EngineError.from_dict(result["problem"])
        return result

    def _embeddings(self, request: Request) -> Any:
        """Encode texts. The body is that of `Embeddings`, where `input` may be a single text."""
        params = _read_body(request)
        if isinstance(params.get("input"), str):
            params["input"] = [params["input"]]
        body = _parse_params(lambda given: from_json(Embeddings, given, strict=True), params)
        _check_count("input", body.input)
        label, named_mode, named_side = self._parse_model(body.model)
        mode = body.mode or named_mode
        side = body.input_type or named_side
        if body.terms and side != "query":
            raise _invalid('terms are for queries: also send "input_type": "query"')
        check = _check_time(self._seconds)
        worker = self._worker(label)

        def encode(searcher: ThreadSearcher) -> Encoded:
            return searcher.ready().encoders.encode(
                body.input,
                side,
                check,
                mode,
            )

        encoded: Encoded = worker.do(encode)
        dimension = encoded.vectors.shape[1]
        if body.dimensions not in (None, dimension):
            raise _invalid(f"dimensions must be {dimension}, which the encoder has, or left out")
        data: list[dict[str, Any]] = []
        for index, row in enumerate(encoded.vectors):
            if body.encoding_format == "base64":
                embedding = base64.b64encode(row.astype("<f4").tobytes()).decode()
            else:
                embedding = row.tolist()
            data.append({"object": "embedding", "index": index, "embedding": embedding})
        usage = {"prompt_tokens": encoded.tokens, "total_tokens": encoded.tokens}
        answer = {
            "object": "list",
            "data": data,
            "model": body.model,
            "usage": usage,
        }
        if body.terms:
            worker.do(lambda searcher: _add_terms(searcher, body.input, answer, mode))
        return answer

    def _rerank(self, request: Request) -> Any:
        """Score documents for a query, best first.

        The body is that of `Rerank`, where documents may also be objects with a `text`.
        """
        params = _read_body(request)
        documents = params.get("documents")
        if isinstance(documents, list):
            params["documents"] = [
                document.get("text") if isinstance(document, dict) else document
                for document in documents
            ]
        body = _parse_params(lambda given: from_json(Rerank, given, strict=True), params)
        _check_count("documents", body.documents)
        if body.top_n is not None and body.top_n < 1:
            raise _invalid("top_n must be 1 or more")
        check = _check_time(self._seconds)
        label, _mode, _side = self._parse_model(body.model)

        def score(searcher: ThreadSearcher) -> list[float]:
            scores = searcher.ready().reranking.scores(
                body.query,
                body.documents,
                check,
            )
            return [float(value) for value in scores]

        scores: list[float] = self._worker(label).do(score)
        best_first = sorted(enumerate(scores), key=lambda item: -item[1])
        results = []
        for index, relevance in best_first[: body.top_n]:
            result: dict[str, Any] = {"index": index, "relevance_score": relevance}
            if body.return_documents:
                result["document"] = {"text": body.documents[index]}
            results.append(result)
        return {
            "object": "list",
            "model": body.model,
            "results": results,
        }

    def _parse_model(self, model: str) -> tuple[str, SearchMode, Side]:
        """Return the project, search mode and side in the name of a model.

        By default, it encodes documents for hybrid search. A project may itself be called
        `notes:query`, so labels of projects are compared first.
        """
        side: Side = "document"
        for ending in SIDES:
            if model not in self._projects and model.endswith(f":{ending}"):
                model = model.removesuffix(f":{ending}")
                side = ending
                break
        if model not in self._projects and model.endswith(SEMANTIC_SUFFIX):
            return model.removesuffix(SEMANTIC_SUFFIX), "semantic", side
        return model, "hybrid", side

    def _worker(self, label: str | None) -> _Worker:
        """Return the worker of a project, which must be named if there are several."""
        if label is None and len(self._projects) == 1:
            return next(iter(self._projects.values()))
        if not isinstance(label, str) or label not in self._projects:
            raise project_missing_error([*self._projects], named=label is not None)
        return self._projects[label]


class _Worker:
    """Two threads of a project, each with a searcher of its own, which is not thread-safe.

    One thread runs `light` tasks, which need no encoder, the other all others.
    """

    def __init__(self, folder: ProjectFolder, seconds: float) -> None:
        self._seconds = seconds
        # Searcher and thread for light tasks (True), and for those that need the encoder (False).
        self._searchers = {light: ThreadSearcher(folder) for light in (True, False)}
        self._threads = {light: ThreadPoolExecutor(1) for light in (True, False)}

    def do(self, task: Callable[[ThreadSearcher], Any], *, light: bool = False) -> Any:
        """Return the result of a task; `light`: in the thread for tasks without the encoder.

        Raises what the task raises, and ResourceError if it takes too long.
        """
        searcher = self._searchers[light]
        future = self._threads[light].submit(task, searcher)
        try:
            return future.result(self._seconds)
        except TimeoutError:
            future.cancel()
            raise _too_long(self._seconds) from None


def _has_two_encoders(searcher: ThreadSearcher) -> bool:
    """Return whether the search modes of a project have different encoders."""
    try:
        encoders = searcher.look().encoders.by_mode()
    except EngineError:
        return False
    return encoders["hybrid"] != encoders["semantic"]


def _add_terms(
    searcher: ThreadSearcher, texts: Sequence[str], answer: dict[str, Any], mode: SearchMode
) -> None:
    """Add to `answer` each text's terms, its codes (`phx-121`), and what encoder and index are."""
    encoders = searcher.ready().encoders
    for item, keywords in zip(answer["data"], encoders.keywords(texts), strict=True):
        item["terms"] = keywords.weights
        item["codes"] = keywords.codes
    answer["fingerprints"] = encoders.fingerprints(mode)


def _parse_params(read: Callable[[Any], Body], params: Any) -> Body:
    """Return the request that `read` makes of params. Raises UsageError if they are invalid."""
    try:
        return read(params)
    except (TypeError, ValueError) as error:
        raise _invalid(str(error)) from None


def _read_body(request: Request) -> dict[str, Any]:
    """Return the JSON object in a request's body. Raises UsageError."""
    try:
        data = json.loads(request.body)
    except (ValueError, RecursionError):
        data = None
    if not isinstance(data, dict):
        raise _invalid("its body must be a JSON object")
    return data


def _check_count(name: str, texts: Sequence[str]) -> None:
    """Raise UsageError for no text, or more than `MAX_TEXTS`."""
    if not 0 < len(texts) <= MAX_TEXTS:
        raise _invalid(f"{name} must hold 1 to {MAX_TEXTS:,} texts")


def _check_time(seconds: float) -> Callable[[int], None]:
    """Return a callback for progress that raises ResourceError once `seconds` have passed."""
    end = time.monotonic() + seconds

    def check(_done: int) -> None:
        if time.monotonic() > end:
            raise _too_long(seconds)

    return check


def _invalid(why: str) -> UsageError:
    """Return the error for an invalid request."""
    return UsageError(f"The request is not valid: {why}.", code="arguments-invalid")


def _too_long(seconds: float) -> ResourceError:
    """Return the error for a request that takes more than `seconds`."""
    text = f"It took more than {seconds:.0f} seconds."
    return ResourceError(
        "The request was abandoned.", text, "Send less at once.", code="request-too-long"
    )
