"""Detection of the languages of a corpus and its documents, and tantivy's support for them."""

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
_WITHOUT_STOP_WORDS = {
    "ar",
    "el",
    "ro",
    "ta",
    "tr",
}
STOP_WORDS = {code: name for code, name in STEMMERS.items() if code not in _WITHOUT_STOP_WORDS}
UNKNOWN = "und"
_NONE = "zxx"
SAME_AS = {
    "nb": "no",
    "nn": "no",
    _NONE: UNKNOWN,
}
# Addresses of mails, pages and files are in no language.
_ADDRESS = re.compile(r"\S*[@/\\]\S*")
# Numbers, dates and names of columns are in no language.
_CODE = re.compile(r"[!-~]*[\d_][!-~]*")

_SAMPLE_TEXTS = 200
_SAMPLE_CHARS = 600
_MIN_LETTERS = 20
_MIN_SHARE = 0.6
MIN_CHARACTERS = 120
"""Minimum characters of a text for a reliable language: a few words are often misdetected."""

# Languages that are recognised in short texts, by their script.
_OF_THEIR_SCRIPT = frozenset(("ar", "el", "ru", "ta"))


def supported_languages() -> tuple[str, ...]:
    """Return the codes that have a stemmer, and "none"."""
    return (*sorted(STEMMERS), NO_LANGUAGE)


def detect_language(texts_sample: Iterable[str]) -> tuple[str, str]:
    """Return the `main_language` of texts, by the first 600 characters of at most 200 of them."""
    votes: Counter[str] = Counter()
    for text in islice(texts_sample, _SAMPLE_TEXTS):
        beginning = text[:_SAMPLE_CHARS]
        if _has_language(beginning):
            votes[_classify(beginning)] += _count_letters(beginning)
    return main_language(votes)


def main_language(lengths: Mapping[str, int]) -> tuple[str, str]:
    """Return the language code of a corpus, and the reason in words.

    `lengths`: language code → length of the texts in this language. The most frequent language
    needs 60 % of the text in known languages. Otherwise, or with fewer than 20 letters in all, the
    code is "none": words are then not stemmed, and stop words are kept. The code may be a language
    without a stemmer, such as "zh" or "pl".
    """
    known = dict(lengths)
    known.pop(UNKNOWN, None)
    total = sum(known.values())
    code = max(
        known,
        key=known.__getitem__,
        default=UNKNOWN,
    )
    if total < _MIN_LETTERS and code not in {"zh", "ja", "ko", "th"}:
        return NO_LANGUAGE, "too little text to recognise the language"
    share = known[code] / total
    name = language_name(code)
    percent = round(100 * share)
    if share < 1:
        percent = min(percent, 99)
    if share < _MIN_SHARE:
        reason = f"mixed languages: the most frequent, {name}, has only {percent}% of the text"
        return NO_LANGUAGE, reason
    return code, f"{percent}% of the text is in {name}"


def measure_language_margin(text: str, code: str) -> float:
    """Return by how much a text looks more like its best language than like `code`.

    The margin is the difference of the naive Bayes scores of py3langid, divided by the square root
    of the text's length in bytes, which makes texts of different lengths comparable. It is 0 if
    `code` is the best language or unknown. A sentence in another language has 3 to 25.
    """
    data = text.encode("utf-8", "ignore")
    scores: dict[str, float] = {}
    for name, score in load_identifier().rank(data):
        language = SAME_AS.get(name, name)
        scores[language] = max(scores.get(language, score), score)
    if code not in scores:
        return 0.0
    margin = max(scores.values()) - scores[code]
    return float(margin / max(1, len(data)) ** 0.5)


def language_of(text: str) -> str:
    """Return the language code of one text, "und" if it has too few letters or none is detected."""
    text = _ADDRESS.sub(" ", text)
    return _classify(text) if _has_language(text) else UNKNOWN


def _has_language(text: str) -> bool:
    """Return whether a text has enough letters and is not mostly numbers and codes, as in a table.

    A guess at the language of a table would depend on a few names.
    """
    letters = _count_letters(text)
    if letters < _MIN_LETTERS and (not letters or text.isascii()):
        return False
    visible = len("".join(text.split()))
    return 2 * _count_letters(_CODE.sub(" ", text)) >= visible


def _count_letters(text: str) -> int:
    """Return the number of letters, of any alphabet."""
    return sum(map(str.isalpha, text))


def _classify(text: str) -> str:
    """Return the most likely language of a text."""
    code = str(load_identifier().classify(text.encode("utf-8", "ignore"))[0])
    return SAME_AS.get(code, code)


@cache
def load_identifier() -> Any:
    """Return py3langid, restricted to the languages of ISO 639-1.

    Without the restriction it takes short texts in Chinese, Arabic, French or English for dialects
    and regional languages (Cantonese, Egyptian Arabic, Ligurian, Nigerian Pidgin).
    """
    import py3langid

    py3langid.set_languages(None)
    all_codes = [code for code, _ in py3langid.rank(b"")]
    py3langid.set_languages([code for code in all_codes if len(code) == 2 or code == _NONE])
    return py3langid


def choose_analysis_language(
    language: str,
    length: int,
    main: str,
) -> str:
    """Return the language in which a document of `length` characters is analysed.

    That is its detected `language` if it has a stemmer and the document is long enough for a
    reliable detection, otherwise the `main` language of the corpus.
    """
    min_length = _MIN_LETTERS if language in _OF_THEIR_SCRIPT else MIN_CHARACTERS
    if language in STEMMERS and length >= min_length:
        return language
    return main
