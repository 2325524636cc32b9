"""What a hostile client can do to the listener: be refused, and keep nobody else waiting."""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator

import pytest
from fixtures.errors import fails
from fixtures.local_api import BEARER, TOKEN, asked, listening, sent, status_and_code

from engine.assistants.http.listener import Answer, Listener, Request, loopback_address
from engine.core.errors import UsageError


def echo(request: Request) -> Answer:
    return Answer(200, [request.method, request.path, len(request.body)])


@pytest.fixture(scope="module")
def server() -> Iterator[Listener]:
    with listening(echo) as found:
        yield found


def head(
    server: Listener,
    *lines: str,
    first: str = "POST /x HTTP/1.1",
) -> bytes:
    """A request's head, with Host and token, and these lines besides."""
    ours = [f"Host: 127.0.0.1:{server.port}", f"Authorization: Bearer {TOKEN}"]
    return "\r\n".join([first, *ours, *lines, "", ""]).encode("latin-1")


def test_requests_are_answered(server: Listener) -> None:
    assert asked(server, "GET", "/a?b=%20c") == (200, ["GET", "/a", 0])
    assert asked(server, "POST", "/", b"x" * 1_000_000) == (200, ["POST", "/", 1_000_000])


@pytest.mark.parametrize(
    ("lines", "status", "code"),
    [
        (["Transfer-Encoding: chunked", "Content-Length: 4"], 411, "length-missing"),
        (["Transfer-Encoding: chunked"], 411, "length-missing"),
        (["Transfer-Encoding: chunked, identity"], 501, "request-malformed"),
        (["Transfer-Encoding : chunked"], 400, "request-malformed"),
        (["Content-Length: 4", "Content-Length: 5"], 400, "request-malformed"),
        (["Content-Length: 4, 5"], 400, "request-malformed"),
        (["Content-Length: +4"], 400, "request-malformed"),
        (["Content-Length: 0x4"], 400, "request-malformed"),
        (["Content-Length: -1"], 400, "request-malformed"),
        (["Content-Length: 16000001"], 413, "request-too-large"),
        (["Content-Length: 99999999999999999999"], 413, "request-too-large"),
        (["Content-Length: " + "9" * 5000], 400, "request-malformed"),
        (["X: a\0b"], 400, "request-malformed"),
        (["X: a\rb"], 400, "request-malformed"),
        (["X" * 30_000 + ": 1"], 431, "request-malformed"),
        ([f"X{number}: 1" for number in range(5_000)], 431, "request-malformed"),
        (["Host: evil.example"], 400, "request-malformed"),
        (["Origin: http://evil.example"], 403, "origin-foreign"),
        (["Origin: null"], 403, "origin-foreign"),
        (["Origin: http://127.0.0.1"], 403, "origin-foreign"),
        (["Authorization: Bearer other"], 401, "token-wrong"),
    ],
)
def test_a_hostile_head_is_refused(
    server: Listener, lines: list[str], status: int, code: str
) -> None:
    smuggled = b"GET /smuggled HTTP/1.1\r\n\r\n"
    answer = sent(server, head(server, *lines) + b"0\r\n\r\n" + smuggled)
    assert status_and_code(answer) == (status, code)
    assert answer.count(b"HTTP/1.1 ") == 1
    assert asked(server, "GET", "/")[0] == 200


@pytest.mark.parametrize(
    ("data", "status", "code"),
    [
        (b"\x16\x03\x01\x02\x00\x01\x00", 400, "request-malformed"),  # TLS
        (b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 421, "host-foreign"),
        (b"GET / HTTP/1.1\r\n\r\n", 400, "request-malformed"),
        (b"GET / HTTP/1.0\r\n\r\n", 421, "host-foreign"),
        (b"GET / HTTP/1.1\r\nHost: evil.example\r\n\r\n", 421, "host-foreign"),
        (b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n", 421, "host-foreign"),
        (b"GET / HTTP/1.1\r\nHost: 127.0.0.1:PORT@evil.example\r\n\r\n", 421, "host-foreign"),
        (b"GET / HTTP/1.1\r\nHost: 127.0.0.1:PORT\r\n\r\n", 401, "token-wrong"),
        (
            b"GET / HTTP/1.1\r\nHost: 127.0.0.1:PORT\r\nAuthorization: Basic "
            + TOKEN.encode()
            + b"\r\n\r\n",
            401,
            "token-wrong",
        ),
        (
            b"GET / HTTP/1.1\r\nHost: 127.0.0.1:PORT\r\nAuthorization: Bearer\r\n\r\n",
            401,
            "token-wrong",
        ),
        (
            b"GET / HTTP/1.1\r\nHost: 127.0.0.1:PORT\r\nAuthorization: Bearer \xff\r\n\r\n",
            401,
            "token-wrong",
        ),
        (b"GET " + b"/" * 30_000 + b" HTTP/1.1\r\n\r\n", 431, "request-malformed"),
        (b"GET /\xc3\xa9 HTTP/1.1\r\n\r\n", 400, "request-malformed"),
    ],
)
def test_other_bytes_are_refused(
    server: Listener,
    data: bytes,
    status: int,
    code: str,
) -> None:
    assert status_and_code(
        sent(server, data.replace(b"PORT", str(server.port).encode()), end=True)
    ) == (status, code)
    assert asked(server, "GET", "/")[0] == 200


def test_a_target_is_a_path(server: Listener) -> None:
    for target in ("http://evil.example/", "*", "evil.example:80"):
        answer = sent(server, head(server, first=f"GET {target} HTTP/1.1"))
        assert status_and_code(answer) == (400, "request-malformed")


def test_names_of_this_machine_and_their_origins_are_let_in(server: Listener) -> None:
    for name in ("127.0.0.1", "localhost", "LOCALHOST", "[::1]"):
        host = f"{name}:{server.port}"
        headers = {
            "Host": host,
            "Origin": f"http://{host}",
            "authorization": f"bearer {TOKEN}",
        }
        assert asked(server, "GET", "/", headers=headers)[0] == 200


def test_a_connection_takes_one_request(server: Listener) -> None:
    two = head(server, "Content-Length: 3") + b"abc" + head(server, first="GET /y HTTP/1.1")
    bodies = [
        part.rpartition(b"\r\n\r\n")[2] for part in sent(server, two).split(b"HTTP/1.1 200")[1:]
    ]
    assert [json.loads(body) for body in bodies] == [["POST", "/x", 3]]


def test_a_head_request_gets_no_body_and_a_cautious_client_is_told_to_go_on(
    server: Listener,
) -> None:
    answer = sent(server, head(server, "Connection: close", first="HEAD / HTTP/1.1"))
    assert answer.endswith(b"\r\n\r\n")
    assert b"\r\nContent-Length: 16\r\n" in answer
    cautious = head(
        server,
        "Content-Length: 2",
        "Expect: 100-continue",
        "Connection: close",
    )
    assert sent(server, cautious + b"ab").startswith(b"HTTP/1.1 100 ")


@pytest.mark.parametrize(
    ("lines", "status"),
    [
        (["Origin: null"], 403),
        (["Authorization: Bearer other"], 401),
        (["Content-Length: 16000001"], 413),
    ],
)
def test_a_head_request_that_is_refused_gets_the_head_of_the_answer(
    server: Listener, lines: list[str], status: int
) -> None:
    top, _, body = sent(server, head(server, *lines, first="HEAD / HTTP/1.1")).partition(
        b"\r\n\r\n"
    )
    assert (int(top.split()[1]), body) == (status, b"")


def test_no_page_may_keep_or_sniff_an_answer(server: Listener) -> None:
    lines = sent(server, head(server, "Connection: close")).lower().split(b"\r\n")
    assert {b"cache-control: no-store", b"x-content-type-options: nosniff"} <= {*lines}
    assert not any(line.startswith(b"access-control-") for line in lines)


@pytest.mark.parametrize(
    ("part", "status"), [("", 0), ("GET / HT", 408), ("HEAD", 408), ("BODY", 408)]
)
def test_a_slow_client_is_not_waited_for(part: str, status: int) -> None:
    with listening(echo, head_seconds=0.3, body_seconds=0.3, max_connections=1) as server:
        begun = {
            "HEAD": head(server)[:-2],
            "BODY": head(server, "Content-Length: 9") + b"half",
        }.get(part, part.encode())
        with socket.create_connection(("127.0.0.1", server.port), 30) as slow:
            slow.sendall(begun)
            assert asked(server, "GET", "/")[0] == 200  # it waits for the only place
            answer = b"".join(iter(lambda: slow.recv(65_536), b""))
        assert (status_and_code(answer) if answer else (0, "")) == (
            status,
            "request-too-slow" if status else "",
        )


def test_a_client_that_goes_away_harms_nobody(server: Listener) -> None:
    for data in (b"", b"GET", head(server), head(server, "Content-Length: 100") + b"x"):
        socket.create_connection(("127.0.0.1", server.port)).close()
        with socket.create_connection(("127.0.0.1", server.port)) as client:
            client.sendall(data)
    assert asked(server, "GET", "/", headers={**BEARER, "X": "y"})[0] == 200


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("127.0.0.1:0", ("127.0.0.1", 0)),
        ("localhost:8765", ("127.0.0.1", 8765)),
        ("[::1]:65535", ("::1", 65535)),
        ("127.9.9.9:1", ("127.9.9.9", 1)),
    ],
)
def test_loopback_addresses(text: str, address: tuple[str, int]) -> None:
    assert loopback_address(text) == address


@pytest.mark.parametrize(
    "text", ["0.0.0.0:80", "192.168.1.1:80", "[::]:80", "8.8.8.8:1", "[::ffff:10.0.0.1]:1"]
)
def test_other_machines_are_not_served(text: str) -> None:
    with fails(UsageError, "address-not-loopback"):
        loopback_address(text)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "8765",
        "127.0.0.1",
        "127.0.0.1:",
        "127.0.0.1:70000",
        "127.0.0.1:+1",
        "127.0.0.1:٣",
        "example.org:80",
        "127.1:80",
        "127.0.0.1:80:80",
        "http://127.0.0.1:80",
    ],
)
def test_what_is_no_address(text: str) -> None:
    with fails(UsageError, "address-invalid"):
        loopback_address(text)


def test_a_port_in_use_is_an_error(server: Listener) -> None:
    with fails(UsageError, "port-unavailable", server.port):
        Listener(
            ("127.0.0.1", server.port),
            TOKEN,
            echo,
        )
