"""Fetching models from a hub on request, over https, with every file checked.

Nothing else here opens a connection. The switches that keep the model libraries offline stay set;
only the temporary client that is built here works without them.
"""

from __future__ import annotations

import ipaddress
import os
import re
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from engine.core.disk import check_room, disk_errors
from engine.core.errors import EngineError, ModelError, UsageError, first_line
from engine.core.platforms.files import replace, try_remove_tree
from engine.models.catalogue import CatalogueModel
from engine.models.files import ModelPart, altered_error, check_part, check_stop, choose_parts
from engine.models.installed import PARTIAL, InstalledModel, models_folder, remove_empty_partial
from engine.models.policy import check_fetching_allowed

if TYPE_CHECKING:
    import httpx2

DEFAULT_HUB = "https://huggingface.co"
ENDPOINT = "HF_ENDPOINT"
TIMEOUT = 30.0
"""Seconds without data after which a connection is given up."""
RETRIES = 3
"""Broken connections in a row without any new byte after which a fetch is given up."""
PAUSE = 1.0
"""Seconds before a broken connection is retried."""
MAX_FILE_BYTES = 64_000_000_000
# Maximum size of a file without a sha256.
MAX_SMALL_BYTES = 100_000_000
_COMMIT = re.compile(r"[0-9a-f]{40}")
_DIGEST = re.compile(r"[0-9a-f]{64}")
_KEPT = "What has come is kept: the same command goes on from there."

Progress = Callable[[int, int], None]
"""Callback for (bytes done, bytes of all files)."""


@dataclass(frozen=True, slots=True)
class Repository:
    """The files of a model on a hub at one commit."""

    commit: str
    parts: tuple[ModelPart, ...]


@dataclass(frozen=True, slots=True)
class Transfer:
    """A fetch in progress; `total` is the bytes of all files."""

    model: CatalogueModel
    commit: str
    total: int
    progress: Progress
    should_stop: Callable[[], bool]


def read_endpoint() -> str:
    """Return the hub's address: `HF_ENDPOINT`, else the public one.

    Raises UsageError if it is not https, except on this machine.
    """
    address = (os.environ.get(ENDPOINT) or DEFAULT_HUB).rstrip("/")
    with suppress(ValueError):  # an address that cannot be split
        url = urlsplit(address)
        if url.scheme == "https" and url.hostname:
            return address
        if url.scheme == "http" and is_loopback(url.hostname or ""):
            return address
    raise UsageError(
        f"The hub {address} is not used.",
        "Models are fetched over https only.",
        f"Set {ENDPOINT} to an address that begins with https://.",
        code="hub-insecure",
    )


def is_loopback(host: str) -> bool:
    """Return whether a host's name or address is this machine's own."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def fetch_model(
    model: CatalogueModel,
    progress: Progress = lambda done, total: None,
    should_stop: Callable[[], bool] = lambda: False,
) -> tuple[Path, InstalledModel]:
    """Fetch a model into a hidden folder and return the folder and its manifest.

    `install` and `write_pack` take both. `progress`: called with the bytes done and those of all
    files. After a broken connection, the next call continues where this one ended. Raises
    UsageError if fetching is forbidden, EngineError if the hub cannot be reached or refuses,
    ModelError for a model with unsafe or altered files, ResourceError on a full disk,
    CancelledError.
    """
    check_fetching_allowed(model.name)
    with connection(read_endpoint()) as hub:
        repository = hub.list_repository(model)
        parts = choose_parts(repository.parts, model.files)
        folder = _prepare_partial(model.name, repository.commit)
        total = sum(part.size for part in parts)
        transfer = Transfer(
            model,
            repository.commit,
            total,
            progress,
            should_stop,
        )
        checked = hub.download(transfer, parts, folder)
    return folder, InstalledModel(
        model.name, model.kind, model.repository, repository.commit, model.licence, tuple(checked)
    )


def _prepare_partial(name: str, commit: str) -> Path:
    """Return the folder in which a model is collected, without files of another commit."""
    folder = models_folder() / PARTIAL / f"{name}@{commit}"
    with disk_errors(f"{folder} could not be written."):
        for former in folder.parent.glob(f"{name}@*"):
            if former != folder:
                try_remove_tree(former)
        folder.mkdir(
            mode=0o700,
            parents=True,
            exist_ok=True,
        )
    return folder


def discard(folder: Path) -> None:
    """Remove a folder of fetched files."""
    try_remove_tree(folder)
    remove_empty_partial()


@contextmanager
def connection(endpoint: str) -> Iterator[HubClient]:
    """Yield a client of a hub; afterwards the library refuses to connect again."""
    import httpx2
    from huggingface_hub import close_session, set_client_factory
    from huggingface_hub.utils._http import default_client_factory

    hub = HubClient(endpoint)
    hooks = {"request": [hub.guard]}
    timeout = httpx2.Timeout(TIMEOUT)
    set_client_factory(
        lambda: httpx2.Client(event_hooks=hooks, follow_redirects=True, timeout=timeout)
    )
    try:
        yield hub
    finally:
        close_session()
        set_client_factory(default_client_factory)


class HubClient:
    """A client of a hub at one address, made by `connection`."""

    def __init__(self, endpoint: str) -> None:
        self.endpoint = endpoint
        self._host = urlsplit(endpoint).netloc
        self._is_local = urlsplit(endpoint).scheme == "http"

    def guard(self, request: httpx2.Request) -> None:
        """Check every request, including redirects, before it is sent.

        Raises EngineError if it would leave https. The token is sent only to the hub's own host.
        """
        url = urlsplit(str(request.url))
        is_local = self._is_local and is_loopback(url.hostname or "")
        if url.scheme != "https" and not is_local:
            raise EngineError(
                f"The hub {self.endpoint} leads to an address without encryption.",
                f"It redirects to {url.scheme}://{url.netloc}, which is not followed.",
                "Try again later, or set HF_ENDPOINT to another hub.",
                code="hub-insecure",
            )
        if url.netloc != self._host and "authorization" in request.headers:
            del request.headers["authorization"]

    def list_repository(self, model: CatalogueModel) -> Repository:
        """Return the files of a model's newest commit, with their sizes and digests."""
        from huggingface_hub import HfApi

        hub = HfApi(endpoint=self.endpoint)
        with self._translate_errors(model):
            info = hub.model_info(
                model.repository,
                files_metadata=True,
                timeout=TIMEOUT,
            )
        commit = info.sha or ""
        if not _COMMIT.fullmatch(commit):
            raise _malformed_error(self.endpoint, "It names no commit.")
        parts = []
        for file in info.siblings or []:
            size = file.size
            sha256 = ""
            if file.lfs:  # a large file: git itself holds a pointer to it
                size = file.lfs.size
                sha256 = file.lfs.sha256
            parts.append(ModelPart(file.rfilename, size or 0, sha256, file.blob_id or ""))
        return Repository(commit, tuple(parts))

    def download(
        self, transfer: Transfer, parts: Sequence[ModelPart], folder: Path
    ) -> list[ModelPart]:
        """Fetch files into `folder`, check them, and return them with all digests.

        If one was altered, all fetched files are removed.
        """
        for part in parts:
            _check_listed(part)
        missing = [part for part in parts if not (folder / part.path).exists()]
        with disk_errors(f"{folder} could not be written."):
            check_room(folder, sum(part.size for part in missing))
        done = 0
        checked = []
        try:
            for part in parts:
                target = folder / part.path
                if not target.is_file():
                    self._download_part(
                        transfer,
                        part,
                        target,
                        done,
                    )
                checked.append(check_part(target, part, transfer.should_stop))
                done += part.size
                transfer.progress(done, transfer.total)
        except ModelError:
            discard(folder)
            raise
        return checked

    def _download_part(
        self,
        transfer: Transfer,
        part: ModelPart,
        target: Path,
        done: int,
    ) -> None:
        """Fetch one file, continuing after a broken connection.

        It is renamed to its final name once it is complete. `done` is the bytes of the files before
        it.
        """
        incomplete = target.with_name(f"{target.name}.incomplete")
        with disk_errors(f"{target} could not be written."):
            target.parent.mkdir(
                mode=0o700,
                parents=True,
                exist_ok=True,
            )
        failures = 0  # in a row, without a new byte
        while True:
            size_before = _read_size(incomplete)
            try:
                with self._translate_errors(transfer.model):
                    self._stream(
                        transfer,
                        part,
                        incomplete,
                        done,
                    )
                break
            except EngineError as error:
                failures += 1
                if _read_size(incomplete) > size_before:
                    failures = 0
                if error.code != "hub-unreachable" or failures >= RETRIES:
                    raise
            time.sleep(PAUSE)
        with disk_errors(f"{target} could not be written."):
            replace(incomplete, target)

    def _stream(
        self,
        transfer: Transfer,
        part: ModelPart,
        incomplete: Path,
        done: int,
    ) -> None:
        """Fetch the rest of a file in one request, and append it to `incomplete`.

        A hub that cannot continue sends the whole file, which replaces `incomplete`. `done` is the
        bytes of the files before this one.
        """
        from huggingface_hub import get_session, hf_hub_url
        from huggingface_hub.utils._headers import build_hf_headers
        from huggingface_hub.utils._http import hf_raise_for_status

        url = hf_hub_url(
            transfer.model.repository,
            part.path,
            revision=transfer.commit,
            endpoint=self.endpoint,
        )
        headers = dict(build_hf_headers()) | {"Accept-Encoding": "identity"}
        size = _read_size(incomplete)
        if 0 < size == part.size:
            return
        if 0 < size < part.size:
            headers["Range"] = f"bytes={size}-"  # a file that is too long is fetched from the start
        with get_session().stream("GET", url, headers=headers) as response:
            if response.is_error:
                response.read()
            hf_raise_for_status(response)
            mode = "ab"
            content_range = response.headers.get("Content-Range", "")
            if response.status_code != 206 or not content_range.startswith(f"bytes {size}-"):
                mode = "wb"
                size = 0
            with (
                disk_errors(f"{incomplete} could not be written."),
                incomplete.open(mode) as file,
            ):
                for block in response.iter_raw():
                    check_stop(transfer.should_stop)
                    size += len(block)
                    if size > part.size:
                        raise altered_error(part.path, f"It has more than {part.size:,} bytes.")
                    file.write(block)
                    transfer.progress(done + size, transfer.total)
        if size < part.size:
            raise EngineError(
                f"The hub {self.endpoint} broke off.",
                f"{part.path} ended after {size:,} bytes.",
                f"Try again. {_KEPT}",
                code="hub-unreachable",
            )

    @contextmanager
    def _translate_errors(self, model: CatalogueModel) -> Iterator[None]:
        """Turn errors of huggingface_hub and of HTTP into EngineErrors with a code."""
        import httpx2
        from huggingface_hub.errors import (
            GatedRepoError,
            HfHubHTTPError,
            RemoteEntryNotFoundError,
            RepositoryNotFoundError,
            RevisionNotFoundError,
        )

        page = f"{self.endpoint}/{model.repository}"
        try:
            yield
        except EngineError:
            raise
        except GatedRepoError as error:
            raise EngineError(
                f"The hub does not give {model.name} to everybody.",
                f"Its licence ({model.licence}) must be accepted first.",
                f"Accept it at {page}, make a token there, and set HF_TOKEN to it.",
                code="hub-refused",
            ) from error
        except (RepositoryNotFoundError, RevisionNotFoundError, RemoteEntryNotFoundError) as error:
            raise EngineError(
                f"The hub has no {model.repository}, or does not show it.",
                f"{self.endpoint} answered that it is not there.",
                "It may have moved; if it needs an account, set HF_TOKEN to your token.",
                code="hub-refused",
            ) from error
        except HfHubHTTPError as error:
            raise EngineError(
                f"The hub refused to give {model.name}.",
                f"{self.endpoint} answered with status {error.response.status_code}.",
                "Try again later.",
                code="hub-refused",
            ) from error
        except (ImportError, httpx2.InvalidURL) as error:
            why = first_line(error)
            # The client imports what a SOCKS proxy needs, which is not installed with the program.
            if isinstance(error, ImportError):
                why = "SOCKS proxies cannot be used."
            raise EngineError(
                f"The hub {self.endpoint} could not be reached.",
                why,
                f"Set HTTPS_PROXY to an address such as http://proxy.example:3128, and {ENDPOINT}"
                " to that of a hub, or unset them.",
                code="hub-unreachable",
            ) from error
        except httpx2.HTTPError as error:
            raise EngineError(
                f"The hub {self.endpoint} could not be reached.",
                first_line(error),
                f"Check the network and the proxy, then try again. {_KEPT}",
                code="hub-unreachable",
            ) from error
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise _malformed_error(self.endpoint, first_line(error)) from error


def _check_listed(part: ModelPart) -> None:
    """Raise ModelError for a file without a digest, or of an impossible size.

    Large files have a sha256, others only git's sha1.
    """
    if part.sha256:
        digest = _DIGEST.fullmatch(part.sha256)
        limit = MAX_FILE_BYTES
    else:
        digest = _COMMIT.fullmatch(part.blob_id)
        limit = MAX_SMALL_BYTES
    if not digest:
        raise altered_error(part.path, "The hub names no digest of it, so it cannot be checked.")
    if not 0 <= part.size <= limit:
        raise altered_error(part.path, f"The hub says that it has {part.size:,} bytes.")


def _read_size(path: Path) -> int:
    """Return the bytes of a file, 0 if it is missing."""
    return path.stat().st_size if path.exists() else 0


def _malformed_error(endpoint: str, why: str) -> EngineError:
    return EngineError(
        f"{endpoint} does not answer as a hub does.",
        why,
        "Check HF_ENDPOINT and the proxy.",
        code="hub-refused",
    )
