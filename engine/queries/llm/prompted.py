"""A language model as a backend: chunks asked about one after the other, or as many at once as the model can answer."""

from __future__ import annotations

import time
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from dataclasses import dataclass

from engine.core.errors import SettingsError
from engine.core.records import QueryKind
from engine.queries.llm.answer import Answer, Passage
from engine.queries.llm.chat_model import ChatModel, ConcurrentModel, Outcome, Request, SequentialModel, UnansweredError
from engine.queries.llm.conversation import MIN_ROOM, WANTED, Asker
from engine.queries.llm.prompts import load_prompt, place_of

LISTED = 64  # tokens that the list of facts takes beside their words
KINDS: tuple[QueryKind, ...] = ("question",)
Talk = Generator[Request, Outcome, Answer]


@dataclass
class _Open:
    """A chunk that is being asked about, and the outcome that its conversation has not heard yet."""

    number: int
    talk: Talk


class Prompted:
    """The backends `gguf` and `endpoint`: a model, asked in one or two steps. `clock`: seconds, pauses left out."""

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
        self._queue: ConcurrentModel = model if isinstance(model, ConcurrentModel) else SequentialModel(model, clock)
        two = prompt == "two-step"
        room = _space(model, ("events", "questions") if two else ("one-step",), per_chunk, answer_tokens)
        context = model.context

        def lost() -> int:
            return context - model.context

        self._asker = Asker(two, kinds, per_chunk, answer_tokens, room, seed, model.count, lost)

    @property
    def name(self) -> str:
        """gguf or endpoint."""
        return self._chat.name

    @property
    def model(self) -> str:
        """The model's name."""
        return self._chat.model

    def close(self) -> None:
        """Let go of the model."""
        self._chat.close()

    def answers(self, asked: Iterable[Passage]) -> Iterator[tuple[int, Answer]]:
        """The queries of each, by number, as they come: not in order. A further one is taken from `asked` whenever the model
        has room. Raises as `ChatModel.complete`."""
        waiting = iter(asked)
        open_ones: dict[int, _Open] = {}
        try:
            while True:
                while len(open_ones) < self._queue.concurrency and (passage := next(waiting, None)) is not None:
                    one = _Open(passage.number, self._asker.talk(passage.chunk, passage.title))
                    yield from self._hear(one, None, open_ones)
                if not open_ones:
                    return
                for ticket, outcome in self._queue.step():
                    yield from self._hear(open_ones.pop(ticket), outcome, open_ones)
        finally:
            self._queue.drop()

    def _hear(self, one: _Open, outcome: Outcome | None, open_ones: dict[int, _Open]) -> Iterator[tuple[int, Answer]]:
        """Hand a conversation what came of its request, and take its next one; its answer where there is none."""
        while True:
            try:
                request = next(one.talk) if outcome is None else one.talk.send(outcome)
            except StopIteration as ended:
                yield one.number, ended.value
                return
            try:
                open_ones[self._queue.submit(request)] = one
            except UnansweredError as error:
                outcome = error
            else:
                return


def _space(model: ChatModel, prompts: Sequence[str], most: int, limit: int) -> int:
    """Tokens for the passage, beside the prompt and the answer. Raises SettingsError where there are too few."""
    wanted = max(WANTED.values(), key=len)
    empty = {**place_of("x" * 200, ("x" * 300,)), "passage": "", "events": "", "count": most, "wanted": wanted}
    lengths = []
    for name in prompts:
        message = load_prompt(name).filled(empty)
        lengths.append(model.count(message.system) + model.count(message.user) + LISTED)
    if len(prompts) > 1 and model.context < (needed := lengths[1] + 2 * limit + most * model.count(wanted)):
        raise _too_small(model.context, needed)
    if (room := model.context - lengths[0] - limit) < MIN_ROOM:
        raise _too_small(model.context, lengths[0] + limit + MIN_ROOM)
    return room


def _too_small(context: int, wanted: int) -> SettingsError:
    return SettingsError(
        f"A context of {context} tokens is too small for the prompt and its answers.",
        f"They need {wanted} tokens with the present queries.answer_tokens.",
        "Raise queries.context_tokens, lower queries.answer_tokens, or set queries.prompt to one-step.",
        code="context-too-small",
    )
