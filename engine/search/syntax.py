"""What a user types into a search: `"an exact phrase"`, `-word`, `word*`, `title:word` and
`like:document`, among plain words.

A sign that makes none of these is plain text, and so is a query that another program brings, such
as those of an evaluation.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import lru_cache

from engine.lexical.characters import (
    UNSPACED,
    fold,
    normalise,
    spell_out,
    term_pattern,
    word_pattern,
)

_QUOTED = '["“„«](?P<phrase>[^"“”„«»]*)(?:(?P<closing>["”“»])(?!\\w)|\\Z)'
_OPERATOR = re.compile(
    rf"(?<![^\s(])(?P<minus>-)?(?P<field>(?i:title|like):)?(?:{_QUOTED}"
    r'|(?P<prefix>[^\W_][\w.-]*\w)\*(?![\w*])|(?P<word>[^\W_][^\s"“”„«»]*))'
)
_IS_UNSPACED = re.compile(f"[{UNSPACED}]")


@dataclass(frozen=True, slots=True)
class Clause:
    """Words that must stand somewhere: one after the other where `is_phrase`; the last may go on
    where `is_prefix`, as in a phrase whose quotation mark is not closed.
    """

    text: str
    is_phrase: bool = False
    is_prefix: bool = False

    def __str__(self) -> str:
        if self.is_phrase:
            return f'"{self.text}"'
        return self.text + "*" * self.is_prefix

    @property
    def is_word(self) -> bool:
        """Whether it is one word, in any of its forms."""
        return (
            not self.is_phrase
            and not self.is_prefix
            and len(word_pattern().findall(self.text)) == 1
        )

    def stands_in(self, text: str) -> bool:
        """Whether a text holds it, whatever its case and accents, with any marks and line ends
        between the words. Letters such as ö may be spelt out in either.
        """
        return any(pattern.search(spelling) for pattern, spelling in self._spellings(text))

    def found_in(self, text: str) -> list[str]:
        """What stands for it in a text, in lower case without accents; a word of which it is the
        beginning as a whole.
        """
        spellings = self._spellings(text)
        return [found[0] for pattern, spelling in spellings for found in pattern.finditer(spelling)]

    def _spellings(self, text: str) -> Iterator[tuple[re.Pattern[str], str]]:
        """What to look for, and in which text: both without accents, and both with letters such
        as ö spelt out.
        """
        normal = normalise(text)
        folded = fold(normal)
        yield _pattern(self), folded
        spelt = replace(self, text=spell_out(normalise(self.text)))
        if not text.isascii() or spelt.text != normalise(self.text):
            yield _pattern(spelt), fold(spell_out(normal))


@dataclass(frozen=True, slots=True)
class ParsedQuery:
    """`text`: what rankers look for, without operators and what is excluded.

    `required`, `excluded`: of passages; `titles`, `other_titles`: the same of documents. `like`: a
    document's id or path; empty for none.
    """

    text: str
    required: tuple[Clause, ...] = ()
    excluded: tuple[Clause, ...] = ()
    titles: tuple[Clause, ...] = ()
    other_titles: tuple[Clause, ...] = ()
    like: str = ""

    @property
    def prefixes(self) -> tuple[Clause, ...]:
        """The beginnings of words that are looked for."""
        return tuple(
            clause for clause in self.required if clause.is_prefix and not clause.is_phrase
        )

    @property
    def unclosed(self) -> str:
        """The phrase at the end that has no closing quotation mark."""
        clauses = (*self.required, *self.excluded, *self.titles, *self.other_titles)
        return next(
            (str(clause) for clause in clauses if clause.is_phrase and clause.is_prefix), ""
        )

    def each(self) -> list[ParsedQuery]:
        """Its conditions, one by one."""
        found = [ParsedQuery("", required=(clause,)) for clause in self.required]
        found += [ParsedQuery("", excluded=(clause,)) for clause in self.excluded]
        found += [ParsedQuery("", titles=(clause,)) for clause in self.titles]
        return found + [ParsedQuery("", other_titles=(clause,)) for clause in self.other_titles]

    @property
    def conditions(self) -> str:
        """What hits must and must not hold, as it may be typed."""
        signed = {
            "": self.required,
            "-": self.excluded,
            "title:": self.titles,
            "-title:": self.other_titles,
        }
        return " ".join(f"{sign}{clause}" for sign, clauses in signed.items() for clause in clauses)


def parse(query: str) -> ParsedQuery:
    """The parts of a query.

    Never raises: a lone sign and a minus before a number are plain text.
    """
    clauses: dict[str, list[Clause]] = {"": [], "-": [], "title:": [], "-title:": []}
    like = ""

    def text_of(part: re.Match[str]) -> str:
        nonlocal like
        minus = part["minus"] or ""
        name = (part["field"] or "").lower()
        content = next(filter(None, (part["phrase"], part["prefix"], part["word"])), "")
        is_plain = part["word"] and not name and not (minus and content[0].isalpha())
        if is_plain or not word_pattern().search(content) or (name == "like:" and minus):
            return part[0]
        if name == "like:":
            like = content
            return ""
        is_phrase = part["phrase"] is not None
        is_prefix = part["prefix"] is not None or (is_phrase and part["closing"] is None)
        clauses[minus + name].append(Clause(content, is_phrase, is_prefix))
        return "" if minus or name else content

    text = _OPERATOR.sub(text_of, query)
    if not word_pattern().search(text):
        text = " ".join(clause.text for clause in clauses["title:"]) or text
    required, excluded, titles, other_titles = map(tuple, clauses.values())
    return ParsedQuery(text, required, excluded, titles, other_titles, like)


def plain_text(query: str) -> str:
    """The words of a query, without operators: what it is judged as.

    The query itself where it has no others.
    """
    return parse(query).text.strip() or query


def respelt(query: str, respell: Callable[[str], str]) -> str:
    """A query with other words, but for those of phrases, beginnings and documents, and those to
    leave out.
    """
    parts = list[str]()
    end = 0

    def rest(until: int | None = None) -> str:
        return word_pattern().sub(lambda word: respell(word[0]), query[end:until])

    for part in _OPERATOR.finditer(query):
        is_open = part["word"] and not part["minus"] and (part["field"] or "").lower() != "like:"
        parts += [
            rest(part.start()),
            query[part.start() : part.start("word") if is_open else part.end()],
        ]
        if is_open:
            end = part.start("word")
        else:
            end = part.end()
    return "".join([*parts, rest()])


@lru_cache(maxsize=256)
def _pattern(clause: Clause) -> re.Pattern[str]:
    words = term_pattern().findall(fold(normalise(clause.text)))
    whole = r"[\W_]+".join(map(re.escape, words))
    if _IS_UNSPACED.match(words[0]):
        start = ""
    else:
        start = r"(?<![^\W_])"
    if clause.is_prefix:
        end = f"(?:{word_pattern().pattern})?"
    else:
        end = r"(?![^\W_])"
    return re.compile(start + whole + ("" if _IS_UNSPACED.match(words[-1]) else end))
