"""What is exported for other search engines gives the hits of this one, asked by the code in the
export's own README.
"""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable, Iterator
from contextlib import closing
from functools import cache
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from fixtures import project_files
from fixtures.errors import fails
from fixtures.local_api import TOKEN, listening
from fixtures.opensearch import OpenSearch
from fixtures.optional import needs, needs_pyarrow
from fixtures.pipeline import ROOT, SAMPLE, stage_here

from engine.assistants.http.api import LocalApi
from engine.assistants.http.listener import Listener
from engine.core.errors import NotBuiltError, UsageError
from engine.core.messages.search import Search
from engine.encoders.geometry.lorentz import LorentzForm
from engine.export import kinds
from engine.export.take import export_project
from engine.project.folder import ProjectFolder
from engine.search.searcher import Searcher

MODES: dict[str, dict[str, Any]] = {
    "bm25": {"search.mode": "bm25"},
    "semantic": {"search.mode": "semantic"},
    "weighted": {"search.mode": "hybrid", "search.fusion": "weighted", "search.weight": 0.3},
    "rrf": {"search.mode": "hybrid", "search.fusion": "rrf"},
}
TOP = 10
ANSWERS: dict[tuple[str, str], Any] = {}


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory, new_built: Path) -> ProjectFolder:
    path = Path(shutil.copytree(new_built, tmp_path_factory.mktemp("elsewhere") / "embedded"))
    for number in range(450):  # more chunks of equal score than are asked for at first
        (path / "documents" / f"{number}.md").write_text(
            f"# Hall {number}\n\nThe pump of this hall failed.\n"
        )
    for stage in ("ingest", "index", "embed"):
        stage_here(path, stage)
    return ProjectFolder(path)


@pytest.fixture(scope="module")
def server(project: ProjectFolder) -> Iterator[Listener]:
    with listening(LocalApi([str(project.path)]).answer) as found:
        yield found


@pytest.fixture(scope="module")
def queries(project: ProjectFolder) -> list[str]:
    """Questions about the sample, queries made of it, and some with codes and with no word that
    it holds.
    """
    written = [
        json.loads(line)["query"]
        for line in (SAMPLE / "questions.jsonl").read_text("utf-8").splitlines()[:20]
    ]
    with closing(project.store()) as store:
        codes = re.findall(r"\b[A-Z]{2,}-\d+\b", " ".join(chunk.text for chunk in store.chunks()))
    found = [
        *written,
        *dict.fromkeys(codes[:8]),
        f"why {codes[0]} and {codes[-1]}",
        "zzyzx",
        "the the",
        "failed pump",
    ]
    assert len(found) > 25
    return found


@pytest.fixture(scope="module")
def own_hits(project: ProjectFolder, queries: list[str]) -> Callable[[str], dict[str, list[int]]]:
    """The first hits of this program by mode, which is set, and query."""

    @cache
    def find(mode: str) -> dict[str, list[int]]:
        with closing(Searcher(project)) as own:
            return {
                query: [hit.chunk_id for hit in own.search(Search(query, top=TOP)).hits]
                for query in queries
            }

    return find


def code_of(readme: Path) -> str:
    """The Python in a README."""
    blocks = re.findall(
        r"```python\n(.*?)```",
        readme.read_text("utf-8"),
        re.DOTALL,
    )
    assert all(block.count("\n") <= 25 for block in blocks)
    return "\n".join(blocks)


def searching(
    folder: Path, server: Listener, monkeypatch: pytest.MonkeyPatch
) -> Callable[..., list[int]]:
    """`search` of a README, asking the server."""
    monkeypatch.chdir(folder)
    names: dict[str, Any] = {}
    exec(code_of(folder / "README.md"), names)
    names["URL"] = server.url
    names["TOKEN"] = TOKEN
    ask = names["ask"]

    def ask_once(query: str) -> Any:
        if (server.url, query) not in ANSWERS:
            ANSWERS[server.url, query] = ask(query)
        return ANSWERS[server.url, query]

    names["ask"] = ask_once
    found: Callable[..., list[int]] = names["search"]
    return found


@needs("qdrant_client")
@needs_pyarrow
def test_a_server_of_qdrant_is_filled_from_parquet(
    project: ProjectFolder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import qdrant_client

    (code,) = re.findall(
        r"```python\n(import pyarrow.*?)```",
        (ROOT / "docs" / "ADAPTING.md").read_text("utf-8"),
        re.DOTALL,
    )
    made = export_project(
        project,
        tmp_path / "taken",
        ["parquet"],
    )
    monkeypatch.chdir(made.folder)
    in_memory = qdrant_client.QdrantClient(":memory:")
    monkeypatch.setattr(
        qdrant_client,
        "QdrantClient",
        lambda url: in_memory,
    )
    names: dict[str, Any] = {}
    exec(code, names)
    with closing(project.store()) as store:
        chunks = store.chunks()
    chunk = max(chunks, key=lambda one: len(one.text))
    (point,) = in_memory.retrieve(
        "chunks",
        [chunk.id],
        with_vectors=True,
    )
    assert in_memory.count("chunks").count == len(chunks)
    assert (point.payload or {})["text"] == chunk.text
    assert isinstance(point.vector, dict)
    assert len(point.vector["bm25"].indices) == len({*point.vector["bm25"].indices}) > 5


@pytest.mark.parametrize("kind", ["parquet", "opensearch"])
def test_documents_that_are_not_indexed_yet_are_not_left_out(
    project: ProjectFolder, tmp_path: Path, kind: str
) -> None:
    copy = ProjectFolder(Path(shutil.copytree(project.path, tmp_path / "project")))
    next((copy.path / "documents").rglob("*.md")).write_text("# Other\n\nText of another kind.\n")
    stage_here(copy.path, "ingest")
    with fails(NotBuiltError, "index-outdated"):
        export_project(
            copy,
            tmp_path / "taken",
            [kind],
        )
    assert not (tmp_path / "taken").exists()


@pytest.mark.parametrize("kind", ["qdrant", "lancedb", "opensearch"])
def test_what_is_not_compared_by_cosine_is_refused(kind: str) -> None:
    source = cast(
        Any, SimpleNamespace(index=SimpleNamespace(form=LorentzForm()), semantic_index=None)
    )
    with fails(UsageError, "similarity-unsupported"):
        kinds.KINDS[kind].check(source)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(
    "target",
    [
        pytest.param("qdrant", marks=needs("qdrant_client")),
        pytest.param("lancedb", marks=needs("lancedb")),
        "opensearch",
    ],
)
def test_the_first_ten_hits_are_the_same(
    project: ProjectFolder,
    server: Listener,
    queries: list[str],
    own_hits: Callable[[str], dict[str, list[int]]],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    target: str,
    mode: str,
) -> None:
    project.change_settings({**MODES[mode], "search.named_documents": False})
    folder = export_project(project, tmp_path / "taken", [target]).folder / target
    if target == "opensearch":
        OpenSearch.install(monkeypatch, folder)
    search = searching(folder, server, monkeypatch)
    found = own_hits(mode)
    assert {query: search(query) for query in queries} == found
    assert sum(len(hits) == TOP for hits in found.values()) > 20
    assert all(project_files.mode(path) & 0o077 == 0 for path in folder.rglob("*"))
    # its own sum, whose least score is not 0, swaps some that are near
    if (target, mode) == (
        "opensearch",
        "weighted",
    ):
        kept = [
            len({*search(query, pipeline=True)} & {*hits}) / len(hits)
            for query, hits in found.items()
            if hits
        ]
        assert min(kept) >= 0.9
