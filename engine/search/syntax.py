"""Query syntax: `"an exact phrase"`, `-word`, `word*`, `title:word` and `like:document`.

Any other sign is plain text. Queries from other programs, such as those of an evaluation, are not
parsed.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import pairwise

from engine.core.messages.search import query_words
from engine.core.records import Document
from engine.lexical.characters import (
    UNSPACED,
    drop_superscripts,
    fold,
    normalise,
    spell_out,
    term_pattern,
    word_pattern,
)

# "a phrase", or one that is not closed
_QUOTED = '["“„«](?P<phrase>[^"“”„«»]*)(?:(?P<closing>["”“»])(?!\\w)|\\Z)'
# -word, title:"a phrase", like:contracts/lease.pdf, word*, and plain words
_OPERATOR = re.compile(
    rf"(?<![^\s(])(?P<minus>-)?(?P<field>(?i:title|like):)?(?:{_QUOTED}"
    r'|(?P<prefix>[^\W_][\w.-]*\w)\*(?![\w*])|(?P<word>[^\W_][^\s"“”„«»]*))'
)
_IS_UNSPACED = re.compile(f"[{UNSPACED}]")
_MAX_JOINED = 4
"""Number of words, or parts of a code, that texts write as one at most."""


@dataclass(frozen=True, slots=True)
class Clause:
    """Words that a passage or a title must contain, or must not.

    `is_phrase`: in sequence. `is_prefix`: the last word may be longer, as in a phrase without a
    closing quotation mark. `is_excluded`: they must not occur. `in_title`: in the document's title.
    """

    text: str
    is_phrase: bool = False
    is_prefix: bool = False
    is_excluded: bool = False
    in_title: bool = False

    def __str__(self) -> str:
        minus = "-" if self.is_excluded else ""
        field = "title:" if self.in_title else ""
        return f"{minus}{field}{self.typed_words}"

    @property
    def typed_words(self) -> str:
        """The words as a user may type them, without a minus and a field."""
        if self.is_phrase:
            return f'"{self.text}"'
        if self.is_prefix:
            return f"{self.text}*"
        return self.text

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

    def find_joined_words(self) -> list[list[str]]:
        """Return how texts that contain the words may write each of them.

        Alone, or as one word with its neighbours: the 8 of `M 8` also as `m8`. Empty if there are
        no words that texts may write as one.
        """
        words = term_pattern().findall(normalise(self.text))
        spellings = [[word] for word in words]
        for start in range(len(words)):
            joined = words[start]
            for end in range(start + 1, min(len(words), start + _MAX_JOINED)):
                if not _may_touch(words[end - 1], words[end]):
                    break
                joined += words[end]
                for place in range(start, end + 1):
                    spellings[place].append(joined)
        has_joined = any(len(alternatives) > 1 for alternatives in spellings)
        return spellings if has_joined else []

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
        is_spelt_otherwise = spelt_out.text != normalise(self.text)
        if is_spelt_otherwise or not text.isascii():
            yield _compile(spelt_out), fold(spell_out(normal))
        without_marks = drop_superscripts(text)
        if without_marks != text:
            yield _compile(self), fold(normalise(without_marks))


@dataclass(frozen=True, slots=True)
class ParsedQuery:
    """A query on its way from the prompt to the hits.

    `parse` reads the first fields; search adds the others, which depend on the project
    (`engine.search.typed`).

    `typed`: what the user typed. `text`: what is searched for, without operators, excluded words
    and the names of the files to search in. `clauses`: conditions on passages, then on titles.
    `like`: id or path of the document that hits should resemble, or empty.
    `like_document`: that document. `documents`: ids of the documents to search in; None for all.
    `names`: the files among them that the query names. `keywords`, `meaning`: the texts that BM25
    and the encoder get. `missing_codes`: codes of the text, as typed, that no chunk contains.
    `codes`: what documents write for them.
    """

    typed: str
    text: str
    clauses: tuple[Clause, ...] = ()
    like: str = ""
    like_document: Document | None = None
    documents: frozenset[int] | None = None
    names: tuple[str, ...] = ()
    keywords: str = ""
    meaning: str = ""
    missing_codes: tuple[str, ...] = ()
    codes: tuple[str, ...] = ()

    @property
    def prefixes(self) -> list[Clause]:
        """The required prefixes of words in passages."""
        prefixes = []
        for clause in self.clauses:
            is_required = not clause.is_excluded and not clause.in_title
            if is_required and clause.is_prefix and not clause.is_phrase:
                prefixes.append(clause)
        return prefixes

    @property
    def text_and_codes(self) -> str:
        """The text, and how documents write those of its codes that no chunk contains."""
        return " ".join((self.text, *self.codes))

    @property
    def unclosed(self) -> str:
        """The phrase without a closing quotation mark, or an empty text."""
        for clause in self.clauses:
            if clause.is_phrase and clause.is_prefix:
                return clause.typed_words
        return ""

    @property
    def conditions(self) -> str:
        """All conditions, as a user may type them."""
        return " ".join(map(str, self.clauses))


def parse(query: str) -> ParsedQuery:
    """Parse a query. Never raises: a lone sign or a minus before a number is plain text."""
    clauses: list[Clause] = []
    like = ""

    def take_clause(part: re.Match[str]) -> str:
        """Note a clause or the document in `like:`, and return what stays in the query's text."""
        nonlocal like
        has_minus = part["minus"] is not None
        field = (part["field"] or "").lower()
        content = part["phrase"] or part["prefix"] or part["word"] or ""
        is_excluded_word = has_minus and content[:1].isalpha()  # -5 is a number
        is_plain = part["word"] and not field and not is_excluded_word
        if is_plain or not _has_word(content) or (field == "like:" and has_minus):
            return part[0]
        if field == "like:":
            like = content
            return ""
        is_phrase = part["phrase"] is not None
        is_open_phrase = is_phrase and part["closing"] is None
        is_prefix = part["prefix"] is not None or is_open_phrase
        clauses.append(Clause(content, is_phrase, is_prefix, has_minus, field == "title:"))
        return "" if has_minus or field else content

    text = _OPERATOR.sub(take_clause, query)
    clauses.sort(key=lambda clause: (clause.in_title, clause.is_excluded))
    if not word_pattern().search(text):
        titles = [clause for clause in clauses if clause.in_title and not clause.is_excluded]
        text = " ".join(clause.text for clause in titles) or text
    return ParsedQuery(query, text, tuple(clauses), like)


def plain_text(query: str) -> str:
    """Return a query without operators, as it is judged; unchanged if nothing else remains.

    Its white space is normalised.
    """
    return query_words(parse(query).text.strip() or query)


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


def _has_word(content: str) -> bool:
    """Tell whether a clause has a word, which an Arabic tatweel alone is not once it is folded."""
    return bool(word_pattern().search(content) and _split_words(content))


def _split_words(content: str) -> list[str]:
    """Return the words of a clause as they are looked for in a folded text."""
    return term_pattern().findall(fold(normalise(content)))


def _may_touch(word: str, following: str) -> bool:
    """Tell whether a text may write two words of a clause as one.

    Between a number and its unit, or the parts of a code, there need not be anything.
    """
    return word[-1].isdigit() != following[0].isdigit()


@lru_cache(maxsize=256)
def _compile(clause: Clause) -> re.Pattern[str]:
    """Return a pattern that finds the words of a clause in a folded text.

    Scripts that are written without spaces have no word boundaries.
    """
    words = _split_words(clause.text)
    whole = re.escape(words[0])
    for previous, word in pairwise(words):
        between = r"[\W_]*" if _may_touch(previous, word) else r"[\W_]+"
        whole += between + re.escape(word)
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
