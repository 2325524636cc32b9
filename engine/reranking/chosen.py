"""The reranker that `search.reranker` names: a cross-encoder's folder, or a server on site."""

from __future__ import annotations

from collections.abc import Sequence
from math import inf
from pathlib import Path
from typing import TYPE_CHECKING

from engine.core.errors import EngineError, first_line
from engine.reranking.reranker import finite

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from engine.project.folder import ProjectFolder
    from engine.reranking.cross_encoder import CrossEncoder
    from engine.reranking.folder import CrossEncoderFolder
    from engine.reranking.reranker import Reranker
    from engine.settings.schema import EncoderSettings, Settings


class FolderReranker:
    """A cross-encoder on this machine, loaded when it is first needed."""

    batch_share, first_batch = 0.1, 1

    def __init__(self, folder: CrossEncoderFolder, encoder: EncoderSettings) -> None:
        self._folder, self._encoder = folder, encoder
        self.name, self.fingerprint = folder.path.name, folder.fingerprint
        self._model: CrossEncoder | None = None

    def load(self) -> None:
        """Where and how precisely it runs is chosen as for the encoder."""
        self.scores("a", ["b"])

    def scores(self, query: str, passages: Sequence[str], seconds: float = inf) -> NDArray[np.float32]:
        """See `Reranker`."""
        try:
            if self._model is None:
                self._model = self._loaded()
            found = self._model.scores(query, passages)
        except EngineError:
            raise
        except Exception as error:  # whatever model libraries raise: a search does without
            raise EngineError(
                f"The reranker {self.name} failed.", first_line(error),
                "Close other programs if memory is short, or name another in search.reranker.", code="reranker-failed",
            ) from error  # fmt: skip
        return finite(found, self.name)

    def _loaded(self) -> CrossEncoder:
        from engine.encoders.hardware import choose_hardware
        from engine.reranking.cross_encoder import CrossEncoder

        return CrossEncoder(self._folder.path, choose_hardware(self._encoder.device, self._encoder.dtype))


def reranker_of(project: ProjectFolder, settings: Settings) -> Reranker | None:
    """The one that `search.reranker` names, not loaded yet; None where it names none. A relative path starts at the project folder.

    Raises ModelError for a folder that cannot be used, SettingsError for an address that cannot or may not be.
    """
    named = settings.search.reranker
    if not named:
        return None
    if named.startswith(("http://", "https://")):
        from engine.reranking.server import ServerReranker

        return ServerReranker(project.path, settings.search)
    from engine.reranking.folder import resolve_cross_encoder

    path = (project.path / Path(named).expanduser()).absolute()
    return FolderReranker(resolve_cross_encoder(path, project.path / "cache"), settings.encoder)
