"""A language model on a server with OpenAI's chat completions, local or in a private network.

Redirects are refused, proxies are ignored, and answers have limits of time and size.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from engine.core.errors import ModelError, StageError
from engine.endpoint.address import KEY_HINT, Address, server_key
from engine.endpoint.exchange import Exchange, ExchangeError, Response
from engine.queries.llm.chat_model import Outcome, Reply, Request, TooLongError, UnansweredError
from engine.queries.llm.cost import Patience
from engine.queries.llm.endpoint_answers import error_text, exceeds_context, reply_of, streamed
from engine.queries.llm.endpoint_tokens import ServersTokens, estimated
from engine.queries.llm.prompts import Message
from engine.queries.llm.turn_marks import neutral

POLL_SECONDS = 0.1
PAUSE_SECONDS = 0.5  # Wait before the next message; it doubles with every failure in a row.
TEMPERATURE = 0.3
SHORT = 2000  # Bytes up to which tokens are estimated, since the text is far below any context.
FAILURES = 5  # Messages in a row without an answer before the run gives up on the server.


def _named(name: str, schema: dict[str, Any]) -> dict[str, Any]:
    """Return the form of OpenAI, vLLM, Ollama and llama.cpp's own server."""
    return {"type": "json_schema", "json_schema": {"name": name, "schema": schema}}


def _bare(_name: str, schema: dict[str, Any]) -> dict[str, Any]:
    """Return the form of llama-cpp-python's server, which rejects the other form."""
    return {"type": "json_object", "schema": schema}


FORMS = (_named, _bare, None)


@dataclass
class _Pending:
    """A message that was sent or is waiting to be sent.

    `form`: the index in `FORMS` of the form in which it is sent. `begun`: when it was sent, 0
    before.
    """

    ticket: int
    request: Request
    form: int
    exchange: Exchange | None = None
    begun: float = 0.0
    seconds: float = 0.0


class Endpoint:
    """A server that gets up to `concurrency` messages at once.

    Every wait ends within a tenth of a second once `should_stop` returns True.
    """

    name = "endpoint"

    def __init__(
        self,
        address: Address,
        model: str,
        context: int,
        seconds: float,
        should_stop: Callable[[], bool],
        concurrency: int = 1,
        report: Callable[[str, object, str], None] = lambda *_: None,
        sending: Callable[[], None] = lambda: None,
    ) -> None:
        """Prepare requests to `address`.

        `report` is called with what the server says about itself, as `Reporter.choose` is.
        `sending` is as in `Exchange`.
        """
        self.model = model
        self.context = context
        self.concurrency = concurrency
        self._address = address
        self._seconds = seconds
        self._patience = Patience(should_stop)
        self._form = 0
        self._failures = 0
        self._key = server_key()
        self._failed_at = self._pause_until = 0.0
        self._tokens = ServersTokens(address, model, self._key, self._patience, sending)
        self._report = report
        self._sending = sending
        self._looked_up = False
        self._open: list[_Pending] = []
        self._tickets = 0

    def count(self, text: str) -> int:
        """Count the tokens of a text, rather too many than too few.

        A long text is counted by the server if it can, and estimated otherwise. The first long text
        also looks up the server's context.
        """
        if len(text) <= SHORT and len(text.encode("utf-8", "replace")) <= SHORT:
            return estimated(text)
        if not self._looked_up:
            self._looked_up = True
            self._look_up(text)
        found = self._tokens.count(neutral(text))
        if found is None:
            return estimated(text)
        return found

    def _look_up(self, text: str) -> None:
        offered = self._tokens.context()
        if 0 < offered < self.context:
            self._report(
                "context tokens", offered, f"the server has no more; {self.context} are set"
            )
            self.context = offered
        elif self._tokens.cuts:
            why = (
                "Ollama says it from 0.10 on; with less (num_ctx) it would silently leave out parts"
                " of long chunks"
            )
            self._report("context tokens", self.context, f"as set: {why}")
        if self._tokens.count(neutral(text)) is None:
            self._report(
                "long chunks",
                "by an estimate",
                "the server does not count tokens: they are cut rather too short",
            )
        else:
            self._report("long chunks", "by its tokenizer", "the server counts tokens")

    def complete(self, request: Request) -> Reply:
        """Answer a request; see `ChatModel.complete`.

        Raises ModelError if the server refuses the model or the key, StageError after several
        messages in a row without an answer. Must not be called while other messages are pending.
        """
        self.submit(request)
        ((_, outcome),) = self.step()
        if isinstance(outcome, UnansweredError):
            raise outcome
        return outcome

    def submit(self, request: Request) -> int:
        """Queue a request and return its ticket."""
        self._tickets += 1
        self._open.append(_Pending(self._tickets, request, self._form))
        return self._tickets

    def step(self) -> list[tuple[int, Outcome]]:
        """Advance all answers until some end, and return those with their tickets.

        Raises as `complete` does.
        """
        try:
            return self._waited()
        except BaseException:
            self.drop()
            raise

    def drop(self) -> None:
        """Abandon all pending answers."""
        for one in self._open:
            if one.exchange is not None:
                one.exchange.abandon()
        self._open = []

    close = drop

    def _waited(self) -> list[tuple[int, Outcome]]:
        ended: list[tuple[int, Outcome]] = []
        while self._open and not ended:
            before = self._patience.clock()
            self._begin()
            under_way = next((one.exchange for one in self._open if one.exchange is not None), None)
            under_way.done.wait(POLL_SECONDS) if under_way else time.sleep(POLL_SECONDS / 10)
            # This blocks while the run is paused; answers may arrive in the meantime.
            self._patience.check()
            for one in self._open:
                one.seconds += (self._patience.clock() - before) / len(self._open)
            for one in list(self._open):
                if one.request.hear and one.exchange:
                    one.request.hear(streamed(bytes(one.exchange.received))[0])
                outcome = self._outcome(one)
                if outcome is not None:
                    self._open.remove(one)
                    ended.append((one.ticket, outcome))
        return ended

    def _begin(self) -> None:
        """Send the waiting messages.

        After a failure the server gets a pause, which grows with every further failure.
        """
        if self._failures and time.monotonic() < self._pause_until:
            return
        for one in self._open:
            if one.exchange is None:
                self._send(one)

    def _send(self, one: _Pending) -> None:
        """Send a message from a separate thread, so that a silent server cannot block this one."""
        body = self._request(one.request)
        form = FORMS[one.form]
        if form is not None:
            body["response_format"] = form(
                one.request.shape.name, one.request.shape.schema(one.request.most)
            )
        one.exchange = Exchange(
            self._address,
            json.dumps(body).encode(),
            self._seconds,
            self._key,
            sending=self._sending,
        )
        one.begun = time.monotonic()
        one.exchange.start()

    def _outcome(self, one: _Pending) -> Outcome | None:
        """Return the outcome of a message, or None while there is none."""
        try:
            response = self._response(one)
            if response is None:
                return None
            reply = reply_of(self._accepted(response, one.request.message), one.request.shape)
        except UnansweredError as error:
            error.seconds = one.seconds
            self._fail(one, error)
            return error
        self._failures = 0
        return replace(reply, seconds=one.seconds)

    def _response(self, one: _Pending) -> Response | None:
        """Return the response to a message, or None while there is none.

        Servers differ in how they accept a JSON schema, if at all. A message is sent again in the
        next form until the server accepts it; that form is kept.
        """
        if one.exchange is None:
            return None
        if not one.exchange.done.is_set():
            if time.monotonic() <= one.begun + self._seconds:
                return None
            one.exchange.abandon()
            raise UnansweredError(
                f"no answer within {self._seconds:g} s (queries.endpoint_seconds)"
            )
        try:
            response = one.exchange.result()
        except ExchangeError as error:
            raise UnansweredError(f"{error}", error.lasting) from None
        if response.status == 200:
            self._form = one.form
        elif FORMS[one.form] is not None and _dislikes_form(response):
            one.form += 1
            self._send(one)
            return None
        return response

    def _fail(self, one: _Pending, error: UnansweredError) -> None:
        """Count a failure; messages that were pending together fail together and count once."""
        if one.begun >= self._failed_at:
            self._failures += 1
            self._failed_at = time.monotonic()
            if not isinstance(error, TooLongError):  # A shorter message may be sent at once.
                self._pause_until = self._failed_at + PAUSE_SECONDS * 2**self._failures
        if self._failures >= FAILURES:
            raise self._given_up(error) from None

    def _request(self, wanted: Request) -> dict[str, Any]:
        request: dict[str, Any] = {
            "messages": [
                {"role": "system", "content": wanted.message.system},
                {"role": "user", "content": neutral(wanted.message.user)},
            ],
            "temperature": TEMPERATURE,
            "max_tokens": wanted.limit,
            "seed": wanted.seed,
            "stream": wanted.hear is not None,
        }
        if self.model:
            request["model"] = self.model
        return request

    def _accepted(self, response: Response, message: Message) -> bytes:
        status = response.status
        if status == 200:
            return response.body
        if 300 <= status < 400:
            raise UnansweredError(
                f"it points elsewhere ({response.location[:200] or 'nowhere'}), which is not"
                " followed"
            )
        said = error_text(response.body, message)
        if status in (401, 403, 404, 405):
            raise ModelError(
                f"The endpoint refuses the request (HTTP {status}).",
                said or "It gives no reason.",
                "Check queries.endpoint, queries.endpoint_model and, if it needs a key,"
                f" {KEY_HINT}",
                code="endpoint-refused",
            )
        kind = TooLongError if exceeds_context(response.body) else UnansweredError
        raise kind(f"HTTP {status}" + (f": {said}" if said else ""), refused=400 <= status < 500)

    def _given_up(self, reason: UnansweredError) -> StageError:
        to_do = (
            "Check that the server runs and that queries.endpoint names it, then run again. Answers"
            " so far are kept."
        )
        if isinstance(reason, TooLongError):
            to_do = (
                "Start it with a larger context, or lower queries.context_tokens to what it has,"
                " then run again."
            )
        return StageError(
            f"The endpoint {self._address.url} gave no answer {FAILURES} times in a row.",
            f"Last reason: {reason}.",
            to_do,
            code="endpoint-no-answer",
            command="run",
        )


def _dislikes_form(response: Response) -> bool:
    """Return whether the server may answer if the form is given differently, or not at all."""
    if exceeds_context(response.body):
        return False
    return response.status in (400, 422) or (
        response.status == 500 and b"response_format" in response.body
    )
