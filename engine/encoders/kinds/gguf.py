"""A GGUF embedding model, run by llama.cpp in a separate process.

It is neither trained nor exported.
"""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import weakref
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from engine.core.errors import EngineError, ModelError, StageError
from engine.core.similarity import COSINE, Similarity, unit_rows
from engine.core.subprocesses import end_child, spawn
from engine.encoders.encoder import EncoderSource, Progress, Report, report_prompts, unheard
from engine.encoders.fingerprint import named_prompts
from engine.gguf.file import content_identity, gguf_file
from engine.gguf.header import read_header

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from engine.settings.schema import EncoderSettings

    Floats = NDArray[np.float32]

VERSION = 1
MODULE = "engine.encoders.kinds.gguf_process"
# Cancellation takes effect between such groups.
TEXTS_AT_ONCE = 4


@dataclass(frozen=True, kw_only=True)
class GgufSource(EncoderSource):
    """The file of an embedding model that is not loaded yet.

    `pooling` is as in the settings. `name` is the file's name without its extension, or the model's
    if the file is named by its content.
    """

    path: Path
    identity: str
    pooling: str
    on_gpu: bool

    @classmethod
    def named(cls, chosen: EncoderSettings) -> GgufSource:
        """Return the file that the settings name.

        They give its path, or its name in the folder of `engine models add`. Prompts that they do
        not give are those of the model's family, by the file's name or the name in its header.
        Raises ModelError.
        """
        try:
            path = gguf_file(Path(), chosen.model)
            header = read_header(path)
            identity = content_identity(path)
        except ModelError as error:
            to_do = "Set encoder.model to a GGUF file of an embedding model, or to a folder."
            what = f"The embedding model {chosen.model} cannot be used."
            raise ModelError(what, error.why, to_do, code="model-invalid") from None
        within = header.name.replace(" ", "-")
        if path.suffix.lower() == ".gguf":
            called = path.stem
        else:
            called = within
        prompts = named_prompts(chosen.query_prompt, chosen.document_prompt, called, within)
        return cls(
            name=called,
            prompts=prompts,
            max_tokens=header.context or 512,
            path=path,
            identity=identity,
            pooling=chosen.pooling,
            on_gpu=chosen.device != "cpu",
        )

    @property
    def fingerprint(self) -> str:
        """Identifier of the file's content, the prompts and the pooling."""
        parts = [VERSION, self.identity, self.prompts.query, self.prompts.document, self.pooling]
        return hashlib.sha256(json.dumps(["gguf", *parts]).encode()).hexdigest()

    def vectors_fingerprint(
        self, max_tokens: int, adapter: Path | None = None, weight: float = 1.0
    ) -> str:
        """Return the fingerprint of the model and the length limit."""
        return hashlib.sha256(
            f"{self.fingerprint} {min(max_tokens, self.max_tokens)}".encode()
        ).hexdigest()

    @property
    def weights(self) -> Path:
        """See `EncoderSource`."""
        return self.path

    def moved(self, folder: Path, _dtype: str) -> GgufSource:
        """See `EncoderSource`."""
        return replace(self, path=folder / self.path.name)

    def load(
        self,
        max_tokens: int,
        adapter: Path | None = None,
        weight: float = 1.0,
        report: Report = unheard,
    ) -> GgufEncoder:
        """Start the model in a process that ends with the encoder.

        Raises ModelError if the file cannot be used.
        """
        report_prompts(self.prompts, report)
        return GgufEncoder(self, max_tokens)


class GgufEncoder:
    """A process that encodes; if it has died, the next call starts another. Not thread-safe."""

    similarity: Similarity = COSINE

    def __init__(self, source: GgufSource, max_tokens: int) -> None:
        self.fingerprint = source.vectors_fingerprint(max_tokens)
        self.notices: list[str] = []
        self._source = source
        self._limit = min(max_tokens, source.max_tokens)
        self._start()

    def _start(self) -> None:
        pipe = subprocess.PIPE
        source = self._source
        arguments = [str(source.path), str(self._limit), source.pooling, str(source.on_gpu)]
        self._child = spawn(
            MODULE, arguments, os.environ, stdin=pipe, stdout=pipe, stderr=subprocess.DEVNULL
        )
        self._closed = weakref.finalize(self, end_child, self._child)
        self.dimension = int(self._line()["width"])

    def encode_chunks(self, texts: Sequence[str], progress: Progress | None = None) -> Floats:
        """See `Encoder`.

        Raises StageError if the process has died, EngineError for unusable vectors.
        """
        return self._encode(self._source.prompts.document, texts, progress)

    def encode_queries(self, texts: Sequence[str], progress: Progress | None = None) -> Floats:
        """Return the vectors of queries: as `encode_chunks`."""
        return self._encode(self._source.prompts.query, texts, progress)

    def _encode(self, prompt: str, texts: Sequence[str], progress: Progress | None) -> Floats:
        import numpy as np

        if self._child.poll() is not None:
            self._closed()
            self._start()
        vectors = np.empty((len(texts), self.dimension), np.float32)
        for start in range(0, len(texts), TEXTS_AT_ONCE):
            part = [prompt + text for text in texts[start : start + TEXTS_AT_ONCE]]
            vectors[start : start + len(part)] = self._part(part)
            if progress is not None:
                progress(start + len(part))
        if not (np.isfinite(vectors).all() and vectors.any(axis=1).all()):
            raise EngineError(
                f"The model {self._source.name} gave unusable vectors.",
                "They hold numbers that are not finite, or only zeros.",
                "Use another file of the model, or another model.",
                code="vectors-not-finite",
            )
        return unit_rows(vectors)

    def _part(self, texts: list[str]) -> Floats:
        import numpy as np

        child = self._child
        assert child.stdin
        assert child.stdout
        try:
            child.stdin.write(json.dumps(texts).encode() + b"\n")
            child.stdin.flush()
        except OSError:
            raise self._died() from None
        found = self._line()
        data = child.stdout.read(4 * found["rows"] * found["width"])
        if len(data) < 4 * found["rows"] * found["width"]:
            raise self._died()
        return np.frombuffer(data, np.float32).reshape(found["rows"], found["width"])

    def _line(self) -> dict[str, Any]:
        """Read the first line of the next answer. Raises the error that it contains."""
        assert self._child.stdout
        line = self._child.stdout.readline()
        if not line.endswith(b"\n"):
            raise self._died()
        found: dict[str, Any] = json.loads(line)
        if "error" in found:
            raise EngineError.from_dict(found["error"])
        return found

    def _died(self) -> StageError:
        return StageError(
            f"The process of the embedding model {self._source.name} crashed.",
            f"Its exit code is {self._child.wait()}.",
            "Try again; if it happens again, use another model.",
            code="model-crashed",
        )
