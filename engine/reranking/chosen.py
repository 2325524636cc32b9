"""The reranker that `search.reranker` names: a cross-encoder's folder, or a server on site."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from math import inf
from pathlib import Path
from typing import TYPE_CHECKING

from engine.core.errors import EngineError, first_line
from engine.models.installed import find_installed_folder
from engine.reranking.reranker import finite, too_slow

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from engine.project.folder import ProjectFolder
    from engine.reranking.cross_encoder import CrossEncoder
    from engine.reranking.folder import CrossEncoderFolder
    from engine.reranking.reranker import Reranker
    from engine.settings.schema import EncoderSettings, Settings


class FolderReranker:
    """A cross-encoder on this machine, loaded when it is first needed.

    It computes in a thread of its own, so that a search need not wait for the end of a batch on a
    machine that is busy all of a sudden.
    """

    batch_share = 0.1
    first_batch = 1

    def __init__(self, folder: CrossEncoderFolder, encoder: EncoderSettings) -> None:
        self._folder = folder
        self._encoder = encoder
        self.name = folder.path.name
        self.fingerprint = folder.fingerprint
        self._model: CrossEncoder | None = None
        self._thread = ThreadPoolExecutor(1)

    def load(self) -> None:
        """Where and how precisely it runs is chosen as for the encoder."""
        self.scores("a", ["b"])

    def scores(
        self, query: str, passages: Sequence[str], seconds: float = inf
    ) -> NDArray[np.float32]:
        """See `Reranker`."""
        job = self._thread.submit(self._scores, query, passages)
        try:
            found = job.result(None if seconds == inf else seconds)
        except EngineError:
            raise
        except TimeoutError:
            job.cancel()
            raise too_slow(self.name) from None
        except Exception as error:  # whatever model libraries raise: a search does without
            raise EngineError(
                f"The reranker {self.name} failed.",
                first_line(error),
                "Close other programs if memory is short, or name another in search.reranker.",
                code="reranker-failed",
            ) from error
        return finite(found, self.name)

    def _scores(self, query: str, passages: Sequence[str]) -> NDArray[np.float32]:
        from engine.encoders.hardware import choose_hardware
        from engine.reranking.cross_encoder import CrossEncoder

        if self._model is None:
            self._model = CrossEncoder(
                self._folder.path, choose_hardware(self._encoder.device, self._encoder.dtype)
            )
        return self._model.scores(query, passages)


def reranker_of(project: ProjectFolder, settings: Settings) -> Reranker | None:
    """The one that `search.reranker` names, not loaded yet; None where it names none.

    A relative path starts at the project folder.

    Raises ModelError for a folder that cannot be used, SettingsError for an address that cannot or
    may not be.
    """
    named = settings.search.reranker
    if not named:
        return None
    from engine.endpoint.address import is_server

    if is_server(named):
        from engine.reranking.server import ServerReranker

        return ServerReranker(project.path, settings.search)
    from engine.reranking.folder import resolve_cross_encoder

    path = (project.path / Path(named).expanduser()).absolute()
    if not path.is_dir():
        path = find_installed_folder(named) or path
    return FolderReranker(resolve_cross_encoder(path, project.path / "cache"), settings.encoder)
