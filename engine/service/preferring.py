"""Which list is better: the questions worth asking, both lists of one, and what the answers
show.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from engine.core.errors import UsageError
from engine.core.messages.preferences import (
    CompareLists,
    ListedPassage,
    ListMode,
    PassageToJudge,
    Prefer,
    PreferencesShown,
    QuestionsToCompare,
    QuestionsToJudge,
    QuestionToCompare,
    QuestionToJudge,
    ReadPreferences,
    ReadQuestionsToCompare,
    ReadQuestionsToJudge,
    TwoLists,
)
from engine.core.messages.search import Hit, query_words
from engine.core.messages.wire import Request
from engine.project.folder import ProjectFolder
from engine.project.stage import ProjectSnapshot
from engine.queries.rules.tokens import fold, question_key
from engine.search.searcher import unsearchable
from engine.search.syntax import plain_text
from engine.search.workers import preload

if TYPE_CHECKING:
    from engine.core.records import Query
    from engine.evaluation.lists.preferences import Origin
    from engine.evaluation.lists.systems import SystemPair
    from engine.service.judging_queue import ToJudge
    from engine.service.system_lists import SystemLists


@dataclass(frozen=True, slots=True)
class Question:
    """A query that may be asked about, who wrote it, and the text that it was made from, empty
    where nobody knows.
    """

    text: str
    origin: Origin = "own"
    source: str = ""


def questions_worth_comparing(snapshot: ProjectSnapshot) -> list[Question]:
    """Questions of people first, then held-out ones that a language model wrote or a file held,
    one of each text.

    Extractive ones prove nothing, and those that something was trained on do not count.
    """
    made = made_questions(snapshot)
    trained = _trained(snapshot)
    found: dict[str, Question] = {}
    for text in _own_texts(snapshot):
        if question_key(text) not in made and question_key(text) not in trained:
            found.setdefault(question_key(text), Question(text))
    sources: set[str] = set()
    for key in sorted(made, key=lambda one: hashlib.sha256(fold(one).encode()).hexdigest()):
        question = made[key]
        if question.origin == "extractive" or question.source in sources or key in trained:
            continue
        if question.source:
            sources.add(question.source)
        found.setdefault(key, question)
    return list(found.values())


def made_questions(snapshot: ProjectSnapshot) -> dict[str, Question]:
    """The held-out queries that were made for training, by their key."""
    from engine.evaluation.query_sets import rung_of
    from engine.queries.choosing import made_by

    heldout = [query for query in snapshot.store.queries() if query.split == "heldout"]
    if not heldout:
        return {}
    backend = made_by(snapshot)
    source_of = _sources(snapshot)
    found: dict[str, Question] = {}
    for query in heldout:
        origin: Any = rung_of(query, backend)
        found.setdefault(question_key(query.text), Question(query.text, origin, source_of(query)))
    return found


def _sources(snapshot: ProjectSnapshot) -> Callable[[Query], str]:
    """What names the text that a query was made from: its first document; its passage where
    there are few documents.
    """
    from engine.metrics.differences import MIN_QUERIES
    from engine.queries.heldout import related_in

    documents = snapshot.store.documents()
    related = related_in(snapshot.store, documents)
    if len(set(related.values())) < MIN_QUERIES:
        hashes = {key[0]: key[2] for key in snapshot.store.chunk_keys()}
        return lambda query: hashes.get(query.chunk_id, "")
    paths = {document.id: document.path for document in documents}
    return lambda query: paths.get(related.get(query.document_id, query.document_id), "")


def _own_texts(snapshot: ProjectSnapshot) -> Iterator[str]:
    from engine.evaluation.lists.preferences import read_preferences
    from engine.evaluation.marks import read_marks

    for preference in read_preferences(snapshot.project):
        if preference.origin == "own":
            yield preference.query
    for marked in read_marks(snapshot.project).values():
        if not marked.generated:
            yield marked.text
    for judged in snapshot.store.judged():
        if not judged.only_measures:
            yield judged.text


def _trained(snapshot: ProjectSnapshot) -> set[str]:
    return {
        question_key(query.text) for query in snapshot.store.queries() if query.split != "heldout"
    }


class Comparing:
    """The lists of one project, its encoders loaded once. It ends with its process."""

    def __init__(self) -> None:
        self._lists: dict[ListMode | None, SystemLists] = {}
        self.handlers: dict[type[Request[Any]], Callable[[ProjectFolder, Any], Any]] = {
            ReadQuestionsToCompare: self.questions,
            CompareLists: self.compare,
            Prefer: self.prefer,
            ReadPreferences: self.read,
            ReadQuestionsToJudge: self.to_judge,
        }

    def close(self) -> None:
        """Let go of the databases."""
        for lists in self._lists.values():
            lists.close()
        self._lists.clear()

    def questions(
        self, project: ProjectFolder, request: ReadQuestionsToCompare
    ) -> QuestionsToCompare:
        """The questions whose lists differ. Raises NotBuiltError, ModelError."""
        lists = self._open(project, request.mode)
        pair = lists.ready()
        questions = questions_worth_comparing(lists.snapshot)[: request.limit]
        answers = _answers(project, pair)
        lists.load(question.text for question in questions)
        different: list[QuestionToCompare] = []
        for question in questions:
            first, second = lists.texts(lists.rank(question.text))
            if first != second:
                answer = answers.get(question_key(question.text))
                different.append(QuestionToCompare(question.text, question.origin != "own", answer))
        same = len(questions) - len(different)
        return QuestionsToCompare(
            pair.candidate.mode, len(questions), same, tuple(different), tuple(lists.notes)
        )

    def compare(self, project: ProjectFolder, request: CompareLists) -> TwoLists:
        """Both lists of a query, blind.

        Raises UsageError for a query without words, else as `questions`.
        """
        query = _checked_query(request.query)
        lists = self._open(project, request.mode)
        pair = lists.ready()
        found = lists.shown(query)
        texts = lists.passage_texts((*found.reference, *found.candidate))
        first = found.reference
        second = found.candidate
        if pair.candidate_first(query):
            first, second = second, first
        shown, beside = _listed(first, second, texts)
        same = not any(one.differs for one in (*shown, *beside))
        answer = _answers(project, pair).get(question_key(query))
        return TwoLists(query, shown, beside, same, answer, pair.digest)

    def prefer(self, project: ProjectFolder, request: Prefer) -> PreferencesShown:
        """Keep an answer, or take it back.

        Raises UsageError where other lists have come in place of those that were shown,
        ProjectBusyError, ResourceError, else as `compare`.
        """
        from engine.evaluation.lists.preferences import Preference, drop_preference, keep_preference

        query = _checked_query(request.query)
        lists = self._open(project, request.mode)
        pair = lists.pair
        if request.systems not in ("", pair.digest):
            raise UsageError(
                "The answer was not kept: it is about lists that are no longer compared.",
                "An evaluation has ended since they were shown.",
                "Look at both lists again.",
                code="lists-changed",
            )
        if request.better is None:
            drop_preference(project, query, pair)
        else:
            made = made_questions(lists.snapshot).get(question_key(query), Question(query))
            found = lists.shown(query)
            digests = (_digest(lists, found.reference), _digest(lists, found.candidate))
            if pair.candidate_first(query):
                digests = digests[::-1]
            first, second = pair.shown(query)
            keep_preference(
                project,
                Preference(
                    query,
                    first,
                    second,
                    request.better,
                    time.time(),
                    made.origin,
                    made.source,
                    digests,
                ),
            )
        return self._shown(project, lists)

    def read(self, project: ProjectFolder, request: ReadPreferences) -> PreferencesShown:
        """What the answers show. Raises NotBuiltError where there is nothing to compare."""
        return self._shown(project, self._open(project, request.mode))

    def to_judge(self, project: ProjectFolder, request: ReadQuestionsToJudge) -> QuestionsToJudge:
        """The passages that can change the comparison; all hits where there is none.

        Raises as `compare`.
        """
        preload()
        from engine.service.judging_queue import KnownAnswers, gather, named, worth_judging
        from engine.service.pooling import FocusedPooler, open_pooler

        queries: Iterable[ToJudge]
        if request.query is None:
            queries = worth_judging(project)
        else:
            queries = named([_checked_query(request.query)])
        pooler = open_pooler(project, self._open(project, None))
        try:
            most = request.limit if request.query is None else None
            found = gather(project, pooler, KnownAnswers(project), queries, most)
        finally:
            pooler.close()
        questions: list[QuestionToJudge] = []
        for one in found.questions:
            hits = [one.hits[place] for place in one.open]
            passages = tuple(
                PassageToJudge(hit.chunk_ids[0], hit.path, hit.place, hit.headings, hit.text)
                for hit in hits
            )
            questions.append(
                QuestionToJudge(one.query.text, one.query.origin == "generated", passages)
            )
        is_focused = isinstance(pooler, FocusedPooler)
        return QuestionsToJudge(
            found.considered, found.settled, is_focused, tuple(questions), tuple(pooler.notes)
        )

    def _shown(self, project: ProjectFolder, lists: SystemLists) -> PreferencesShown:
        from engine.evaluation.lists.preferences import preferences_between, preferred
        from engine.metrics.e_process import THRESHOLD

        pair = lists.pair
        state = preferred(preferences_between(project, lists.snapshot.store, pair), pair)
        return PreferencesShown(
            pair.candidate.mode,
            len(_answers(project, pair)),
            state.wins,
            state.losses,
            state.ties,
            state.better,
            state.worse,
            THRESHOLD,
            state.shown,
        )

    def _open(self, project: ProjectFolder, mode: ListMode | None) -> SystemLists:
        preload()
        from engine.service.system_lists import SystemLists

        if mode not in self._lists:
            self._lists[mode] = SystemLists(project, mode)
        return self._lists[mode]


def _checked_query(query: str) -> str:
    """A query as it is judged. Raises UsageError for one without words."""
    words = query_words(plain_text(query))
    if problem := unsearchable(words):
        raise UsageError(problem, code="query-empty")
    return words


def _answers(project: ProjectFolder, pair: SystemPair) -> dict[str, Any]:
    """By question, what was answered about these systems, as it is shown now."""
    from engine.evaluation.lists.preferences import read_preferences

    both = frozenset((pair.reference, pair.candidate))
    return {one.key[0]: one.answer for one in read_preferences(project) if one.key[1] == both}


def _listed(
    first: Sequence[Hit], second: Sequence[Hit], texts: dict[int, str]
) -> tuple[tuple[ListedPassage, ...], tuple[ListedPassage, ...]]:
    """Both lists with what differs between them; nothing in a hit says what found it."""
    from engine.evaluation.lists.differing import differing_passages

    keys = {chunk_id: " ".join(text.split()) for chunk_id, text in texts.items()}
    differing = set(
        differing_passages(
            [keys[hit.chunk_id] for hit in first], [keys[hit.chunk_id] for hit in second]
        )
    )

    def blind(hits: Sequence[Hit]) -> tuple[ListedPassage, ...]:
        return tuple(
            ListedPassage(
                replace(hit, score=0.0, rankers={}, shares={}), keys[hit.chunk_id] in differing
            )
            for hit in hits
        )

    return blind(first), blind(second)


def _digest(lists: SystemLists, hits: Sequence[Hit]) -> str:
    """What a list held, in 16 hexadecimal digits."""
    texts = lists.passage_texts(hits)
    words = "\0".join(
        " ".join(texts[hit.chunk_id].split()) for hit in hits if hit.chunk_id in texts
    )
    return hashlib.sha256(words.encode("utf-8", "surrogatepass")).hexdigest()[:16]
