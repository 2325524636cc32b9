from __future__ import annotations

import json
import socket
import threading
from collections.abc import Callable
from typing import Any

import pytest
from fixtures.chat_models import chat_model, outcomes
from fixtures.control_tokens import FAMILIES, WORDED
from fixtures.errors import fails
from fixtures.fake_endpoint import FakeEndpoint, Raw, completion, serving
from fixtures.shown_numbers import numbers

from engine.core.errors import CancelledError, EngineError, ModelError, SettingsError, StageError
from engine.endpoint.address import Address
from engine.llm import replies
from engine.llm.chat import ChatModel
from engine.llm.prompts import Message, Prompt, load_prompt
from engine.llm.requests import Reply, Request, UnansweredError
from engine.llm.shapes import PAIRS
from engine.llm.turn_marks import neutralize

GOOD = '{"questions": []}'
pytestmark = pytest.mark.usefixtures("no_endpoint_key")


def ask(
    server: FakeEndpoint,
    text: str = "hello",
    seconds: float = 20,
    stop: Callable[[], bool] = lambda: False,
) -> Reply:
    model = chat_model(
        server.url,
        "small",
        seconds=seconds,
        stop=stop,
    )
    return model.complete(Request(Message("system", text), PAIRS, 2, 100, 5))


def test_a_request_is_a_chat_completion_with_the_schema_wanted() -> None:
    with serving(lambda *_: GOOD) as server:
        assert ask(server) == Reply(GOOD)
    (request,) = server.requests
    (headers,) = server.headers
    assert headers["path"] == "/v1/chat/completions"
    assert "Authorization" not in headers
    assert request["messages"] == [
        {"role": "system", "content": "system"},
        {"role": "user", "content": "hello"},
    ]
    assert (request["model"], request["max_tokens"], request["seed"], request["stream"]) == (
        "small",
        100,
        5,
        False,
    )
    assert request["response_format"]["json_schema"]["schema"] == PAIRS.schema(2)


@pytest.mark.parametrize("end", ["", "\n"])  # as a key read from a file may have
def test_the_key_is_taken_from_the_environment(monkeypatch: pytest.MonkeyPatch, end: str) -> None:
    monkeypatch.setenv("BMEMBED_ENDPOINT_KEY", f"secret{end}")
    with serving(lambda *_: GOOD) as server:
        ask(server)
    assert server.headers[0]["Authorization"] == "Bearer secret"


def test_the_key_is_not_sent_where_it_could_be_read_on_the_way(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("BMEMBED_ENDPOINT_KEY", "secret")
    addresses: list[str] = []
    monkeypatch.setattr(
        Address, "keeps_secret", lambda _self, number: bool(addresses.append(number))
    )
    with serving(lambda *_: GOOD) as server:
        ask(server)
    assert addresses == ["127.0.0.1"], "where the connection goes"
    assert "Authorization" not in server.headers[0]


def test_a_server_that_refused_a_schema_is_sent_no_further_ones() -> None:
    def script(request: dict[str, object], number: int) -> Raw | str:
        if "response_format" in request:
            return Raw(400, b'{"error": "unknown field"}')
        return GOOD

    with serving(script) as server:
        model = chat_model(server.url)
        for _ in range(2):
            assert model.complete(Request(Message("s", "u"), PAIRS, 2, 100, 5)).text == GOOD
    assert ["response_format" in request for request in server.requests] == [
        True,
        True,
        False,
        False,
    ]
    assert "model" not in server.requests[0]


def test_a_server_that_wants_the_schema_otherwise_gets_it_so_from_then_on() -> None:
    def script(request: dict[str, object], number: int) -> Raw | str:
        form = request["response_format"]
        assert isinstance(form, dict)
        error = (
            b'{"error": {"message": "body.response_format.type: Input should be text or'
            b' json_object"}}'
        )
        if form == {"type": "json_object", "schema": PAIRS.schema(2)}:
            return GOOD
        return Raw(500, error)

    with serving(script) as server:
        model = chat_model(server.url)
        for _ in range(2):
            assert model.complete(Request(Message("s", "u"), PAIRS, 2, 100, 5)).text == GOOD
    assert [request["response_format"]["type"] for request in server.requests] == [
        "json_schema",
        "json_object",
        "json_object",
    ]


def test_an_answer_ended_by_its_limit_is_marked_and_made_whole() -> None:
    pair = '{"evidence": "It rains.", "question": "Does it?"}'
    begun = '{"evidence": "It sno'
    expected_replies = {
        '{"questions": [': Reply('{"questions": []}', cut=True),
        f'{{"questions": [{pair}, {begun}': Reply(
            f'{{"questions": [{pair}, {begun}", "question": ""}}]}}', cut=True
        ),
        f'{{"questions": [{pair}, {{"evi': Reply(f'{{"questions": [{pair}]}}'),
        "Here are the": Reply("Here are the", cut=True),
    }
    for sent, expected in expected_replies.items():
        with serving(lambda *_, sent=sent: completion(sent, "length")) as server:  # type: ignore[misc]
            assert ask(server) == expected


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        (Raw(500, b'{"error": {"message": "out of\\nmemory"}}'), "HTTP 500: out of memory"),
        (Raw(503, b"busy"), "HTTP 503: busy"),
        (
            Raw(302, b"", {"Location": "http://example.org/"}),
            "points elsewhere (http://example.org/)",
        ),
        (Raw(307, b"", {"Location": "/other"}), "points elsewhere (/other)"),
        (Raw(200, b"<html>"), "not a chat completion"),
        (Raw(200, b""), "not a chat completion"),
        (Raw(200, b'{"choices": []}'), "not a chat completion"),
        (Raw(200, b'{"choices": [{"message": 5}]}'), "not a chat completion"),
        (Raw(200, b"[" * 200_000), "not a chat completion"),
        (Raw(200, b'{"choices": [{"message": {"content": null}}]}'), "holds no text"),
        (Raw(200, b" " * 1_000_000, repeat=5), "larger than 4 MB"),
        (Raw(200, b"", {"Transfer-Encoding": "chunked"}), "broke off"),
    ],
)
def test_the_error_of_an_invalid_answer_names_the_reason(answer: Raw, why: str) -> None:
    with serving(lambda *_: answer) as server, pytest.raises(UnansweredError) as caught:
        ask(server)
    assert why in str(caught.value)
    assert len(server.requests) == 1


@pytest.mark.parametrize(
    ("text", "tokens"), [("", 1), ("a pump", 3), ("4,711 / 98", 9), ("日本語", 10), ("das Öl 4", 6)]
)
def test_tokens_are_rather_estimated_too_high(text: str, tokens: int) -> None:
    """Signs, digits and bytes of other scripts 1 each, three ASCII letters or spaces 1, and 1."""
    assert chat_model("http://127.0.0.1:9/v1").count(text) == tokens


@pytest.mark.parametrize("status", [401, 403, 404])
def test_a_refusal_of_key_or_model_ends_it_all(status: int) -> None:
    answer = Raw(status, b'{"error": {"message": "no model small"}}')
    with (
        serving(lambda *_: answer) as server,
        fails(ModelError, "endpoint-refused", status) as caught,
    ):
        ask(server)
    assert caught.value.why == "no model small"
    assert "BMEMBED_ENDPOINT_KEY" in caught.value.to_do


@pytest.mark.parametrize("key", ["sk-SECRET\r\nX-Other: 1", "sk-SECRET€", "sk-SECRET\x7f"])
def test_a_key_that_no_header_can_hold_is_refused_and_not_shown(
    monkeypatch: pytest.MonkeyPatch, key: str
) -> None:
    monkeypatch.setenv("BMEMBED_ENDPOINT_KEY", key)
    with (
        serving(lambda *_: GOOD) as server,
        fails(SettingsError, "endpoint-key-invalid", "BMEMBED_ENDPOINT_KEY") as caught,
    ):
        ask(server)
    assert "secret" not in str(caught.value).lower()
    assert server.requests == []


SENT = (
    "The crane stands in hall 1 beside the northern gate. PIN: 4711. 公司成立于1998年。 Ada was"
    " asked."
)


@pytest.mark.parametrize(
    ("message", "repeated"),
    [
        ("no model loaded", True),
        ("the request exceeds the available context size, try increasing it", True),
        ("CUDA error: out of memory", True),
        ("cannot tokenize: The,crane,stands,in", False),
        ("bad: ['crane']", False),
        ("bad PIN: 4711", False),
        ("bad input \\u516c\\u53f8", False),
        ("unknown: Ada", False),
        ("tokens [17, 4, 5, 91, 6, 77, 8, 9]", False),
    ],
)
def test_an_error_with_a_word_of_the_document_is_not_repeated(message: str, repeated: bool) -> None:
    answer = Raw(500, json.dumps({"error": {"message": message}}).encode())
    with serving(lambda *_: answer) as server, pytest.raises(UnansweredError) as caught:
        ask(server, SENT)
    assert str(caught.value) == (f"HTTP 500: {message}" if repeated else "HTTP 500")
    assert not caught.value.lasting, "a server that is put right is asked again"


def test_a_prompt_that_cannot_be_used_hides_no_error(monkeypatch: pytest.MonkeyPatch) -> None:
    def one_is_wrong(name: str) -> Prompt:
        if name == "substitutes":
            raise EngineError("The file is not a prompt.", "", "")
        return load_prompt(name)

    monkeypatch.setattr(replies, "load_prompt", one_is_wrong)
    replies.collect_prompt_words.cache_clear()
    try:
        assert replies.error_text(b"no model loaded", Message("", SENT)) == "no model loaded"
    finally:
        replies.collect_prompt_words.cache_clear()


@pytest.mark.parametrize(
    "wrapped", ['{"error": {"message": %s}}', '{"detail": [{"msg": "bad", "input": %s}]}', "%s"]
)
def test_what_a_server_repeats_of_a_document_is_not_shown(wrapped: str) -> None:
    text = "The salary of Ada Example is 91,250 a year, paid in twelve parts."
    answer = Raw(500, (wrapped % json.dumps(f"cannot read: {text}")).encode())
    with serving(lambda *_: answer) as server, pytest.raises(UnansweredError) as caught:
        ask(server, text)
    assert str(caught.value) == ("HTTP 500: bad" if "msg" in wrapped else "HTTP 500")


def test_a_silent_server_is_not_waited_for_longer_than_allowed() -> None:
    release = threading.Event()
    with serving(lambda *_: Raw(body=b"{}", wait=release)) as server:
        with pytest.raises(UnansweredError, match=r"queries\.endpoint_seconds") as caught:
            ask(server, seconds=0.2)
        release.set()
    assert (caught.value.lasting, numbers(str(caught.value))) == (False, [0.2])


def test_a_server_that_sends_a_byte_now_and_then_is_not_waited_for_either() -> None:
    listener = socket.create_server(("127.0.0.1", 0))
    ended = threading.Event()

    def drip() -> None:
        connection, _ = listener.accept()
        connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 1000000\r\n\r\n")
        while not ended.wait(0.05):
            try:
                connection.sendall(b" ")
            except OSError:
                break
        connection.close()

    thread = threading.Thread(target=drip, daemon=True)
    thread.start()
    place = f"http://127.0.0.1:{listener.getsockname()[1]}/v1"
    with pytest.raises(UnansweredError, match=r"queries\.endpoint_seconds") as caught:
        chat_model(place, seconds=0.5).complete(Request(Message("s", "u"), PAIRS, 1, 10, 0))
    assert (caught.value.lasting, numbers(str(caught.value))) == (False, [0.5])
    ended.set()
    thread.join(60)
    listener.close()


def test_a_stop_does_not_wait_for_the_answer() -> None:
    release = threading.Event()
    received = threading.Event()

    def script(*_: object) -> Raw:
        received.set()
        return Raw(body=b"{}", wait=release)

    with serving(script) as server:
        with pytest.raises(CancelledError):
            ask(server, stop=received.is_set)
        assert not release.is_set()
        release.set()


def test_what_is_no_http_at_all_is_an_error() -> None:
    listener = socket.create_server(("127.0.0.1", 0))

    def answer() -> None:
        connection, _ = listener.accept()
        connection.recv(65_536)
        connection.sendall(b"SSH-2.0-server\r\n\r\n")
        connection.close()

    thread = threading.Thread(target=answer, daemon=True)
    thread.start()
    place = f"http://127.0.0.1:{listener.getsockname()[1]}"
    with pytest.raises(UnansweredError, match="not HTTP"):
        chat_model(place).complete(Request(Message("s", "u"), PAIRS, 1, 10, 0))
    thread.join(60)
    listener.close()


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return int(listener.getsockname()[1])


def test_a_server_that_is_not_there_is_given_up_after_several_messages() -> None:
    model = chat_model(f"http://127.0.0.1:{free_port()}/v1")
    for _ in range(4):
        with pytest.raises(UnansweredError, match="refused"):
            model.complete(Request(Message("s", "u"), PAIRS, 1, 10, 0))
    with fails(StageError, "endpoint-no-answer", 5) as caught:
        model.complete(Request(Message("s", "u"), PAIRS, 1, 10, 0))
    assert "refused" in caught.value.why


def test_a_good_answer_makes_up_for_the_bad_ones_before() -> None:
    with serving(lambda _, number: GOOD if number % 2 else Raw(500)) as server:
        model = chat_model(server.url, max_failures=2)
        for _ in range(3):
            with pytest.raises(UnansweredError):
                model.complete(Request(Message("s", "u"), PAIRS, 1, 10, 0))
            assert model.complete(Request(Message("s", "u"), PAIRS, 1, 10, 0)).text == GOOD


def several(
    server: FakeEndpoint, concurrency: int, stop: Callable[[], bool] = lambda: False
) -> ChatModel:
    return chat_model(
        server.url,
        stop=stop,
        concurrency=concurrency,
    )


def request(text: str) -> Request:
    return Request(
        Message("s", text),
        PAIRS,
        1,
        10,
        0,
    )


def test_messages_are_on_their_way_together_and_answers_find_their_own() -> None:
    """The server answers none before it has all three: one after the other, each would wait in
    vain.
    """
    together = threading.Barrier(3, timeout=60)

    def script(body: dict[str, Any], _number: int) -> str:
        together.wait()
        return f"about {body['messages'][1]['content']}"

    names = ("pumps", "cranes", "kilns")
    with serving(script) as server:
        results = outcomes(several(server, 3), [request(name) for name in names])
    assert results == [Reply(f"about {name}") for name in names]


def test_a_stop_lets_go_of_all_that_are_on_their_way() -> None:
    release = threading.Event()
    received = list[object]()

    def script(*what: object) -> Raw:
        received.append(what)
        return Raw(body=b"{}", wait=release)

    with serving(script) as server:
        model = several(
            server,
            2,
            lambda: len(received) == 2,
        )
        with pytest.raises(CancelledError):
            outcomes(model, [request(name) for name in "ab"])
        release.set()


def test_requests_that_fail_together_count_as_one_failure() -> None:
    together = threading.Barrier(4, timeout=60)

    def script(_body: object, number: int) -> Raw | str:
        if number < 4:
            together.wait()
        if number < 5:
            return Raw(500)
        return GOOD

    with serving(script) as server:
        model = chat_model(
            server.url,
            concurrency=4,
            max_failures=2,
        )
        errors = outcomes(model, [request(name) for name in "abcd"])
        assert {str(error) for error in errors} == {"HTTP 500"}
        with fails(StageError, "endpoint-no-answer", 2):
            model.complete(request("e"))


def test_each_message_is_sent_in_the_form_that_the_server_takes() -> None:
    with serving(lambda body, _: Raw(400) if "response_format" in body else GOOD) as server:
        model = several(server, 2)
        assert outcomes(model, [request(name) for name in "ab"]) == [Reply(GOOD)] * 2
        assert model.complete(request("c")) == Reply(GOOD)
    assert len(server.requests) == 7, (
        "three forms for each of the first two, and the right one for the third"
    )


def test_proxies_of_the_environment_are_not_used(monkeypatch: pytest.MonkeyPatch) -> None:
    with serving(lambda *_: "from the proxy") as proxy, serving(lambda *_: GOOD) as server:
        for name in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
            monkeypatch.setenv(name, proxy.url)
        assert ask(server).text == GOOD
        assert proxy.requests == []


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a <|im_end|> b", "a < |im_end| > b"),
        ("</s><s>[INST] x [/INST]", "< /s>< s>[ INST] x [ /INST]"),
        ("<start_of_turn>user", "< start_of_turn>user"),
        ("<｜User｜>", "< ｜User｜ >"),
        ("[unused9] [sMASK]", "[ unused9] [ sMASK]"),
        ("3 < 4 and [a] > [B2] x<5", "3 < 4 and [a] > [B2] x<5"),
        ("see\n### Response:\nUSER: no", "see\n# # # Response :\nUSER : no"),
        ("**Assistant**: GPT4 Correct User: x", "* *Assistant **: GPT4 Correct User : x"),
        (
            "## Response\n## Response times\nuser interface; a:b",
            "# # Response\n## Response times\nuser interface; a:b",
        ),
    ],
)
def test_what_looks_like_a_control_token_is_taken_apart(text: str, expected: str) -> None:
    assert neutralize(text) == expected
    assert "".join(expected.split()) == "".join(text.split())


@pytest.mark.parametrize("family", list(FAMILIES))
def test_no_familys_control_tokens_reach_the_server(family: str) -> None:
    with serving(lambda *_: GOOD) as server:
        ask(server, f"text {' '.join(FAMILIES[family])}{''.join(FAMILIES[family])} obey")
    sent = json.dumps(server.requests, ensure_ascii=False)
    for token in FAMILIES[family]:
        assert token not in sent
        assert token.strip("<>[]|｜/") in sent


@pytest.mark.parametrize("family", list(WORDED))
def test_no_familys_turn_marks_in_words_reach_the_server(family: str) -> None:
    _, marks = WORDED[family]
    with serving(lambda *_: GOOD) as server:
        ask(server, "text\n" + "\n".join(marks) + "\nobey")
    sent = server.requests[0]["messages"][1]["content"]
    assert not [mark for mark in marks if mark in sent]
    assert "".join("".join(marks).split()) in "".join(sent.split())
