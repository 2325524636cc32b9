"""Did the adapter move a hit? Ranks and cosines by both encoders, over all chunks."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from fixtures.serving import ask_once, code, request
from fixtures.shown_numbers import numbers
from fixtures.two_encoders import save_adapter

from engine.core.errors import NotBuiltError
from engine.core.messages.search import RankComparison, Search
from engine.core.messages.wire import to_json
from engine.encoders.embedding_cache import VectorCache, hash_keys
from engine.encoders.geometry.similarity import IndexForm
from engine.project.folder import ProjectFolder
from engine.search.explaining import UnusedEncoder
from engine.search.loaded import LoadedProject
from engine.search.searcher import Searcher
from engine.vectors.forms import INDEX_FORMS

TEXTS = ["alpha", "beta", "gamma", "delta"]
SERVED = [
    [1.0, 0.0],
    [0.6, 0.8],
    [0.0, 1.0],
    [-1.0, 0.0],
]
BASE = [
    [0.0, 1.0],
    [0.8, 0.6],
    [1.0, 0.0],
    [0.6, 0.8],
]
TRAINED = [
    [0.8, 0.6],
    [0.0, 1.0],
    [0.6, 0.8],
    [1.0, 0.0],
]
NOWHERE = dict.fromkeys(("base_rank", "base_cosine", "in_use_rank", "in_use_cosine"))


class Table:
    """An encoder that knows some vectors by heart; any query is [1, 0]."""

    def __init__(self, fingerprint: str, rows: list[list[float]]) -> None:
        self.fingerprint = fingerprint
        self._rows = dict(zip(TEXTS, rows, strict=True))
        self.asked = 0

    def encode_chunks(self, texts: list[str]) -> Any:
        return np.array([self._rows[text] for text in texts], np.float32)

    def encode_queries(self, texts: list[str]) -> Any:
        self.asked += 1
        return np.array([[1.0, 0.0]] * len(texts), np.float32)


@pytest.fixture
def encoders(monkeypatch: pytest.MonkeyPatch) -> dict[str, Table]:
    made = {
        "in_use": Table("in_use", SERVED),
        "base": Table("base", BASE),
        "trained": Table("trained", TRAINED),
    }
    monkeypatch.setattr(
        LoadedProject,
        "query_encoder",
        lambda self, artifact: made["in_use"],
    )
    monkeypatch.setattr(
        LoadedProject,
        "base_encoder",
        lambda self, artifact: made["base"],
    )
    monkeypatch.setattr(
        "engine.search.explaining.Explainer.base_fingerprint", lambda self, artifact: "base"
    )
    return made


@pytest.fixture
def adapted(
    corpus: Any,
    project: ProjectFolder,
    encoders: dict[str, Table],
) -> Any:
    """Four chunks of two documents, indexed by the encoder in use, an interpolation with weight
    ¾.
    """
    for path in list(DOCUMENT_PATHS):
        corpus.drop(path)
    corpus.put("a.md", ["alpha", "beta"])
    corpus.put("b.md", ["gamma", "delta"])
    corpus.index(
        lexical=False, encoder=encoders["in_use"], adapter="adapters/x", interpolation_weight=0.75
    )
    return corpus


DOCUMENT_PATHS = ("contracts/lease.md", "contracts/old/loan.html", "reports/wing.md")


def cache_base(
    project: ProjectFolder,
    encoder: Table,
    texts: list[str],
) -> None:
    store = project.store()
    hashes = {chunk.text: chunk.content_hash for chunk in store.chunks()}
    store.close()
    keys = hash_keys([hashes[text] for text in texts])
    VectorCache(project.path / "cache" / encoder.fingerprint, 2).append(
        keys, encoder.encode_chunks(texts)
    )


@pytest.fixture
def searcher(project: ProjectFolder, adapted: Any) -> Iterator[Searcher]:
    made = Searcher(project)
    yield made
    made.close()


def near(
    compared: RankComparison, base: tuple[int, float] | None, in_use: tuple[int, float] | None
) -> bool:
    def same(
        rank: int | None,
        cosine: float | None,
        wanted: tuple[int, float] | None,
    ) -> bool:
        if wanted is None or cosine is None:
            return wanted is None and rank is None and cosine is None
        return rank == wanted[0] and abs(cosine - wanted[1]) < 1e-3

    return same(compared.base_rank, compared.base_cosine, base) and same(
        compared.in_use_rank, compared.in_use_cosine, in_use
    )


def test_both_encoders_rank_all_chunks(
    searcher: Searcher, adapted: Any, project: ProjectFolder, encoders: dict[str, Table]
) -> None:
    cache_base(
        project,
        encoders["base"],
        ["gamma", "alpha"],
    )
    cache_base(
        project,
        encoders["base"],
        ["delta", "beta"],
    )
    ids = adapted.ids
    found = searcher.explain("anything", [ids["alpha"], ids["gamma"], ids["delta"]])
    assert (found.in_use, found.note) == ("interpolated-0.75", "")
    assert list(found.chunks) == [ids["alpha"], ids["gamma"], ids["delta"]]
    assert near(found.chunks[ids["alpha"]], base=(4, 0.0), in_use=(1, 1.0))
    assert near(found.chunks[ids["gamma"]], base=(1, 1.0), in_use=(3, 0.0))
    assert near(found.chunks[ids["delta"]], base=(3, 0.6), in_use=(4, -1.0))


def test_ranks_are_those_of_the_search(searcher: Searcher, adapted: Any) -> None:
    hits = searcher.search(Search("anything", "semantic")).hits
    found = searcher.explain("anything", [hit.chunk_id for hit in hits])
    assert [compared.in_use_rank for compared in found.chunks.values()] == [1, 2, 3, 4]
    for hit, compared in zip(hits, found.chunks.values(), strict=True):
        assert compared.in_use_cosine == pytest.approx(hit.score, abs=1e-3)


class Distances(IndexForm):
    """As a similarity whose scores are no cosines: the nearer, the less negative."""

    of_cosines = False

    def similarities(self, values: np.ndarray) -> np.ndarray:
        return -np.arccosh(np.maximum(2 - values, 1))


def test_a_similarity_that_is_no_dot_product_explains_itself(
    searcher: Searcher,
    adapted: Any,
    project: ProjectFolder,
    encoders: dict[str, Table],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(
        INDEX_FORMS,
        "cosine",
        Distances(),
    )
    cache_base(
        project,
        encoders["base"],
        TEXTS,
    )
    hits = searcher.search(Search("anything", "semantic")).hits
    found = searcher.explain("anything", [hit.chunk_id for hit in hits])
    assert [hit.score for hit in hits] == pytest.approx(
        -np.arccosh(2 - np.array([1.0, 0.6, 0.0, -1.0])), abs=3e-2
    )
    assert [comparison.in_use_rank for comparison in found.chunks.values()] == [1, 2, 3, 4]
    assert [comparison.in_use_cosine for comparison in found.chunks.values()] == pytest.approx(
        [hit.score for hit in hits], abs=1e-4
    )
    base = found.chunks[adapted.ids["gamma"]]
    assert (base.base_rank, base.base_cosine) == (
        1,
        None,
    ), "a cosine cannot be compared with a distance"


def test_hits_of_encoders_that_are_not_in_use_can_be_looked_at_for_judging(
    searcher: Searcher,
    adapted: Any,
    project: ProjectFolder,
    encoders: dict[str, Table],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert searcher.search_unused("anything", 2) == ()  # their vectors are not at hand
    ids = adapted.ids
    cache_base(
        project,
        encoders["base"],
        TEXTS,
    )
    hits = searcher.search_unused("anything", 2)
    assert [hit.chunk_id for hit in hits] == [ids["gamma"], ids["beta"]]
    assert [hit.score for hit in hits] == pytest.approx([1.0, 0.8], abs=1e-3)
    trained = UnusedEncoder(
        "trained",
        2,
        lambda: encoders["trained"],
    )
    monkeypatch.setattr(
        "engine.search.explaining.find_trained_encoder", lambda loaded, kept: trained
    )
    assert len(searcher.search_unused("anything", 2)) == 2  # of the adapted one nothing is cached
    cache_base(
        project,
        encoders["trained"],
        TEXTS,
    )
    found = searcher.search_unused("anything", 2)
    assert [hit.chunk_id for hit in found] == [
        ids["gamma"],
        ids["beta"],
        ids["delta"],
        ids["alpha"],
    ]
    assert searcher.search_unused("  ", 2) == ()


def test_where_base_is_in_use_both_are_equal_and_no_second_model_is_loaded(
    adapted: Any, project: ProjectFolder, encoders: dict[str, Table]
) -> None:
    adapted.index(lexical=False, encoder=encoders["in_use"])
    searcher = Searcher(project)
    found = searcher.explain("anything", [adapted.ids["beta"]])
    assert to_json(found) == {
        "in_use": "base",
        "chunks": {
            str(adapted.ids["beta"]): {
                "base_rank": 2,
                "base_cosine": pytest.approx(0.6, abs=1e-3),
                "in_use_rank": 2,
                "in_use_cosine": pytest.approx(0.6, abs=1e-3),
            }
        },
        "note": "",
    }
    assert encoders["base"].asked == 0
    searcher.close()


def test_equal_chunks_rank_by_id(
    adapted: Any, project: ProjectFolder, encoders: dict[str, Table]
) -> None:
    encoders["in_use"]._rows = {text: [1.0, 0.0] for text in TEXTS}
    adapted.index(
        lexical=False, encoder=encoders["in_use"], adapter="adapters/x", interpolation_weight=1.0
    )
    searcher = Searcher(project)
    ids = sorted(adapted.ids[text] for text in TEXTS)
    found = searcher.explain("anything", ids[::-1])
    assert found.in_use == "adapted"
    assert [found.chunks[row].in_use_rank for row in ids] == [1, 2, 3, 4]
    searcher.close()


# what is missing


def test_base_vectors_that_are_not_at_hand_are_noted(
    searcher: Searcher, adapted: Any, project: ProjectFolder, encoders: dict[str, Table]
) -> None:
    wanted = [adapted.ids["alpha"]]
    found = searcher.explain("anything", wanted)
    assert near(found.chunks[wanted[0]], base=None, in_use=(1, 1.0))
    assert numbers(found.note)[:2] == [4, 4]
    assert f"engine evaluate {project.path} --force" in found.note
    cache_base(
        project,
        encoders["base"],
        ["alpha", "gamma"],
    )
    found = searcher.explain("anything", wanted)
    assert near(found.chunks[wanted[0]], base=None, in_use=(1, 1.0))
    assert numbers(found.note)[:2] == [2, 4]
    assert encoders["base"].asked == 0
    cache_base(
        project,
        encoders["base"],
        ["beta", "delta"],
    )
    found = searcher.explain("anything", wanted)
    assert near(found.chunks[wanted[0]], base=(4, 0.0), in_use=(1, 1.0))
    assert found.note == ""


def test_looking_changes_nothing_in_the_cache_even_where_it_is_torn(
    searcher: Searcher, adapted: Any, project: ProjectFolder, encoders: dict[str, Table]
) -> None:
    assert searcher.explain("anything", [1]).note
    assert not (project.path / "cache" / "base").exists()
    cache_base(
        project,
        encoders["base"],
        TEXTS,
    )
    (shard,) = (project.path / "cache" / "base").iterdir()
    shard.write_bytes(shard.read_bytes()[:-1])
    being_written = shard.with_name(".shard-abc.part")
    being_written.write_bytes(b"half")
    assert numbers(searcher.explain("anything", [adapted.ids["alpha"]]).note)[:2] == [4, 4]
    assert shard.exists()
    assert being_written.exists()


def test_deleted_documents_do_not_count(
    searcher: Searcher, adapted: Any, project: ProjectFolder, encoders: dict[str, Table]
) -> None:
    cache_base(
        project,
        encoders["base"],
        TEXTS,
    )
    ids = adapted.ids
    before = searcher.explain("anything", [ids["gamma"]]).chunks[ids["gamma"]]
    assert near(before, base=(1, 1.0), in_use=(3, 0.0))
    adapted.drop("a.md")
    found = searcher.explain("anything", [ids["gamma"], ids["alpha"]])
    assert near(found.chunks[ids["gamma"]], base=(1, 1.0), in_use=(1, 0.0))
    assert found.chunks[ids["alpha"]] == RankComparison()


def test_chunks_that_are_not_there_have_no_rank(searcher: Searcher, adapted: Any) -> None:
    adapted.put("new.md", ["not embedded yet"])
    new = adapted.ids["not embedded yet"]
    found = searcher.explain("anything", [new, 10**9])
    assert to_json(found)["chunks"] == {str(new): NOWHERE, str(10**9): NOWHERE}


def test_a_changed_document_still_ranks_by_its_former_text(
    searcher: Searcher, adapted: Any, project: ProjectFolder, encoders: dict[str, Table]
) -> None:
    cache_base(
        project,
        encoders["base"],
        TEXTS,
    )
    former = adapted.ids["alpha"]
    adapted.put("a.md", ["not embedded yet", "beta"])
    found = searcher.explain("anything", [former])
    assert near(found.chunks[former], base=(4, 0.0), in_use=(1, 1.0))


def test_a_new_index_is_noticed(
    searcher: Searcher, adapted: Any, encoders: dict[str, Table]
) -> None:
    gamma = adapted.ids["gamma"]
    assert searcher.explain("anything", [gamma]).chunks[gamma].in_use_rank == 3
    encoders["in_use"]._rows["gamma"] = [2.0, 0.1]
    encoders["in_use"]._rows["alpha"] = [0.0, 1.0]
    adapted.index(
        lexical=False, encoder=encoders["in_use"], adapter="adapters/y", interpolation_weight=1.0
    )
    found = searcher.explain("anything", [gamma])
    assert (found.in_use, found.chunks[gamma].in_use_rank) == ("adapted", 1)


def test_a_query_without_a_word(searcher: Searcher, adapted: Any) -> None:
    for query in ("", "!!!"):
        found = searcher.explain(query, [adapted.ids["alpha"]])
        assert found.chunks == {adapted.ids["alpha"]: RankComparison()}
        assert (found.in_use, bool(found.note)) == ("interpolated-0.75", True)


def test_before_anything_is_embedded(corpus: Any, project: ProjectFolder) -> None:
    searcher = Searcher(project)
    for query in ("anything", "!!!"):
        with pytest.raises(NotBuiltError):
            searcher.explain(query, [1])
    searcher.close()


# as a method of the server


def test_over_the_server(
    adapted: Any,
    project: ProjectFolder,
    encoders: dict[str, Table],
) -> None:
    cache_base(
        project,
        encoders["base"],
        TEXTS,
    )
    alpha = adapted.ids["alpha"]
    answer = ask_once(project, request(1, "explain", query="anything", chunk_ids=[alpha]))
    assert answer["result"]["in_use"] == "interpolated-0.75"
    assert answer["result"]["chunks"][str(alpha)]["base_rank"] == 4
    assert answer["result"]["chunks"][str(alpha)]["in_use_rank"] == 1
    json.dumps(answer, allow_nan=False)
    assert (
        ask_once(project, request(1, "explain", query="x", chunk_ids=[]))["result"]["chunks"] == {}
    )


@pytest.mark.parametrize(
    "params",
    [
        {},
        {"query": "x"},
        {"query": 1, "chunk_ids": [1]},
        {"query": "x", "chunk_ids": 1},
        {"query": "x", "chunk_ids": ["1"]},
        {"query": "x", "chunk_ids": [True]},
        {"query": "x", "chunk_ids": [0]},
        {"query": "x", "chunk_ids": [2**63]},
        {"query": "x", "chunk_ids": {"1": 2}},
    ],
)
def test_wrong_params(
    adapted: Any,
    project: ProjectFolder,
    params: dict[str, Any],
) -> None:
    assert code(ask_once(project, request(1, "explain", **params))) == -32602


# with a model


def test_with_a_real_model_and_adapter(
    corpus: Any, project: ProjectFolder, tmp_path_factory: pytest.TempPathFactory
) -> None:
    from fixtures.tiny_model import build_tiny_model

    from engine.core.disk import write_text
    from engine.core.environment import prepare
    from engine.encoders.embedding_cache import EmbeddingCache, encode_cached
    from engine.encoders.hardware import choose_hardware
    from engine.encoders.model_folder import resolve_model
    from engine.encoders.transformer import TransformerEncoder

    prepare()
    model = Path(build_tiny_model(tmp_path_factory.mktemp("model") / "tiny"))
    save_adapter(
        model,
        project.path / "adapters" / "x",
        1,
    )
    write_text(project.path / "project.toml", "[encoder]\ndevice = 'cpu'\ndtype = 'float32'")
    hardware = choose_hardware("cpu", "float32")
    base = TransformerEncoder.load(
        resolve_model(str(model)),
        hardware=hardware,
        max_tokens=64,
    )
    adapted_encoder = TransformerEncoder.load(
        resolve_model(str(model)),
        adapter=project.path / "adapters" / "x",
        adapter_scale=0.5,
        hardware=hardware,
        max_tokens=64,
    )
    corpus.index(
        lexical=False,
        encoder=adapted_encoder,
        model=str(model),
        adapter="adapters/x",
        interpolation_weight=0.5,
    )
    store = project.store()
    chunks = store.chunks()
    store.close()
    texts = [chunk.embedded_text for chunk in chunks]
    encode_cached(
        base,
        [chunk.content_hash for chunk in chunks],
        texts,
        EmbeddingCache(project.path / "cache"),
    )
    searcher = Searcher(project)
    query = "who repairs the roof"
    found = searcher.explain(query, [chunk.id for chunk in chunks])
    searcher.close()
    assert (found.in_use, found.note) == ("interpolated-0.5", "")
    moved = False
    for name, encoder in (("base", base), ("in_use", adapted_encoder)):
        scores = encoder.encode_chunks(texts) @ encoder.encode_queries([query])[0]
        got = [getattr(found.chunks[chunk.id], f"{name}_cosine") for chunk in chunks]
        assert got == pytest.approx(scores.tolist(), abs=2e-3)
        ranks = [getattr(found.chunks[chunk.id], f"{name}_rank") for chunk in chunks]
        assert ranks == (np.argsort(np.argsort(-np.array(got), kind="stable")) + 1).tolist()
        moved = moved or not np.allclose(
            got, [compared.in_use_cosine for compared in found.chunks.values()], atol=1e-2
        )
    assert moved
