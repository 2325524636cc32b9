"""Comparison of two result lists by people: questions, lists, answers and what they prove."""

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
    PreferenceShown,
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
from engine.core.messages.search import Hit
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
    from engine.service.judging_queue import OpenQuestion, ToJudge
    from engine.service.system_lists import SystemLists


@dataclass(frozen=True, slots=True)
class Question:
    """A query whose two result lists people may compare."""

    text: str
    origin: Origin = "own"
    """`own` for a query that people wrote, otherwise how it was generated."""
    source: str = ""
    """Names the text that it was generated from; empty if unknown."""


def questions_worth_comparing(snapshot: ProjectSnapshot) -> list[Question]:
    """Return people's questions, then held-out generated or imported ones, one for each source.

    Extractive queries are left out, because their answers prove nothing, and so are queries that
    an adapter was trained on.
    """
    generated = generated_questions(snapshot)
    trained = find_trained_keys(snapshot)
    questions: dict[str, Question] = {}
    for text in _read_questions_of_people(snapshot):
        key = question_key(text)
        if key not in generated and key not in trained:
            questions.setdefault(key, Question(text))
    sources: set[str] = set()
    for key in sorted(generated, key=_hash_key):
        question = generated[key]
        if question.origin == "extractive" or question.source in sources or key in trained:
            continue
        if question.source:
            sources.add(question.source)
        questions.setdefault(key, question)
    return list(questions.values())


def _hash_key(key: str) -> str:
    """Return a digest of a question's key, by which questions are in a fixed random order."""
    return hashlib.sha256(fold(key).encode()).hexdigest()


def generated_questions(snapshot: ProjectSnapshot) -> dict[str, Question]:
    """Return the held-out queries that were generated or imported, by their `question_key`."""
    from engine.evaluation.query_sets import rung_of_query
    from engine.queries.choosing import backend_of_queries

    heldout = [query for query in snapshot.store.queries() if query.split == "heldout"]
    if not heldout:
        return {}
    backend = backend_of_queries(snapshot)
    source_of = _build_source_namer(snapshot)
    questions: dict[str, Question] = {}
    for query in heldout:
        origin: Any = rung_of_query(query, backend)
        question = Question(
            query.text,
            origin,
            source_of(query),
        )
        questions.setdefault(question_key(query.text), question)
    return questions


def _build_source_namer(snapshot: ProjectSnapshot) -> Callable[[Query], str]:
    """Return a function from a query to the name of its source.

    That is the path of the first of its related documents or, if the project has few groups of
    related documents, the hash of its passage.
    """
    from engine.metrics.differences import MIN_QUERIES
    from engine.queries.heldout import related_in

    documents = snapshot.store.documents()
    related = related_in(snapshot.store)
    if len(set(related.values())) < MIN_QUERIES:
        hashes = {}
        for chunk_id, _, content_hash in snapshot.store.chunk_keys():
            hashes[chunk_id] = content_hash
        return lambda query: hashes.get(query.chunk_id, "")
    paths = {document.id: document.path for document in documents}
    return lambda query: paths.get(related.get(query.document_id, query.document_id), "")


def _read_questions_of_people(snapshot: ProjectSnapshot) -> Iterator[str]:
    """Yield the questions that people have compared lists for, marked passages for, or imported."""
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


def find_trained_keys(snapshot: ProjectSnapshot) -> set[str]:
    """Return the `question_key` of each query that an adapter is trained on."""
    return {
        question_key(query.text) for query in snapshot.store.queries() if query.split != "heldout"
    }


class ListComparer:
    """Answers requests to compare the result lists of two systems in one project.

    The systems' encoders are loaded once for the process.
    """

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
        """Close the databases."""
        for lists in self._lists.values():
            lists.close()
        self._lists.clear()

    def questions(
        self, project: ProjectFolder, request: ReadQuestionsToCompare
    ) -> QuestionsToCompare:
        """Return the questions whose lists differ. Raises NotBuiltError, ModelError."""
        lists = self._open(project, request.mode)
        pair = lists.ready()
        questions = questions_worth_comparing(lists.snapshot)[: request.limit]
        answers = _read_answers(project, pair)
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
        """Return both lists of a query, in an order that does not reveal the systems.

        Raises UsageError for a query without words, otherwise as `questions`.
        """
        query = _clean_query(request.query)
        lists = self._open(project, request.mode)
        pair = lists.ready()
        hits = lists.list_hits(query)
        texts = lists.passage_texts(_chunk_ids(hits.reference + hits.candidate))
        if pair.candidate_first(query):
            first, second = _mark_differences(
                hits.candidate,
                hits.reference,
                texts,
            )
        else:
            first, second = _mark_differences(
                hits.reference,
                hits.candidate,
                texts,
            )
        same = not any(passage.differs for passage in (*first, *second))
        answer = _read_answers(project, pair).get(question_key(query))
        return TwoLists(
            query,
            first,
            second,
            same,
            answer,
            pair.digest,
        )

    def prefer(self, project: ProjectFolder, request: Prefer) -> PreferencesShown:
        """Store the answer which list is better, or withdraw it if `better` is None.

        Raises UsageError if a new evaluation compares other systems than those whose lists were
        shown, ProjectBusyError, ResourceError, and what `compare` raises.
        """
        from engine.evaluation.lists.preferences import Preference, drop_preference, keep_preference

        query = _clean_query(request.query)
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
            generated = generated_questions(lists.snapshot)
            question = generated.get(question_key(query), Question(query))
            hits = lists.list_hits(query)
            digests = (_digest(lists, hits.reference), _digest(lists, hits.candidate))
            if pair.candidate_first(query):  # in the order in which the lists were shown
                digests = digests[::-1]
            first, second = pair.shown(query)
            preference = Preference(
                query,
                first,
                second,
                request.better,
                time.time(),
                question.origin,
                question.source,
                digests,
            )
            keep_preference(project, preference)
        return self._summarize(project, lists)

    def read(self, project: ProjectFolder, request: ReadPreferences) -> PreferencesShown:
        """Return what all answers so far prove.

        Raises NotBuiltError if there are no two systems to compare.
        """
        return self._summarize(project, self._open(project, request.mode))

    def to_judge(self, project: ProjectFolder, request: ReadQuestionsToJudge) -> QuestionsToJudge:
        """Return the passages whose judgment can change the comparison of the two systems.

        Without two systems to compare, all hits. Raises what `compare` raises.
        """
        preload()
        from engine.service.judging_queue import KnownAnswers, gather, name_queries, worth_judging
        from engine.service.pooling import FocusedPooler, open_pooler

        queries: Iterable[ToJudge]
        if request.query is None:
            queries = worth_judging(project)
            limit = request.limit
        else:
            queries = name_queries([_clean_query(request.query)])
            limit = None
        pooler = open_pooler(project, self._open(project, None))
        try:
            gathered = gather(
                project,
                pooler,
                KnownAnswers(project),
                queries,
                limit,
            )
        finally:
            pooler.close()
        return QuestionsToJudge(
            gathered.considered,
            gathered.settled,
            isinstance(pooler, FocusedPooler),
            tuple(map(_to_message, gathered.questions)),
            tuple(pooler.notes),
        )

    def _summarize(self, project: ProjectFolder, lists: SystemLists) -> PreferencesShown:
        """Return what the answers about two systems prove, by their e-processes.

        Only answers about people's own queries can show that the candidate is better.
        """
        from engine.evaluation.lists.preferences import preferences_between, weigh_preferences
        from engine.evaluation.selection import contenders_of
        from engine.metrics.e_process import THRESHOLD, e_process
        from engine.project.store.artifact_info import ContenderInfo

        pair = lists.pair
        mode = pair.candidate.mode
        answers = preferences_between(
            project,
            lists.snapshot.store,
            pair,
        )
        evidence = weigh_preferences(answers, pair)
        counts = e_process(answer.outcome(pair) for answer in answers)
        contender = contenders_of(lists.snapshot).get(mode, ContenderInfo())
        verdict: PreferenceShown = "neither"
        if evidence.wealth_better >= contender.wealth_needed:
            verdict = "better"
        elif evidence.wealth_worse >= THRESHOLD:
            verdict = "worse"
        return PreferencesShown(
            mode=mode,
            answers=len(_read_answers(project, pair)),
            wins=counts.wins,
            losses=counts.losses,
            ties=counts.ties,
            better=evidence.wealth_better,
            worse=evidence.wealth_worse,
            threshold=contender.wealth_needed,
            shown=verdict,
            generated=len(answers) - evidence.count,
        )

    def _open(self, project: ProjectFolder, mode: ListMode | None) -> SystemLists:
        """Return the lists of a search mode, which are kept; None for the project's default."""
        preload()
        from engine.service.system_lists import SystemLists

        if mode not in self._lists:
            self._lists[mode] = SystemLists(project, mode)
        return self._lists[mode]


def _to_message(question: OpenQuestion) -> QuestionToJudge:
    """Return a question for user interfaces, with only the passages to judge."""
    passages = []
    for number in question.open:
        hit = question.hits[number]
        passages.append(
            PassageToJudge(hit.chunk_ids[0], hit.path, hit.place, hit.headings, hit.text)
        )
    query = question.query
    return QuestionToJudge(
        query.text,
        query.origin == "generated",
        tuple(passages),
    )


def _clean_query(query: str) -> str:
    """Return a query as it is judged. Raises UsageError for a query without words."""
    words = plain_text(query)
    problem = unsearchable(words)
    if problem:
        raise UsageError(problem, code="query-empty")
    return words


def _read_answers(project: ProjectFolder, pair: SystemPair) -> dict[str, Any]:
    """Return the answers about these two systems, by `question_key`."""
    from engine.evaluation.lists.preferences import read_preferences

    systems = frozenset((pair.reference, pair.candidate))
    answers = {}
    for preference in read_preferences(project):
        question, compared = preference.key
        if compared == systems:
            answers[question] = preference.answer
    return answers


def _mark_differences(
    first: Sequence[Hit], second: Sequence[Hit], texts: dict[int, str]
) -> tuple[tuple[ListedPassage, ...], tuple[ListedPassage, ...]]:
    """Return both lists with their differences marked, without scores that reveal the system.

    `texts`: the text of each passage, by chunk id.
    """
    from engine.evaluation.lists.differing import differing_passages

    first_texts = [texts[chunk_id] for chunk_id in _chunk_ids(first)]
    second_texts = [texts[chunk_id] for chunk_id in _chunk_ids(second)]
    differing = set(differing_passages(first_texts, second_texts))

    def mark(hits: Sequence[Hit]) -> tuple[ListedPassage, ...]:
        passages = []
        for hit in hits:
            blind = replace(
                hit,
                score=0.0,
                rankers={},
                shares={},
            )
            passages.append(ListedPassage(blind, texts[hit.chunk_id] in differing))
        return tuple(passages)

    return mark(first), mark(second)


def _digest(lists: SystemLists, hits: Sequence[Hit]) -> str:
    """Return a digest of the texts in a list, as 16 hexadecimal digits."""
    chunk_ids = _chunk_ids(hits)
    texts = lists.passage_texts(chunk_ids)
    joined = "\0".join(texts[chunk_id] for chunk_id in chunk_ids)
    return hashlib.sha256(joined.encode("utf-8", "surrogatepass")).hexdigest()[:16]


def _chunk_ids(hits: Iterable[Hit]) -> list[int]:
    """Return the chunk ids of hits, in order."""
    return [hit.chunk_id for hit in hits]
