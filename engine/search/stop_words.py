"""Search for queries of stop words only, such as `MAN`, `Will` or "to be or not to be".

The BM25 index does not contain stop words, so the texts themselves are searched.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from engine.lexical.characters import word_pattern
from engine.search.fusing import Ranking
from engine.search.loaded import LoadedProject

if TYPE_CHECKING:
    from engine.core.arrays import Ids
    from engine.lexical.index import LexicalIndex

MAX_CANDIDATES = 2_000
"""Maximum number of chunks that are read."""
_TITLE_BONUS = 10.0
"""What is added to the score if the title or file name contains the words."""
_SENTENCE_START = re.compile(r"(?:^|[.!?:;\n*#>|\u2022\"“„(-])\s*\Z")
_SENTENCE_START_SCORE = 0.1
"""Score of a word that may be capitalized only because it starts a sentence."""


@dataclass(frozen=True, slots=True)
class StopWordHits:
    """Passages that contain the words of a query as typed, and a note that says so."""

    ranking: Ranking
    note: str


def find_stop_words(
    loaded: LoadedProject,
    index: LexicalIndex,
    query: str,
    found: Ranking,
    allowed: Ids | None,
) -> StopWordHits | None:
    """Return the passages for a query whose words BM25 all leaves out; None for other queries.

    They come before those of `found`, the ranking by BM25. That contains chunks if a word is a stop
    word in one language and not in another; then only queries with a word in capital letters
    (`MAN`) are searched for. Passages with the words in another case count only if no passage has
    them as typed.
    """
    words = word_pattern().findall(query)
    if not words or not all(map(index.vocabulary.is_stop_word, words)):
        return None
    if allowed is not None and not len(allowed):
        return None
    has_hits = len(found[0]) > 0
    capitals = [word for word in words if word.isupper() and len(word) > 1]
    if has_hits and not capitals:
        return None
    scores = _score_passages(
        loaded,
        words,
        allowed,
        any_case=False,
    )
    if not scores and not has_hits:
        scores = _score_passages(
            loaded,
            words,
            allowed,
            any_case=True,
        )
    note = _describe(words, is_found=bool(scores))
    return StopWordHits(_merge(scores, found), note)


def _score_passages(
    loaded: LoadedProject, words: list[str], allowed: Ids | None, *, any_case: bool
) -> dict[int, float]:
    """Return the score of each allowed passage that contains the words in sequence, by chunk id.

    The first passage of a document whose title or file name contains them has a score, too.
    `any_case`: also find the words in another case.
    """
    pattern = _compile(words, any_case=any_case)
    # SQLite ignores case for ASCII only: a wildcard stands for any other character.
    wildcard = "_" if any_case else "?"
    phrase = re.sub(
        r"[^\x21-\x7e]",
        wildcard,
        " ".join(words),
    )
    like = f"%{phrase}%" if any_case else f"*{phrase}*"
    if allowed is None:
        permitted = None
        candidates = loaded.store.chunk_ids_like(
            like,
            MAX_CANDIDATES,
            any_case=any_case,
        )
    else:
        permitted = set(allowed.tolist())
        everywhere = loaded.store.chunk_ids_like(like, any_case=any_case)
        candidates = [chunk_id for chunk_id in everywhere if chunk_id in permitted]
    scores: dict[int, float] = {}
    for chunk_id, chunk in loaded.store.chunks_by_id(candidates[:MAX_CANDIDATES]).items():
        score = _score_text(pattern, chunk.embedded_text)
        if score:
            scores[chunk_id] = score
    for chunk_id in _find_titled_chunks(loaded, pattern):
        scores[chunk_id] = scores.get(chunk_id, 0.0) + _TITLE_BONUS
    if permitted is not None:
        for chunk_id in scores.keys() - permitted:
            del scores[chunk_id]
    return scores


def _compile(words: list[str], *, any_case: bool) -> re.Pattern[str]:
    """Return a pattern of words in a row, with any punctuation between them."""
    phrase = r"[\W_]+".join(map(re.escape, words))
    flags = re.IGNORECASE if any_case else re.NOFLAG
    return re.compile(rf"(?<![^\W_]){phrase}(?![^\W_])", flags)


def _score_text(pattern: re.Pattern[str], text: str) -> float:
    """Return how often a text contains the words.

    Capitalized words at the start of a sentence count little, words in capital letters fully.
    """
    score = 0.0
    for match in pattern.finditer(text):
        phrase = match[0]
        start = match.start()
        before = text[max(0, start - 10) : start]
        is_capitalized = phrase[:1].isupper() and not phrase.isupper()
        if is_capitalized and _SENTENCE_START.search(before):
            score += _SENTENCE_START_SCORE
        else:
            score += 1.0
    return score


def _find_titled_chunks(loaded: LoadedProject, pattern: re.Pattern[str]) -> list[int]:
    """Return the first chunk of each document whose title or file name contains the words."""
    titled = []
    for document in loaded.documents().values():
        name = document.file_path.rpartition("/")[2]
        if pattern.search(document.title) or pattern.search(name):
            titled.append(document.id)
    chunks = loaded.store.chunks_by_id(loaded.store.chunk_ids_in(titled))
    return [chunk.id for chunk in chunks.values() if chunk.ordinal == 0]


def _merge(scores: dict[int, float], found: Ranking) -> Ranking:
    """Return the chunks in `scores` by score, then by id, followed by the others in `found`.

    The best score in `found` is added to each score, so that scores descend.
    """
    import numpy as np

    found_ids, found_scores = found
    scored_ids = np.array(sorted(scores), np.int64)
    own_scores = np.array([scores[chunk_id] for chunk_id in scored_ids.tolist()])
    by_score = np.argsort(-own_scores, kind="stable")
    best = float(found_scores[0]) if len(found_scores) else 0.0
    is_other = ~np.isin(found_ids, scored_ids)
    ids = np.concatenate([scored_ids[by_score], found_ids[is_other]])
    values = np.concatenate([best + own_scores[by_score], found_scores[is_other]])
    return ids, values.astype(np.float32)


def _describe(words: list[str], *, is_found: bool) -> str:
    """Return the note that the words are stop words, and whether passages contain them."""
    distinct: dict[str, str] = {}
    for word in words:
        distinct.setdefault(word.lower(), word)
    stop_words = ", ".join(distinct.values())
    if len(distinct) > 1:
        ignored = f"{stop_words} are stop words, which keyword search ignores"
        phrase = "them in a row"
    else:
        ignored = f"{stop_words} is a stop word, which keyword search ignores"
        phrase = "it"
    if is_found:
        return f"{ignored}; these passages contain {phrase}."
    return f"{ignored}; no passage contains {phrase}."
