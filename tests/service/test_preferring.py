"""Two lists for one query, and the answers about them, on a project with a trained adapter."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace

import pytest
from fixtures.errors import fails
from fixtures.pipeline import stage_here

from engine.core.errors import NotBuiltError, UsageError
from engine.core.messages.preferences import (
    CompareLists,
    ListMode,
    Prefer,
    PreferencesShown,
    ReadPreferences,
    ReadQuestionsToCompare,
    ReadQuestionsToJudge,
    TwoLists,
)
from engine.core.messages.report import SEARCH_MODES
from engine.core.messages.search import MODES, Search
from engine.core.records import Chunk, JudgedQuery, Query, Split
from engine.evaluation.lists.asked import asked_questions
from engine.evaluation.lists.differing import differing_passages
from engine.evaluation.lists.preferences import read_preferences
from engine.evaluation.lists.systems import ChoicePair, choose_pair
from engine.metrics.e_process import wealth
from engine.project.folder import ProjectFolder
from engine.project.stage import ProjectSnapshot
from engine.project.store.artifact_info import EvaluationInfo, QueriesInfo
from engine.project.store.artifacts import Artifact
from engine.search.searcher import Searcher
from engine.service import methods
from engine.service.pooling import FocusedPooler
from engine.service.preferring import ListComparer, Question, questions_worth_comparing
from engine.service.system_lists import ReferenceAndCandidate, SystemLists

QUERY = "who must be told when the freezer alarm rings at night"


@pytest.fixture
def comparing() -> Iterator[ListComparer]:
    comparer = ListComparer()
    yield comparer
    comparer.close()


def chunk_ids(lists: TwoLists) -> tuple[list[int], list[int]]:
    return [entry.hit.chunk_id for entry in lists.first], [
        entry.hit.chunk_id for entry in lists.second
    ]


def test_without_an_adapter_there_is_nothing_to_compare(
    project: ProjectFolder, comparing: ListComparer
) -> None:
    with fails(NotBuiltError, "nothing-to-compare") as caught:
        comparing.questions(project, ReadQuestionsToCompare())
    assert caught.value.command == "adapt"


def test_the_lists_are_those_that_search_gives_with_either_encoder(adapted: ProjectFolder) -> None:
    searcher = Searcher(adapted)
    try:
        in_use = {
            mode: [hit.chunk_id for hit in searcher.search(Search(QUERY, mode, top=10)).hits]
            for mode in MODES
        }
        names = {mode: searcher.explain(QUERY, [1], mode).in_use for mode in SEARCH_MODES}
    finally:
        searcher.close()
    for mode, name in names.items():
        lists = SystemLists(adapted, mode)
        pair = lists.list_hits(QUERY)
        lists.close()
        if name == "base":
            used = pair.reference
        else:
            used = pair.candidate
        assert [hit.chunk_id for hit in used] == in_use[mode]
        if name == "base":
            other = pair.candidate
        else:
            other = pair.reference
        assert [hit.chunk_id for hit in other] != in_use[mode]


def test_nothing_says_which_list_is_whose(adapted: ProjectFolder, comparing: ListComparer) -> None:
    lists = comparing.compare(adapted, CompareLists(QUERY))
    assert not lists.same
    for entry in (*lists.first, *lists.second):
        assert (entry.hit.score, entry.hit.rankers, entry.hit.shares) == (0.0, {}, {})
    plain = SystemLists(adapted)
    pair = plain.list_hits(QUERY)
    candidate_first = plain.pair.candidate_first(QUERY)
    plain.close()
    both = [[hit.chunk_id for hit in side] for side in (pair.reference, pair.candidate)]
    assert list(chunk_ids(lists)) == (both[::-1] if candidate_first else both)
    again = ListComparer()
    assert again.compare(adapted, CompareLists(f"  {QUERY} ")) == lists
    again.close()


def test_what_differs_is_marked(adapted: ProjectFolder, comparing: ListComparer) -> None:
    lists = comparing.compare(adapted, CompareLists(QUERY))
    first, second = chunk_ids(lists)
    expected = set(differing_passages(first, second))
    marked = {entry.hit.chunk_id for entry in (*lists.first, *lists.second) if entry.differs}
    assert marked == expected != set()


def test_a_chunk_that_is_removed_while_lists_are_made_is_a_passage_of_its_own(
    adapted: ProjectFolder, comparing: ListComparer, monkeypatch: pytest.MonkeyPatch
) -> None:
    list_hits = SystemLists.list_hits

    def lose_the_first(lists: SystemLists, query: str) -> ReferenceAndCandidate:
        pair = list_hits(lists, query)
        first, *others = pair.reference
        return replace(pair, reference=(replace(first, chunk_id=10**9), *others))

    monkeypatch.setattr(SystemLists, "list_hits", lose_the_first)
    lists = comparing.compare(adapted, CompareLists(QUERY))
    (gone,) = (entry for entry in (*lists.first, *lists.second) if entry.hit.chunk_id == 10**9)
    assert gone.differs
    assert comparing.prefer(adapted, Prefer(QUERY, "first")).answers == 1


def test_the_questions_to_compare_are_those_with_two_different_lists(
    adapted: ProjectFolder, comparing: ListComparer
) -> None:
    page = comparing.questions(adapted, ReadQuestionsToCompare(limit=1_000))
    assert page.mode == "hybrid"
    assert page.total == page.same + len(page.questions)
    texts = [question.query for question in page.questions]
    lists = SystemLists(adapted)
    pooler = FocusedPooler(lists)
    store = adapted.store()
    questions = [judged.text for judged in store.judged()]
    store.close()
    for text in questions[::4]:
        assert bool(pooler.pool(text)) == (text in texts)
        assert comparing.compare(adapted, CompareLists(text)).same == (text not in texts)
    lists.close()
    assert not any(question.generated for question in page.questions), (
        "extractive queries prove nothing"
    )
    assert len(comparing.questions(adapted, ReadQuestionsToCompare(limit=3)).questions) <= 3


def test_two_identical_encoders_leave_no_question_to_compare(
    adapted: ProjectFolder, comparing: ListComparer, monkeypatch: pytest.MonkeyPatch
) -> None:
    def base_twice(snapshot: ProjectSnapshot, mode: ListMode | None) -> ChoicePair:
        base = choose_pair(snapshot, mode).reference
        return ChoicePair(base, base)

    monkeypatch.setattr("engine.service.system_lists.choose_pair", base_twice)
    page = comparing.questions(adapted, ReadQuestionsToCompare())
    assert (page.total, page.questions) == (page.same, ())
    assert comparing.compare(adapted, CompareLists(QUERY)).same
    to_judge = comparing.to_judge(adapted, ReadQuestionsToJudge(QUERY))
    assert (to_judge.total, to_judge.settled, to_judge.focused) == (1, 1, True)
    assert [question.passages for question in to_judge.questions] == [()]
    store = adapted.store()
    queries = asked_questions(ProjectSnapshot(adapted, adapted.settings(), store))
    store.close()
    assert queries == [QUERY]


def test_what_is_left_to_judge(adapted: ProjectFolder, comparing: ListComparer) -> None:
    page = comparing.to_judge(adapted, ReadQuestionsToJudge(limit=2))
    assert len(page.questions) == 2
    assert page.total >= 60
    (question, _) = page.questions
    for passage in question.passages:
        methods(adapted)["judge"](query=question.query, chunk_id=passage.chunk_id, relevant=False)()
    again = comparing.to_judge(adapted, ReadQuestionsToJudge(limit=2))
    assert again.settled == page.settled + 1
    assert question.query not in [other.query for other in again.questions]


@pytest.mark.parametrize(("backend", "model_queries"), [("endpoint", 2), ("extractive", 0)])
def test_questions_of_people_come_first_then_one_a_passage_that_a_model_wrote(
    project: ProjectFolder, backend: str, model_queries: int
) -> None:
    store = project.store()
    first, second = store.chunks()[:2]
    splits: list[tuple[str, Chunk, Split]] = [
        ("a", first, "heldout"),
        ("b", first, "heldout"),
        ("c", second, "heldout"),
        ("learnt", second, "train"),
    ]
    queries = [
        Query(text, "question", chunk.id, chunk.document_id, "", split, number)
        for number, (text, chunk, split) in enumerate(splits, 1)
    ]
    store.replace_queries(queries, Artifact(QueriesInfo(backend=backend), "f"))
    store.put_judged(
        [JudgedQuery("k", "Mine?", ("evidence",)), JudgedQuery("l", "Learnt?", ("evidence",))]
    )
    questions = questions_worth_comparing(ProjectSnapshot(project, project.settings(), store))
    store.close()
    assert (
        [query.text for query in questions if query.origin == "own"]
        == ["Mine?"]
        == [query.text for query in questions[:1]]
    )
    assert [query.origin for query in questions[1:]] == ["model"] * model_queries
    assert {query.source for query in questions[1:]} == (
        {first.content_hash, second.content_hash} if model_queries else set()
    )


def test_only_passages_that_differ_are_judged_each_text_once(adapted: ProjectFolder) -> None:
    lists = SystemLists(adapted)
    pooler = FocusedPooler(lists)
    first, second = lists.texts(lists.rank(QUERY))
    hits = pooler.pool(QUERY)
    assert {" ".join(hit.text.split()) for hit in hits} == set(differing_passages(first, second))
    assert len({hit.text for hit in hits}) == len(hits)
    assert pooler.pool(QUERY.upper()) == hits
    assert pooler.pool("?!") == ()
    lists.close()


def test_answers_are_kept_and_can_be_taken_back(
    adapted: ProjectFolder, comparing: ListComparer
) -> None:
    summary = comparing.prefer(adapted, Prefer(QUERY, "first"))
    (preference,) = read_preferences(adapted)
    lists = comparing.compare(adapted, CompareLists(QUERY))
    assert lists.answer == "first"
    assert (preference.query, preference.answer, preference.origin) == (QUERY, "first", "own")
    plain = SystemLists(adapted)
    is_win = plain.pair.candidate_first(QUERY)
    assert plain.pair.shown(QUERY) == (preference.first, preference.second)
    plain.close()
    assert (summary.answers, summary.wins, summary.losses, summary.ties) == (
        1,
        int(is_win),
        int(not is_win),
        0,
    )
    assert summary.shown == "neither"
    assert len(set(preference.lists)) == 2
    comparing.prefer(adapted, Prefer(QUERY, "second"))
    summary = comparing.prefer(adapted, Prefer(QUERY, "same"))
    assert (summary.answers, summary.wins, summary.losses, summary.ties) == (1, 0, 0, 1)
    assert comparing.prefer(adapted, Prefer(QUERY)).answers == 0
    assert read_preferences(adapted) == []


def test_no_answer_is_kept_about_lists_that_were_not_shown(
    adapted: ProjectFolder, comparing: ListComparer
) -> None:
    lists = comparing.compare(adapted, CompareLists(QUERY))
    comparing.prefer(adapted, Prefer(QUERY, "first", systems=lists.systems))
    with closing(adapted.store()) as store:
        artifact = store.artifact(EvaluationInfo)
        assert artifact is not None
        assert artifact.info.hybrid_contender is not None
        if artifact.info.hybrid_contender.share != 0.7:
            share = 0.7
        else:
            share = 0.6
        other = replace(
            artifact.info, hybrid_contender=replace(artifact.info.hybrid_contender, share=share)
        )
        store.put_artifact(replace(artifact, info=other))
    for answer in ("second", None):
        with fails(UsageError, "lists-changed"):
            comparing.prefer(adapted, Prefer(QUERY, answer, systems=lists.systems))
    assert [preference.answer for preference in read_preferences(adapted)] == ["first"]
    again = comparing.compare(adapted, CompareLists(QUERY))
    assert again.systems != lists.systems
    comparing.prefer(adapted, Prefer(QUERY, "second", systems=again.systems))
    assert [preference.answer for preference in read_preferences(adapted)] == ["first", "second"]


def test_answers_show_as_much_as_the_gate_demands_and_generated_queries_speak_only_against(
    adapted: ProjectFolder, comparing: ListComparer, monkeypatch: pytest.MonkeyPatch
) -> None:
    with closing(adapted.store()) as store:
        artifact = store.artifact(EvaluationInfo)
        assert artifact is not None
        assert artifact.info.hybrid_contender is not None
        needed = wealth(9, 0) + 1
        contender = replace(artifact.info.hybrid_contender, wealth_needed=needed)
        store.put_artifact(
            replace(artifact, info=replace(artifact.info, hybrid_contender=contender))
        )
    pair = SystemLists(adapted).pair

    def prefer(query: str, *, candidate: bool) -> PreferencesShown:
        is_first = pair.candidate_first(query) == candidate
        return comparing.prefer(adapted, Prefer(query, "first" if is_first else "second"))

    for number in range(9):
        summary = prefer(f"freezer alarm {number}", candidate=True)
    assert (summary.wins, summary.better, summary.threshold) == (9, wealth(9, 0), needed)
    assert (summary.shown, summary.generated) == ("neither", 0)
    assert prefer("freezer alarm 9", candidate=True).shown == "better"
    generated = {
        f"open door {number}": Question(f"open door {number}", "model") for number in (1, 2)
    }
    monkeypatch.setattr("engine.service.preferring.generated_questions", lambda _: generated)
    prefer("open door 1", candidate=True)
    summary = prefer("open door 2", candidate=False)
    assert (summary.wins, summary.losses, summary.generated) == (11, 1, 2)
    assert (summary.better, summary.worse) == (wealth(10, 0), wealth(1, 11))
    assert "2 are about queries" in summary.sentence()


def test_answers_outlive_a_lost_database(adapted: ProjectFolder, comparing: ListComparer) -> None:
    comparing.prefer(adapted, Prefer(QUERY, "first"))
    before = comparing.read(adapted, ReadPreferences())
    stage_here(adapted.path, "ingest")
    again = ListComparer()
    assert again.read(adapted, ReadPreferences()) == before
    again.close()


def test_a_typed_question_is_offered_again_until_it_is_answered(
    adapted: ProjectFolder, comparing: ListComparer
) -> None:
    assert QUERY not in [
        question.query
        for question in comparing.questions(adapted, ReadQuestionsToCompare()).questions
    ]
    comparing.prefer(adapted, Prefer(QUERY, "first"))
    answers = {
        question.query: question.answer
        for question in comparing.questions(adapted, ReadQuestionsToCompare()).questions
    }
    assert answers[QUERY] == "first"


def test_vectors_that_are_gone_are_said_to_be_so(
    adapted: ProjectFolder, comparing: ListComparer
) -> None:
    for folder in (adapted.path / "cache").glob("?" * 64):
        shutil.rmtree(folder)
    with fails(NotBuiltError, "lists-unavailable") as caught:
        comparing.compare(adapted, CompareLists(QUERY))
    assert caught.value.command == "evaluate"


def test_a_query_without_words_is_refused(adapted: ProjectFolder, comparing: ListComparer) -> None:
    with fails(UsageError, "query-empty"):
        comparing.compare(adapted, CompareLists("?!"))
    with pytest.raises(ValueError, match="empty"):
        methods(adapted)["prefer"](query=" ", better="first")
    with pytest.raises(TypeError):
        methods(adapted)["prefer"](query="x", better="left")


@pytest.mark.parametrize(
    ("counts", "words"),
    [
        ((0, 0, 0, 0), "No lists"),
        ((3, 2, 1, 0), "twice"),
        ((4, 2, 1, 1), "1 was"),
        ((1, 0, 1, 0), "never"),
        ((5, 2, 1, 1), "1 more"),
    ],
)
def test_what_answers_show_is_said(counts: tuple[int, int, int, int], words: str) -> None:
    answers, wins, losses, ties = counts
    summary = PreferencesShown(
        "hybrid",
        answers,
        wins,
        losses,
        ties,
        1.5,
        0.4,
        20.0,
        "neither",
    )
    assert words in summary.sentence()
