"""Which servers text was sent to is kept before it is sent."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from fixtures.chat_models import chat_model
from fixtures.fake_endpoint import good, serving

from engine.core.platforms.users import is_private
from engine.endpoint.address import Address
from engine.endpoint.client import Client, NoAnswerError, Response
from engine.endpoint.servers import RECORD, known_servers, note_server
from engine.llm.prompts import Message
from engine.llm.requests import Request
from engine.llm.shapes import PAIRS


def send(
    url: str,
    path: str,
    body: dict[str, Any] | None,
    note: Callable[[], object],
) -> Response:
    return Client(Address.parse(url), note=note).send(
        path,
        body,
        seconds=60,
    )


def test_each_server_is_kept_once_and_for_the_user_alone(tmp_path: Path) -> None:
    for url in ("http://10.0.0.1/v1", "http://10.0.0.2/v1", "http://10.0.0.1/v1"):
        note_server(tmp_path, url)
    assert known_servers(tmp_path) == ["http://10.0.0.1/v1", "http://10.0.0.2/v1"]
    assert is_private((tmp_path / RECORD).stat())


@pytest.mark.parametrize("content", [None, b"", b"[1, ", b"{}", b"[1]", b"\xff"])
def test_a_missing_or_damaged_record_names_no_server(tmp_path: Path, content: bytes | None) -> None:
    if content is not None:
        (tmp_path / RECORD).write_bytes(content)
    assert known_servers(tmp_path) == []


def test_nothing_is_sent_where_it_cannot_be_kept() -> None:
    def full() -> None:
        raise OSError(28, "No space left on device")

    with serving(good) as server:
        with pytest.raises(NoAnswerError, match="no space left"):
            send(
                server.url,
                "/v1/chat/completions",
                {},
                full,
            )
        assert server.requests == []


def test_a_probe_or_a_missing_server_records_no_sent_text() -> None:
    told: list[str] = []
    with serving(good) as server:
        send(
            server.url,
            "/props",
            None,
            lambda: told.append("look"),
        )
    with pytest.raises(NoAnswerError):
        send(
            "http://127.0.0.1:9/v1",
            "/v1/x",
            {},
            lambda: told.append("sent"),
        )
    assert told == []


def test_a_message_is_kept_by_who_asks() -> None:
    told: list[str] = []
    with serving(lambda *_: '{"questions": []}') as server:
        model = chat_model(server.url, note=lambda: told.append("sent"))
        model.complete(Request(Message("system", "user"), PAIRS, 2, 100, 5))
    assert told
