"""Tokens of a text: words with their offsets; codes, decimals and hyphenated terms stay whole."""

from __future__ import annotations

import re
import unicodedata
from typing import NamedTuple

# What joins parts of a token: "X-200", "R&D", "it's", "and/or"; "1,234.5", "12:30"; "e.g", "U.S".
_JOINT = r"[-'’&/_]|(?<=\d)[.,:](?=\d)|(?<=\b[^\W\d_])\.(?=[^\W\d_]\b)"
# A word with an optional currency, per cent sign or final stop ("$3.5", "12%", "U.S."), three dots,
# or a single mark.
_TOKEN = re.compile(rf"[$€£¥]?\w+(?:(?:{_JOINT})\w+)*(?:%|(?<=\.[^\W\d_])\.)?|\.\.\.|[^\w\s]")
# Scripts without spaces between words: kana, Chinese characters, Thai.
_UNSPACED = re.compile(r"[\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\u0e00-\u0e7f]")
# A run of one script: katakana, Chinese characters, hiragana, Thai, or any others.
_UNSPACED_PIECE = re.compile(
    r"[\u30a0-\u30ff]+|[\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff]+|[\u3040-\u309f]+|[\u0e00-\u0e7f]+"
    r"|[^\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\u0e00-\u0e7f]+"
)
_CHINESE_FUNCTION = re.compile(r"[的了是在和与有不对为等也都就而及或被把从到之其以于]")
_HIRAGANA = re.compile(r"[\u3040-\u309f]+$")


class Token(NamedTuple):
    """A word or punctuation mark at [start:end] of a text; `folded`: its text without case."""

    text: str
    start: int
    end: int
    folded: str

    @property
    def has_digit(self) -> bool:
        """Whether the token contains a digit."""
        return any(map(str.isdigit, self.text))

    @property
    def is_code(self) -> bool:
        """Whether the token mixes letters and digits, or has inner capitals (GPT-4, iPad, NASA)."""
        letters = [letter for letter in self.text if letter.isalpha()]
        if not letters or len(self.text) < 2:
            return False
        return self.has_digit or any(map(str.isupper, letters[1:]))

    @property
    def is_capital(self) -> bool:
        """Whether the token begins with a capital."""
        return self.text[0].isupper()


def fold(text: str) -> str:
    """Return a text without case and compatibility forms, with single blanks, for comparison."""
    folded = unicodedata.normalize("NFKC", text).casefold()
    return " ".join(folded.replace("’", "'").split())


def question_key(text: str) -> str:
    """Return a question folded and without surrounding marks, for comparison."""
    return fold(text).strip(" ?!.¿¡؟。")


class KeyTerms(NamedTuple):
    """The folded words of a text, and those of them that are codes, numbers or names."""

    words: frozenset[str]
    distinctive: frozenset[str]


def extract_key_terms(text: str) -> KeyTerms:
    """Return the words of a text, and those that name what it is about.

    These are recognised by their letters; the capital of the first word means nothing.
    """
    words = [token for token in tokenize(text) if token.text[-1].isalnum()]
    distinctive = set()
    for position, token in enumerate(words):
        is_name = position > 0 and token.is_capital
        if is_name or token.has_digit or token.is_code:
            distinctive.add(token.folded)
    return KeyTerms(frozenset(token.folded for token in words), frozenset(distinctive))


def share_key_terms(first: KeyTerms, second: KeyTerms) -> bool:
    """Return whether each text contains the codes, numbers and names of the other."""
    return first.distinctive <= second.words and second.distinctive <= first.words


def tokenize(text: str) -> list[Token]:
    """Return the words and punctuation marks of a text in order.

    Runs of scripts without spaces are split at changes of script and at Chinese function
    characters, such as 的.
    """
    tokens: list[Token] = []
    unspaced = _UNSPACED.search(text) is not None
    for match in _TOKEN.finditer(text):
        word = match.group()
        start = match.start()
        end = match.end()
        if unspaced and _UNSPACED.search(word):
            tokens.extend(_split_unspaced(word, start))
        else:
            folded = word.casefold().replace("’", "'")
            tokens.append(Token(word, start, end, folded))
    return tokens


def _split_unspaced(word: str, offset: int) -> list[Token]:
    """Split a run of CJK or Thai characters at changes of script and at function characters."""
    tokens: list[Token] = []

    def add(start: int, end: int) -> None:
        if end > start:
            text = word[start:end]
            tokens.append(Token(text, offset + start, offset + end, text.casefold()))

    for run in _UNSPACED_PIECE.finditer(word):
        start = run.start()
        for function in _CHINESE_FUNCTION.finditer(run.group()):
            position = run.start() + function.start()
            add(start, position)
            add(position, position + 1)
            start = position + 1
        add(start, run.end())
    return tokens


def is_unspaced_function(word: str) -> bool:
    """Return whether a token of an unspaced script has no content.

    That is a single function character, or hiragana only.
    """
    if len(word) == 1 and _CHINESE_FUNCTION.match(word):
        return True
    return _HIRAGANA.match(word) is not None
