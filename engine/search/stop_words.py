"""Queries of stop words alone, such as `MAN`, `Will` or "to be or not to be": BM25 has none of
them, so texts are read.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from engine.core.records import Document
from engine.lexical.characters import word_pattern
from engine.search.fusing import Ranking
from engine.search.loaded import Loaded

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from engine.lexical.index import LexicalIndex

MAX_CANDIDATES = 2_000  # chunks that are read
_TITLED = 10.0  # what a title or a file's name with the words adds to a score
_BEGINS = re.compile(r"(?:^|[.!?:;\n*#>|\u2022\"“„(-])\s*\Z")
_AT_BEGINNING = (
    0.1  # how much a word counts that may have its capital letter for beginning a sentence
)


@dataclass(frozen=True, slots=True)
class StopWordHits:
    """Passages with the words of a query as they are typed, and the sentence that says so."""

    ranking: Ranking
    note: str


def find_stop_words(
    loaded: Loaded,
    index: LexicalIndex,
    query: str,
    found: Ranking,
    allowed: NDArray[np.int64] | None,
) -> StopWordHits | None:
    """The hits of a query of which BM25 leaves out all words, before those `found`; None for any
    other query.

    Where BM25 has found some, as a word is left out in one language and not in another, only words
    in capital letters are looked for (`MAN`). Letters of the same case come first; without any,
    those of any case are hits.
    """
    words = word_pattern().findall(query)
    if (
        not words
        or (allowed is not None and not len(allowed))
        or not all(map(index.leaves_out, words))
    ):
        return None
    if len(found[0]) and not any(len(word) > 1 and word.isupper() for word in words):
        return None
    scores = _score_passages(loaded, words, allowed, any_case=False)
    if not scores and not len(found[0]):
        scores = _score_passages(loaded, words, allowed, any_case=True)
    return StopWordHits(_merge(scores, found), _note_on(words, is_found=bool(scores)))


def _score_passages(
    loaded: Loaded, words: list[str], allowed: NDArray[np.int64] | None, *, any_case: bool
) -> dict[int, float]:
    """Score of each passage that holds the words one after the other, or whose document's title
    or file name does.
    """
    pattern = _pattern_of(words, any_case=any_case)
    sign = "_" if any_case else "?"
    like = sign.join(re.sub(r"[^\x21-\x7e]", sign, word) for word in words)
    around = "%" if any_case else "*"
    ids = loaded.store.chunk_ids_like(f"{around}{like}{around}", MAX_CANDIDATES, any_case=any_case)
    if allowed is None:
        passes = None
    else:
        passes = set(allowed.tolist())
    scores: dict[int, float] = {}
    for key, chunk in loaded.store.chunks_by_id(ids).items():
        score = _score_text(pattern, chunk.embedded_text)
        if score and (passes is None or key in passes):
            scores[key] = score
    for key in _titled_chunks(loaded, pattern):
        if passes is None or key in passes:
            scores[key] = scores.get(key, 0.0) + _TITLED
    return scores


def _pattern_of(words: list[str], *, any_case: bool) -> re.Pattern[str]:
    phrase = r"[\W_]+".join(map(re.escape, words))
    return re.compile(rf"(?<![^\W_]){phrase}(?![^\W_])", re.IGNORECASE if any_case else re.NOFLAG)


def _score_text(pattern: re.Pattern[str], text: str) -> float:
    """How often the words stand in a text; at the beginning of a sentence they count little, but
    in capital letters.
    """
    score = 0.0
    for found in pattern.finditer(text):
        may_begin = found[0][:1].isupper() and not found[0].isupper()
        begins = (
            may_begin
            and _BEGINS.search(text[max(0, found.start() - 10) : found.start()]) is not None
        )
        score += _AT_BEGINNING if begins else 1.0
    return score


def _titled_chunks(loaded: Loaded, pattern: re.Pattern[str]) -> list[int]:
    """The first chunk of each document whose title or file name holds the words."""
    titled = [one.id for one in loaded.documents().values() if _is_titled(one, pattern)]
    chunks = loaded.store.chunks_by_id(loaded.store.chunk_ids_in(titled))
    return [key for key, chunk in chunks.items() if chunk.ordinal == 0]


def _is_titled(document: Document, pattern: re.Pattern[str]) -> bool:
    name = document.file_path.rpartition("/")[2]
    return pattern.search(document.title) is not None or pattern.search(name) is not None


def _merge(scores: dict[int, float], found: Ranking) -> Ranking:
    """Chunks by score, then id, before those found otherwise."""
    import numpy as np

    first = sorted(scores, key=lambda key: (-scores[key], key))
    rest = [place for place, key in enumerate(found[0].tolist()) if key not in scores]
    if len(found[1]):
        best = float(found[1][0])
    else:
        best = 0.0
    ids = np.array([*first, *found[0][rest].tolist()], np.int64)
    values = [best + scores[key] for key in first] + found[1][rest].tolist()
    return ids, np.array(values, np.float32)


def _note_on(words: list[str], *, is_found: bool) -> str:
    distinct: dict[str, str] = {}
    for word in words:
        distinct.setdefault(word.lower(), word)
    several = len(distinct) > 1
    what = f"the word{'s' if several else ''} {', '.join(distinct.values())}"
    them = "them" if several else "it"
    if is_found:
        which = f"these passages hold {them}"
    else:
        which = f"no passage holds {them}"
    return (
        f"Keyword search leaves out {what}, which most texts have;"
        f" {which}{' as typed' if several else ''}."
    )
