from __future__ import annotations

import hashlib
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from fixtures.records import build_chunk, build_document, store_document

from engine.lexical.index import LexicalIndex
from engine.project.folder import ProjectFolder
from engine.project.store.artifact_info import KINDS, LexicalInfo, VectorsInfo
from engine.project.store.artifacts import Artifact
from engine.search.searcher import Searcher
from engine.vectors.index import VectorIndex

WIDTH = 32
DAY = 86_400.0
Texts = dict[str, list[str]]

DOCUMENTS: Texts = {
    "contracts/lease.md": ["The tenant pays the rent monthly.", "The landlord repairs the roof."],
    "contracts/old/loan.html": [
        "The borrower pays interest on the loan.",
        "Zahlung der Miete in Köln.",
    ],
    "reports/wing.md": [
        "Pressure on the wing rises with speed.",
        "The roof of the tunnel was heated.",
    ],
}


class FakeEncoder:
    """Bags of hashed words: close texts share words."""

    fingerprint = "fake"

    def encode_chunks(self, texts: list[str]) -> np.ndarray[Any, Any]:
        rows = np.full(
            (len(texts), WIDTH),
            1e-3,
            np.float32,
        )
        for row, text in zip(rows, texts, strict=True):
            for word in text.lower().replace(".", "").split():
                row[int(hashlib.sha256(word.encode()).hexdigest(), 16) % WIDTH] += 1
        return np.asarray(rows / np.linalg.norm(rows, axis=1, keepdims=True))

    encode_queries = encode_chunks


class Corpus:
    """A project's database and indexes, filled by hand."""

    def __init__(self, project: ProjectFolder, ids: dict[str, int] | None = None) -> None:
        self.project = project
        self.ids = dict(ids or {})

    def put(
        self,
        path: str,
        texts: list[str],
        modified: float = 0.0,
    ) -> int:
        store = self.project.store()
        document = build_document(
            path,
            " ".join(texts),
            modified=modified,
        )
        chunks = []
        for number, text in enumerate(texts):
            chunks.append(build_chunk(text, ordinal=number, start=number, headings=("A",)))
        row = store_document(store, document, chunks)
        self.ids.update({chunk.text: chunk.id for chunk in store.chunks()})
        store.close()
        return row

    def drop(self, path: str) -> None:
        store = self.project.store()
        store.drop_document(next(row.id for row in store.documents() if row.path == path))
        store.close()

    def index(
        self,
        lexical: bool = True,
        vectors: bool = True,
        encoder: Any = None,
        *,
        language: str = "en",
        **info: Any,
    ) -> None:
        store = self.project.store()
        chunks = store.chunks()
        if lexical:
            with self.project.building("lexical", "l") as building:
                LexicalIndex.build(
                    building.folder, [(chunk.id, chunk.embedded_text) for chunk in chunks], language
                )
            store.put_artifact(Artifact(LexicalInfo(language), building.name, building.name))
        if vectors:
            encoder = encoder or FakeEncoder()
            with self.project.building("vectors", "v") as building:
                ids = np.array([chunk.id for chunk in chunks], dtype=np.int64)
                VectorIndex.build(
                    building.folder,
                    ids,
                    encoder.encode_chunks([chunk.embedded_text for chunk in chunks]),
                    dtype="f32",
                )
            chosen = {
                "model": "none",
                "max_tokens": 64,
                "encoder": encoder.fingerprint,
                "chunks": len(chunks),
            }
            store.put_artifact(
                Artifact(VectorsInfo.from_dict({**chosen, **info}), building.name, building.name)
            )
        store.close()

    def folder(self, kind: str) -> Any:
        store = self.project.store()
        artifact = store.artifact(KINDS[kind])
        store.close()
        assert artifact is not None
        return self.project.folder_of(artifact)


@pytest.fixture(scope="session")
def templates(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Corpus]:
    """Projects to copy: making one takes many writes that wait for the disk."""
    root = tmp_path_factory.mktemp("templates")
    made = {"empty": Corpus(ProjectFolder.create(root / "empty", {}))}

    def grow(former: str, name: str) -> Corpus:
        made[name] = Corpus(
            ProjectFolder(Path(shutil.copytree(root / former, root / name))), made[former].ids
        )
        return made[name]

    corpus = grow("empty", "corpus")
    for day, (path, texts) in enumerate(DOCUMENTS.items(), 1):
        corpus.put(
            path,
            texts,
            modified=day * 10 * DAY,
        )
    grow("corpus", "indexed").index()
    crowded = grow("corpus", "crowded")
    crowded.put("crowd.md", [f"roof roof roof {n}" for n in range(700)])
    crowded.put(
        "rare.html", [f"the roof of house number {n} is covered with slate" for n in range(130)]
    )
    crowded.index()
    return made


@pytest.fixture
def project(templates: dict[str, Corpus], tmp_path: Path) -> ProjectFolder:
    """A new project without documents, in the same place as what the other fixtures make."""
    return ProjectFolder(
        Path(shutil.copytree(templates["empty"].project.path, tmp_path / "project"))
    )


def copied(template: Corpus, project: ProjectFolder) -> Corpus:
    shutil.rmtree(project.path)
    shutil.copytree(template.project.path, project.path)
    return Corpus(project, template.ids)


@pytest.fixture
def corpus(templates: dict[str, Corpus], project: ProjectFolder) -> Corpus:
    """Six chunks of three documents, not indexed yet; modified on the days 10, 20 and 30 of
    1970.
    """
    return copied(templates["corpus"], project)


@pytest.fixture
def fake_encoder(monkeypatch: pytest.MonkeyPatch) -> FakeEncoder:
    encoder = FakeEncoder()
    monkeypatch.setattr(
        "engine.search.loaded.LoadedProject.query_encoder", lambda self, artifact: encoder
    )
    return encoder


@pytest.fixture
def indexed(
    templates: dict[str, Corpus], project: ProjectFolder, fake_encoder: FakeEncoder
) -> Corpus:
    """`corpus` with both indexes, and an encoder without a model."""
    return copied(templates["indexed"], project)


@pytest.fixture
def crowded(
    templates: dict[str, Corpus], project: ProjectFolder, fake_encoder: FakeEncoder
) -> Corpus:
    """`indexed`, and 700 chunks of `crowd.md` that match "roof" better than the 130 of
    `rare.html`.
    """
    return copied(templates["crowded"], project)


@pytest.fixture(scope="module")
def coded(
    templates: dict[str, Corpus], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Corpus]:
    """`indexed` with a document of codes besides, for the tests of a module to share."""
    copy = shutil.copytree(
        templates["corpus"].project.path, tmp_path_factory.mktemp("coded") / "project"
    )
    corpus = Corpus(ProjectFolder(Path(copy)))
    codes = [
        "The pump PHX-121 leaks in the cold.",
        "The pump PHX-122 leaks in the cold hall.",
        "Pumps and valves.",
    ]
    corpus.put(
        "codes.md",
        codes,
        modified=5.0,
    )
    corpus.index()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(
            "engine.search.loaded.LoadedProject.query_encoder", lambda self, artifact: FakeEncoder()
        )
        yield corpus


@pytest.fixture
def damage() -> Callable[[Any], None]:
    """Overwrite the middle of every large file of a folder."""

    def change(folder: Any) -> None:
        for path in folder.rglob("*"):
            if path.is_file() and path.suffix != ".json":
                data = bytearray(path.read_bytes())
                if data:
                    data[len(data) // 2] ^= 1
                    path.write_bytes(data)

    return change


@pytest.fixture
def open_searcher(project: ProjectFolder) -> Iterator[Callable[[], Searcher]]:
    opened: list[Searcher] = []

    def make() -> Searcher:
        opened.append(Searcher(project))
        return opened[-1]

    yield make
    for searcher in opened:
        searcher.close()


@pytest.fixture
def searcher(indexed: Any, open_searcher: Callable[[], Searcher]) -> Searcher:
    return open_searcher()
