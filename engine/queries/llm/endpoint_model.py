"""A language model on a server that speaks OpenAI's chat completions: on this machine or in a
private network.

Redirects are refused, proxies ignored, and an answer has limits of time and size.
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
PAUSE_SECONDS = 0.5  # before the next message after a failure; twice as long after each further one
TEMPERATURE = 0.3
SHORT = 2000  # bytes of a text that is never near a context's end: it is estimated
FAILURES = 5  # messages in a row without an answer, after which the server is given up


def _named(name: str, schema: dict[str, Any]) -> dict[str, Any]:
    """As OpenAI has it, and vLLM, Ollama and llama.cpp's own server."""
    return {"type": "json_schema", "json_schema": {"name": name, "schema": schema}}


def _bare(_name: str, schema: dict[str, Any]) -> dict[str, Any]:
    """As llama-cpp-python's server has it, which answers the other form with an error of its
    own.
    """
    return {"type": "json_object", "schema": schema}


FORMS = (_named, _bare, None)


@dataclass
class _Pending:
    """A message on its way, or about to be.

    `form`: which of `FORMS` it is sent in; `begun`: when, 0 where it is not.
    """

    ticket: int
    request: Request
    form: int
    exchange: Exchange | None = None
    begun: float = 0.0
    seconds: float = 0.0


class Endpoint:
    """A server, sent `concurrency` messages at once.

    Every wait ends within a tenth of a second when `should_stop` says so.
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
        """`report`: who hears of what the server says of itself, as `Reporter.choose`.

        `sending`: as `Exchange`.
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
        """As the server counts, of a long text and where it does; else an estimate, rather too
        high. At the first long text its context is looked up, too.
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
        """As `ChatModel.complete`.

        Raises ModelError where the server refuses the model or the key, StageError after several
        messages in a row without an answer. Only while no other message is on its way.
        """
        self.submit(request)
        ((_, outcome),) = self.step()
        if isinstance(outcome, UnansweredError):
            raise outcome
        return outcome

    def submit(self, request: Request) -> int:
        """Begin an answer; its ticket."""
        self._tickets += 1
        self._open.append(_Pending(self._tickets, request, self._form))
        return self._tickets

    def step(self) -> list[tuple[int, Outcome]]:
        """Go on with all answers for a moment; those that have ended, by ticket.

        Raises as `complete`.
        """
        try:
            return self._waited()
        except BaseException:
            self.drop()
            raise

    def drop(self) -> None:
        """Forget the answers that are on their way."""
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
            # does not return while the run is paused: answers may have come meanwhile
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
        """Send what waits.

        After a failure the server is given a moment, more after each further one.
        """
        if self._failures and time.monotonic() < self._pause_until:
            return
        for one in self._open:
            if one.exchange is None:
                self._send(one)

    def _send(self, one: _Pending) -> None:
        """From a thread of its own, so that a silent server cannot hold us."""
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
        """What came of a message; None while nothing has."""
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
        """Servers differ in how they take a schema, if they know any; the form that one takes is
        kept.
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
        """Messages that were on their way together fail together, and count once."""
        if one.begun >= self._failed_at:
            self._failures += 1
            self._failed_at = time.monotonic()
            if not isinstance(error, TooLongError):  # a shorter message may be asked at once
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
    """Whether a server may answer when the answer's form is given otherwise, or not at all."""
    if exceeds_context(response.body):
        return False
    return response.status in (400, 422) or (
        response.status == 500 and b"response_format" in response.body
    )
