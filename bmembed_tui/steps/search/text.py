"""The texts of step Search, as pure functions."""

from __future__ import annotations

from collections.abc import Sequence

from bmembed_tui.client.in_app import format_advice
from bmembed_tui.client.progress import format_activity, format_progress
from bmembed_tui.client.project_status import SEARCH
from bmembed_tui.client.run_state import RunState
from bmembed_tui.steps.search.model import Answer
from bmembed_tui.steps.search.search_as_you_type import Searching
from engine.core.errors import EngineError
from engine.core.messages.project import ProjectStatus
from engine.core.messages.search import FoundIn
from engine.core.text import duration, format_count

NOTHING = (
    "There is nothing to search yet.\n"
    "Reading the documents takes seconds to minutes: then they can be searched by keyword. Search"
    " by meaning follows as they are embedded, the newest and smallest first.\n"
)
OFFER = "\nOr try one of these:"
NO_OFFER = "\nHits come while you type."
EVERY_PASSAGE = "every passage"
FOUND_BY = {"bm25": " by keywords", "semantic": " by meaning"}


def format_nothing(run: RunState, running: bool) -> str:
    """Return what to show before anything can be searched."""
    if running:
        return (
            f"{format_activity(run)}\n\nHits by keyword come once the first documents are read.\n"
        )
    return NOTHING


def format_offer(status: ProjectStatus, key: str) -> str:
    """Return what search lacks and which key adds it; empty where nothing is lacking."""
    if not status.built("embed"):
        return (
            f"Keywords only so far. {key} embeds the documents: search then finds by meaning, too."
        )
    for name in SEARCH:
        stage = status.stage(name)
        if stage.state != "done":
            return f"Not up to date: {stage.reason}. {key} updates search."
    if not status.built("evaluate"):
        return f"{key} makes search better: it offers to adapt the encoder to your documents."
    stage = status.stage("evaluate")
    if stage.state != "done" and stage.reason:
        return f"The evaluation is not up to date: {stage.reason}. {key} offers to renew it."
    return ""


def format_embedding(run: RunState, *, is_first: bool) -> str:
    """Return how far embedding is; empty where no run is embedding.

    `is_first`: nothing can be found by meaning before this embedding.
    """
    if run.current != "embed":
        return ""
    progress = format_progress(
        run,
        "  ",
        with_bar=True,
    )
    if not progress and run.stage("embed").progress:
        progress = ", finishing"
    meanwhile = "search works meanwhile"
    if is_first:
        meanwhile = "hits by keyword come at once, hits by meaning as it goes on"
    return f"▶ embedding{progress} · {meanwhile}"


def format_status(mode: str, searching: Searching) -> str:
    """Return how far the search in a mode is, or what it found."""
    answer = searching.answer(mode)
    if searching.question.empty:
        if searching.encoder == "loading":
            return "The encoder is loading; keyword search works already."
        return ""
    if answer is None:
        return "searching …"
    if answer.error:
        return ""
    parts = [format_count(len(answer.hits), "hit") + format_found_by(mode, answer)]
    if answer.hits and not answer.question.by_document:
        parts.append(EVERY_PASSAGE)
    if answer.question.by_date and answer.hits:
        parts.append("newest first")
    parts.append(duration(answer.seconds))
    filters = searching.question.filters.count
    if filters:
        parts.append(format_count(filters, "filter"))
    if answer.reranking:
        parts.append("reranking …")
    elif answer.reranked and answer.reranked.passages:
        seconds = duration(answer.reranked.seconds)
        parts.append(f"{answer.reranked.passages} reranked in {seconds}")
    if answer.by != mode and mode in searching.pending:
        parts.append("searching by meaning …")
    return " · ".join(filter(None, parts))


def format_found_by(mode: str, answer: Answer) -> str:
    """Return ` by keywords` or ` by meaning` if only that ranker found hits in another mode."""
    rankers = {hit.only_ranker or answer.by for hit in answer.hits}
    if len(rankers) == 1 and mode not in rankers:
        return FOUND_BY.get(rankers.pop(), "")
    return ""


def format_no_hits(answer: Answer, *, by_meaning_follows: bool = False) -> str:
    """Return what to show if there are no hits.

    `by_meaning_follows`: whether the encoder is still asked, or documents are being embedded.
    """
    has_filters = answer.question.filters.count > 0
    if by_meaning_follows:
        document = "document that the filters leave" if has_filters else "document"
        return f"No hits yet: no {document} holds these words. Hits by meaning follow."
    if answer.note:
        return answer.note
    if has_filters:
        return "No hits. The filters may leave too little: F9 shows them."
    if answer.by == "bm25":
        return "No hits: no document holds these words. F6 finds by meaning."
    return "No hits. Try other words."


def format_everywhere(query: str, answers: Sequence[FoundIn]) -> str:
    """Return how many hits were found in how many projects, and which could not be searched."""
    hits = 0
    projects = 0
    problems = []
    for answer in answers:
        if answer.found:
            projects += 1
            hits += len(answer.found.hits)
        if answer.problem:
            problems.append(f"✗ {answer.project}: {answer.problem.what}")
    projects_text = format_count(projects, "project")
    return "\n".join([f"{format_count(hits, 'hit')} in {projects_text} for: {query}", *problems])


def format_judgment(
    rank: int,
    relevant: bool | None,
    queries: int,
) -> str:
    """Return the outcome of a judgment. `queries`: how many have judgments."""
    verdict = {True: "✓ right", False: "✗ wrong", None: "no mark"}[relevant]
    judged = format_count(queries, "judged question")
    return f"{verdict} (hit {rank}) · {judged} for evaluation"


def format_problem(error: EngineError) -> str:
    """Return an error in one line."""
    return f"✗ {error.what} {format_advice(error)}".rstrip()
