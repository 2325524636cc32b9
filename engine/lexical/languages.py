"""Which language a corpus and each of its documents are written in, and what tantivy can do for
it.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping
from functools import cache
from itertools import islice
from typing import Any

from engine.core.text import language_name

NO_LANGUAGE = "none"

_STEMMED = "ar da de el en es fi fr hu it nl no pt ro ru sv ta tr"
STEMMERS = {code: language_name(code).lower() for code in _STEMMED.split()}
"""ISO 639-1 code → tantivy's name of the stemmer."""
_WITHOUT_STOP_WORDS = {"ar", "el", "ro", "ta", "tr"}
STOP_WORDS = {code: name for code, name in STEMMERS.items() if code not in _WITHOUT_STOP_WORDS}
UNKNOWN = "und"
_NONE = "zxx"
SAME_AS = {"nb": "no", "nn": "no", _NONE: UNKNOWN}
_ADDRESS = re.compile(r"\S*[@/\\]\S*")  # of a mail, a page, a file: in no language
_CODE = re.compile(r"[!-~]*[\d_][!-~]*")  # a number, a date, the name of a column

_SAMPLE_TEXTS = 200
_SAMPLE_CHARS = 600
_MIN_LETTERS = 20
_MIN_SHARE = 0.6
MIN_CHARACTERS = 120
"""Characters of a text whose language is taken for certain: a few words are often mistaken."""


def supported_languages() -> tuple[str, ...]:
    """The codes that have a stemmer, and "none"."""
    return (*sorted(STEMMERS), NO_LANGUAGE)


def detect_language(texts_sample: Iterable[str]) -> tuple[str, str]:
    """As `main_language`, from a sample of a corpus' texts: the letters in the first 600
    characters of 200 of them.
    """
    votes: Counter[str] = Counter()
    for text in islice(texts_sample, _SAMPLE_TEXTS):
        piece = text[:_SAMPLE_CHARS]
        letters = sum(map(str.isalpha, piece))
        if (letters >= _MIN_LETTERS or (letters and not piece.isascii())) and not _is_data(piece):
            votes[_classified(piece)] += letters
    return main_language(votes)


def main_language(lengths: Mapping[str, int]) -> tuple[str, str]:
    """The language code of a corpus, and the reason in words, from how long its texts in each
    language are.

    The longest needs 60 % of what is in a known language; else, or with fewer than 20 letters in
    all, the code is "none": words are then neither stemmed nor dropped. The code may be a language
    without a stemmer (such as "zh" or "pl"); `Analyzer` takes any.
    """
    known = Counter({code: length for code, length in lengths.items() if code != UNKNOWN})
    code, length = next(iter(known.most_common(1)), (UNKNOWN, 0))
    if known.total() < _MIN_LETTERS and code not in {"zh", "ja", "ko", "th"}:
        return NO_LANGUAGE, "too little text to recognise the language"
    share = length / known.total()
    name = language_name(code)
    percent = min(round(100 * share), 99 + (length == known.total()))
    if share < _MIN_SHARE:
        return (
            NO_LANGUAGE,
            f"mixed languages: the most frequent, {name}, has only {percent}% of the text",
        )
    return code, f"{percent}% of the text is in {name}"


def margin_over(text: str, code: str) -> float:
    """By how much a text looks more like its best language than like `code`; 0 where that is the
    best, or is not known.

    The difference of the naive Bayes scores over the root of the length in bytes, by which
    py3langid makes scores of longer and shorter texts comparable: a sentence in another language
    has 3 to 25.
    """
    data = text.encode("utf-8", "ignore")
    best: dict[str, float] = {}
    for name, score in identifier().rank(data):
        name = SAME_AS.get(name, name)
        best[name] = max(best.get(name, score), score)
    if code not in best:
        return 0.0
    return float((max(best.values()) - best[code]) / max(1, len(data)) ** 0.5)


def language_of(text: str) -> str:
    """The language code of one text; "und" where there are too few letters to know, or where it
    is in none.
    """
    text = _ADDRESS.sub(" ", text)
    letters = sum(map(str.isalpha, text))
    if (letters < _MIN_LETTERS and (not letters or text.isascii())) or _is_data(text):
        return UNKNOWN
    return _classified(text)


def _is_data(text: str) -> bool:
    """Whether a text is mostly numbers and codes, as that of a table is: a guess at its language
    would be about a few names.
    """
    visible = len("".join(text.split()))
    return 2 * sum(map(str.isalpha, _CODE.sub(" ", text))) < visible


def _classified(text: str) -> str:
    code = str(identifier().classify(text.encode("utf-8", "ignore"))[0])
    return SAME_AS.get(code, code)


@cache
def identifier() -> Any:
    """py3langid, set to the languages of ISO 639-1 alone.

    The dialects and regional languages that it knows besides (Cantonese, Egyptian Arabic, Ligurian,
    Nigerian Pidgin) are what it takes short texts in Chinese, Arabic, French or English for.
    """
    import py3langid

    py3langid.set_languages(None)
    codes = [code for code, _ in py3langid.rank(b"") if len(code) == 2 or code == _NONE]
    py3langid.set_languages(codes)
    return py3langid


def analysed_in(language: str, length: int, main: str) -> str:
    """The language that a document is analysed in: its own where that has a stemmer, else the
    corpus' `main` one.

    `length`: characters of its text.
    """
    if language in STEMMERS and length >= MIN_CHARACTERS:
        return language
    return main
