"""Queries as hurried people type them: with typos, with words left out, with other words of like
meaning.

METHODS.md §1 Query perturbation (mask, substitute) and §4 Corrupted queries (n words, or each with
p = 0.5, by typo or synonym). Only words that carry meaning are changed, and codes and dates
(`PHX-121`, `2024-03-01`) where words are masked or substituted; those that the query shares with
its answer come first, since they are what the rankers hold on to. A query changed in n words is the
one changed in n − 1 words with one more: rows can be compared.
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from engine.lexical.analysis import Analyzer
from engine.queries.rules.vocabulary import language_of

Kind = Literal[
    "clean", "typo", "mask", "substitute", "corrupt", "half", "mask shared", "substitute shared"
]
Terms = Callable[[str], Collection[str]]

MASK = "[MASK]"
"""As the models of BERT's family write it; for BM25 a masked word is left out (`without_masks`)."""
SHARE = 0.5
MIN_LETTERS = 3
_WORD = re.compile(r"[^\W\d_]+(?:['’][^\W\d_]+)*")
_WITHOUT_DIGIT = re.compile(r"(?<!\S)[^\s\d]+(?!\S)")
_CODE = re.compile(r"\w+(?:[-./:]\w+|(?<=\d),\d+)*")
_DATE = re.compile(r"(\d{4})-(0[1-9]|1[0-2])-(0[1-9]|[12]\d|3[01])")
_PARTED = re.compile(r"([^\W\d_]+)(-?)(\d+)")
_ROWS = ("qwertyuiop", "asdfghjkl", "zxcvbnm")
_EDITS = ("beside", "doubled", "left out", "swapped")


@dataclass(frozen=True, slots=True)
class Condition:
    """How queries are changed: `kind` in `words` words each; `corrupt`: in any words, by typo or
    synonym; `half`: likewise in each word with p = 0.5; `… shared`: all words that the query
    shares with its answer, as the paper does, and none where it shares none.
    """

    kind: Kind
    words: int = 0


CONDITIONS = (
    Condition("clean"),
    *(
        Condition(kind, words)
        for kind in ("typo", "mask", "substitute", "corrupt")
        for words in (1, 2, 3)
    ),
    Condition("half"),
    Condition("mask shared"),
    Condition("substitute shared"),
)


@dataclass(frozen=True, slots=True)
class Perturbed:
    """The changed text, and how many words were changed: fewer than asked for where a query has
    no more that can be.
    """

    text: str
    changed: int


def content_terms(language: str) -> Callable[[str], list[str]]:
    """What gives the BM25 terms of a text in `language` (a code), and none for a word that only
    joins others.
    """
    analyzer = Analyzer(language)
    joining = language_of(language).function_words
    return lambda text: [] if text.casefold() in joining else analyzer.analyse(text)


def words_of(text: str) -> list[str]:
    """The words of a text that could be changed, lower-cased: numbers and codes stay as they
    are.
    """
    return [text[start:end].lower() for start, end in _spans(text)]


def _spans(text: str) -> list[tuple[int, int]]:
    return [
        word.span()
        for part in _WITHOUT_DIGIT.finditer(text)
        for word in _WORD.finditer(text, *part.span())
        if word.end() - word.start() >= MIN_LETTERS
    ]


def _code_spans(text: str) -> list[tuple[int, int]]:
    """Where codes, dates and numbers of three characters or more stand."""
    found = ((code.span(), code.group()) for code in _CODE.finditer(text))
    return [
        span for span, code in found if len(code) >= MIN_LETTERS and any(map(str.isdecimal, code))
    ]


def rewritten(code: str) -> str:
    """The same code or date as others write it: PHX-121 as PHX121 and the other way round,
    2024-03-01 as 1.3.2024; else empty.
    """
    if day := _DATE.fullmatch(code):
        return f"{int(day[3])}.{int(day[2])}.{day[1]}"
    if parts := _PARTED.fullmatch(code):
        return parts[1] + ("" if parts[2] else "-") + parts[3]
    return ""


def without_masks(text: str) -> str:
    """The text without its masked words."""
    return " ".join(text.replace(MASK, " ").split())


def _neighbouring_keys() -> dict[str, str]:
    """Each letter's neighbours on a QWERTY keyboard, where each row is shifted by half a key."""
    place = {
        letter: (row, column + row / 2)
        for row, keys in enumerate(_ROWS)
        for column, letter in enumerate(keys)
    }
    return {
        one: "".join(
            other
            for other, (r, c) in place.items()
            if other != one and abs(r - row) <= 1 and abs(c - column) <= 1
        )
        for one, (row, column) in place.items()
    }


NEIGHBOURING_KEYS: Mapping[str, str] = _neighbouring_keys()


def typo(word: str, rng: random.Random) -> str:
    """`word` with one slip of the finger: a neighbouring key instead, a key hit twice, left out,
    or two swapped.

    The first letter stays, as it nearly always does. Another word always results where one can: of
    letters that are on no QWERTY keyboard, two are swapped or one is hit twice.
    """
    edits = list(_EDITS)
    rng.shuffle(edits)
    places = list(range(1, len(word)))
    rng.shuffle(places)
    for edit in [*edits, "doubled"]:
        for place in places:
            slipped = _slip(word, place, edit, rng)
            if slipped != word:
                return slipped
    return word


def _slip(word: str, place: int, edit: str, rng: random.Random) -> str:
    before = word[:place]
    letter = word[place]
    after = word[place + 1 :]
    if edit == "beside":
        keys = NEIGHBOURING_KEYS.get(letter.lower(), letter)
        key = rng.choice(keys)
        return before + (key.upper() if letter.isupper() else key) + after
    if edit == "doubled":
        return before + letter + letter + after
    if edit == "left out":
        return before + after
    if after:
        return before + after[:1] + letter + after[1:]
    return word


class Perturber:
    """Changes queries.

    `terms`: the BM25 terms of a text, none for a stop word. `synonyms`: lower-case word → another.
    """

    def __init__(self, terms: Terms, synonyms: Mapping[str, str], seed: int = 0) -> None:
        self._terms = terms
        self._general = synonyms
        self._seed = seed
        self._synonyms = synonyms

    def words(self, text: str) -> list[str]:
        """The words and codes of a text that are changed, where there is another for them, as
        they stand.
        """
        return [text[slice(*span)] for span in self._changeable(text, codes=True)]

    def _changeable(self, text: str, *, codes: bool) -> list[tuple[int, int]]:
        if codes:
            found = sorted([*_spans(text), *_code_spans(text)])
        else:
            found = _spans(text)
        return [span for span in found if self._terms(text[slice(*span)])]

    def perturb(
        self,
        text: str,
        condition: Condition,
        answer: Collection[str] = (),
        own: Mapping[str, str] | None = None,
    ) -> Perturbed:
        """`text` under a condition; `answer`: the terms of its answer; `own`: synonyms for this
        text alone, which come first.

        The same for the same seed, text, synonyms and condition.
        """
        self._synonyms = {**self._general, **(own or {})}
        if condition.kind == "clean":
            return Perturbed(text, 0)
        rng = random.Random(
            f"{self._seed}\0{condition.kind}\0{text}".encode("utf-8", "surrogatepass")
        )
        spans = self._changeable(text, codes=condition.kind not in ("typo", "corrupt", "half"))
        if condition.kind == "half":
            return _replaced(
                text,
                [
                    (span, self._corrupted(text[slice(*span)], rng))
                    for span in spans
                    if rng.random() < SHARE
                ],
            )
        if condition.kind.startswith("substitute"):
            spans = [span for span in spans if self._synonym(text[slice(*span)])]
        shared = [span for span in spans if self._is_in(text[slice(*span)], frozenset(answer))]
        if condition.kind.endswith("shared"):
            return _replaced(
                text,
                [(span, self._edited(text[slice(*span)], condition.kind, rng)) for span in shared],
            )
        rng.shuffle(spans)
        if condition.kind != "corrupt":
            spans.sort(key=lambda span: span not in shared)  # stable
        edits = [
            (span, self._edited(text[slice(*span)], condition.kind, rng))
            for span in spans[: condition.words]
        ]
        return _replaced(text, edits)

    def _edited(self, word: str, kind: Kind, rng: random.Random) -> str:
        if kind.startswith("mask"):
            return MASK
        if kind == "corrupt":
            return self._corrupted(word, rng)
        if kind == "typo":
            return typo(word, rng)
        return self._synonym(word)

    def _corrupted(self, word: str, rng: random.Random) -> str:
        if rng.random() < 0.5 and word.lower() in self._synonyms:
            return self._synonym(word)
        return typo(word, rng)

    def _is_in(self, word: str, answer: frozenset[str]) -> bool:
        """Of a code all parts: the 01 of a date is in many texts."""
        terms = set(self._terms(word))
        if any(map(str.isdecimal, word)):
            return terms <= answer
        return bool(terms & answer)

    def _synonym(self, word: str) -> str:
        """Empty where none is known."""
        other = self._synonyms.get(word.lower(), "")
        if word[0].isupper() and other:
            return other.capitalize()
        return other or rewritten(word)


def _replaced(text: str, edits: Sequence[tuple[tuple[int, int], str]]) -> Perturbed:
    for (start, end), new in sorted(edits, reverse=True):
        text = text[:start] + new + text[end:]
    return Perturbed(text, len(edits))
