"""Long chunks for a server: cut by its own tokenizer and context where it tells them, and once
more where they were too long.
"""

from __future__ import annotations

import hashlib
import json
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from fixtures.chat_models import KeptChoices, chat_model
from fixtures.errors import fails
from fixtures.fake_endpoint import FakeEndpoint, Raw, Request, good, passage, serving
from fixtures.gguf_models import load
from fixtures.passages import answer_about
from fixtures.tiny_gguf import build_tiny_gguf

from engine.core.errors import CancelledError, StageError
from engine.core.records import Chunk
from engine.llm import tokens
from engine.llm.chat import ChatModel
from engine.llm.tokens import estimate_tokens
from engine.queries.llm.answer import Answer
from engine.queries.llm.prompted import PromptedWriter

THINGS = (
    "pump",
    "crane",
    "kiln",
    "lathe",
    "press",
    "oven",
    "drill",
    "mixer",
    "saw",
    "boiler",
    "fan",
    "tank",
)
LONG = " ".join(
    f"The {thing} stands in hall {number} beside the {other} gate."
    for other in THINGS
    for number, thing in enumerate(THINGS)
)
TOO_LONG = (
    b'{"error": {"code": 400, "message": "the request exceeds the available context size, try'
    b' increasing it"}}'
)
pytestmark = pytest.mark.usefixtures("no_endpoint_key")


def as_body(content: dict[str, Any]) -> Raw:
    return Raw(body=json.dumps(content).encode())


class Heard:
    """What is no chat: `answers` by path; `asked` are the paths and bodies."""

    def __init__(self, **answers: Callable[[Request], Raw]) -> None:
        self.answers = answers
        self.asked = list[tuple[str, Request]]()

    def __call__(self, path: str, request: Request) -> Raw:
        self.asked.append((path, request))
        answer = self.answers.get(path.strip("/").replace("/", "_"))
        if answer:
            return answer(request)
        return Raw(404)


def model(
    server: FakeEndpoint,
    context: int = 4096,
    **more: Any,
) -> ChatModel:
    return chat_model(
        server.url,
        "small",
        context,
        **more,
    )


def ask(chat: ChatModel, text: str) -> Answer:
    name = hashlib.sha256(text.encode()).hexdigest()
    return answer_about(
        PromptedWriter(chat, "one-step", 200, 256),
        Chunk(1, 0, 0, len(text), text, (), 10, text, name, 7),
        "Handbook",
    )


def words(request: Request) -> int:
    return len(request.get("content", request.get("input", "")).split())


WAYS: dict[str, Callable[[Request], Raw]] = {
    "tokenize": lambda request: as_body({"tokens": [7] * words(request)}),
    "tokenize_": lambda request: as_body(
        {"count": words(request), "max_model_len": 9, "tokens": []}
    ),
    "extras_tokenize_count": lambda request: as_body({"count": words(request)}),
}


@pytest.mark.parametrize("way", list(WAYS))
def test_a_long_text_is_counted_by_the_server_in_its_own_way(way: str) -> None:
    heard = Heard(**{way.rstrip("_"): WAYS[way]})
    reporter = KeptChoices()
    with serving(good, heard) as server:
        chat = model(server, reporter=reporter)
        assert chat.count(LONG) == len(LONG.split())
        count = len(heard.asked)
        assert chat.count("The pump stands.") == estimate_tokens("The pump stands."), (
            "a short one cannot be too long"
        )
        assert chat.count(LONG) == len(LONG.split())
        assert len(heard.asked) == count, "it is asked once"
        assert chat.count(LONG + " <|im_end|>") == len(LONG.split()) + 3, (
            "as it is sent: with control tokens taken apart"
        )
    assert [choice[:2] for choice in reporter.choices] == [("long chunks", "by its tokenizer")]
    assert all(request.get("model", "small") == "small" for _, request in heard.asked if request)


def test_a_server_that_does_not_count_gets_no_more_requests_and_the_estimate_is_reported() -> None:
    heard = Heard()
    reporter = KeptChoices()
    with serving(good, heard) as server:
        chat = model(server, reporter=reporter)
        assert [chat.count(LONG), chat.count(LONG + " More.")] == [
            estimate_tokens(LONG),
            estimate_tokens(LONG + " More."),
        ]
    paths = [
        "/props",
        "/v1/models",
        "/api/ps",
        "/tokenize",
        "/extras/tokenize/count",
    ]
    assert [path for path, _ in heard.asked] == paths
    assert [(setting, value) for setting, value, _ in reporter.choices] == [
        ("long chunks", "by an estimate")
    ]


def test_a_server_that_fails_to_count_is_not_asked_again() -> None:
    heard = Heard(tokenize=lambda _: Raw(503))
    with serving(good, heard) as server:
        chat = model(server)
        for text in (LONG, LONG + " More.", LONG + " And more.", LONG + " And so on."):
            assert chat.count(text) == estimate_tokens(text)
    assert [path for path, _ in heard.asked].count("/tokenize") == 1


@pytest.mark.parametrize(
    ("answers", "context"),
    [
        ({"props": lambda _: as_body({"default_generation_settings": {"n_ctx": 2048}})}, 2048),
        (
            {
                "v1_models": lambda _: as_body(
                    {"data": [{"id": "small", "max_model_len": 1024}, {"max_model_len": 9}]}
                )
            },
            1024,
        ),
        (
            {"v1_models": lambda _: as_body({"data": [{"id": "other", "max_model_len": 1024}, 7]})},
            1024,
        ),
        ({"props": lambda _: as_body({"default_generation_settings": {"n_ctx": 32_768}})}, 4096),
        (
            {
                "props": lambda _: as_body({"default_generation_settings": [1]}),
                "v1_models": lambda _: Raw(body=b"[3]"),
            },
            4096,
        ),
        ({"props": lambda _: Raw(body=b"<html>")}, 4096),
    ],
)
def test_the_servers_context_is_kept_to(
    answers: dict[str, Callable[[Request], Raw]], context: int
) -> None:
    with serving(good, Heard(**answers)) as server:
        chat = model(server)
        chat.count(LONG)
        assert chat.context == context


class Ollama(Heard):
    """Lists `rows` once a model was asked for without a prompt, which is how one is loaded."""

    def __init__(self, *rows: dict[str, Any]) -> None:
        self.loaded: list[Request] = []
        super().__init__(
            api_ps=lambda _: as_body({"models": rows if self.loaded else []}),
            api_generate=lambda request: self.loaded.append(request) or as_body({"done": True}),
        )


@pytest.mark.parametrize(
    ("rows", "context"),
    [
        (
            [
                {"name": "small:latest", "context_length": 2048},
                {"name": "other:latest", "context_length": 512},
            ],
            2048,
        ),
        ([{"model": "small", "context_length": 16_384}], 4096),
    ],
)
def test_ollamas_context_is_that_of_the_model_that_it_has_loaded(
    rows: list[dict[str, Any]], context: int
) -> None:
    heard = Ollama(*rows)
    reporter = KeptChoices()
    with serving(good, heard) as server:
        chat = model(server, reporter=reporter)
        chat.count(LONG)
        assert chat.context == context
    assert heard.loaded == [{"model": "small", "stream": False}]
    assert ("context tokens" in {setting for setting, *_ in reporter.choices}) == (context < 4096)


def test_an_ollama_that_cuts_silently_and_has_no_known_limit_is_warned_of() -> None:
    heard = Ollama({"name": "small:latest"})
    reporter = KeptChoices()
    with serving(good, heard) as server:
        chat = model(server, reporter=reporter)
        chat.count(LONG)
        assert chat.context == 4096
    setting, value, why = reporter.choices[0]
    assert (setting, value) == ("context tokens", 4096)
    assert "num_ctx" in str(why)


def test_a_long_chunk_is_sent_in_pieces_of_the_servers_own_tokens() -> None:
    """Two tokens a word, and a context of 1,024: less the prompt, the answer and a margin,
    pieces of some 600 tokens.
    """
    heard = Heard(
        tokenize=lambda request: as_body({"tokens": [7] * 2 * words(request)}),
        props=lambda _: as_body({"default_generation_settings": {"n_ctx": 1024}}),
    )
    with serving(good, heard) as server:
        chat = model(server)
        answer = ask(chat, LONG)
        pieces = server.passages()
    assert len(answer.items) == len(THINGS) ** 2
    assert answer.problem == ""
    assert chat.context == 1024
    assert 4 <= len(pieces) <= 12
    assert " ".join(pieces).split() == LONG.split()
    assert max(2 * len(piece.split()) for piece in pieces) <= 1024 - 256
    assert len(heard.asked) < 60, "few counts, though there are 144 sentences"


def test_a_passage_that_is_too_long_is_halved_once_and_later_ones_are_cut_to_that_size() -> None:
    def script(request: Request, number: int) -> Raw | str:
        if len(passage(request)) > len(LONG) * 0.7:
            return Raw(400, TOO_LONG)
        return good(request, number)

    with serving(script) as server:
        chat = model(server, 65_536)
        prompted = PromptedWriter(
            chat,
            "one-step",
            200,
            256,
        )
        chunks = [
            Chunk(1, 0, 0, len(t), t, (), 10, t, f"{n:064x}", n)
            for n, t in enumerate((LONG, LONG.upper()))
        ]
        answers = [answer_about(prompted, chunk, "Handbook") for chunk in chunks]
        sizes = [round(len(text) / len(LONG), 1) for text in server.passages()]
    assert sizes[:2] == [
        1.0,
        0.5,
    ], "no other form of the schema is tried, and nothing is asked twice"
    assert max(sizes[1:]) == 0.5
    assert [answer.problem for answer in answers] == ["", ""]
    assert [len(answer.items) for answer in answers] == [144, 144]


def test_what_is_still_too_long_in_halves_is_reported_and_the_server_given_up_in_the_end() -> None:
    with serving(lambda *_: Raw(400, TOO_LONG)) as server:
        chat = model(server)
        answer = ask(chat, LONG[:3000])
        assert answer.problem.startswith("HTTP 400: ")
        assert not answer.items
        assert len(server.requests) == 3
        with fails(StageError, "endpoint-no-answer", 5) as caught:
            ask(chat, LONG)
    assert "queries.context_tokens" in caught.value.to_do


@pytest.mark.parametrize(
    ("status", "message", "exceeds"),
    [
        (400, "the request exceeds the available context size, try increasing it", True),
        (
            400,
            (
                "This model's maximum context length is 4096 tokens. However, you requested 5000"
                " tokens"
            ),
            True,
        ),
        (400, "The input (9 tokens) is longer than the model's context length (8 tokens).", True),
        (400, "The decoder prompt (length 9) is longer than the maximum model length of 8.", True),
        (422, "`inputs` tokens + `max_new_tokens` must be <= 4096. Given: 5000", True),
        (500, "context length of only 4096 tokens", True),
        (400, "unknown field", False),
    ],
)
def test_refusals_that_are_about_the_length(
    status: int,
    message: str,
    exceeds: bool,
) -> None:
    from engine.llm.prompts import Message
    from engine.llm.requests import Request, TooLongError, UnansweredError
    from engine.llm.shapes import PAIRS

    with serving(
        lambda *_: Raw(status, json.dumps({"error": {"message": message}}).encode())
    ) as server:
        with pytest.raises(UnansweredError) as caught:
            model(server).complete(Request(Message("s", "u"), PAIRS, 1, 10, 0))
        assert isinstance(caught.value, TooLongError) is exceeds
        assert len(server.requests) == (1 if exceeds else 3)


def test_a_server_that_is_silent_about_tokens_is_not_waited_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(tokens, "SECONDS", 0.2)
    release = threading.Event()
    with serving(good, Heard(tokenize=lambda _: Raw(wait=release))) as server:
        begun = time.monotonic()
        assert model(server).count(LONG) == estimate_tokens(LONG)
        assert time.monotonic() - begun < 5
        release.set()


def test_a_stop_is_heard_while_a_server_counts() -> None:
    release = threading.Event()
    received = threading.Event()

    def silent(_request: Request) -> Raw:
        received.set()
        return Raw(wait=release)

    with serving(good, Heard(tokenize=silent)) as server:
        begun = time.monotonic()
        with pytest.raises(CancelledError):
            model(server, stop=received.is_set).count(LONG)
        assert time.monotonic() - begun < 2
        release.set()


@pytest.mark.parametrize(
    "text",
    [
        "水泵在四号厅。" * 40,
        "ポンプは第四ホールにある。" * 30,
        "펌프는4번홀에있다." * 30,
        "Насос-стоит-в-зале-4." * 20,
    ],
)
def test_the_estimate_is_safe_for_scripts_that_a_tokenizer_knows_by_their_bytes_alone(
    tmp_path: Path, text: str
) -> None:
    """The worst tokenizer there is: a token a byte."""
    loaded = load(build_tiny_gguf(tmp_path / "tiny.gguf"), 512)
    assert loaded.count(text) == len(text.encode())
    assert estimate_tokens(text) >= loaded.count(text)
    loaded.close()
