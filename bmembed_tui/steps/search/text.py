"""What the Search step says."""

from __future__ import annotations

from bmembed_tui.client.in_app import advice
from bmembed_tui.client.progress import count
from bmembed_tui.steps.search.model import NAMES, Answer
from bmembed_tui.steps.search.search_as_you_type import LOADING, Searching
from engine.core.errors import EngineError

HELP = """Type, and the hits come while you type. Down or Enter goes to them, / or a letter back to the field.
BM25 finds the words that you type; semantic search finds by meaning, with the encoder; hybrid fuses the two.
F5 to F8 choose, F8 shows all three; F9 filters by path and date, and by type, author and language of what was found.

On a hit: Enter looks inside the document, w shows why it was found, o opens the file, c copies its text, y its path.
+ marks it as relevant, - as not relevant, 0 takes the mark back. A query with marks is a judged query: evaluation measures
with it whether adaptation helped on what you really ask, so mark a few."""
NOTHING = """There is nothing to search yet.
First the documents are read and cut into chunks, and a BM25 index is made of their words. That takes seconds for hundreds \
of documents. Search by meaning comes with the encoder, later.
"""
OFFER = "\nOr choose one of this project's own queries:"
NO_OFFER = "\nHits come while you type."
SCALES = {"bm25": "BM25 score", "semantic": "similarity", "hybrid": "fused score"}


def status(mode: str, searching: Searching) -> str:
    """How far the search by a mode is, or what it came to."""
    answer = searching.answer(mode)
    if searching.question.empty:
        return f"{LOADING}; BM25 answers at once" if searching.encoder == "loading" else ""
    if answer is None:
        return "searching …"
    if answer.error:
        return ""
    took = f"{answer.milliseconds:.0f} ms"
    if answer.by != mode and mode in searching.pending:
        return f"{count(len(answer.hits), 'hit')} by {NAMES[answer.by]} · {took} · {LOADING} …"
    filters = searching.question.filters.count
    return f"{count(len(answer.hits), 'hit')} · {scale(answer)} · {took}" + (
        f" · {count(filters, 'filter')}" if filters else ""
    )


def scale(answer: Answer) -> str:
    """What the scores are: those of the one ranker that answered, or fused ones."""
    used = {hit.only_ranker for hit in answer.hits}
    by = used.pop() if len(used) == 1 and "" not in used else answer.by
    return SCALES[by]


def no_hits(answer: Answer) -> str:
    """What stands where hits would be."""
    if answer.note:
        return answer.note
    if answer.question.filters.count:
        return "No hits. The filters may leave too little: F9 shows them."
    if answer.by == "bm25":
        return "No hits: no document holds these words. F6 finds by meaning."
    return "No hits. Try other words."


def judged(rank: int, relevant: bool | None, queries: int) -> str:
    """What a judgment has brought."""
    what = {True: "✓ relevant", False: "✗ not relevant", None: "no mark"}[relevant]
    return f"{what} (hit {rank}) · {queries:,} judged quer{'y' if queries == 1 else 'ies'} for evaluation"


def problem(error: EngineError) -> str:
    """An error in one line."""
    return f"✗ {error.what} {advice(error)}".rstrip()
