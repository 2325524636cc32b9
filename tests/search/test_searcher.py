from __future__ import annotations

import importlib.util
import json
from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from fixtures.errors import fails
from fixtures.found import QUERY, ids, paths, rankers_of

from engine.core.disk import write_text
from engine.core.errors import NotBuiltError, SettingsError, UsageError
from engine.core.messages.search import Search
from engine.core.messages.wire import to_json
from engine.lexical.index import LexicalIndex
from engine.project.folder import ProjectFolder
from engine.project.store.artifact_info import EvaluationInfo, FusionInfo, VectorsInfo
from engine.project.store.artifacts import Artifact
from engine.project.store.store import Store
from engine.search.loaded import LoadedProject
from engine.search.searcher import Searcher
from engine.vectors.index import VectorIndex

DAY = 86_400.0


def test_bm25_gives_what_the_index_gives(searcher: Searcher, indexed: Any) -> None:
    found = searcher.search(Search(QUERY, "bm25"))
    wanted, scores = LexicalIndex.open(indexed.folder("lexical")).search(QUERY, 10)
    assert (found.query, found.mode, found.notes) == (QUERY, "bm25", ())
    assert ids(found) == wanted.tolist() != []
    assert [hit.score for hit in found.hits] == pytest.approx(scores.tolist())
    assert [hit.rankers.keys() for hit in found.hits] == [{"bm25"}] * len(found.hits)


@pytest.mark.parametrize("mode", ["bm25", "semantic"])
def test_what_nobody_sees_in_a_query_changes_nothing(searcher: Searcher, mode: Any) -> None:
    plain = searcher.search(Search(QUERY, mode))
    assert (
        ids(searcher.search(Search("\ufeffwho re\u00adpairs the ro\u200bof", mode)))
        == ids(plain)
        != []
    )


def test_semantic_gives_what_the_index_gives(
    searcher: Searcher, indexed: Any, fake_encoder: Any
) -> None:
    found = searcher.search(Search(QUERY, "semantic", top=4))
    wanted, scores = VectorIndex.open(indexed.folder("vectors")).search(
        fake_encoder.encode_queries([QUERY])[0], 4
    )
    assert ids(found) == wanted.tolist()
    assert [hit.score for hit in found.hits] == pytest.approx(scores.tolist())
    assert [hit.rankers["semantic"].rank for hit in found.hits] == [1, 2, 3, 4]


def test_a_query_of_which_no_word_is_known_says_that_hits_are_by_meaning(
    searcher: Searcher,
) -> None:
    assert searcher.search(Search(QUERY, "hybrid")).notes == ()
    for unknown in ("qzxvbn", "the of and"):
        found = searcher.search(Search(unknown, "hybrid", top=3))
        assert (len(found.hits), len(found.notes)) == (3, 1)
        assert {name for hit in found.hits for name in hit.rankers} == {"semantic"}
        assert searcher.search(Search(unknown, "semantic", top=3)).notes == ()


def test_hybrid_fuses_both_and_has_each_rank(searcher: Searcher, project: ProjectFolder) -> None:
    write_text(project.path / "project.toml", "[search]\nfusion = 'rrf'")
    bm25, semantic = (ids(searcher.search(Search(QUERY, mode))) for mode in ("bm25", "semantic"))
    found = searcher.search(Search(QUERY))
    assert found.mode == "hybrid"
    for hit in found.hits:
        wanted = {
            name: ranking.index(hit.chunk_id) + 1
            for name, ranking in (("bm25", bm25), ("semantic", semantic))
            if hit.chunk_id in ranking
        }
        assert {name: ranked.rank for name, ranked in hit.rankers.items()} == wanted
        assert hit.score == pytest.approx(sum(1 / (40 + rank) for rank in wanted.values()))
    assert [hit.rank for hit in found.hits] == [1, 2, 3, 4, 5, 6]
    assert found.hits[0].snippet == "The landlord repairs the roof."


def test_a_weighted_sum_counts_what_each_ranker_thinks_of_the_others_chunks(
    searcher: Searcher, project: ProjectFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_text(project.path / "project.toml", "[search]\nfusion = 'weighted'\nweight = 0.5")
    by = {
        mode: {hit.chunk_id: hit.score for hit in searcher.search(Search(QUERY, mode)).hits}
        for mode in ("bm25", "semantic")
    }
    whole = VectorIndex.search
    rankings = []

    def cut(self: VectorIndex, vector: Any, depth: int) -> Any:
        ranking = whole(self, vector, depth)
        rankings.append(ranking)
        return ranking[0][:1], ranking[1][:1]

    monkeypatch.setattr(VectorIndex, "search", cut)
    found = searcher.search(Search(QUERY))
    chunks = {*by["bm25"], rankings[0][0][0].item()}
    assert len(chunks) > 1
    assert {hit.chunk_id for hit in found.hits} == chunks
    sides = [{key: scores.get(key, 0.0) for key in chunks} for scores in by.values()]
    scaled = [
        {k: (v - min(s.values())) / (max(s.values()) - min(s.values())) for k, v in s.items()}
        for s in sides
    ]
    for hit in found.hits:
        assert hit.score == pytest.approx(
            0.5 * sum(side[hit.chunk_id] for side in scaled), abs=1e-3
        )
        assert set(hit.shares) == ({"bm25", "semantic"} if hit.score else set())
    assert sum("semantic" in hit.rankers for hit in found.hits) == 1


@pytest.mark.parametrize("mode", ["bm25", "semantic", "hybrid"])
def test_the_second_search_reads_neither_settings_nor_a_whole_document_again(
    searcher: Searcher, project: ProjectFolder, monkeypatch: pytest.MonkeyPatch, mode: Any
) -> None:
    first = searcher.search(Search(QUERY, mode, facets=True))
    for owner, name in (
        (ProjectFolder, "settings"),
        (Store, "document"),
        (Store, "documents"),
        (Store, "artifact"),
    ):
        monkeypatch.setattr(owner, name, None)
    assert searcher.search(Search(QUERY, mode, facets=True)) == first
    monkeypatch.undo()
    write_text(project.path / "project.toml", "[search]\ntop = 1")
    assert len(searcher.search(Search(QUERY, "bm25")).hits) == 1


def test_auto_fusion_is_what_the_last_evaluation_chose(
    searcher: Searcher, project: ProjectFolder
) -> None:
    def scores(settings: str) -> list[float]:
        write_text(project.path / "project.toml", f"[search]\n{settings}")
        return [hit.score for hit in searcher.search(Search(QUERY)).hits]

    rrf = scores("fusion = 'rrf'")
    even = scores("fusion = 'weighted'\nweight = 0.5")
    mostly = scores("fusion = 'weighted'\nweight = 0.7")
    assert scores("fusion = 'auto'") == even != rrf  # nothing was evaluated yet
    store = project.store()
    store.put_artifact(Artifact(EvaluationInfo(), "first"))
    assert scores("fusion = 'auto'") == rrf
    for chosen, wanted in ((FusionInfo("rrf", 0.5), rrf), (FusionInfo("weighted", 0.7), mostly)):
        store.put_artifact(Artifact(EvaluationInfo(fusion=chosen), str(chosen)))
        assert scores("fusion = 'auto'") == wanted
        assert scores("fusion = 'rrf'") == rrf
    store.close()


def test_another_encoder_has_its_usual_share_until_it_is_evaluated(
    indexed: Any, project: ProjectFolder
) -> None:
    def fused(evaluated: str, embedded: str) -> tuple[str, float]:
        info = replace(
            vectors.info,
            base_encoder=embedded,
            usual_share=0.1,
        )
        store.put_artifact(replace(vectors, info=info, fingerprint=f"{evaluated} {embedded}"))
        evaluation = EvaluationInfo(model=evaluated, fusion=FusionInfo("rrf", 0.3))
        store.put_artifact(Artifact(evaluation, evaluated))
        with closing(LoadedProject(project)) as loaded:
            chosen = loaded.fusion(project.settings().search)
        return chosen.fusion, chosen.weight

    store = project.store()
    vectors = store.artifact(VectorsInfo)
    assert vectors is not None
    assert fused("new", "new") == ("rrf", 0.3)
    assert fused("former", "new") == ("weighted", 0.1)
    assert fused("", "new") == ("rrf", 0.3), "an evaluation that names no model counts"
    assert fused("former", "") == ("rrf", 0.3), "so does one of an index that names none"
    store.close()


def test_weighted_fusion_follows_the_settings(searcher: Searcher, project: ProjectFolder) -> None:
    write_text(
        project.path / "project.toml", "[search]\nfusion = 'weighted'\nweight = 1.0\ntop = 1"
    )
    assert ids(searcher.search(Search(QUERY))) == ids(searcher.search(Search(QUERY, "semantic")))
    write_text(
        project.path / "project.toml",
        "[search]\nfusion = 'weighted'\nweight = 0.0\ntop = 1\nmode = 'bm25'",
    )
    assert searcher.search(Search(QUERY)).mode == "bm25"
    assert ids(searcher.search(Search(QUERY, "hybrid"))) == ids(searcher.search(Search(QUERY)))
    assert len(searcher.search(Search(QUERY, "hybrid")).hits) == 1


def test_a_hit_has_its_place(searcher: Searcher, indexed: Any) -> None:
    hit = searcher.search(Search("borrower interest loan", "bm25")).hits[0]
    assert (hit.path, hit.format, hit.modified, hit.headings) == (
        "contracts/old/loan.html",
        "html",
        20 * DAY,
        ("A",),
    )
    assert hit.chunk_id == indexed.ids["The borrower pays interest on the loan."]
    assert [hit.snippet[a:b] for a, b in hit.marks] == ["borrower", "interest", "loan"]
    document = searcher.document(hit.document_id)
    assert document is not None
    assert document.text.startswith("The borrower pays")
    assert searcher.document(999) is None


@pytest.mark.parametrize("mode", ["bm25", "semantic", "hybrid"])
def test_answers_are_json(searcher: Searcher, mode: Any) -> None:
    found = to_json(searcher.search(Search("Köln Miete", mode)))
    assert json.loads(json.dumps(found, allow_nan=False)) == found
    assert found["hits"][0]["path"] == "contracts/old/loan.html"


@pytest.mark.parametrize("query", ["a\0b", "the the the", "x" * 5000, "roof " * 3000])
@pytest.mark.parametrize("mode", ["bm25", "semantic", "hybrid"])
def test_any_query_with_words_is_answered(
    searcher: Searcher,
    query: str,
    mode: Any,
) -> None:
    found = searcher.search(Search(query, mode))
    assert found.problem is None
    assert mode == "bm25" or len(found.hits) == 6


@pytest.mark.parametrize("query", ["", "   ", "???", "\ud800", "\u202e", "'\"[](){}*:^~"])
@pytest.mark.parametrize("mode", ["bm25", "semantic", "hybrid"])
def test_a_query_without_words_is_answered_by_a_problem(
    searcher: Searcher, query: str, mode: Any
) -> None:
    found = searcher.search(Search(query, mode))
    assert found.problem is not None
    assert (found.problem.code, found.hits) == ("query-empty", ())


@pytest.mark.parametrize("top", [1, 2, 6, 7, 1000, 2**70])
@pytest.mark.parametrize("mode", ["bm25", "semantic", "hybrid"])
def test_top_is_the_most_that_is_shown(
    searcher: Searcher,
    top: int,
    mode: Any,
) -> None:
    """Four of the six chunks have one of the words; each is somewhat similar."""
    found = searcher.search(Search("the roof pays", mode, top=top))
    assert len(found.hits) == min(top, 4 if mode == "bm25" else 6)
    assert [hit.rank for hit in found.hits] == list(range(1, len(found.hits) + 1))


@pytest.mark.parametrize(
    ("wrong", "code"),
    [
        ({"top": 0}, "hits-too-few"),
        ({"top": -5}, "hits-too-few"),
        ({"mode": "best"}, "search-mode-unknown"),
        ({"mode": ["bm25"]}, "search-mode-unknown"),
        ({"after": ""}, "date-invalid"),
        ({"before": "31.04.2031"}, "date-invalid"),
    ],
)
def test_wrong_arguments(wrong: dict[str, Any], code: str) -> None:
    with fails(UsageError, code):
        Search(QUERY, **wrong)


def test_a_typo_in_the_settings_is_an_error(searcher: Searcher, project: ProjectFolder) -> None:
    write_text(project.path / "project.toml", "[search]\ntopp = 3")
    with fails(SettingsError, "settings-unknown-key", "search.topp", "'search.top'"):
        searcher.search(Search(QUERY))


# one ranker is missing, damaged or fails


# filters


@pytest.mark.parametrize(
    ("where", "wanted"),
    [
        ({"paths": ("contracts/**",)}, {"contracts/lease.md", "contracts/old/loan.html"}),
        ({"types": ("md",)}, {"contracts/lease.md", "reports/wing.md"}),
        ({"after": "1970-01-21T00:00:00+00:00"}, {"contracts/old/loan.html", "reports/wing.md"}),
        ({"before": "1970-01-21T00:00:00+00:00"}, {"contracts/lease.md"}),
        ({"paths": ("contracts/**",), "types": ("md",)}, {"contracts/lease.md"}),
        ({"paths": ("nothing/**",)}, set()),
        ({}, {"contracts/lease.md", "contracts/old/loan.html", "reports/wing.md"}),
    ],
)
@pytest.mark.parametrize("mode", ["bm25", "semantic", "hybrid"])
def test_filters_hold_in_every_mode(
    searcher: Searcher, mode: Any, where: dict[str, Any], wanted: set[str]
) -> None:
    assert paths(searcher.search(Search("tenant borrower wing pays", mode, **where))) == wanted


@pytest.mark.parametrize("mode", ["bm25", "semantic", "hybrid"])
@pytest.mark.parametrize("top", [10, 120, 163, 500])
def test_a_filter_finds_what_lies_below_the_first_page(
    crowded: Any, open_searcher: Callable[[], Searcher], mode: Any, top: int
) -> None:
    found = open_searcher().search(Search("roof", mode, top=top, paths=("rare.html",)))
    assert paths(found) == {"rare.html"}
    assert len(found.hits) == min(top, 130)


def test_a_filter_finds_stop_words_however_many_other_passages_have_them(
    corpus: Any, open_searcher: Callable[[], Searcher]
) -> None:
    corpus.put("many.md", [f"The crane will stop {number}." for number in range(2001)])
    corpus.put(
        "one.md",
        ["The crane will start."],
        modified=DAY,
    )
    corpus.index(vectors=False)
    searcher = open_searcher()
    found = searcher.search(Search("will", "bm25", paths=("one.md",)))
    assert [hit.snippet for hit in found.hits] == ["The crane will start."]
    newest = searcher.search(Search('"will"', "bm25", top=1, by_date=True))
    assert [hit.snippet for hit in newest.hits] == ["The crane will start."]


def test_a_filtered_ranking_is_the_whole_ranking_without_the_rest(
    crowded: Any, open_searcher: Callable[[], Searcher]
) -> None:
    searcher = open_searcher()
    whole = [
        hit.chunk_id
        for hit in searcher.search(Search("roof", "bm25", top=1000)).hits
        if hit.path == "rare.html"
    ]
    assert ids(searcher.search(Search("roof", "bm25", top=130, paths=("rare.html",)))) == whole
    assert len(whole) == 130


# what changes under a search


# with a model


@pytest.fixture(scope="module")
def tiny_model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    from engine.core.environment import prepare

    prepare()
    source = Path(__file__).resolve().parents[1] / "fixtures" / "tiny_model.py"
    specification = importlib.util.spec_from_file_location("tiny_model", source)
    assert specification
    assert specification.loader
    module = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(module)
    return Path(module.build_tiny_model(tmp_path_factory.mktemp("model") / "tiny"))


def test_a_real_encoder_and_a_model_that_changes(
    corpus: Any, project: ProjectFolder, open_searcher: Callable[[], Searcher], tiny_model: Path
) -> None:
    from engine.encoders.hardware import choose_hardware
    from engine.encoders.model_folder import resolve_model
    from engine.encoders.transformer import TransformerEncoder

    write_text(project.path / "project.toml", "[encoder]\ndevice = 'cpu'\ndtype = 'float32'")
    encoder = TransformerEncoder.load(
        resolve_model(str(tiny_model)), hardware=choose_hardware("cpu", "float32"), max_tokens=64
    )
    corpus.index(encoder=encoder, model=str(tiny_model))
    searcher = open_searcher()
    for text, chunk_id in corpus.ids.items():
        best = searcher.search(Search(text, "semantic", top=1)).hits[0]
        assert best.chunk_id == chunk_id
        assert best.score == pytest.approx(1, abs=1e-3)
    json.dumps(to_json(searcher.search(Search("\ud800 half a pair", "semantic")))).encode()
    corpus.index(
        encoder=encoder,
        model=str(tiny_model),
        max_tokens=16,
    )
    with fails(NotBuiltError, "model-changed"):
        open_searcher().search(Search(QUERY, "semantic"))
    found = open_searcher().search(Search(QUERY))
    assert ids(found) == ids(open_searcher().search(Search(QUERY, "bm25")))
    assert (rankers_of(found), len(found.notes)) == ({"bm25"}, 1)


def test_scores_are_plain_numbers(searcher: Searcher) -> None:
    hit = searcher.search(Search(QUERY)).hits[0]
    assert type(hit.score) is float
    assert not isinstance(hit.chunk_id, np.integer)


@pytest.mark.parametrize("mode", ["bm25", "semantic", "hybrid"])
def test_a_query_that_names_a_file_is_meant_for_it(searcher: Searcher, mode: Any) -> None:
    assert len(paths(searcher.search(Search("who repairs the roof", mode)))) > 1
    found = searcher.search(Search("wing.md: who repairs the roof", mode))
    assert paths(found) == {"reports/wing.md"}
    (note,) = found.notes
    assert "wing.md" in note
    assert found.query == "wing.md: who repairs the roof"
    alone = searcher.search(Search("who repairs the roof", mode, paths=("reports/**",)))
    assert [(hit.chunk_id, hit.score) for hit in found.hits] == [
        (hit.chunk_id, hit.score) for hit in alone.hits
    ]


def test_a_filter_that_leaves_the_named_file_out_wins(searcher: Searcher) -> None:
    found = searcher.search(Search("wing.md roof", "bm25", paths=("contracts/**",)))
    assert paths(found) == {"contracts/lease.md"}
    assert found.notes == ()


def test_a_name_counts_for_nothing_where_the_user_does_not_want_it(
    searcher: Searcher, project: ProjectFolder
) -> None:
    project.change_settings({"search.named_documents": False})
    found = searcher.search(Search("wing.md: who repairs the roof", "bm25"))
    assert "contracts/lease.md" in paths(found)
    assert found.notes == ()


def test_a_file_that_comes_later_can_be_named(searcher: Searcher, indexed: Any) -> None:
    assert searcher.search(Search("late.md roof", "bm25")).notes == ()
    indexed.put("reports/late.md", ["A roof was built late."])
    indexed.index(vectors=False)
    found = searcher.search(Search("late.md roof", "bm25"))
    assert paths(found) == {"reports/late.md"}
