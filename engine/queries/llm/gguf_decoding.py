"""Several answers written by one model at once: every step computes a token of each, and prompts beside them.

Reading the weights from memory is most of the work of writing one token, and it is the same work for eight. A sequence
that has come to its end makes room for the next one at once.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from engine.queries.llm.chat_model import Reply, UnansweredError, ended
from engine.queries.llm.cost import Patience
from engine.queries.llm.gguf_sampling import Sampler
from engine.queries.llm.shapes import Shape

BATCH = 256  # tokens of one computation: a stop is heard between its parts, each well under a second
SHARED_LEAST = 24  # tokens from which the common beginning of prompts is kept
SHARED_MOST = 4
MAX_END_LENGTH = 64  # characters that close an answer, at most: no token is shorter than one


@dataclass
class _Job:
    """An answer on its way. `left`: tokens to be computed, of the prompt or the last one written; `shared`: the beginning
    of the prompt that other prompts have, too."""

    ticket: int
    left: list[int]
    shared: tuple[int, ...]
    limit: int
    shape: Shape
    sampler: Sampler
    text: bytes = b""
    written: int = 0
    seconds: float = 0.0

    @property
    def told(self) -> str:
        return self.text.decode("utf-8", "replace")

    @property
    def full(self) -> bool:
        """Whether the limit leaves no more than what closes the answer."""
        left = self.limit - self.written
        if left > MAX_END_LENGTH:
            return False
        begun = self.shape.closed(self.told)
        return left <= (begun.lacking if begun else 0)

    def reply(self, cut: bool) -> Reply:
        if cut:
            return ended(self.told, self.shape, self.seconds, self.written)
        return Reply(self.told, False, self.seconds, self.written)


@dataclass
class _Slot:
    number: int
    past: list[int] = field(default_factory=list)
    job: _Job | None = None


class Decoder:
    """The sequences of a llama.cpp context that was made for `at_once` of them. Used by one thread.

    `ends` tells whether a token ends an answer, `piece` gives its bytes; `complaint` says what llama.cpp said last.
    """

    def __init__(
        self,
        lib: Any,
        context: Any,
        at_once: int,
        patience: Patience,
        *,
        ends: Callable[[int], bool],
        piece: Callable[[int], bytes],
        complaint: Callable[[], str],
    ) -> None:
        self.at_once = at_once
        self._lib, self._context, self._patience = lib, context, patience
        self._ends, self._piece, self._complaint = ends, piece, complaint
        self._memory = lib.llama_get_memory(context)
        self._batch = lib.llama_batch_init(BATCH, 0, 1)
        self._slots = [_Slot(number) for number in range(at_once)]
        self._shared: dict[tuple[int, ...], Any] = {}
        self._tickets = 0

    def close(self) -> None:
        """Let go of unfinished answers and of the batch; the context is its owner's."""
        self.drop()
        self._lib.llama_batch_free(self._batch)

    def drop(self) -> None:
        """Forget the answers on their way, and what was computed for them."""
        for slot in self._slots:
            if slot.job is not None:
                slot.job.sampler.close()
            slot.job, slot.past = None, []
        self._lib.llama_memory_clear(self._memory, True)

    def submit(self, prompt: Sequence[int], shared: int, limit: int, shape: Shape, sampler: Sampler) -> int:
        """Begin an answer of at most `limit` tokens; its ticket. The first `shared` tokens are those of other prompts, too.

        It is closed in time, so that it is whole within its limit. Only where fewer than `at_once` are on their way.
        """
        free = [slot for slot in self._slots if slot.job is None]
        slot = max(free, key=lambda one: _common(one.past, prompt))
        same = min(_common(slot.past, prompt), len(prompt) - 1)
        self._forget_from(slot, same)
        beginning = tuple(prompt[:shared]) if SHARED_LEAST <= shared < len(prompt) else ()
        self._tickets += 1
        slot.job = _Job(self._tickets, list(prompt[len(slot.past) :]), beginning, limit, shape, sampler)
        return self._tickets

    def step(self) -> Iterator[tuple[int, Reply | UnansweredError]]:
        """Compute one batch; the answers that have come to their end, by ticket. None is on its way: nothing is done."""
        self._take_shared()
        parts = list(self._parts())
        if not parts:
            return
        before = self._patience.clock()
        rows = self._fill(parts)
        code = self._lib.llama_decode(self._context, self._batch)
        if code != 0:
            yield from self._failed(code, self._patience.clock() - before)
            return
        for slot, count in parts:
            job = self._job(slot)
            slot.past += job.left[:count]
            del job.left[:count]
            self._keep_shared(slot, job)
        ended = [(slot, cut) for slot, row in rows if (cut := self._write(self._job(slot), row)) is not None]
        for slot, _ in parts:
            self._job(slot).seconds += (self._patience.clock() - before) / len(parts)
        for slot, cut in ended:
            job, slot.job = self._job(slot), None
            job.sampler.close()
            yield job.ticket, job.reply(cut)

    def pace(self, count: int, steps: int, seconds: float) -> float:
        """Tokens a second of `count` sequences at once, over at most `steps` steps or `seconds`. What was computed is
        forgotten. 0 where it fails, as where there is too little memory."""
        self.drop()
        spent, done = 0.0, 0
        for place in range(steps + 1):
            before = self._patience.clock()
            self._batch.n_tokens = count
            for row in range(count):
                self._put(row, 1, place, row, last=True)
            if self._lib.llama_decode(self._context, self._batch) != 0:
                self.drop()
                return 0.0
            if place:  # the first one brings the weights into memory
                spent, done = spent + self._patience.clock() - before, done + 1
            if done >= 2 and spent >= seconds:
                break
        self.drop()
        return count * done / max(spent, 1e-9)

    def _parts(self) -> Iterator[tuple[_Slot, int]]:
        """Which slots are computed in the next batch, and how many tokens of each: writers first."""
        room = BATCH
        active = [slot for slot in self._slots if slot.job is not None]
        reading: set[tuple[int, ...]] = set()
        for slot in sorted(active, key=lambda one: len(self._job(one).left) > 1):
            job = self._job(slot)
            count = len(job.left)
            if self._lacks_shared(slot, job):
                if job.shared in reading:
                    continue  # it is taken over once the other has read it
                reading.add(job.shared)
                count = len(job.shared) - len(slot.past)
            if count := min(count, room):
                room -= count
                yield slot, count

    def _fill(self, parts: Sequence[tuple[_Slot, int]]) -> list[tuple[_Slot, int]]:
        """Put the tokens into the batch; the slots whose next token can be chosen then, and the rows of their outputs."""
        row, asked = 0, []
        for slot, count in parts:
            left = self._job(slot).left
            for number in range(count):
                last = number == len(left) - 1
                self._put(row, left[number], len(slot.past) + number, slot.number, last=last)
                if last:
                    asked.append((slot, row))
                row += 1
        self._batch.n_tokens = row
        return asked

    def _put(self, row: int, token: int, place: int, sequence: int, *, last: bool) -> None:
        batch = self._batch
        batch.token[row], batch.pos[row], batch.n_seq_id[row] = token, place, 1
        batch.seq_id[row][0], batch.logits[row] = sequence, last

    def _write(self, job: _Job, row: int) -> bool | None:
        """Choose the next token. Whether the answer was cut, once it has ended."""
        token = job.sampler.next(self._context, row)
        if self._ends(token):
            return False
        job.text += self._piece(token)
        job.written += 1
        job.left = [token]
        return True if job.full else None

    def _failed(self, code: int, seconds: float) -> Iterator[tuple[int, UnansweredError]]:
        jobs = [slot.job for slot in self._slots if slot.job is not None]
        self.drop()
        self._patience.check()
        reason = f"llama.cpp could not compute the answer (code {code}): {self._complaint()}"
        for job in jobs:
            yield job.ticket, UnansweredError(reason, seconds=job.seconds + seconds / len(jobs))

    # The common beginning of prompts is read once, and copied

    def _lacks_shared(self, slot: _Slot, job: _Job) -> bool:
        return len(slot.past) < len(job.shared) and job.shared not in self._shared

    def _keep_shared(self, slot: _Slot, job: _Job) -> None:
        if not job.shared or len(slot.past) != len(job.shared) or job.shared in self._shared:
            return
        size = self._lib.llama_state_seq_get_size(self._context, slot.number)
        data = (ctypes.c_uint8 * size)()
        if self._lib.llama_state_seq_get_data(self._context, data, size, slot.number) == size:
            while len(self._shared) >= SHARED_MOST:
                del self._shared[next(iter(self._shared))]
            self._shared[job.shared] = data
        else:
            job.shared = ()

    def _take_shared(self) -> None:
        for slot in self._slots:
            job = slot.job
            if job is None or len(slot.past) >= len(job.shared) or (data := self._shared.get(job.shared)) is None:
                continue
            prompt = [*slot.past, *job.left]
            self._forget_from(slot, 0)
            if self._lib.llama_state_seq_set_data(self._context, data, len(data), slot.number):
                slot.past = list(job.shared)
            else:
                self._forget_from(slot, 0)
                job.shared = ()
            job.left = prompt[len(slot.past) :]

    def _forget_from(self, slot: _Slot, place: int) -> None:
        """Not every kind of model can forget its last tokens alone."""
        if not self._lib.llama_memory_seq_rm(self._memory, slot.number, place, -1):
            self._lib.llama_memory_seq_rm(self._memory, slot.number, -1, -1)
            place = 0
        del slot.past[place:]

    @staticmethod
    def _job(slot: _Slot) -> _Job:
        assert slot.job is not None
        return slot.job


def _common(past: Sequence[int], prompt: Sequence[int]) -> int:
    """Tokens at the beginning of both."""
    return next((n for n, (a, b) in enumerate(zip(past, prompt, strict=False)) if a != b), min(len(past), len(prompt)))
