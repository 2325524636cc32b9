"""Query syntax: `"an exact phrase"`, `-word`, `word*`, `title:word` and `like:document`.

Any other sign is plain text. Queries from other programs, such as those of an evaluation, are not
parsed.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import lru_cache

from engine.lexical.characters import (
    UNSPACED,
    drop_superscripts,
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
    """Words that a text must contain.

    `is_phrase`: in sequence. `is_prefix`: the last word may be longer, as in a phrase without a
    closing quotation mark.
    """

    text: str
    is_phrase: bool = False
    is_prefix: bool = False

    def __str__(self) -> str:
        if self.is_phrase:
            return f'"{self.text}"'
        return f"{self.text}*" if self.is_prefix else self.text

    @property
    def is_word(self) -> bool:
        """Whether the clause is a single word, which matches in any of its forms."""
        if self.is_phrase or self.is_prefix:
            return False
        return len(word_pattern().findall(self.text)) == 1

    def stands_in(self, text: str) -> bool:
        """Return whether a text contains the words, with any punctuation between them.

        Case and accents do not matter; letters such as ö may be spelt out on either side.
        """
        return any(pattern.search(spelling) for pattern, spelling in self._spellings(text))

    def found_in(self, text: str) -> list[str]:
        """Return the matches in a text, in lower case without accents.

        The match of a prefix is the whole word.
        """
        matches: list[str] = []
        for pattern, spelling in self._spellings(text):
            matches += [match[0] for match in pattern.finditer(spelling)]
        return matches

    def _spellings(self, text: str) -> Iterator[tuple[re.Pattern[str], str]]:
        """Yield a pattern of the clause and the spelling of a text in which to search for it.

        First both without accents, then both with letters such as ö spelt out, then a text with
        marks of notes as it is without them.
        """
        normal = normalise(text)
        yield _compile(self), fold(normal)
        spelt_out = replace(self, text=spell_out(normalise(self.text)))
        if not text.isascii() or spelt_out.text != normalise(self.text):
            yield _compile(spelt_out), fold(spell_out(normal))
        without_marks = drop_superscripts(text)
        if without_marks != text:
            yield _compile(self), fold(normalise(without_marks))


@dataclass(frozen=True, slots=True)
class ParsedQuery:
    """The parts of a query.

    `text`: what rankers search for, without operators and excluded words. `required`, `excluded`:
    conditions on passages. `titles`, `other_titles`: required and excluded titles of documents.
    `like`: id or path of the document that hits should resemble, or empty.
    """

    text: str
    required: tuple[Clause, ...] = ()
    excluded: tuple[Clause, ...] = ()
    titles: tuple[Clause, ...] = ()
    other_titles: tuple[Clause, ...] = ()
    like: str = ""

    @property
    def prefixes(self) -> tuple[Clause, ...]:
        """The required prefixes of words."""
        return tuple(
            clause for clause in self.required if clause.is_prefix and not clause.is_phrase
        )

    @property
    def unclosed(self) -> str:
        """The phrase without a closing quotation mark, or an empty text."""
        for clause in (*self.required, *self.excluded, *self.titles, *self.other_titles):
            if clause.is_phrase and clause.is_prefix:
                return str(clause)
        return ""

    def each(self) -> list[ParsedQuery]:
        """Return a query without text for each single condition."""
        return [
            *(ParsedQuery("", required=(clause,)) for clause in self.required),
            *(ParsedQuery("", excluded=(clause,)) for clause in self.excluded),
            *(ParsedQuery("", titles=(clause,)) for clause in self.titles),
            *(ParsedQuery("", other_titles=(clause,)) for clause in self.other_titles),
        ]

    @property
    def conditions(self) -> str:
        """All conditions, as a user may type them."""
        typed = [
            *(f"{clause}" for clause in self.required),
            *(f"-{clause}" for clause in self.excluded),
            *(f"title:{clause}" for clause in self.titles),
            *(f"-title:{clause}" for clause in self.other_titles),
        ]
        return " ".join(typed)


def parse(query: str) -> ParsedQuery:
    """Parse a query. Never raises: a lone sign or a minus before a number is plain text."""
    clauses: dict[str, list[Clause]] = {"": [], "-": [], "title:": [], "-title:": []}
    like = ""

    def take_clause(part: re.Match[str]) -> str:
        """Note a clause or the document in `like:`, and return what stays in the query's text."""
        nonlocal like
        minus = part["minus"] or ""
        field = (part["field"] or "").lower()
        content = part["phrase"] or part["prefix"] or part["word"] or ""
        is_excluded = minus and content[:1].isalpha()
        is_plain = part["word"] and not field and not is_excluded
        if is_plain or not word_pattern().search(content) or (field == "like:" and minus):
            return part[0]
        if field == "like:":
            like = content
            return ""
        is_phrase = part["phrase"] is not None
        is_open_phrase = is_phrase and part["closing"] is None
        is_prefix = part["prefix"] is not None or is_open_phrase
        clauses[minus + field].append(Clause(content, is_phrase, is_prefix))
        return "" if minus or field else content

    text = _OPERATOR.sub(take_clause, query)
    if not word_pattern().search(text):
        text = " ".join(clause.text for clause in clauses["title:"]) or text
    required, excluded, titles, other_titles = map(tuple, clauses.values())
    return ParsedQuery(text, required, excluded, titles, other_titles, like)


def plain_text(query: str) -> str:
    """Return a query without operators, as it is judged; unchanged if nothing else remains."""
    return parse(query).text.strip() or query


def respell_query(query: str, respell: Callable[[str], str]) -> str:
    """Return a query with its plain words respelt.

    Excluded words stay, and so do those of phrases, prefixes and documents.
    """

    def respell_words(text: str) -> str:
        return word_pattern().sub(lambda word: respell(word[0]), text)

    parts: list[str] = []
    end = 0
    for part in _OPERATOR.finditer(query):
        parts.append(respell_words(query[end : part.start()]))
        is_like = (part["field"] or "").lower() == "like:"
        if part["word"] and not part["minus"] and not is_like:
            end = part.start("word")  # the word itself is respelt with the text that follows
        else:
            end = part.end()
        parts.append(query[part.start() : end])
    parts.append(respell_words(query[end:]))
    return "".join(parts)


@lru_cache(maxsize=256)
def _compile(clause: Clause) -> re.Pattern[str]:
    """Return a pattern that finds the words of a clause in a folded text.

    Scripts that are written without spaces have no word boundaries.
    """
    words = term_pattern().findall(fold(normalise(clause.text)))
    whole = r"[\W_]+".join(map(re.escape, words))
    if _IS_UNSPACED.match(words[0]):
        start = ""
    else:
        start = r"(?<![^\W_])"
    if _IS_UNSPACED.match(words[-1]):
        end = ""
    elif clause.is_prefix:
        end = f"(?:{word_pattern().pattern})?"
    else:
        end = r"(?![^\W_])"
    return re.compile(start + whole + end)
