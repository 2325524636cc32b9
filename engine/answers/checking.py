"""What a language model is asked for, sentence by sentence with its sources, and what of that is true.

Whatever stands in passages, the checks look at the numbers and quotes that the model names, and at nothing else.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from engine.core.messages.answers import Sentence
from engine.core.messages.queries import evidence_span
from engine.queries.llm.shapes import Shape

SHAPE = Shape("sentences", (("sources", "numbers"), ("text", "text"), ("quote", "text")))
_BRACKET, _OPEN = re.compile(r"\[(?=\s*\d)"), re.compile(r"\[[^\]]*$")
_NUMBERS = re.compile(r"\[(\s*\d[\d\s,;–-]*)\]")
_SIGNS = str.maketrans("‘’‚‛“”„‟‐‑‒–—", "''''\"\"\"\"-----")


def numbered(number: int, place: str, text: str) -> str:
    """A passage after its number. No other number in it stands in brackets like that one: a space takes them apart."""
    return f"[{number}] {_BRACKET.sub('[ ', place)}\n{_BRACKET.sub('[ ', text)}"


def checked(entries: Iterable[Mapping[str, Any]], passages: Sequence[str]) -> tuple[Sentence, ...]:
    """The sentences of an answer in `SHAPE` that was written from these passages."""
    return tuple(_checked(entry, passages) for entry in entries if entry["text"].strip())


def begun(text: str, passages: Sequence[str]) -> tuple[Sentence, ...]:
    """The sentences that the beginning of an answer holds; the last one may not be whole. Raises BadAnswerError."""
    whole = SHAPE.closed(text)
    entries = SHAPE.read(whole[0]) if whole else []
    for entry in entries[-1:]:
        entry["text"] = _OPEN.sub("", entry["text"])
    return checked(entries, passages)


def _checked(entry: Mapping[str, Any], passages: Sequence[str]) -> Sentence:
    sources = tuple(dict.fromkeys(entry["sources"]))
    named = [passages[number - 1] for number in sources if 0 < number <= len(passages)]
    quote = " ".join(entry["quote"].split())
    found = any(evidence_span(_plain(quote), _plain(text)) for text in named) if quote else None
    text = _NUMBERS.sub(r"(\1)", " ".join(entry["text"].split()))  # sources alone stand in brackets
    return Sentence(text, sources, 0 < len(named) == len(sources), quote, found)


def _plain(text: str) -> str:
    """NFKC, with one sign for all quotation marks and one for all dashes."""
    return unicodedata.normalize("NFKC", text).translate(_SIGNS)
