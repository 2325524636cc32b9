"""Weak hits: hidden on request, in semantic search only, never without saying so."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from engine.core.disk import write_text
from engine.core.messages.search import Search
from engine.project.folder import ProjectFolder
from engine.project.store.artifact_info import EvaluationInfo, ThresholdInfo
from engine.project.store.artifacts import Artifact
from engine.search.rankers import hide_weak
from engine.search.searcher import Searcher

QUERY = "who repairs the roof"


def learn(project: ProjectFolder, **threshold: Any) -> None:
    """What an evaluation leaves behind that learnt a threshold."""
    store = project.store()
    info = EvaluationInfo(threshold=ThresholdInfo.from_dict({"encoder": "fake", **threshold}))
    store.put_artifact(Artifact(info, "e", "reports/e"))
    store.close()


@pytest.fixture
def searcher(indexed: Any, project: ProjectFolder) -> Iterator[Searcher]:
    write_text(project.path / "project.toml", "[search]\nhide_weak = true")
    searcher = Searcher(project)
    yield searcher
    searcher.close()


def test_hits_below_the_threshold_are_hidden_and_counted(
    searcher: Searcher, project: ProjectFolder
) -> None:
    everything = searcher.search(Search(QUERY, "semantic")).hits
    least = (everything[1].score + everything[2].score) / 2
    learn(project, similarity=least)
    found = searcher.search(Search(QUERY, "semantic"))
    assert [hit.chunk_id for hit in found.hits] == [hit.chunk_id for hit in everything[:2]]
    hidden = len(everything) - 2
    (note,) = found.notes
    assert all(data in note for data in (f"{hidden} hits", f"{least:.2f}", "search.hide_weak"))
    assert (
        searcher.search(Search(QUERY, "semantic", top=2)).notes == ()
    )  # both would have been shown anyway
    assert searcher.search(Search(QUERY, "semantic", top=3)).notes[0].startswith("1 hit ")


def test_nothing_is_left_where_all_hits_are_weak(
    searcher: Searcher, project: ProjectFolder
) -> None:
    learn(project, similarity=1.5)
    found = searcher.search(Search(QUERY, "semantic", facets=True))
    assert (found.hits, found.notes[0].startswith("6 hits ")) == ((), True)
    assert not any(found.facets.values())


@pytest.mark.parametrize("mode", ["hybrid", "bm25"])
def test_other_modes_hide_nothing(
    searcher: Searcher,
    project: ProjectFolder,
    mode: Any,
) -> None:
    learn(project, similarity=1.5)
    found = searcher.search(Search(QUERY, mode))
    assert found.hits
    assert found.notes == ()


def test_nothing_is_hidden_unless_the_user_asks(searcher: Searcher, project: ProjectFolder) -> None:
    learn(project, similarity=1.5)
    write_text(project.path / "project.toml", "")
    found = searcher.search(Search(QUERY, "semantic"))
    assert (len(found.hits), found.notes) == (6, ())


def test_without_a_fitting_threshold_there_is_a_reason(
    searcher: Searcher, project: ProjectFolder
) -> None:
    nothing_learned = searcher.search(Search(QUERY, "semantic")).notes
    learn(
        project,
        similarity=None,
        reason="50 judged queries are needed",
    )
    assert (
        searcher.search(Search(QUERY, "semantic"))
        .notes[0]
        .endswith(": 50 judged queries are needed.")
    )
    learn(
        project,
        similarity=1.5,
        encoder="another",
    )
    found = searcher.search(Search(QUERY, "semantic"))
    assert len(found.hits) == 6
    assert len({*nothing_learned, *found.notes}) == 2  # each for its own reason


def test_a_hit_at_the_threshold_is_not_weak() -> None:
    ranking = np.array([4, 2, 9]), np.array([0.5, 0.25, 0.125], np.float32)
    (ids, cosines), told = hide_weak(
        ranking,
        10,
        0.25,
        "",
    )
    assert (ids.tolist(), cosines.tolist()) == ([4, 2], [0.5, 0.25])
    assert told.startswith("1 hit ")
    assert "0.25" in told
    assert hide_weak(ranking, 10, 0.1, "")[1] == ""
