"""The reranker that `search.reranker` names: a cross-encoder's folder or a server on site."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from math import inf
from typing import TYPE_CHECKING

from engine.core.errors import EngineError, first_line
from engine.reranking.reranker import require_finite, too_slow

if TYPE_CHECKING:
    from engine.core.arrays import Floats
    from engine.project.folder import ProjectFolder
    from engine.reranking.cross_encoder import CrossEncoder
    from engine.reranking.folder import CrossEncoderFolder
    from engine.reranking.reranker import Reranker
    from engine.settings.schema import EncoderSettings, Settings


class FolderReranker:
    """A cross-encoder on this machine, loaded when it is first needed.

    It computes in its own thread, so that a search need not wait for the end of a slow batch.
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
        """Load the model, with device and precision as for the encoder."""
        self.scores("a", ["b"])

    def scores(
        self,
        query: str,
        passages: Sequence[str],
        seconds: float = inf,
    ) -> Floats:
        """Return the scores (n,) of passages for a query, see `Reranker`."""
        job = self._thread.submit(
            self._compute,
            query,
            passages,
        )
        try:
            scores = job.result(None if seconds == inf else seconds)
        except EngineError:
            raise
        except TimeoutError:
            job.cancel()
            raise too_slow(self.name) from None
        # Model libraries raise errors of any kind, and search goes on without the reranker.
        except Exception as error:
            raise EngineError(
                f"The reranker {self.name} failed.",
                first_line(error),
                "Close other programs if memory is short, or name another in search.reranker.",
                code="reranker-failed",
            ) from error
        return require_finite(scores, self.name)

    def _compute(self, query: str, passages: Sequence[str]) -> Floats:
        """Return the scores (n,) of passages; the first call loads the model."""
        from engine.encoders.hardware import choose_hardware
        from engine.reranking.cross_encoder import CrossEncoder

        if self._model is None:
            hardware = choose_hardware(self._encoder.device, self._encoder.dtype)
            self._model = CrossEncoder(self._folder.path, hardware)
        return self._model.scores(query, passages)


def reranker_of(project: ProjectFolder, settings: Settings) -> Reranker | None:
    """Return the reranker that the setting `search.reranker` names; None if it is empty.

    Its model is not loaded yet. A relative path starts at the project folder. Raises ModelError for
    a folder that cannot be used, SettingsError for an address that is invalid or not allowed.
    """
    name = settings.search.reranker
    if not name:
        return None
    from engine.endpoint.address import is_server

    if is_server(name):
        from engine.reranking.server import ServerReranker

        return ServerReranker(project.path, settings.search)
    from engine.reranking.folder import find_cross_encoder

    return FolderReranker(find_cross_encoder(project.path, name), settings.encoder)
