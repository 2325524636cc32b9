"""Words of a text with their character offsets: codes, decimals, amounts and hyphenated terms
stay whole.
"""

from __future__ import annotations

import re
import unicodedata
from typing import NamedTuple

_PART = r"[-'’&/_]|(?<=\d)[.,:](?=\d)|(?<=\b[^\W\d_])\.(?=[^\W\d_]\b)"
_TOKEN = re.compile(rf"[$€£¥]?\w+(?:(?:{_PART})\w+)*(?:%|(?<=\.[^\W\d_])\.)?|\.\.\.|[^\w\s]")
_UNSPACED = re.compile(r"[\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\u0e00-\u0e7f]")
_UNSPACED_PIECE = re.compile(
    r"[\u30a0-\u30ff]+|[\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff]+|[\u3040-\u309f]+|[\u0e00-\u0e7f]+"
    r"|[^\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\u0e00-\u0e7f]+"
)
_CHINESE_FUNCTION = re.compile(r"[的了是在和与有不对为等也都就而及或被把从到之其以于]")
_HIRAGANA = re.compile(r"[\u3040-\u309f]+$")


class Token(NamedTuple):
    """A word or a punctuation mark: `text == source[start:end]`; `folded` is its case-folded
    form.
    """

    text: str
    start: int
    end: int
    folded: str

    @property
    def has_digit(self) -> bool:
        """Whether a digit stands in it."""
        return any(letter.isdigit() for letter in self.text)

    @property
    def is_code(self) -> bool:
        """Letters and digits mixed, or capitals beyond the first letter (GPT-4, iPad, EN10025,
        NASA).
        """
        letters = [letter for letter in self.text if letter.isalpha()]
        if not letters or len(self.text) < 2:
            return False
        return self.has_digit or any(letter.isupper() for letter in letters[1:])

    @property
    def is_capital(self) -> bool:
        """Whether it begins with a capital."""
        return self.text[0].isupper()


def fold(text: str) -> str:
    """Case and compatibility forms folded, white space single: the key by which texts are
    compared.
    """
    return " ".join(unicodedata.normalize("NFKC", text).casefold().replace("’", "'").split())


def question_key(text: str) -> str:
    """`fold`, without the marks before and after a question: the key by which questions are
    compared.
    """
    return fold(text).strip(" ?!.¿¡؟。")


class Things(NamedTuple):
    """The words of a text, folded, and those among them that are codes, numbers or names."""

    words: frozenset[str]
    distinctive: frozenset[str]


def things(text: str) -> Things:
    """What a text is about, as far as its letters show it.

    A capital of the first word means nothing.
    """
    words = [token for token in tokenize(text) if token.text[-1].isalnum()]
    return Things(
        frozenset(token.folded for token in words),
        frozenset(
            token.folded
            for place, token in enumerate(words)
            if token.has_digit or token.is_code or (place and token.is_capital)
        ),
    )


def same_things(one: Things, other: Things) -> bool:
    """Whether each holds the codes, numbers and names of the other."""
    return one.distinctive <= other.words and other.distinctive <= one.words


def tokenize(text: str) -> list[Token]:
    """Words and punctuation marks of `text` in order; runs of scripts without spaces are cut at
    function characters.
    """
    tokens: list[Token] = []
    unspaced = _UNSPACED.search(text) is not None
    for match in _TOKEN.finditer(text):
        word = match.group()
        start = match.start()
        end = match.end()
        if unspaced and _UNSPACED.search(word):
            tokens.extend(_pieces(word, start))
        else:
            tokens.append(Token(word, start, end, word.casefold().replace("’", "'")))
    return tokens


def _pieces(word: str, offset: int) -> list[Token]:
    """A run of CJK or Thai characters in pieces; kana-only pieces and function characters come
    as punctuation would.
    """
    pieces: list[Token] = []
    for run in _UNSPACED_PIECE.finditer(word):
        cut = run.start()
        for function in _CHINESE_FUNCTION.finditer(run.group()):
            stop = run.start() + function.start()
            if stop > cut:
                pieces.append(
                    Token(word[cut:stop], offset + cut, offset + stop, word[cut:stop].casefold())
                )
            pieces.append(Token(word[stop], offset + stop, offset + stop + 1, word[stop]))
            cut = stop + 1
        if run.end() > cut:
            pieces.append(
                Token(
                    word[cut : run.end()],
                    offset + cut,
                    offset + run.end(),
                    word[cut : run.end()].casefold(),
                )
            )
    return pieces


def is_unspaced_function(word: str) -> bool:
    """Whether a piece of an unspaced script carries no content: one function character, or
    hiragana only.
    """
    return _HIRAGANA.match(word) is not None or (
        len(word) == 1 and _CHINESE_FUNCTION.match(word) is not None
    )
