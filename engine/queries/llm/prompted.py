"""A language model as a backend for writing queries.

As many chunks are asked about at once as the model can answer, each in a thread of its own.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import replace

from engine.core.errors import CancelledError, SettingsError
from engine.core.records import QueryKind
from engine.llm.chat import ChatModel
from engine.llm.prompts import SECTION_SHOWN, TITLE_SHOWN, load_prompt, place_of
from engine.llm.requests import Reply, Request
from engine.queries.llm.answer import Answer, Passage
from engine.queries.llm.conversation import MIN_ROOM, WANTED, Asker

POLL_SECONDS = 0.1
LISTED = 64  # Tokens of the numbers and marks in a list of facts, besides the facts' own words.
LONGEST_WANTED = max(WANTED.values(), key=len)  # The longest description of a kind of query.
KINDS: tuple[QueryKind, ...] = ("question",)


class PromptedWriter:
    """The backends `gguf` and `endpoint`: a model that is asked in one or two steps.

    `check` is called many times a second. It may raise to stop, or block while a run is paused:
    then no further message is sent.
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
        check: Callable[[], object] = lambda: None,
    ) -> None:
        self._chat = model
        self._check = check
        # Cleared while the run is paused.
        self._running = threading.Event()
        self._running.set()
        self._stopped = threading.Event()
        self.name = model.name
        self.model = model.model
        two_steps = prompt == "two-step"
        room = passage_room(
            model,
            _list_first_prompts(two_steps, kinds),
            per_chunk,
            answer_tokens,
        )
        second_room = 0
        if two_steps:
            second_room = _room_after_facts(model, per_chunk, answer_tokens)
        context = model.context

        def count_lost_tokens() -> int:
            # A server's context may turn out to be smaller than it was taken to be.
            return context - model.context

        self._asker = Asker(
            two_steps=two_steps,
            kinds=kinds,
            per_chunk=per_chunk,
            answer_tokens=answer_tokens,
            room=room,
            second_room=second_room,
            seed=seed,
            count_tokens=model.count,
            lost_tokens=count_lost_tokens,
        )

    def close(self) -> None:
        """Release the model."""
        self._chat.close()

    def answers(self, passages: Iterable[Passage]) -> Iterator[tuple[int, Answer]]:
        """Yield the number and the answer of each passage as it arrives, not in order.

        The next passage is taken from `passages` whenever the model has room. The seconds of an
        answer are its share of the time, while several are written at once. Raises what
        `ChatModel.complete` raises.
        """
        waiting = iter(passages)
        numbers: dict[Future[Answer], int] = {}  # of the passages that are being answered
        seconds: dict[Future[Answer], float] = {}  # their shares of the time so far
        self._stopped.clear()
        with ThreadPoolExecutor(self._chat.concurrency) as threads:
            try:
                while True:
                    while len(numbers) < self._chat.concurrency:
                        passage = next(waiting, None)
                        if passage is None:
                            break
                        future = threads.submit(
                            self._asker.answer, passage.chunk, passage.title, self._complete
                        )
                        numbers[future] = passage.number
                        seconds[future] = 0.0
                    if not numbers:
                        return
                    begun = time.monotonic()
                    finished, _ = wait(numbers, POLL_SECONDS, FIRST_COMPLETED)
                    share = (time.monotonic() - begun) / len(numbers)
                    for future in numbers:
                        seconds[future] += share
                    self._check_and_pause()
                    for future in finished:
                        number = numbers.pop(future)
                        yield number, replace(future.result(), seconds=seconds.pop(future))
            finally:
                self._stopped.set()

    def _complete(self, request: Request) -> Reply:
        """Send a request of one of the threads. Raises what `ChatModel.complete` raises."""
        return self._chat.complete(request, self._check_thread)

    def _check_thread(self) -> None:
        """Wait while the run is paused, and raise CancelledError when it has ended."""
        self._running.wait()
        if self._stopped.is_set():
            raise CancelledError("Cancelled.")

    def _check_and_pause(self) -> None:
        """Call `check`; the threads send nothing while it blocks."""
        self._running.clear()
        try:
            self._check()
        finally:
            self._running.set()


def _list_first_prompts(two_steps: bool, kinds: Sequence[QueryKind]) -> tuple[str, ...]:
    """Return the prompts that may be the first about a chunk."""
    if two_steps:
        return ("events",)
    if "everyday" in kinds:
        return ("one-step", "everyday")
    return ("one-step",)


def passage_room(
    model: ChatModel, prompts: Sequence[str], count: int, answer_tokens: int, question: str = ""
) -> int:
    """Return the tokens that the largest of the prompts, by name, leaves for a passage.

    `count`: how many entries a prompt asks for. A prompt may also contain a `question`. Raises
    SettingsError if too few tokens are left.
    """
    longest = max(_count_prompt_tokens(model, name, count, question) for name in prompts)
    reserved_tokens = longest + answer_tokens
    _check_context(model, reserved_tokens + MIN_ROOM)
    return model.context - reserved_tokens


def _room_after_facts(
    model: ChatModel,
    count: int,
    answer_tokens: int,
) -> int:
    """Return the tokens that the second of two steps leaves for a passage.

    Its prompt also holds `count` facts, the answer of the first step. The result may be 0, since
    the facts quote the passage. Raises SettingsError if even the facts do not fit.
    """
    prompt = _count_prompt_tokens(model, "questions", count)
    wanted = count * model.count(LONGEST_WANTED)
    reserved_tokens = prompt + 2 * answer_tokens + wanted
    _check_context(model, reserved_tokens)
    return model.context - reserved_tokens


def _count_prompt_tokens(
    model: ChatModel,
    prompt: str,
    count: int,
    question: str = "",
) -> int:
    """Return the tokens of a prompt without a passage, with the longest title and section."""
    values = {
        **place_of("x" * TITLE_SHOWN, ("x" * SECTION_SHOWN,)),
        "passage": "",
        "events": "",
        "count": count,
        "wanted": LONGEST_WANTED,
        "passages": "",
        "question": question,
    }
    message = load_prompt(prompt).fill(values)
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
