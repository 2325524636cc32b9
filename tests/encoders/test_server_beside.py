"""A server's vectors joined with others: neither another model in its place nor its death leaves
a wrong vector.
"""

from __future__ import annotations

import json
import os
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
from safetensors.numpy import save_file

from engine.core.errors import ModelError, StageError
from engine.encoders.embedding_cache import EmbeddingCache, encode_cached
from engine.encoders.encoder import Encoder
from engine.encoders.for_project import add_query_cache, load_encoder, open_cache
from engine.encoders.kinds.chosen import encoder_source
from engine.encoders.kinds.given_vectors import vectors_digest
from engine.endpoint import asking
from engine.project.folder import ProjectFolder
from engine.project.stage import StageContext

TEXTS = [f"passage number {number}" for number in range(6)]
HASHES = [sha256(text.encode()).hexdigest() for text in TEXTS]
WIDTH = 16
GIVEN = 4


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

    def joined(self, texts: list[str]) -> np.ndarray:
        """With the first four numbers at unit length beside them: what the map of `adapter`
        makes.
        """
        own = self.vectors(texts)
        beside = own[:, :GIVEN] / np.linalg.norm(own[:, :GIVEN], axis=1, keepdims=True)
        return np.concatenate([own, beside], axis=1) / np.sqrt(2)

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
    monkeypatch.setattr(asking, "PAUSE_SECONDS", 0.01)
    made = Server()
    with serving(lambda *_: "", made.answer) as served:
        made.url = served.url
        yield made


@pytest.fixture
def project(server: Server, tmp_path: Path) -> ProjectFolder:
    np.save(tmp_path / "given.npy", np.eye(GIVEN, dtype=np.float32)[:1])
    (tmp_path / "given.ids.txt").write_text("0" * 64 + "\n")
    encoder = {"endpoint": server.url, "endpoint_batch": 2, "vectors": str(tmp_path / "given.npy")}
    return ProjectFolder.create(tmp_path / "project", {"encoder": encoder})


@pytest.fixture
def adapter(project: ProjectFolder, tmp_path: Path) -> Path:
    """The map from the server's vectors to the given ones."""
    (tmp_path / "map").mkdir()
    file = tmp_path / "map" / "adapter_model.safetensors"
    given = str(tmp_path / "given.npy")
    save_file(
        {"query_map": np.eye(WIDTH, GIVEN, dtype=np.float32)},
        file,
        {"vectors": vectors_digest(given)},
    )
    (tmp_path / "map" / "adapter_config.json").write_text('{"peft_type": "QUERY_MAP"}')
    return tmp_path / "map"


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
    server: Server, project: ProjectFolder, adapter: Path, context: StageContext
) -> None:
    for model in ("first", "other"):
        server.model = model
        encoder = load_encoder(replace(context, forced=model == "other"), adapter)
        found = encode_cached(encoder, HASHES, TEXTS, open_cache(context))[:]
        np.testing.assert_allclose(found, server.joined(TEXTS), atol=2e-3)
        query = searching(project, adapter).encode_queries(["alarm"])
        np.testing.assert_allclose(query, server.joined(["alarm"]), atol=2e-3)


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
    monkeypatch.setattr(os, "access", lambda *_: writes)
    with fails(ModelError, "endpoint-model-changed"):
        searching(project, chosen).encode_queries(["roof"])


def test_who_may_only_read_searches_before_a_run_has_kept_anything(
    project: ProjectFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "access", lambda *_: False)
    assert searching(project, None).encode_queries(["roof"]).shape == (1, WIDTH)
    assert not [path for path in (project.path / "cache").rglob("*") if path.is_file()]


def test_a_server_that_dies_leaves_no_vectors_of_its_own_among_the_joined(
    server: Server, project: ProjectFolder, adapter: Path, context: StageContext
) -> None:
    source = encoder_source(project.settings().encoder, WIDTH)
    for encoder in (load_encoder(context, adapter), source.load(256, adapter)):
        cache = EmbeddingCache(project.path / "cache")
        cache.drop_others(())
        server.left = 4
        with fails(StageError, "endpoint-no-answer"):
            encode_cached(encoder, HASHES, TEXTS, cache)
        server.left = float("inf")
        again = EmbeddingCache(project.path / "cache")
        np.testing.assert_allclose(
            encode_cached(encoder, HASHES, TEXTS, again)[:], server.joined(TEXTS), atol=2e-3
        )
        assert again.damaged == 0
