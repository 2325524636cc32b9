"""What the Search step says."""

from __future__ import annotations

from collections.abc import Sequence

from bmembed_tui.client.in_app import advice
from bmembed_tui.client.progress import count, doing, format_progress
from bmembed_tui.client.project_status import SEARCH
from bmembed_tui.client.run_state import RunState
from bmembed_tui.steps.search.model import Answer
from bmembed_tui.steps.search.search_as_you_type import Searching
from engine.core.errors import EngineError
from engine.core.messages.project import ProjectStatus
from engine.core.messages.search import FoundIn
from engine.core.text import duration

HELP = """Type words or a question: hits come while you type. Down or Enter goes to the hits, / back to the field. A \
letter that is not a command there starts a new query.
Keyword search (BM25) finds the words that you type. Semantic search finds by meaning, with the encoder. Hybrid search is both.
F5 to F8 choose; F8 shows all three side by side. F2 makes search better: it embeds what is not embedded yet, then offers to \
adapt the encoder.
F3 searches all projects. F9 filters by path, date, type, author and language.
F10 has your own language model (step 3, Queries) answer the query from the hits: each sentence ends with the numbers of its \
hits, and one without a valid number or quote is marked. A digit goes to a hit, Esc stops.

A hit must contain "words in quotes" as they are, and must not contain -word; open* finds all words that begin with open; \
title:word looks in titles. F4 takes a correction ("Did you mean").

A hit is the best passage of a document; "+2 more" says how many others were found. g shows every passage, d sorts by date.
On a hit, Enter looks inside the document, l finds more like it, w shows why it was found and its scores, o opens the file, c \
copies its text, y its path.
+ marks a hit as right, - as wrong, 0 removes the mark. A query with marks is a judged question: evaluation measures \
with it whether adaptation helps on what you really ask, so mark a few."""  # noqa: E501
NOTHING = """There is nothing to search yet.
Reading the documents takes seconds to minutes: then they can be searched by keyword. Search by meaning follows as they are \
embedded, the newest and smallest first.
"""  # noqa: E501
OFFER = "\nOr try one of these:"
NO_OFFER = "\nHits come while you type."
FOUND_BY = {"bm25": " by keywords", "semantic": " by meaning"}


def nothing(run: RunState, running: bool) -> str:
    """What stands there before anything can be searched."""
    if running:
        return f"{doing(run)}\n\nHits by keyword come once the first documents are read.\n"
    return NOTHING


def offer(status: ProjectStatus, key: str) -> str:
    """What search lacks, and the key that gives it; empty where there is nothing to offer."""
    if not status.built("embed"):
        return (
            f"Keywords only so far. {key} embeds the documents: search then finds by meaning, too."
        )
    if not status.done(*SEARCH):
        stage = next(status.stage(one) for one in SEARCH if status.state(one) != "done")
        return f"Not up to date: {stage.reason}. {key} updates search."
    if status.built("evaluate"):
        stage = status.stage("evaluate")
        why = "" if stage.state == "done" else stage.reason
        if why:
            return f"The evaluation is not up to date: {why}. {key} offers to renew it."
        return ""
    return f"{key} makes search better: it offers to adapt the encoder to your documents."


def embedding(run: RunState) -> str:
    """How far embedding is, while it goes on."""
    if run.current != "embed":
        return ""
    how_far = format_progress(run, "  ", with_bar=True) or (
        ", finishing" if run.stage("embed").progress else ""
    )
    return f"▶ embedding{how_far} · hits by keyword come at once, hits by meaning as it goes on"


def status(mode: str, searching: Searching) -> str:
    """How far the search by a mode is, or what it came to."""
    answer = searching.answer(mode)
    if searching.question.empty:
        if searching.encoder == "loading":
            return "The encoder is loading; keyword search works already."
        return ""
    if answer is None:
        return "searching …"
    if answer.error:
        return ""
    hits = count(len(answer.hits), "hit")
    filters = searching.question.filters.count
    if answer.question.by_date and answer.hits:
        order = "newest first"
    else:
        order = ""
    if answer.reranking:
        reranked = "reranking …"
    elif answer.reranked:
        reranked = f"{answer.reranked.passages} reranked"
    else:
        reranked = ""
    if answer.by != mode and mode in searching.pending:
        waiting = "searching by meaning …"
    else:
        waiting = ""
    parts = (
        hits + found_by(mode, answer),
        order,
        duration(answer.seconds),
        count(filters, "filter") if filters else "",
        reranked,
        waiting,
    )
    return " · ".join(part for part in parts if part)


def found_by(mode: str, answer: Answer) -> str:
    """The one ranker that answered, where the mode asks for another or for both."""
    rankers = {hit.only_ranker or answer.by for hit in answer.hits}
    if len(rankers) == 1 and mode not in rankers:
        return FOUND_BY.get(rankers.pop(), "")
    return ""


def no_hits(answer: Answer, *, by_meaning_follows: bool = False) -> str:
    """What stands where hits would be.

    `by_meaning_follows`: the encoder is still asked, or the documents are being embedded.
    """
    filters = answer.question.filters.count
    if by_meaning_follows:
        if filters:
            which = "that the filters leave holds"
        else:
            which = "holds"
        return f"No hits yet: no document {which} these words. Hits by meaning follow."
    if answer.note:
        return answer.note
    if filters:
        return "No hits. The filters may leave too little: F9 shows them."
    if answer.by == "bm25":
        return "No hits: no document holds these words. F6 finds by meaning."
    return "No hits. Try other words."


def everywhere(query: str, answers: Sequence[FoundIn]) -> str:
    """How many hits a query has in how many projects, and which could not be searched."""
    searched = [one.found for one in answers if one.found]
    hits = count(sum(len(found.hits) for found in searched), "hit")
    problems = [f"✗ {one.project}: {one.problem.what}" for one in answers if one.problem]
    return "\n".join([f"{hits} in {count(len(searched), 'project')} for: {query}", *problems])


def judged(rank: int, relevant: bool | None, queries: int) -> str:
    """What a judgment has brought."""
    what = {True: "✓ right", False: "✗ wrong", None: "no mark"}[relevant]
    return (
        f"{what} (hit {rank}) · {queries:,} judged question{'' if queries == 1 else 's'} for"
        " evaluation"
    )


def problem(error: EngineError) -> str:
    """An error in one line."""
    return f"✗ {error.what} {advice(error)}".rstrip()
