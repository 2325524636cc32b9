"""The texts that BM25 and the encoder get for a query: its words, and spellings of documents."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import chain, filterfalse, islice, pairwise
from typing import TYPE_CHECKING

from engine.core.records import Document
from engine.lexical.characters import fold, normalise, split_humps, word_pattern
from engine.search.syntax import Clause, ParsedQuery

if TYPE_CHECKING:
    from engine.core.arrays import Ids
    from engine.lexical.compounds import Compound
    from engine.lexical.index import LexicalIndex
    from engine.lexical.vocabulary import Vocabulary

MAX_COMPLETIONS = 20
"""Maximum number of words that BM25 gets for `word*` or `*word`."""
MAX_UNKNOWN_WORDS = 10
"""Maximum number of unknown words, which no chunk contains, that are replaced or corrected."""
LIKE_WORDS = 25
"""Number of words of a `like:` document that BM25 gets."""
LIKE_CHARACTERS = 20_000
"""Number of characters of a `like:` document in which these words are chosen."""
LIKE_MEANING = 2_000
"""Number of characters of a `like:` document that the encoder gets."""
MAX_READ = 50
"""Number of chunks that are read to find a word written as two."""
# Minimum length of a word that texts may write as two, and of each of the two.
_MIN_SPLIT = 6
_MIN_PART = 2
_BETWEEN = re.compile(r"\s+")
_DIGIT = re.compile(r"\d")
# A code that may be written with blanks: it has letters and digits, but is no `45 degree`.
_SPACED_CODE = re.compile(r"(?=.*\d)(?=.*[^\W\d_])(?!\d+[^\W\d_]{3,}\Z)[\w./-]{5,40}")
_MAX_SPACED_PARTS = 3
# Maximum number of pairs of a beginning and an ending of a code for which chunks are looked for.
_MAX_SPACED_PAIRS = 20

ReadTexts = Callable[[list[int]], Iterator[tuple[int, str]]]
"""Yields the id and the searched text of each chunk."""


def add_wording(
    query: ParsedQuery, index: LexicalIndex | None, allowed: Ids | None, read_texts: ReadTexts
) -> ParsedQuery:
    """Return a query with the texts that rankers get, in `keywords` and `meaning`.

    BM25 gets the query's text; other spellings of words and codes that no chunk contains as typed;
    `database` for `data base`; completions of `word*` and `*word`; and key terms of the document
    of `like:`. The encoder gets the text, the best completion of each of them and the beginning of
    that document. `allowed`: the chunks whose words complete them. Without an `index`, only the
    text and the document are used.
    """
    keywords = [query.text]
    meaning = [query.text]
    missing_codes: list[str] = []
    spellings: dict[str, list[str]] = {}
    if index:
        joined_codes = _find_joined_codes(index.vocabulary, query.text)
        parts = set(chain.from_iterable(map(_split_spaced, joined_codes)))
        for code in _find_missing_codes(index, query.text):
            if code not in parts:
                missing_codes.append(code)
        other_codes = [*missing_codes[:MAX_UNKNOWN_WORDS], *joined_codes.values()]
        spellings = _find_code_spellings(index, other_codes, read_texts)
        keywords += dict.fromkeys(chain.from_iterable(spellings.values()))
        keywords += _find_joined_in_phrases(index, query)
        keywords += _find_joined(index.vocabulary, query.text)
        keywords += _find_words(
            index,
            query.text,
            read_texts,
        )
    if index and allowed is not None:
        for clause in query.wildcards:
            words = _complete(
                index,
                clause,
                allowed,
                read_texts,
            )
            keywords += words
            meaning += words[:1]
    like = query.like_document
    if like:
        if index:
            keywords += _find_key_terms(index, like)
        meaning += [like.title, like.text[:LIKE_MEANING]]
    return replace(
        query,
        keywords=" ".join(keywords).strip(),
        meaning=" ".join(meaning).strip(),
        missing_codes=tuple(missing_codes),
        codes=tuple(dict.fromkeys(chain.from_iterable(spellings.values()))),
        respelt_codes=frozenset(spellings),
    )


def _find_missing_codes(index: LexicalIndex, text: str) -> list[str]:
    """Return the codes of a text, as typed, that no chunk contains."""
    from engine.lexical.words_and_codes import split_into_compounds

    missing = []
    for code in split_into_compounds(text, any_case=True):
        matching = index.find_with_codes(code)
        if matching and not any(map(len, matching)):
            missing.append(code)
    return missing


def _find_code_spellings(
    index: LexicalIndex, missing_codes: list[str], read_texts: ReadTexts
) -> dict[str, list[str]]:
    """Return what documents write for codes that no chunk contains as typed.

    Codes that they do not contain in any spelling are left out.
    """
    from engine.lexical.words_and_codes import split_into_compounds

    spellings: dict[str, list[str]] = {}
    for typed in missing_codes:
        known = index.vocabulary.find_code_spellings(typed)
        if known:
            spellings[typed] = []
        elif spaced := _find_spaced_code(index, typed, read_texts):
            spellings[typed] = [spaced]
        for code in known:
            chunk = index.find_with_any([code], limit=1).tolist()
            for _, chunk_text in read_texts(chunk):
                for compound in split_into_compounds(chunk_text, any_case=True):
                    if code in index.analyzer.terms(compound).codes:
                        spellings[typed].append(compound)
                        break
    return spellings


def _find_spaced_code(
    index: LexicalIndex,
    code: str,
    read_texts: ReadTexts,
) -> str:
    """Return a code as a chunk writes it with blanks: `NW1 6XE` for `NW16XE`, else an empty text.

    Chunks that contain a beginning and an ending of the code are read.
    """
    plain = "".join(filter(str.isalnum, normalise(code)))
    if not _SPACED_CODE.fullmatch(plain):
        return ""
    with_marks = r"[\W_]?".join(plain)
    spaced = re.compile(rf"(?<![^\W_]){with_marks}(?![^\W_])", re.IGNORECASE)
    for beginning, ending in islice(_find_ends(index, plain), _MAX_SPACED_PAIRS):
        chunks = index.find_with_spellings([[beginning], [ending]], MAX_READ)
        if chunks is None:
            continue
        for _, text in read_texts(chunks.tolist()):
            if match := spaced.search(text):
                return match[0]
    return ""


def _find_ends(index: LexicalIndex, code: str) -> Iterator[tuple[str, str]]:
    """Yield pairs of a beginning and an ending of a code that chunks contain, longest first."""

    def is_word(part: str) -> bool:
        chunks = index.find_with_spellings([[part]], 1)
        return chunks is not None and len(chunks) > 0

    cuts = range(1, len(code))
    starts = [start for start in cuts if is_word(code[start:])]
    for cut in reversed(cuts):
        if is_word(code[:cut]):
            for start in starts:
                if start >= cut:
                    yield code[:cut], code[start:]


def _find_joined_codes(vocabulary: Vocabulary, text: str) -> dict[str, str]:
    """Return codes that a query writes with blanks, and documents without.

    Keys are as typed: `NW1 6XE` → `NW16XE`.
    """
    joined: dict[str, str] = {}
    parts = _BETWEEN.split(text)
    with_digits = [start for start, part in enumerate(parts) if _DIGIT.search(part)]
    for start in with_digits[:MAX_UNKNOWN_WORDS]:
        for end in range(start + _MAX_SPACED_PARTS, start + 1, -1):
            code = "".join(parts[start:end])
            is_code = end <= len(parts) and _SPACED_CODE.fullmatch(code)
            if is_code and vocabulary.find_code_spellings(code):
                joined[" ".join(parts[start:end])] = code
                break
    return joined


def _split_spaced(spaced: str) -> Iterator[str]:
    """Yield the compounds of a code that is typed with blanks: `NW1` and `6XE`."""
    from engine.lexical.words_and_codes import split_into_compounds

    return split_into_compounds(spaced, any_case=True)


def _find_joined(vocabulary: Vocabulary, text: str) -> list[str]:
    """Return words of the documents that a query writes as two: `database` for `data base`."""
    joined = []
    for first, second in pairwise(_BETWEEN.split(text)):
        word = first + second
        # Words with punctuation are not joined.
        if not (first.isalpha() and second.isalpha()) or len(word) < _MIN_SPLIT:
            continue
        if not vocabulary.is_stop_word(first) and vocabulary.has_chunks_with(word):
            joined.append(word)
    return joined


def _find_words(
    index: LexicalIndex,
    text: str,
    read_texts: ReadTexts,
) -> list[str]:
    """Return what documents write for the words of a query that no chunk contains.

    These are the compounds that contain the word, otherwise its parts. Only the first
    `MAX_UNKNOWN_WORDS` such words are replaced, so that the compounds of a pasted paragraph do not
    outweigh what the user typed.
    """
    from engine.lexical.compounds import find_compounds, find_other_number, split_compound

    vocabulary = index.vocabulary
    typed = dict.fromkeys(word_pattern().findall(text))
    # Singular or plural of unknown words: `Kitas` for `Kita`, or the reverse.
    other_numbers = filter(None, (find_other_number(vocabulary, word) for word in typed))
    words = list(islice(other_numbers, MAX_UNKNOWN_WORDS))
    unknown = (word for word in typed if word.isalpha() and not vocabulary.contains(word))
    for word in islice(unknown, MAX_UNKNOWN_WORDS):
        compounds = find_compounds(vocabulary, word)
        for compound in compounds:
            words += _find_spelling_of(index, compound, read_texts)
        if not compounds:
            words += split_compound(vocabulary, word) or split_word(index, word, read_texts)
    return list(dict.fromkeys(words))


def _find_spelling_of(
    index: LexicalIndex,
    compound: Compound,
    read_texts: ReadTexts,
) -> list[str]:
    """Return the first spelling of a compound in a chunk that contains it, or nothing."""
    chunk = index.find_with_any([compound.term], limit=1).tolist()
    for _, text in read_texts(chunk):
        for spelling in sorted(index.vocabulary.find_spellings(compound.term, text)):
            if compound.part in fold(spelling):
                return [spelling]
    return []


def split_word(
    index: LexicalIndex,
    word: str,
    read_texts: ReadTexts,
) -> list[str]:
    """Return the parts of a word that chunks write as two: `user` and `name` for `username`.

    A word such as `getUserName` is split at its capitals, whatever chunks contain. Empty for other
    words.
    """
    humps = split_humps(word)
    if len(humps) > 1:
        return humps
    if len(word) < _MIN_SPLIT:
        return []
    folded = fold(normalise(word))
    for cut in range(_MIN_PART, len(folded) - _MIN_PART + 1):
        first = folded[:cut]
        second = folded[cut:]
        if not all(map(index.vocabulary.has_chunks_with, (first, second))):
            continue
        matching = index.find_with_words(f"{first} {second}")
        if matching is None:
            continue
        in_a_row = re.compile(rf"(?<![^\W_]){first}[\W_]{{1,2}}{second}(?![^\W_])")
        for _, text in read_texts(matching[:MAX_READ].tolist()):
            if in_a_row.search(fold(normalise(text))):
                return [first, second]
    return []


def _complete(
    index: LexicalIndex,
    part: Clause,
    chunks: Ids,
    read_texts: ReadTexts,
) -> list[str]:
    """Return words of which `part` is the beginning or the end, the most frequent first.

    `chunks` (n,): the chunks to read; all contain such words. After each chunk, those that contain
    one of its words are skipped, so few are read.
    """
    import numpy as np

    # Terms of a word → its number of chunks, negative for sorting, and the word.
    words: dict[tuple[str, ...], tuple[int, str]] = {}
    remaining = chunks
    for _ in range(MAX_COMPLETIONS):
        chunk = remaining[:1].tolist()
        remaining = remaining[1:]
        for _, text in read_texts(chunk):
            for word in part.found_in(text):
                terms = tuple(index.query_terms(word, bonus=True).words)
                if terms in words:
                    continue
                matching = index.find_with_words(word)
                if matching is not None:
                    words[terms] = (-len(matching), word)
                    remaining = remaining[~np.isin(remaining, matching)]
    return [word for _, word in sorted(words.values())[:MAX_COMPLETIONS]]


def _find_joined_in_phrases(index: LexicalIndex, query: ParsedQuery) -> list[str]:
    """Return single words that texts may write for the words of a phrase: `m8` for `M 8`.

    Words such as `phx121` are left out: BM25 finds them by their parts `phx` and `121`.
    """
    joined: list[str] = []
    for clause in query.clauses:
        if clause.is_phrase and not clause.is_excluded and not clause.in_title:
            for spellings in clause.find_joined_words():
                joined += spellings[1:]
    distinct_words = dict.fromkeys(joined)
    return [word for word in distinct_words if len(index.analyzer.unstemmed(word).words) == 1]


def _find_key_terms(index: LexicalIndex, document: Document) -> list[str]:
    """Return the words of a document with the highest TF-IDF, as the document spells them."""
    from engine.lexical.codes import is_joined, strip_language

    text = document.text[:LIKE_CHARACTERS]
    counts = Counter(filterfalse(is_joined, index.vocabulary.analyse(text, document.language)))
    weights = index.vocabulary.idf(list(counts)) * list(counts.values())
    by_weight = sorted(zip(-weights, counts, strict=True))
    spellings: dict[str, str] = {}
    for word in dict.fromkeys(word_pattern().findall(text.lower())):
        terms = index.vocabulary.analyse(word, document.language)
        if len(terms) == 1:
            spellings[terms[0]] = word
    key_terms = []
    for _, term in by_weight[:LIKE_WORDS]:
        key_terms.append(spellings.get(term, strip_language(term)))
    return key_terms
