"""Chat with a language model on a server, or in a GGUF file that a process of our own serves.

A server is local or in a private network. Redirects are refused, proxies are ignored, and answers
have limits of time and size.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable
from math import inf
from pathlib import Path
from typing import Any

from engine.core.errors import ModelError, StageError
from engine.endpoint.address import KEY_HINT
from engine.endpoint.client import POLL_SECONDS, Client, NoAnswerError, Response
from engine.gguf.file import check_gguf
from engine.llm.model_process import ModelProcess, ServedFile
from engine.llm.replies import error_text, exceeds_context, read_partial_text, read_reply
from engine.llm.requests import (
    NullReporter,
    Reply,
    Reporter,
    Request,
    TooLongError,
    UnansweredError,
)
from engine.llm.tokens import ServerTokens, estimate_tokens
from engine.llm.turn_marks import neutralize

PAUSE_SECONDS = 0.5
TEMPERATURE = 0.3
SHORT = 2000  # Bytes up to which tokens are estimated, since the text is far below any context.
MAX_FAILURES = 5  # In a row.
Check = Callable[[], object]
"""Called many times a second during a request; it may raise, which ends the request."""


def _name_schema(name: str, schema: dict[str, Any]) -> dict[str, Any]:
    """Return the form of OpenAI, vLLM, Ollama and llama.cpp's own server."""
    return {"type": "json_schema", "json_schema": {"name": name, "schema": schema}}


def _attach_schema(_name: str, schema: dict[str, Any]) -> dict[str, Any]:
    """Return the form of llama-cpp-python's server, which rejects the other form."""
    return {"type": "json_object", "schema": schema}


FORMS = (_name_schema, _attach_schema, None)
"""How servers take a JSON schema, in the order of trying; None: not at all."""


class ChatModel:
    """A language model that answers messages, from several threads if need be.

    `name`: the kind of model, gguf or endpoint. `model`: the model's name. `context`: the tokens of
    a prompt and its answer together. `concurrency`: the number of messages that it gets at once.
    """

    name = "endpoint"

    def __init__(
        self,
        client: Client,
        model: str,
        context: int,
        seconds: float,
        check: Check,
        concurrency: int = 1,
        reporter: Reporter | None = None,
        max_failures: int = MAX_FAILURES,
    ) -> None:
        """Prepare requests.

        `seconds`: limit of an answer. `check`: called many times a second; it may raise, which
        ends a request at once. `reporter`: gets what the server says about itself. After a
        failure it waits `PAUSE_SECONDS`, which doubles with every further one in a row; after
        `max_failures` messages in a row without an answer it gives up.
        """
        self.model = model
        self.context = context
        self.concurrency = concurrency
        self.client = client
        self._seconds = seconds
        self._check = check
        self._reporter = reporter or NullReporter()
        self._tokens = ServerTokens(client, model, check)
        self._looked_up = False
        self._form = 0  # the number in FORMS of the form to try, or that was accepted
        self._failures = 0  # in a row
        self._max_failures = max_failures
        self._failed_at = 0.0
        self._pause_until = 0.0
        self._counting = threading.Lock()

    def count(self, text: str) -> int:
        """Count the tokens of a text, rather too many than too few.

        A long text is counted by the server if it can, and estimated otherwise. The first long text
        also looks up the server's context.
        """
        if len(text) <= SHORT and len(text.encode("utf-8", "replace")) <= SHORT:
            return estimate_tokens(text)
        with self._counting:
            if not self._looked_up:
                self._look_up(text)
                self._looked_up = True
            count = self._tokens.count(neutralize(text))
        if count is None:
            return estimate_tokens(text)
        return count

    def complete(self, request: Request, check: Check | None = None) -> Reply:
        """Answer a request; `check` is called instead of the model's own.

        Raises UnansweredError, what `check` raises, ModelError if the server refuses the model or
        the key, StageError after several messages in a row without an answer.
        """
        check = check or self._check
        while self._failures and time.monotonic() < self._pause_until:
            time.sleep(POLL_SECONDS)
            check()
        begun = time.monotonic()
        try:
            response = self._send(request, check)
            reply = read_reply(self._accept(response, request), request.shape)
        except NoAnswerError as error:
            failure = UnansweredError(f"{error}", error.lasting)
            self._count_failure(failure, begun)
            raise failure from None
        except UnansweredError as error:
            self._count_failure(error, begun)
            raise
        self._failures = 0
        return reply

    def close(self) -> None:
        """Release the model."""

    def _look_up(self, text: str) -> None:
        """Ask the server for its context and whether it counts tokens, and report both."""
        report_choice = self._reporter.report_choice
        offered = self._tokens.context()
        if 0 < offered < self.context:
            report_choice(
                "context tokens", offered, f"the server has no more; {self.context} are set"
            )
            self.context = offered
        elif self._tokens.cuts:
            reason = (
                "as set: Ollama says it from 0.10 on; with less (num_ctx) it would silently leave"
                " out parts of long chunks"
            )
            report_choice("context tokens", self.context, reason)
        if self._tokens.count(neutralize(text)) is None:
            reason = "the server does not count tokens: they are cut rather too short"
            report_choice("long chunks", "by an estimate", reason)
        else:
            report_choice("long chunks", "by its tokenizer", "the server counts tokens")

    def _send(self, request: Request, check: Check) -> Response:
        """Send a message; if the server rejects the form of the JSON schema, try the next form.

        Servers differ in how they take a schema (`FORMS`). The accepted form is kept for later
        messages.
        """

        def pass_on_text(received: bytes) -> None:
            if request.hear is not None:
                request.hear(read_partial_text(received))

        form = self._form
        while True:
            response = self.client.send(
                f"{self.client.address.path}/chat/completions",
                self._build_body(request, form),
                seconds=self._seconds,
                limit="queries.endpoint_seconds",
                check=check,
                hear=pass_on_text if request.hear else None,
            )
            if response.status == 200:
                self._form = form
            elif FORMS[form] is not None and _dislikes_form(response):
                form += 1
                continue
            return response

    def _build_body(self, request: Request, form: int) -> dict[str, Any]:
        """Return the JSON of a request for a chat completion. `form`: a number in FORMS."""
        body: dict[str, Any] = {
            "messages": [
                {"role": "system", "content": request.message.system},
                {"role": "user", "content": self._prepare_text(request.message.user)},
            ],
            "temperature": TEMPERATURE,
            "max_tokens": request.limit,
            "seed": request.seed,
            "stream": request.hear is not None,
        }
        if self.model:
            body["model"] = self.model
        build_format = FORMS[form]
        if build_format is not None:
            schema = request.shape.schema(request.most)
            body["response_format"] = build_format(request.shape.name, schema)
        return body

    def _prepare_text(self, text: str) -> str:
        """Return a document's text as it is sent, without marks of turns."""
        return neutralize(text)

    def _accept(self, response: Response, request: Request) -> bytes:
        """Return the body of a successful response.

        Raises ModelError if the server refuses the model or the key, UnansweredError otherwise.
        """
        status = response.status
        if status == 200:
            return response.body
        if 300 <= status < 400:
            raise UnansweredError(
                f"it points elsewhere ({response.location[:200] or 'nowhere'}), which is not"
                " followed"
            )
        text = error_text(response.body, request.message)
        if status in (401, 403, 404, 405):
            raise ModelError(
                f"The endpoint refuses the request (HTTP {status}).",
                text or "It gives no reason.",
                "Check queries.endpoint, queries.endpoint_model and, if it needs a key,"
                f" {KEY_HINT}",
                code="endpoint-refused",
            )
        reason = f"HTTP {status}"
        if text:
            reason += f": {text}"
        is_refused = 400 <= status < 500
        if exceeds_context(response.body):
            raise TooLongError(reason, refused=is_refused)
        raise UnansweredError(reason, refused=is_refused)

    def _count_failure(self, error: UnansweredError, begun: float) -> None:
        """Count a failure; messages that were pending together fail together and count once.

        `begun`: the time (`time.monotonic`) at which the message was sent. After a failure the
        server gets a pause, which grows with every further failure. Raises StageError after too
        many failures.
        """
        if begun >= self._failed_at:
            self._failures += 1
            self._failed_at = time.monotonic()
            if not isinstance(error, TooLongError):  # A shorter message may be sent at once.
                self._pause_until = self._failed_at + PAUSE_SECONDS * 2**self._failures
        if self._failures < self._max_failures:
            return
        to_do = (
            "Check that the server runs and that queries.endpoint names it, then run again."
            " Answers so far are kept."
        )
        if isinstance(error, TooLongError):
            to_do = (
                "Start it with a larger context, or lower queries.context_tokens to what it has,"
                " then run again."
            )
        raise StageError(
            f"The endpoint {self.client.address.url} gave no answer {self._max_failures} times in a"
            " row.",
            f"Last reason: {error}.",
            to_do,
            code="endpoint-no-answer",
            command="run",
        )


class FileChatModel(ChatModel):
    """A language model in a GGUF file, served by a process that ends with `close`.

    Whatever that process does once, it would do again: its failures are lasting.
    """

    name = "gguf"

    def __init__(
        self,
        path: Path,
        context: int,
        reporter: Reporter,
        check: Check,
    ) -> None:
        """Load the model.

        Raises ModelError with the true reason if the file cannot be used, UsageError if llama.cpp
        is not installed, what `check` raises.
        """
        check_gguf(path)
        self._process = ModelProcess(ServedFile(path=str(path), context=context), check)
        self.pid = self._process.pid
        served = self._process.served
        for choice in served.choices:
            reporter.report_choice(
                choice.setting,
                choice.value,
                choice.reason,
            )
        for warning in served.warnings:
            reporter.warn(warning)
        super().__init__(
            self._process.client,
            path.name,
            served.context,
            inf,
            check,
        )
        self._form = FORMS.index(_attach_schema)

    def count(self, text: str) -> int:
        """Count the tokens of a text that is not part of a template."""
        try:
            response = self.client.send(
                "/extras/tokenize/count", {"input": text}, seconds=inf, check=self._check
            )
        except NoAnswerError:
            raise self._process.crash_error() from None
        return int(json.loads(response.body)["count"])

    def close(self) -> None:
        """End the process."""
        self._process.close()

    def _send(self, request: Request, check: Check) -> Response:
        """Send a message as `ChatModel` does. Raises StageError if the process has crashed."""
        try:
            return super()._send(request, check)
        except NoAnswerError:
            raise self._process.crash_error() from None

    def _prepare_text(self, text: str) -> str:
        """Return the text unchanged: the process keeps it apart from the template."""
        return text

    def _count_failure(self, error: UnansweredError, begun: float) -> None:
        """Mark the failure as lasting: the process would fail in the same way again."""
        error.lasting = True


def _dislikes_form(response: Response) -> bool:
    """Return whether the server may accept the request with another form of the JSON schema."""
    if exceeds_context(response.body):
        return False
    return response.status in (400, 422) or (
        response.status == 500 and b"response_format" in response.body
    )
