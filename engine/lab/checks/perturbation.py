"""Queries as hurried people type them: with typos, missing words, or words of similar meaning.

METHODS.md §1 Query perturbation (mask, substitute) and §4 Corrupted queries (n words, or each with
p = 0.5, by typo or synonym).
"""

# Function words are never changed. Codes and dates (`PHX-121`, `2024-03-01`) are changed if words
# are masked or substituted. Words that the query shares with its answer are changed first, since
# rankers depend on them. With n changed words, a query has the changes that it has with n − 1, and
# one more, so that rows of different n can be compared.

from __future__ import annotations

import random
import re
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Literal, NamedTuple

from engine.lexical.analysis import Analyzer
from engine.queries.rules.vocabulary import language_of

Kind = Literal[
    "clean", "typo", "mask", "substitute", "corrupt", "half", "mask shared", "substitute shared"
]
Terms = Callable[[str], Collection[str]]

MASK = "[MASK]"
"""The mask token of BERT models; for BM25 a masked word is removed (`without_masks`)."""
SHARE = 0.5
"""Probability that `half` changes a word."""
SYNONYM_SHARE = 0.5
"""Probability that a corrupted word is replaced by its synonym, if it has one, not mistyped."""
MIN_LETTERS = 3
"""Minimum length of words and codes that are changed."""
_WORD = re.compile(r"[^\W\d_]+(?:['’][^\W\d_]+)*")  # `roof`, `tenant’s`
_WITHOUT_DIGIT = re.compile(r"(?<!\S)[^\s\d]+(?!\S)")  # between spaces, no digit: `roof,`
_CODE = re.compile(r"\w+(?:[-./:]\w+|(?<=\d),\d+)*")  # `PHX-121`, `2024-03-01`, `27,500`, `roof`
_DATE = re.compile(r"(\d{4})-(0[1-9]|1[0-2])-(0[1-9]|[12]\d|3[01])")  # `2024-03-01`
_PARTED = re.compile(r"([^\W\d_]+)(-?)(\d+)")  # letters and digits: `PHX-121`, `PHX121`
_KEYBOARD_ROWS = ("qwertyuiop", "asdfghjkl", "zxcvbnm")
_SLIPS = ("beside", "doubled", "left out", "swapped")


class Span(NamedTuple):
    """A word or code in a text, and its place."""

    start: int
    end: int
    word: str


@dataclass(frozen=True, slots=True)
class Condition:
    """How queries are changed: by `kind`, in `words` words each.

    `corrupt` replaces any words by a typo or synonym, `half` each word with probability 0.5
    (METHODS.md §4). `mask shared` and `substitute shared` change all words that the query shares
    with its answer (METHODS.md §1). `words` is 0 for `clean`, `half` and the kinds with `shared`.
    """

    kind: Kind
    words: int = 0


CONDITIONS = (
    Condition("clean"),
    Condition("typo", 1),
    Condition("typo", 2),
    Condition("typo", 3),
    Condition("mask", 1),
    Condition("mask", 2),
    Condition("mask", 3),
    Condition("substitute", 1),
    Condition("substitute", 2),
    Condition("substitute", 3),
    Condition("corrupt", 1),
    Condition("corrupt", 2),
    Condition("corrupt", 3),
    Condition("half"),
    Condition("mask shared"),
    Condition("substitute shared"),
)


@dataclass(frozen=True, slots=True)
class Perturbed:
    """The changed text, and the number of changed words.

    There are fewer than the condition asks for if the query has too few words that can be changed.
    """

    text: str
    changed: int


def content_terms(language: str) -> Callable[[str], list[str]]:
    """Return a function from a text in `language` to its BM25 terms; a function word has none."""
    analyzer = Analyzer(language)
    function_words = language_of(language).function_words

    def terms(text: str) -> list[str]:
        if text.casefold() in function_words:
            return []
        return analyzer.analyse(text)

    return terms


def words_of(text: str) -> list[str]:
    """Return the words of a text that could be changed, lower-cased, without numbers and codes."""
    return [span.word.lower() for span in _find_words(text)]


def _find_words(text: str) -> list[Span]:
    """Return the words of at least `MIN_LETTERS` letters, without parts of codes and dates."""
    spans = []
    for part in _WITHOUT_DIGIT.finditer(text):
        for match in _WORD.finditer(text, *part.span()):
            if len(match[0]) >= MIN_LETTERS:
                spans.append(Span(*match.span(), match[0]))
    return spans


def _find_codes(text: str) -> list[Span]:
    """Return the codes, dates and numbers of three characters or more."""
    spans = []
    for match in _CODE.finditer(text):
        if len(match[0]) >= MIN_LETTERS and _has_digit(match[0]):
            spans.append(Span(*match.span(), match[0]))
    return spans


def _has_digit(word: str) -> bool:
    """Return whether a word is a code, date or number."""
    return any(map(str.isdecimal, word))


def rewrite_code(code: str) -> str:
    """Return another spelling of a code or date, empty if none is known.

    PHX-121 becomes PHX121 and vice versa, 2024-03-01 becomes 1.3.2024.
    """
    if date := _DATE.fullmatch(code):
        year, month, day = date.groups()
        return f"{int(day)}.{int(month)}.{year}"
    if parts := _PARTED.fullmatch(code):
        letters, hyphen, digits = parts.groups()
        return letters + digits if hyphen else f"{letters}-{digits}"
    return ""


def without_masks(text: str) -> str:
    """Return the text without its masked words."""
    return " ".join(text.replace(MASK, " ").split())


def _neighbouring_keys() -> dict[str, str]:
    """Return each letter's neighbours on a QWERTY keyboard, with rows shifted by half a key."""
    positions = {}
    for row, keys in enumerate(_KEYBOARD_ROWS):
        for index, letter in enumerate(keys):
            positions[letter] = (row, index + row / 2)
    neighbours = {}
    for letter, (row, column) in positions.items():
        near = []
        for other, (other_row, other_column) in positions.items():
            is_near = abs(other_row - row) <= 1 and abs(other_column - column) <= 1
            if is_near and other != letter:
                near.append(other)
        neighbours[letter] = "".join(near)
    return neighbours


NEIGHBOURING_KEYS: Mapping[str, str] = _neighbouring_keys()


def typo(word: str, rng: random.Random) -> str:
    """Return a word with one slip: a neighbouring key, or a doubled, missing or swapped letter.

    The first letter stays, since people rarely mistype it. Letters that are on no QWERTY keyboard
    have no neighbouring key, so another slip is tried; the result equals the word only if none
    changes it.
    """
    slips = list(_SLIPS)
    rng.shuffle(slips)
    positions = list(range(1, len(word)))
    rng.shuffle(positions)
    for slip in slips:
        for position in positions:
            slipped = _slip(
                word,
                position,
                slip,
                rng,
            )
            if slipped != word:
                return slipped
    return word


def _slip(
    word: str,
    position: int,
    slip: str,
    rng: random.Random,
) -> str:
    """Return a word with a slip at one letter; the word itself if that changes nothing."""
    before = word[:position]
    letter = word[position]
    after = word[position + 1 :]
    if slip == "beside":
        key = rng.choice(NEIGHBOURING_KEYS.get(letter.lower(), letter))
        if letter.isupper():
            key = key.upper()
        return before + key + after
    if slip == "doubled":
        return before + letter + letter + after
    if slip == "left out":
        return before + after
    # Swapped with the next letter, if there is one.
    return before + after[:1] + letter + after[1:]


class Perturber:
    """Changes queries under conditions.

    `terms` returns the BM25 terms of a text, none for a stop word. `synonyms` maps a lower-case
    word to another.
    """

    def __init__(
        self,
        terms: Terms,
        synonyms: Mapping[str, str],
        seed: int = 0,
    ) -> None:
        self._terms = terms
        self._synonyms = synonyms
        self._seed = seed

    def words(self, text: str) -> list[str]:
        """Return the words and codes of a text that can be substituted, as they are written."""
        return [span.word for span in self._find_changeable(text, codes=True)]

    def shared_words(self, text: str, answer: Collection[str]) -> list[str]:
        """Return the words and codes of a text that its answer contains, too.

        `answer`: the terms of the answer.
        """
        terms = frozenset(answer)
        return [word for word in self.words(text) if self._is_in(word, terms)]

    def _find_changeable(self, text: str, *, codes: bool) -> list[Span]:
        """Return the words, and the `codes` if wanted, that are no function words, in order."""
        spans = _find_words(text)
        if codes:
            spans = sorted([*spans, *_find_codes(text)])
        return [span for span in spans if self._terms(span.word)]

    def perturb(
        self,
        text: str,
        condition: Condition,
        answer: Collection[str] = (),
        preferred: Mapping[str, str] | None = None,
    ) -> Perturbed:
        """Return a text under a condition.

        `answer` are the terms of the text's answer. `preferred` are synonyms for this text alone,
        which come before the general ones. The result is the same for the same seed, text,
        synonyms and condition.
        """
        kind = condition.kind
        if kind == "clean":
            return Perturbed(text, 0)
        synonyms = {**self._synonyms, **(preferred or {})}
        rng = random.Random(f"{self._seed}\0{kind}\0{text}".encode("utf-8", "surrogatepass"))
        spans = self._find_changeable(text, codes=kind not in ("typo", "corrupt", "half"))
        edits: dict[Span, str] = {}
        if kind == "half":
            for span in spans:
                if rng.random() < SHARE:
                    edits[span] = _corrupt(
                        span.word,
                        synonyms,
                        rng,
                    )
            return _replace(text, edits)
        if kind.startswith("substitute"):
            spans = [span for span in spans if _find_synonym(span.word, synonyms)]
        terms = frozenset(answer)
        shared = [span for span in spans if self._is_in(span.word, terms)]
        chosen = shared
        if not kind.endswith("shared"):
            rng.shuffle(spans)
            if kind != "corrupt":
                # The sort is stable, so that shared words come first in random order.
                spans.sort(key=lambda span: span not in shared)
            chosen = spans[: condition.words]
        for span in chosen:
            edits[span] = _change(
                span.word,
                kind,
                synonyms,
                rng,
            )
        return _replace(text, edits)

    def _is_in(self, word: str, answer: frozenset[str]) -> bool:
        """Return whether `answer` has a term of a word, or all terms of a code.

        One part of a code is not enough: many texts contain the 01 of a date.
        """
        terms = set(self._terms(word))
        if _has_digit(word):
            return terms <= answer
        return bool(terms & answer)


def _change(
    word: str,
    kind: Kind,
    synonyms: Mapping[str, str],
    rng: random.Random,
) -> str:
    """Return the text that replaces a word under a condition of this kind."""
    if kind.startswith("mask"):
        return MASK
    if kind == "corrupt":
        return _corrupt(word, synonyms, rng)
    if kind == "typo":
        return typo(word, rng)
    return _find_synonym(word, synonyms)


def _corrupt(
    word: str,
    synonyms: Mapping[str, str],
    rng: random.Random,
) -> str:
    """Return a word's synonym or the word with a typo, one or the other by chance."""
    if rng.random() < SYNONYM_SHARE and word.lower() in synonyms:
        return _find_synonym(word, synonyms)
    return typo(word, rng)


def _find_synonym(word: str, synonyms: Mapping[str, str]) -> str:
    """Return a synonym or another spelling of a word, empty if none is known."""
    synonym = synonyms.get(word.lower(), "")
    if not synonym:
        return rewrite_code(word)
    if word[0].isupper():
        return synonym.capitalize()
    return synonym


def _replace(text: str, edits: Mapping[Span, str]) -> Perturbed:
    """Replace words of a text, from the last one to the first, so that offsets stay valid."""
    for span, word in sorted(edits.items(), reverse=True):
        text = text[: span.start] + word + text[span.end :]
    return Perturbed(text, len(edits))
