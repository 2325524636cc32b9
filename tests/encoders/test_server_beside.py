"""A server's vectors joined with a small model's: neither another model in its place nor its death
leaves a wrong vector.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass, replace
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from fixtures.errors import fails
from fixtures.fake_endpoint import Raw, serving
from fixtures.files_in_use import refuse_as_windows
from fixtures.two_encoders import save_adapter

from engine.core.errors import EngineError, ModelError, StageError
from engine.core.platforms import SYSTEM
from engine.encoders import for_project
from engine.encoders.embedding_cache import EmbeddingCache, encode_cached
from engine.encoders.encoder import Encoder
from engine.encoders.for_project import add_query_cache, load_encoder, open_cache
from engine.encoders.kinds.chosen import encoder_source
from engine.encoders.kinds.folder import FolderSource
from engine.encoders.model_folder import resolve_model
from engine.endpoint import model_server
from engine.project.folder import ProjectFolder
from engine.project.stage import StageContext

TEXTS = [f"passage number {number}" for number in range(6)]
HASHES = [sha256(text.encode()).hexdigest() for text in TEXTS]
WIDTH = 16


@dataclass
class Server:
    """`model`: which one it has. `left`: how many more texts it answers."""

    url: str = ""
    model: str = "first"
    left: float = float("inf")

    def vectors(self, texts: list[str]) -> np.ndarray:
        rows = [
            [byte - 127.5 for byte in sha256(f"{self.model} {text}".encode()).digest()[:WIDTH]]
            for text in texts
        ]
        return np.array(rows) / np.linalg.norm(rows, axis=1, keepdims=True)

    def joined(self, texts: list[str], small: Encoder) -> np.ndarray:
        """With the small model's vectors, as Mafin joins both."""
        return np.concatenate([self.vectors(texts), small.encode_chunks(texts)], axis=1) / np.sqrt(
            2
        )

    def answer(self, _path: str, request: dict[str, Any]) -> Raw:
        self.left -= len(request["input"])
        if self.left < 0:
            return Raw(503)
        return Raw(
            body=json.dumps(
                {"data": [{"embedding": row.tolist()} for row in self.vectors(request["input"])]}
            ).encode()
        )


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    monkeypatch.setattr(model_server, "PAUSE_SECONDS", 0.01)
    made = Server()
    with serving(lambda *_: "", made.answer) as served:
        made.url = served.url
        yield made


@pytest.fixture
def project(
    server: Server,
    tiny_model: Path,
    tmp_path: Path,
) -> ProjectFolder:
    encoder = {
        "endpoint": server.url,
        "endpoint_batch": 2,
        "small_model": str(tiny_model),
        "device": "cpu",
        "dtype": "float32",
    }
    return ProjectFolder.create(tmp_path / "project", {"encoder": encoder})


@pytest.fixture
def adapter(tiny_model: Path, tmp_path: Path) -> Path:
    """An adapter of the small model."""
    save_adapter(
        tiny_model,
        tmp_path / "adapter",
        seed=0,
    )
    return tmp_path / "adapter"


@pytest.fixture
def small(tiny_model: Path, adapter: Path) -> Encoder:
    """The small model with its adapter."""
    source = FolderSource.of(
        resolve_model(str(tiny_model)),
        "cpu",
        "float32",
    )
    return source.load(256, adapter)


@pytest.fixture
def context(project: ProjectFolder) -> Iterator[StageContext]:
    with closing(project.store()) as store:
        yield StageContext(
            project, project.settings(), store, "embed", "", "", lambda _event: None, lambda: False
        )


def searching(project: ProjectFolder, adapter: Path | None) -> Encoder:
    """As a searcher loads it."""
    return add_query_cache(
        project, encoder_source(project.settings().encoder, WIDTH).load(256, adapter)
    )


def test_embedding_by_force_asks_the_other_model_for_every_vector(
    server: Server, project: ProjectFolder, adapter: Path, small: Encoder, context: StageContext
) -> None:
    for model in ("first", "other"):
        server.model = model
        encoder = load_encoder(replace(context, forced=model == "other"), adapter)
        found = encode_cached(encoder, HASHES, TEXTS, open_cache(context))[:]
        np.testing.assert_allclose(
            found,
            server.joined(TEXTS, small),
            atol=2e-3,
        )
        query = searching(project, adapter).encode_queries(["alarm"])
        np.testing.assert_allclose(
            query,
            server.joined(["alarm"], small),
            atol=2e-3,
        )
        del encoder  # Windows removes no file that is mapped


@pytest.mark.skipif(SYSTEM != "linux", reason="it reads /proc")
def test_vectors_of_another_model_that_a_search_has_open_end_the_run(
    server: Server, project: ProjectFolder, context: StageContext, tmp_path: Path
) -> None:
    load_encoder(context)
    search = searching(project, None)
    search.encode_queries(["alarm"])
    server.model = "other"
    with refuse_as_windows(tmp_path):
        for _ in range(2):
            with fails(EngineError, "write-failed"):
                load_encoder(replace(context, forced=True))
        del search
        load_encoder(replace(context, forced=True))
    query = searching(project, None).encode_queries(["alarm"])
    np.testing.assert_allclose(
        query,
        server.vectors(["alarm"]),
        atol=2e-3,
    )


@pytest.mark.parametrize("beside", [False, True])
@pytest.mark.parametrize("writes", [False, True])
def test_another_model_is_noticed_by_everyone_who_searches(
    server: Server,
    project: ProjectFolder,
    adapter: Path,
    monkeypatch: pytest.MonkeyPatch,
    beside: bool,
    writes: bool,
) -> None:
    chosen = adapter if beside else None
    searching(project, chosen).encode_queries(["alarm"])
    server.model = "other"
    monkeypatch.setattr(
        for_project,
        "is_writable",
        lambda _folder: writes,
    )
    with fails(ModelError, "endpoint-model-changed"):
        searching(project, chosen).encode_queries(["roof"])


def test_who_may_only_read_searches_before_a_run_has_kept_anything(
    project: ProjectFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        for_project,
        "is_writable",
        lambda _folder: False,
    )
    assert searching(project, None).encode_queries(["roof"]).shape == (1, WIDTH)
    assert not [path for path in (project.path / "cache").rglob("*") if path.is_file()]


def test_a_server_that_dies_leaves_no_vectors_among_the_joined(
    server: Server,
    project: ProjectFolder,
    adapter: Path,
    small: Encoder,
    context: StageContext,
    tmp_path: Path,
) -> None:
    source = encoder_source(project.settings().encoder, WIDTH)
    for encoder, name in ((load_encoder(context, adapter), "a"), (source.load(256, adapter), "b")):
        folder = tmp_path / name
        server.left = 4
        with fails(StageError, "endpoint-no-answer"):
            encode_cached(
                encoder,
                HASHES,
                TEXTS,
                EmbeddingCache(folder),
            )
        server.left = float("inf")
        again = EmbeddingCache(folder)
        np.testing.assert_allclose(
            encode_cached(encoder, HASHES, TEXTS, again)[:], server.joined(TEXTS, small), atol=2e-3
        )
        assert again.take_damaged() == 0
