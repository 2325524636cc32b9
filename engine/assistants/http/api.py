"""What is answered to which request: embeddings and models as OpenAI has them, reranking as
Cohere and Jina, and searches.
"""

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
from engine.assistants.served import labelled, no_project
from engine.core.errors import EngineError, ResourceError, UsageError, fault_record
from engine.core.messages.report import SearchMode
from engine.core.messages.search import MODE_OF_NAME, MODES
from engine.core.messages.wire import from_json
from engine.project.folder import ProjectFolder
from engine.search.encoding import Side
from engine.search.methods import is_light, task_of
from engine.search.workers import OwnSearcher

MAX_TEXTS = 2048  # OpenAI's
MAX_SEARCH = 32_768  # bytes of the body of a search: patterns of paths are compared with every path
WORK_SECONDS = 300.0
SIDES: tuple[Side, ...] = get_args(Side)
OF_SEMANTIC_SEARCH = ":semantic"
"""After a project's name, in the name of a model."""
STATUS = {2: 400, 3: 409, 4: 503, 6: 503}
"""Of an error's exit code; 500 of others."""
Body = TypeVar("Body")


@dataclass(frozen=True)
class Embeddings:
    """The body of `/v1/embeddings`.

    `model`: a project, or PROJECT:query, PROJECT:document, as `input_type` says of its own; each
        with :semantic after the
    project, as `mode` says of its own, for the encoder of semantic search. `terms`: of queries,
    their weights for BM25 as well, for an index that was exported.
    """

    model: str
    input: tuple[str, ...]
    input_type: Side | None = None
    mode: SearchMode | None = None
    encoding_format: Literal["float", "base64"] = "float"
    dimensions: int | None = None
    terms: bool = False
    user: str | None = None


@dataclass(frozen=True)
class Rerank:
    """The body of `/v1/rerank`."""

    model: str
    query: str
    documents: tuple[str, ...]
    top_n: int | None = None
    return_documents: bool = False


class LocalApi:
    """Answers requests over some projects, all where none is named.

    For several threads. Raises UsageError without projects.
    """

    def __init__(self, names: Sequence[str]) -> None:
        self._projects = {label: _Worker(folder) for label, folder in labelled(names).items()}
        self._routes: dict[str, tuple[str, Callable[[Request], Any]]] = {
            "/v1/models": ("GET", self._models),
            "/v1/embeddings": ("POST", self._embeddings),
            "/v1/rerank": ("POST", self._rerank),
            "/search": ("POST", self._search),
        }

    def answer(self, request: Request) -> Answer:
        """Whatever goes wrong is answered, too."""
        try:
            method, handler = self._routes.get(request.path, ("", None))
            if handler is None:
                raise Refused(
                    404,
                    "path-unknown",
                    f"There is no such path. The paths are {', '.join(self._routes)}.",
                )
            if request.method != method:
                raise Refused(
                    405, "method-not-allowed", f"{request.path} takes only {method}.", Allow=method
                )
            return Answer(200, handler(request))
        except Refused as refused:
            return refused.answer
        except EngineError as error:
            status = STATUS.get(error.exit_code, 500)
            text = " ".join(filter(None, (error.what, error.why, error.to_do)))
            return Answer(status, error_body(status, error.code, text))
        except BaseException as fault:  # even a panic of native code must not end the server
            print(fault_record(fault), file=sys.stderr)
            text = f"The engine had an internal fault ({type(fault).__name__})."
            return Answer(500, error_body(500, "internal-fault", text))

    def _models(self, _request: Request) -> Any:
        models: list[str] = []
        for label, worker in self._projects.items():
            models.append(label)
            if worker.do(_has_two_encoders, light=True):
                models.append(f"{label}{OF_SEMANTIC_SEARCH}")
        names = [f"{model}{side}" for model in models for side in ("", ":query", ":document")]
        return {
            "object": "list",
            "data": [
                {"id": name, "object": "model", "created": 0, "owned_by": "bmembed"}
                for name in names
            ],
        }

    def _search(self, request: Request) -> Any:
        if len(request.body) > MAX_SEARCH:
            raise Refused(
                413, "request-too-large", f"The body of a search may have {MAX_SEARCH:,} bytes."
            )
        params = _read(_from_body, request)
        label = params.pop("project", None)
        mode = params.get("mode")
        if mode is not None:
            if mode not in (*MODE_OF_NAME, *MODES):
                raise _wrong(f"mode must be one of {', '.join(MODE_OF_NAME)}")
            params["mode"] = MODE_OF_NAME.get(mode, mode)
        task = _read(lambda given: task_of("search", given), {"by_document": True, **params})
        worker = self._worker(label)
        found = worker.do(
            task, light=worker.do(lambda own: is_light("search", params, own), light=True)
        )
        if found["problem"]:
            raise EngineError.from_dict(found["problem"])
        return found

    def _embeddings(self, request: Request) -> Any:
        params = _read(_from_body, request)
        if isinstance(params.get("input"), str):
            params["input"] = [params["input"]]
        asked = _read(lambda given: from_json(Embeddings, given, strict=True), params)
        label, mode, side = self._named(asked.model)
        mode = asked.mode or mode
        _check_count("input", asked.input)
        side = asked.input_type or side
        if asked.terms and side != "query":
            raise _wrong('terms are for queries: also send "input_type": "query"')
        check = _until(time.monotonic() + WORK_SECONDS)
        worker = self._worker(label)
        found = worker.do(lambda own: own.ready().encoders.encode(asked.input, side, check, mode))
        if asked.dimensions not in (None, found.vectors.shape[1]):
            raise _wrong(
                f"dimensions must be {found.vectors.shape[1]}, which the encoder has, or left out"
            )
        as_text = asked.encoding_format == "base64"
        data = [
            {
                "object": "embedding",
                "index": index,
                "embedding": (
                    base64.b64encode(row.astype("<f4").tobytes()).decode()
                    if as_text
                    else row.tolist()
                ),
            }
            for index, row in enumerate(found.vectors)
        ]
        terms: dict[str, Any] = (
            worker.do(lambda own: _terms(own, asked.input, data, mode)) if asked.terms else {}
        )
        usage = {"prompt_tokens": found.tokens, "total_tokens": found.tokens}
        return {"object": "list", "data": data, "model": asked.model, "usage": usage, **terms}

    def _rerank(self, request: Request) -> Any:
        params = _read(_from_body, request)
        if isinstance(given := params.get("documents"), list):
            params["documents"] = [
                one.get("text") if isinstance(one, dict) else one for one in given
            ]
        asked = _read(lambda given: from_json(Rerank, given, strict=True), params)
        _check_count("documents", asked.documents)
        if asked.top_n is not None and asked.top_n < 1:
            raise _wrong("top_n must be 1 or more")
        check = _until(time.monotonic() + WORK_SECONDS)
        scores = self._worker(self._named(asked.model)[0]).do(
            lambda own: own.ready().reranking.scores(asked.query, asked.documents, check)
        )
        best = sorted(range(len(scores)), key=lambda index: -scores[index])[: asked.top_n]
        results = [
            {
                "index": index,
                "relevance_score": float(scores[index]),
                **(
                    {"document": {"text": asked.documents[index]}} if asked.return_documents else {}
                ),
            }
            for index in best
        ]
        return {"object": "list", "model": asked.model, "results": results}

    def _named(self, model: str) -> tuple[str, SearchMode, Side]:
        """The project that a model names, and for what: documents, and hybrid search, where it
        does not say.
        """
        side: Side = "document"
        for one in SIDES:
            if model not in self._projects and model.endswith(f":{one}"):
                model = model.removesuffix(f":{one}")
                side = one
                break
        if model not in self._projects and model.endswith(OF_SEMANTIC_SEARCH):
            return model.removesuffix(OF_SEMANTIC_SEARCH), "semantic", side
        return model, "hybrid", side

    def _worker(self, label: str | None) -> _Worker:
        """That of a project, which need not be named where there is one."""
        if label is None and len(self._projects) == 1:
            return next(iter(self._projects.values()))
        if not isinstance(label, str) or label not in self._projects:
            raise no_project([*self._projects], named=label is not None)
        return self._projects[label]


class _Worker:
    """A thread for what needs the encoder, and one for what does not: neither a searcher nor an
    encoder is for several.
    """

    def __init__(self, folder: ProjectFolder) -> None:
        self._own = {light: OwnSearcher(folder) for light in (True, False)}
        self._threads = {light: ThreadPoolExecutor(1) for light in (True, False)}

    def do(self, task: Callable[[OwnSearcher], Any], *, light: bool = False) -> Any:
        """The result of a task. Raises what it raises, ResourceError where it takes too long."""
        waiting = self._threads[light].submit(task, self._own[light])
        try:
            return waiting.result(WORK_SECONDS)
        except TimeoutError:
            waiting.cancel()
            raise _too_long() from None


def _has_two_encoders(own: OwnSearcher) -> bool:
    """Whether the search modes of a project have encoders of their own; not before there are
    any.
    """
    try:
        encoders = own.look().encoders.by_mode()
    except EngineError:
        return False
    return encoders["hybrid"] != encoders["semantic"]


def _terms(
    own: OwnSearcher, texts: Sequence[str], data: list[dict[str, Any]], mode: SearchMode
) -> dict[str, Any]:
    """Adds the terms and codes of each text to its part of the answer; what the answer itself
    says of them.
    """
    encoders = own.ready().encoders
    for one, found in zip(data, encoders.keywords(texts), strict=True):
        one.update(terms=found.weights, codes=found.codes)
    return {"fingerprints": encoders.fingerprints(mode)}


def _read(read: Callable[[Any], Body], data: Any) -> Body:
    try:
        return read(data)
    except (TypeError, ValueError) as error:
        raise _wrong(str(error)) from None


def _from_body(request: Request) -> dict[str, Any]:
    try:
        data = json.loads(request.body)
    except (ValueError, RecursionError):
        data = None
    if not isinstance(data, dict):
        raise TypeError("its body must be a JSON object")
    return data


def _check_count(name: str, texts: Sequence[str]) -> None:
    if not 0 < len(texts) <= MAX_TEXTS:
        raise _wrong(f"{name} must hold 1 to {MAX_TEXTS:,} texts")


def _until(end: float) -> Callable[[int], None]:
    """What ends a work in between two batches."""

    def check(_done: int) -> None:
        if time.monotonic() > end:
            raise _too_long()

    return check


def _wrong(why: str) -> UsageError:
    return UsageError(f"The request is not valid: {why}.", code="arguments-invalid")


def _too_long() -> ResourceError:
    text = f"It took more than {WORK_SECONDS:.0f} seconds."
    return ResourceError(
        "The request was abandoned.", text, "Send less at once.", code="request-too-long"
    )
