"""What the Search step says."""

from __future__ import annotations

from collections.abc import Mapping

from textual.content import Content

from bmembed_tui.client.in_app import advice
from bmembed_tui.steps.progress import count
from bmembed_tui.steps.search.hit_text import hub_offset_of, place_of
from bmembed_tui.steps.search.model import ALL, NAMES, Answer
from bmembed_tui.steps.search.search_as_you_type import LOADING, Searching
from bmembed_tui.widgets.plain import plain
from engine.core.errors import EngineError
from engine.core.messages.search import MODES, Hit

HELP = """Type, and the hits come while you type. Down or Enter goes to them, / or a letter back to the field.
BM25 finds the words that you type; semantic search finds by meaning, with the encoder; hybrid fuses the two.
F5 to F8 choose, F8 shows all three; F9 filters by path, type, date, author and language.

Below the filters stands what the found documents are: how many are of each type, author, language, year and folder. The
arrows move there, Enter or a click takes one as a filter (✓), and once more lets it go; 'Clear' lets all of them go.

On a hit: Enter looks inside the document, w shows why it was found, o opens the file, c copies its text, y its path.
+ marks it as relevant, - as not relevant, 0 takes the mark back. A query with marks is a judged query: evaluation measures
with it whether adaptation helped on what you really ask, so mark a few.

'Why hit' shows its rank by each ranker, what part of the score each gave, and from which rank the adapter moved it."""
NOTHING = """There is nothing to search yet.
First the documents are read and cut into chunks, and a BM25 index is made of their words. That takes seconds for
hundreds of documents. Search by meaning comes with the encoder, later.
"""
OFFER = "\nOr choose one of this project's own queries:"
NO_OFFER = "\nHits come while you type."
SCALES = {"bm25": "BM25 score", "semantic": "cosine", "hybrid": "fused score"}


def took(answer: Answer) -> str:
    """How long the answer took."""
    return f"{answer.milliseconds:.0f} ms" if answer.milliseconds < 1000 else f"{answer.milliseconds / 1000:.1f} s"


def status(mode: str, searching: Searching) -> str:
    """The line under the modes."""
    answer = searching.answer(mode)
    if searching.question.empty:
        return f"{LOADING}; BM25 answers at once" if searching.encoder == "loading" else ""
    if answer is None:
        return "searching …"
    if answer.error:
        return ""
    if answer.by != mode and mode in searching.pending:
        return f"{count(len(answer.hits), 'hit')} by {NAMES[answer.by]} · {took(answer)} · {LOADING} …"
    return f"{count(len(answer.hits), 'hit')} · {scale(answer)} · {took(answer)}"


def scale(answer: Answer) -> str:
    """What the scores are: those of the one ranker that answered, or fused ones."""
    used = {hit.only_ranker for hit in answer.hits}
    by = used.pop() if len(used) == 1 and "" not in used else answer.by
    corrected = by == "semantic" and any(hub_offset_of(hit) is not None for hit in answer.hits)
    return "similarity" if corrected else SCALES[by]


def head(mode: str, searching: Searching, *, current: bool, alone: bool) -> Content:
    """The heading of a column, where there are three. `alone`: the others are out of sight."""
    answer = searching.answer(mode)
    what = "searching …" if answer is None else "encoder is loading" if answer.by != mode else ""
    if answer is not None and not what and not answer.error:
        what = f"{count(len(answer.hits), 'hit')} · {took(answer)}"
    sign = "▸" if current else " "
    others = f"   ← {MODES.index(mode) + 1} of {len(MODES)} →" if alone else ""
    return Content.assemble(
        plain(f"{sign}{NAMES[mode]}", "bold underline" if current else "bold"),
        plain(f"  {what}{others}"),
    )


def no_hits(answer: Answer) -> str:
    """What stands where hits would be."""
    if answer.hits:
        return ""
    if answer.note:
        return answer.note
    if answer.question.filters.count:
        return "No hits. The filters may leave too little: F9 shows them."
    if answer.by == "bm25":
        return "No hits: no document holds these words. F6 finds by meaning."
    return "No hits. Try other words."


MARKS = {True: "✓ relevant", False: "✗ not relevant"}


def judged(rank: int, relevant: bool | None, before: bool | None, queries: int) -> str:
    """What a judgment has brought. `before`: the mark that was taken back."""
    if relevant is None and before is None:
        return f"Hit {rank} has no mark: there is nothing to take back."
    what = f"taken back: {MARKS[bool(before)]}" if relevant is None else MARKS[relevant]
    return f"{what} (hit {rank}) · {queries:,} judged quer{'y' if queries == 1 else 'ies'} for evaluation"


def opened(hit: Hit, *, at_page: bool) -> str:
    """What opening a hit's file came to: the user learns the page where the viewer could not be given it."""
    if at_page:
        return f"Opened {hit.path} at page {hit.page}."
    return f"Opened {hit.path}: the hit is on {place_of(hit)}." if hit.page is not None else f"Opened {hit.path}."


def problem(error: EngineError) -> str:
    """An error in one line."""
    return f"✗ {error.what} {advice(error)}".rstrip()


def commands(hit: bool) -> Mapping[str, tuple[str, str]]:
    """The command palette. `hit`: whether one is selected."""
    found = {
        **{f"Search: {NAMES[mode]}": ("how to search", f"mode('{mode}')") for mode in MODES},
        "Search: all three": ("hybrid, semantic and BM25 side by side", f"mode('{ALL}')"),
        "Search: filters": ("by path, type, date, author and language; counts of the found documents", "filters"),
    }
    if hit:
        found |= {
            "Hit: look inside": ("the whole document at the place", "preview"),
            "Hit: why": ("rank by each ranker, shares, whether the adapter moved it", "why"),
            "Hit: relevant": ("evaluation measures with it", "judge(True)"),
            "Hit: not relevant": ("evaluation measures with it", "judge(False)"),
            "Hit: take the mark back": ("relevant or not", "judge(None)"),
            "Hit: open the file": ("with the system's viewer", "open_file"),
            "Hit: copy the text": ("to the clipboard", "copy_text"),
            "Hit: copy the path": ("to the clipboard", "copy_path"),
        }
    return found
