"""Which addresses of servers are taken, and which refused."""

import socket

import pytest
from fixtures.errors import fails

from engine.core.errors import SettingsError
from engine.endpoint.address import Address, is_private
from engine.endpoint.client import Client


@pytest.mark.parametrize(
    ("number", "private"),
    [
        ("127.0.0.1", True),
        ("10.1.2.3", True),
        ("172.31.0.1", True),
        ("192.168.0.9", True),
        ("::1", True),
        ("fd00::5", True),
        ("::ffff:10.0.0.1", True),
        ("8.8.8.8", False),
        ("172.32.0.1", False),
        ("169.254.169.254", False),
        ("0.0.0.0", False),
        ("100.64.0.1", False),
        ("2001:4860:4860::8888", False),
        ("::ffff:8.8.8.8", False),
        ("fe80::1%eth0", False),
    ],
)
def test_which_numbers_are_private(number: str, private: bool) -> None:
    assert is_private(number) is private


@pytest.mark.parametrize(
    ("scheme", "number", "kept"),
    [
        ("http", "127.0.0.2", True),
        ("http", "::1", True),
        ("http", "10.0.0.1", False),
        ("http", "fe80::1%eth0", False),
        ("https", "10.0.0.1", True),
        ("https", "8.8.8.8", True),
    ],
)
def test_where_a_key_cannot_be_read_on_the_way(
    scheme: str,
    number: str,
    kept: bool,
) -> None:
    assert Address.parse(f"{scheme}://models.example/v1").keeps_secret(number) is kept


@pytest.mark.parametrize("url", ["http://8.8.8.8/v1", "https://[2001:4860:4860::8888]:8443/v1"])
def test_a_public_address_is_refused_unless_allowed(url: str) -> None:
    with fails(SettingsError, "endpoint-public") as caught:
        Address.parse(url)
    assert "queries.endpoint_allow_public" in caught.value.to_do
    assert Address.parse(url, allow_public=True).host in url


def test_a_name_is_judged_by_where_it_leads(monkeypatch: pytest.MonkeyPatch) -> None:
    def resolve(*_: object, **__: object) -> list[object]:
        return [(2, 1, 6, "", (number, 80)) for number in ("127.0.0.1", "93.184.216.34")]

    def connect(client: socket.socket, address: tuple[str, int]) -> None:
        """Fail; on Windows an event loop connects to another port of this machine for itself."""
        assert address[1] != 80
        real_connect(client, address)

    real_connect = socket.socket.connect
    monkeypatch.setattr(socket, "getaddrinfo", resolve)
    monkeypatch.setattr(
        socket.socket,
        "connect",
        connect,
    )
    with fails(SettingsError, "endpoint-public", "models.example (93.184.216.34)"):
        Client(Address.parse("http://models.example/v1")).send(
            "/v1/x",
            {},
            seconds=5,
        )


@pytest.mark.parametrize(
    "url",
    [
        "",
        "127.0.0.1:8080",
        "ftp://127.0.0.1/",
        "http://",
        "http://127.0.0.1:99999/",
        "http://[::1/v1",
        "http://127.0.0.1/v1?key=1",
        "http://127.0.0.1/v1#x",
        "http://127.0.0.1/a b",
        "file:///etc/passwd",
        "http://127.0.0.1/\r\nX: y",
        "http://bücher.example/",
    ],
)
def test_what_is_no_address(url: str) -> None:
    with pytest.raises(SettingsError):
        Address.parse(url)


@pytest.mark.parametrize(
    "url",
    [
        "http://me:hunter2@127.0.0.1/v1",
        "http://me:hunter2@127.0.0.1:x/v1",
        "ftp://me:hunter2@127.0.0.1/v1",
        "me:hunter2@127.0.0.1/v1",
        "http:me:hunter2@127.0.0.1",
        "http://me:hunter2@[::1/v1",
        "http://me:a@hunter2@host",
    ],
)
def test_a_password_in_an_address_is_refused_and_not_repeated(url: str) -> None:
    with pytest.raises(SettingsError) as caught:
        Address.parse(url)
    assert "hunter2" not in str(caught.value)


def test_the_whole_address_of_completions_may_be_given_too() -> None:
    assert (
        Address.parse("http://127.0.0.1:8080/v1/chat/completions").url == "http://127.0.0.1:8080/v1"
    )
    assert Address.parse("https://localhost/").url == "https://localhost:443"
