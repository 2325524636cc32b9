"""The address of a model server, and where it may lie."""

from __future__ import annotations

import ipaddress
import os
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from engine.core.errors import SettingsError

if TYPE_CHECKING:
    from engine.settings.schema import Settings

_PRIVATE = [
    ipaddress.ip_network(text)
    for text in (
        "127.0.0.0/8",
        "10.0.0.0/8",
        "172.16.0.0/12",
        "192.168.0.0/16",
        "::1/128",
        "fc00::/7",
    )
]
KEY = "BMEMBED_ENDPOINT_KEY"
"""The environment variable of the key."""
KEY_HINT = (
    f"the variable {KEY}. It is sent only to servers that project.toml names, by https or within"
    " this machine."
)


@dataclass(frozen=True, slots=True)
class Address:
    """The parts of a server's address."""

    scheme: str
    host: str
    port: int
    path: str
    """Path of the API, such as /v1."""
    allow_public: bool = False
    """Whether the server may be outside this machine and private networks."""
    setting: str = "queries.endpoint"
    """The setting that holds the address, for errors."""
    socket_path: str = ""
    """Path of a unix socket through which a server on this machine is reached."""

    @classmethod
    def parse(
        cls, url: str, allow_public: bool = False, setting: str = "queries.endpoint"
    ) -> Address:
        """Parse an address, which `setting` names in errors.

        Raises SettingsError for an invalid address, and for a public IP address without
        `allow_public`.
        """
        try:
            parts = urlsplit(url)
            port = parts.port or (443 if parts.scheme == "https" else 80)
        except ValueError:
            raise _invalid_error(setting, url, "Its host or port cannot be read.") from None
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise _invalid_error(
                setting, url, "It does not begin with http:// or https:// and a host."
            )
        if parts.username or parts.password or parts.query or parts.fragment:
            why = "It holds a user, a password, a query or a fragment."
            raise _invalid_error(setting, url, why)
        path = parts.path.rstrip("/")
        # Documentation of servers names these, but the address is that above them.
        for method in ("/chat/completions", "/embeddings", "/rerank"):
            path = path.removesuffix(method)
        text = parts.hostname + path
        if not text.isascii() or any(char <= " " for char in text):
            raise _invalid_error(setting, url, "It holds characters that an address cannot have.")
        address = cls(
            parts.scheme,
            parts.hostname,
            port,
            path,
            allow_public,
            setting,
        )
        # A host name is no IP address (ValueError): it is checked once it is resolved.
        with suppress(ValueError):
            address.check_ip_address(parts.hostname)
        return address

    @property
    def url(self) -> str:
        """The address of the API."""
        host = self.host
        if ":" in host:  # an IPv6 address
            host = f"[{host}]"
        return f"{self.scheme}://{host}:{self.port}{self.path}"

    def check_ip_address(self, ip: str) -> str:
        """Return `ip`, an IP address of the host.

        Raises SettingsError if it is public and `allow_public` is not set.
        """
        if self.allow_public or is_private(ip):
            return ip
        described_host = self.host
        if ip != self.host:
            described_host += f" ({ip})"
        raise SettingsError(
            f"The endpoint {described_host} is outside this machine and private networks.",
            "The documents' text would be sent there.",
            "Name a server on this machine or in your own network. To allow this one, first set "
            f"{self.setting}_allow_public to true.",
            code="endpoint-public",
        )

    def keeps_secret(self, ip: str) -> bool:
        """Return whether nobody on the way to the host's IP address can read what is sent."""
        if self.scheme == "https" or self.socket_path:
            return True
        return _parse_ip_address(ip).is_loopback

    @property
    def root(self) -> str:
        """The address of the server, without the path of the API."""
        return self.url.removesuffix(self.path)


def check_addresses(settings: Settings, changed: Iterable[str] | None = None) -> None:
    """Raise SettingsError for an invalid server address in the settings.

    `changed`: keys of settings, such as queries.endpoint, to limit the check to. Public addresses
    given as numbers are refused; names are only resolved when used.
    """
    encoder = settings.encoder
    queries = settings.queries
    search = settings.search
    reranker = search.reranker if is_server(search.reranker) else ""
    for setting, url, allow_public in (
        ("encoder.endpoint", encoder.endpoint, encoder.endpoint_allow_public),
        ("queries.endpoint", queries.endpoint, queries.endpoint_allow_public),
        ("search.reranker", reranker, search.reranker_allow_public),
    ):
        if url and (changed is None or any(key.startswith(setting) for key in changed)):
            Address.parse(url, allow_public, setting)


def is_server(named: str) -> bool:
    """Return whether `search.reranker` names a server, not a folder."""
    return named.startswith(("http://", "https://"))


def _parse_ip_address(ip: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address:
    """Return an IP address without its zone, as in fe80::1%eth0. Raises ValueError for a name."""
    return ipaddress.ip_address(ip.partition("%")[0])


def is_private(ip: str) -> bool:
    """Return whether an IP address belongs to this machine or a private network."""
    address = _parse_ip_address(ip)
    if isinstance(address, ipaddress.IPv6Address) and address.ipv4_mapped:
        address = address.ipv4_mapped
    return any(address in network for network in _PRIVATE)


def _remove_user(url: str) -> str:
    """Return a URL without user and password: errors are shown and logged.

    "http://me:secret@host/v1" → "http://host/v1"
    """
    user_part, _, host_and_path = url.rpartition("@")
    scheme, colon, _ = user_part.partition("://")
    if not colon:
        return host_and_path
    return f"{scheme}{colon}{host_and_path}"


def _invalid_error(
    setting: str,
    url: str,
    why: str,
) -> SettingsError:
    return SettingsError(
        f"{setting} = '{_remove_user(url)}' is not a usable address.",
        why,
        "Write it like http://127.0.0.1:8080/v1.",
        code="endpoint-invalid",
    )


def read_server_key() -> str:
    """Return the key for model servers from the environment, empty if there is none.

    Raises SettingsError for one that no header can hold; the error does not show it.
    """
    key = os.environ.get(KEY, "").strip()
    if not (key.isascii() and key.isprintable()):
        raise SettingsError(
            f"The key in the variable {KEY} cannot be sent.",
            "It holds a line break or a character outside ASCII.",
            f"Correct {KEY}, or leave it out.",
            code="endpoint-key-invalid",
        )
    return key
