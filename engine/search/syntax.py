"""What a user types into a search: `"an exact phrase"`, `-word`, `word*`, `title:word` and `like:document`, among plain words.

A sign that makes none of these is plain text, and so is a query that another program brings, such as those of an evaluation.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache

from engine.lexical.characters import UNSPACED, fold, normalise, word_pattern

_QUOTED = '["“„«](?P<phrase>[^"“”„«»]*)["”“»](?!\\w)'
_OPERATOR = re.compile(
    rf"(?<![^\s(])(?P<minus>-)?(?P<field>(?i:title|like):)?(?:{_QUOTED}"
    r'|(?P<prefix>[^\W_][\w.-]*\w)\*(?![\w*])|(?P<word>[^\W_][^\s"“”„«»]*))'
)
_IS_UNSPACED = re.compile(f"[{UNSPACED}]")


@dataclass(frozen=True, slots=True)
class Clause:
    """Words that must stand somewhere: one after the other where `is_phrase`; the last may go on where `is_prefix`."""

    text: str
    is_phrase: bool = False
    is_prefix: bool = False

    def __str__(self) -> str:
        return f'"{self.text}"' if self.is_phrase else self.text + "*" * self.is_prefix

    @property
    def is_word(self) -> bool:
        """Whether it is one word, in any of its forms."""
        return not self.is_phrase and not self.is_prefix and len(word_pattern().findall(self.text)) == 1

    def stands_in(self, text: str) -> bool:
        """Whether a text holds it, whatever its case and accents, with any marks and line ends between the words."""
        return _pattern(self).search(fold(normalise(text))) is not None


@dataclass(frozen=True, slots=True)
class ParsedQuery:
    """`text`: what rankers look for, without operators and what is excluded. `required`, `excluded`: of passages; `titles`,
    `other_titles`: the same of documents. `like`: a document's id or path; empty for none.
    """

    text: str
    required: tuple[Clause, ...] = ()
    excluded: tuple[Clause, ...] = ()
    titles: tuple[Clause, ...] = ()
    other_titles: tuple[Clause, ...] = ()
    like: str = ""

    @property
    def prefixes(self) -> tuple[str, ...]:
        """The beginnings of words that are looked for."""
        return tuple(clause.text for clause in self.required if clause.is_prefix)

    @property
    def conditions(self) -> str:
        """What hits must hold, as it may be typed."""
        return " ".join([*map(str, self.required), *(f"title:{clause}" for clause in self.titles)])


def parse(query: str) -> ParsedQuery:
    """The parts of a query. Never raises: an unbalanced quote, a lone sign and a minus before a number are plain text."""
    clauses: dict[str, list[Clause]] = {"": [], "-": [], "title:": [], "-title:": []}
    like = ""

    def text_of(part: re.Match[str]) -> str:
        nonlocal like
        minus, name = part["minus"] or "", (part["field"] or "").lower()
        content = next(filter(None, (part["phrase"], part["prefix"], part["word"])), "")
        is_plain = part["word"] and not name and not (minus and content[0].isalpha())
        if is_plain or not word_pattern().search(content) or (name == "like:" and minus):
            return part[0]
        if name == "like:":
            like = content
            return ""
        clauses[minus + name].append(Clause(content, part["phrase"] is not None, part["prefix"] is not None))
        return "" if minus or name else content

    text = _OPERATOR.sub(text_of, query)
    if not word_pattern().search(text):
        text = " ".join(clause.text for clause in clauses["title:"]) or text
    required, excluded, titles, other_titles = map(tuple, clauses.values())
    return ParsedQuery(text, required, excluded, titles, other_titles, like)


def plain_text(query: str) -> str:
    """The words of a query, without operators: what it is judged as. The query itself where it has no others."""
    return parse(query).text.strip() or query


@lru_cache(maxsize=256)
def _pattern(clause: Clause) -> re.Pattern[str]:
    words = word_pattern().findall(fold(normalise(clause.text)))
    whole = r"[\W_]+".join(map(re.escape, words))
    start = "" if _IS_UNSPACED.match(words[0]) else r"(?<![^\W_])"
    end = "" if clause.is_prefix or _IS_UNSPACED.match(words[-1]) else r"(?![^\W_])"
    return re.compile(start + whole + end)
