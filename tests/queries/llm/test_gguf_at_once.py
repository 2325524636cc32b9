"""Several answers written at once by llama.cpp: each is the one that is written alone."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from fixtures.tiny_gguf import build_tiny_gguf

from engine.core.errors import CancelledError
from engine.core.records import Chunk
from engine.queries.backend import Passage
from engine.queries.llm import gguf_sampling
from engine.queries.llm.chat_model import Reply, Request, UnansweredError
from engine.queries.llm.gguf_model import GgufModel
from engine.queries.llm.prompted import Prompted
from engine.queries.llm.prompts import Message
from engine.queries.llm.shapes import PAIRS, Shape
from engine.queries.reporter import NullReporter

SYSTEM = "Read the passage that follows and answer as you are told, with nothing but JSON."


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_tiny_gguf(tmp_path_factory.mktemp("gguf") / "tiny.gguf")


@pytest.fixture
def greedy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gguf_sampling, "TOP_K", 1)


class Told(NullReporter):
    def __init__(self) -> None:
        self.choices: dict[str, tuple[object, str]] = {}

    def choose(self, setting: str, value: object, reason: str) -> None:
        self.choices[setting] = value, reason


def load(path: Path, at_once: int, context: int = 2048) -> GgufModel:
    return GgufModel(path, context, NullReporter(), lambda: False, at_once)


class Letters(Shape):
    """Nothing but letters: a model of random weights goes on until its limit."""

    def grammar(self, most: int) -> str:
        return "root ::= [a-z ]*"


LETTERS = Letters("letters", ())


def requests(count: int) -> list[Request]:
    """Prompts and limits of many lengths, so that answers end one by one."""
    return [
        Request(Message(SYSTEM, f"What is known of pump {number}? " * (1 + number % 5)), LETTERS, 2, 20 + 17 * number, number)
        for number in range(count)
    ]  # fmt: skip


def written(model: GgufModel, wanted: list[Request]) -> tuple[list[Reply], int]:
    """The answers, and the most that were on their way at once."""
    waiting = list(enumerate(wanted))[::-1]
    open_ones: dict[int, int] = {}
    found: dict[int, Reply] = {}
    most = 0
    while waiting or open_ones:
        while waiting and len(open_ones) < model.at_once:
            number, request = waiting.pop()
            open_ones[model.submit(request)] = number
        most = max(most, len(open_ones))
        for ticket, reply in model.step():
            assert isinstance(reply, Reply)
            found[open_ones.pop(ticket)] = reply
    return [found[number] for number in range(len(wanted))], most


@pytest.fixture
def both(tiny: Path) -> Iterator[tuple[GgufModel, GgufModel]]:
    models = load(tiny, 1), load(tiny, 4)
    yield models
    for model in models:
        model.close()


def test_answers_written_at_once_are_those_written_alone(greedy: None, both: tuple[GgufModel, GgufModel]):
    alone, _ = written(both[0], requests(11))
    together, most = written(both[1], requests(11))
    assert together == alone
    assert most == 4
    assert len({reply.text for reply in alone}) > 5
    assert all(reply.seconds > 0 for reply in together)


def test_the_common_beginning_of_prompts_is_read_once(
    greedy: None, both: tuple[GgufModel, GgufModel], monkeypatch: pytest.MonkeyPatch
):
    model = both[1]
    computed = 0
    decode = model._lib.llama_decode

    def counting(context: object, batch: object) -> int:
        nonlocal computed
        computed += batch.n_tokens  # type: ignore[attr-defined]
        return int(decode(context, batch))

    monkeypatch.setattr(model._lib, "llama_decode", counting)
    wanted = requests(8)
    replies, _ = written(model, wanted)
    lengths = [model._prompt(request.message) for request in wanted]
    shared = lengths[0][1]
    assert {length for _, length in lengths} == {shared}
    assert shared > len(SYSTEM)
    answers = sum(len(reply.text.encode()) for reply in replies)  # a byte is a token
    assert computed <= shared + sum(len(tokens) - shared for tokens, _ in lengths) + answers


def test_a_prompt_too_long_leaves_the_others_alone(both: tuple[GgufModel, GgufModel]):
    model = both[1]
    ticket = model.submit(requests(1)[0])
    with pytest.raises(UnansweredError, match="more than 2048"):
        model.submit(Request(Message("s", "x" * 5000), PAIRS, 1, 100, 1))
    while not (ended := model.step()):
        pass
    assert [number for number, _ in ended] == [ticket]


def test_a_computation_that_fails_is_told_to_all_and_the_model_works_on(
    both: tuple[GgufModel, GgufModel], monkeypatch: pytest.MonkeyPatch
):
    model = both[1]
    expected, _ = written(model, requests(3))
    tickets = [model.submit(request) for request in requests(3)]
    with monkeypatch.context() as patched:
        patched.setattr(model._lib, "llama_decode", lambda *_: 1)
        outcomes = dict(model.step())
    assert list(outcomes) == tickets
    assert all("code 1" in str(outcome) for outcome in outcomes.values())
    assert written(model, requests(3))[0] == expected


def test_a_stop_ends_all_of_them_at_once(tiny: Path):
    stop = False
    model = GgufModel(tiny, 2048, NullReporter(), lambda: stop, 4)
    for request in requests(4):
        model.submit(request)
    model.step()
    stop = True
    with pytest.raises(CancelledError):
        model.step()
    stop = False
    model.drop()
    assert len(written(model, requests(2))[0]) == 2
    model.close()


def test_where_memory_is_short_fewer_are_written_at_once(tiny: Path, monkeypatch: pytest.MonkeyPatch):
    """A sequence of 2,048 tokens takes 1 MiB of the tiny model's cache."""
    import psutil

    told = Told()
    free = psutil.virtual_memory()._replace(available=1_000_000)
    monkeypatch.setattr(psutil, "virtual_memory", lambda: free)
    model = GgufModel(tiny, 2048, told, lambda: False)
    assert model.at_once == 1
    value, reason = told.choices["answers at once"]
    assert (value, reason) == (1, "a further one takes 0.00 GB of memory, 0.0 GB are free")
    model.close()


def test_the_fastest_number_is_found_out_and_told(tiny: Path, monkeypatch: pytest.MonkeyPatch):
    paces = {1: 10.0, 2: 15.0, 4: 39.0, 8: 40.0}
    told = Told()
    monkeypatch.setattr("engine.queries.llm.gguf_decoding.Decoder.pace", lambda _self, count, *_: paces[count])
    model = GgufModel(tiny, 2048, told, lambda: False)
    assert model.at_once == 4
    assert told.choices["answers at once"] == (4, "39 tokens/s, one alone 10: 3.9 times as fast")
    assert len(written(model, requests(5))[0]) == 5
    model.close()


def test_a_pace_is_measured_and_leaves_nothing_behind(both: tuple[GgufModel, GgufModel]):
    expected, _ = written(both[1], requests(2))
    assert both[1]._decoder.pace(4, 4, 0.01) > 0
    assert written(both[1], requests(2))[0] == expected


def chunk(number: int) -> Chunk:
    text = f"The pump {number} stands in hall {number}. " * (1 + number % 3)
    return Chunk(1, number, 0, len(text), text, (), 10, text, f"{number:064x}", number)


@pytest.mark.parametrize("prompt", ["one-step", "two-step"])
def test_chunks_asked_at_once_give_what_they_give_alone(greedy: None, tiny: Path, prompt: str):
    found = []
    for at_once in (1, 4):
        backend = Prompted(load(tiny, at_once, 4096), prompt, 2, 64)
        asked = (Passage(number, chunk(number), "Pumps") for number in range(9))
        answers = dict(backend.answers(asked))
        backend.close()
        assert sorted(answers) == list(range(9))
        found.append([(answers[n].items, answers[n].problem, answers[n].tokens) for n in range(9)])
    same = sum(alone == together for alone, together in zip(*found, strict=True))
    assert same >= 7, "the cache has 16 bits: now and then a near tie falls the other way, no more"
