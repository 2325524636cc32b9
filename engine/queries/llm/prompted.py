"""A language model as a backend for writing queries.

Chunks are asked about one after the other, or as many at once as the model can answer.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from dataclasses import replace

from engine.core.errors import SettingsError
from engine.core.records import QueryKind
from engine.queries.llm.answer import Answer, Passage
from engine.queries.llm.chat_model import ChatModel, Outcome, Request, UnansweredError
from engine.queries.llm.conversation import MIN_ROOM, WANTED, Asker
from engine.queries.llm.endpoint_model import Endpoint
from engine.queries.llm.prompts import load_prompt, place_of

LISTED = 64  # Tokens of the list of facts in addition to their words.
LONGEST_WANTED = max(WANTED.values(), key=len)
KINDS: tuple[QueryKind, ...] = ("question",)
Talk = Generator[Request, Outcome, Answer]


class Prompted:
    """The backends `gguf` and `endpoint`: a model that is asked in one or two steps.

    `clock` returns seconds without pauses.
    """

    def __init__(
        self,
        model: ChatModel,
        prompt: str,
        per_chunk: int,
        answer_tokens: int,
        seed: int = 0,
        *,
        kinds: Sequence[QueryKind] = KINDS,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._chat = model
        self._clock = clock
        self.name = model.name
        self.model = model.model
        two = prompt == "two-step"
        room = space(model, _first_prompts(two, kinds), per_chunk, answer_tokens)
        if two:
            second_room = space_after_facts(model, per_chunk, answer_tokens)
        else:
            second_room = 0
        context = model.context

        def lost() -> int:
            return context - model.context

        self._asker = Asker(
            two, kinds, per_chunk, answer_tokens, room, second_room, seed, model.count, lost
        )

    def close(self) -> None:
        """Release the model."""
        self._chat.close()

    def answers(self, passages: Iterable[Passage]) -> Iterator[tuple[int, Answer]]:
        """Yield the number and the answer of each passage as it arrives, not in order.

        The next passage is taken from `passages` whenever the model has room. Raises as
        `ChatModel.complete` does.
        """
        if isinstance(self._chat, Endpoint):
            yield from self._together(self._chat, iter(passages))
            return
        for passage in passages:
            talk = self._asker.talk(passage.chunk, passage.title)
            found = _advanced(talk)
            while isinstance(found, Request):
                found = _advanced(talk, self._outcome(found))
            yield passage.number, found

    def _together(
        self, model: Endpoint, waiting: Iterator[Passage]
    ) -> Iterator[tuple[int, Answer]]:
        """Yield answers from a model that answers several chunks at once."""
        talks: dict[int, tuple[int, Talk]] = {}
        try:
            while True:
                ready: list[tuple[int, Talk, Outcome | None]] = []
                while (
                    len(talks) + len(ready) < model.concurrency
                    and (passage := next(waiting, None)) is not None
                ):
                    ready.append(
                        (passage.number, self._asker.talk(passage.chunk, passage.title), None)
                    )
                if not (talks or ready):
                    return
                if not ready:
                    ready = [(*talks.pop(ticket), outcome) for ticket, outcome in model.step()]
                for number, talk, outcome in ready:
                    found = _advanced(talk, outcome)
                    if isinstance(found, Answer):
                        yield number, found
                    else:
                        talks[model.submit(found)] = number, talk
        finally:
            model.drop()

    def _outcome(self, request: Request) -> Outcome:
        before = self._clock()
        try:
            reply = self._chat.complete(request)
        except UnansweredError as error:
            error.seconds = self._clock() - before
            return error
        return replace(reply, seconds=self._clock() - before)


def _advanced(talk: Talk, outcome: Outcome | None = None) -> Request | Answer:
    """Send an outcome to a conversation, and return its next request or its answer."""
    try:
        if outcome is None:
            return next(talk)
        return talk.send(outcome)
    except StopIteration as ended:
        answer: Answer = ended.value
        return answer


def _first_prompts(two_steps: bool, kinds: Sequence[QueryKind]) -> tuple[str, ...]:
    """Return the prompts that may be the first about a chunk."""
    if two_steps:
        return ("events",)
    if "everyday" in kinds:
        return ("one-step", "everyday")
    return ("one-step",)


def space(
    model: ChatModel, prompts: Sequence[str], most: int, limit: int, question: str = ""
) -> int:
    """Return the tokens that the largest of the prompts leaves for a passage.

    The prompt also holds the `question`, and the answer takes `limit` tokens. Raises SettingsError
    if too few are left.
    """
    taken = max(_tokens_of(model, name, most, question) for name in prompts) + limit
    _check_context(model, taken + MIN_ROOM)
    return model.context - taken


def space_after_facts(model: ChatModel, most: int, limit: int) -> int:
    """Return the tokens that the second of two steps leaves for a passage.

    Its prompt also holds the facts of the first step. No tokens may be left, since the facts quote
    the passage; raises SettingsError if even the facts do not fit.
    """
    taken = _tokens_of(model, "questions", most) + 2 * limit + most * model.count(LONGEST_WANTED)
    _check_context(model, taken)
    return model.context - taken


def _tokens_of(model: ChatModel, prompt: str, most: int, question: str = "") -> int:
    """Return the tokens of a prompt without a passage, with the longest title and section."""
    empty = {
        **place_of("x" * 200, ("x" * 300,)),
        "passage": "",
        "events": "",
        "count": most,
        "wanted": LONGEST_WANTED,
        "passages": "",
        "question": question,
    }
    message = load_prompt(prompt).filled(empty)
    return model.count(message.system) + model.count(message.user) + LISTED


def _check_context(model: ChatModel, needed: int) -> None:
    """Raise SettingsError if the context has fewer tokens than needed."""
    if model.context >= needed:
        return
    raise SettingsError(
        f"A context of {model.context} tokens is too small for the prompt and its answers.",
        f"They need {needed} tokens with the current queries.answer_tokens.",
        "Raise queries.context_tokens, lower queries.answer_tokens, or set queries.prompt to"
        " one-step.",
        code="context-too-small",
    )
