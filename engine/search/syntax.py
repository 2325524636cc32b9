"""Query syntax: `"an exact phrase"`, `-word`, `word*`, `*word`, `title:word`, `like:document`.

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

_MARKS = '"＂“”„«»「」『』'
"""Quotation marks: `"…"`, `“…”`, `„…“`, `”…”`, `«…»`, `»…«` and `「…」`."""
# "a phrase", or one that is not closed; in `Home » Lamps`, the mark separates words.
_QUOTED = (
    f'(?:["＂“”„«「『]|»(?!\\s))(?P<phrase>[^{_MARKS}]*)(?:(?P<closing>["＂“”«»」』])(?!\\w)|\\Z)'
)
# -word, title:"a phrase", like:contracts/lease.pdf, word*, *word, *word*, and plain words
_OPERATOR = re.compile(
    rf"(?<![^\s(])(?P<minus>-)?(?P<field>(?i:title|like):)?(?:{_QUOTED}"
    rf"|(?P<prefix>[^\W_][\w.-]*\w)\*(?![\w*])|\*(?P<suffix>[^\W\d_{UNSPACED}]{{4,}})(?P<open>\*)?(?![\w*]|\.\w)"
    rf"|(?P<word>[^\W_][^\s{_MARKS}]*))"
)
_IS_UNSPACED = re.compile(f"[{UNSPACED}]")
_MAX_JOINED = 4
"""Maximum number of words, or parts of a code, that a text may write as one word."""


@dataclass(frozen=True, slots=True)
class Clause:
    """Words that a passage or a title must contain, or must not."""

    text: str
    is_phrase: bool = False
    """The words must follow each other: `"net profit"`."""
    is_prefix: bool = False
    """The last word may be longer: `pay*`, or a phrase without a closing quotation mark."""
    is_suffix: bool = False
    """The word, the only one, may begin earlier: `*contract`."""
    is_excluded: bool = False
    """The words must not occur: `-draft`."""
    in_title: bool = False
    """The words must be in the document's title or file name: `title:lease`."""

    def __str__(self) -> str:
        minus = "-" if self.is_excluded else ""
        field = "title:" if self.in_title else ""
        return f"{minus}{field}{self.typed_words}"

    @property
    def typed_words(self) -> str:
        """The words as a user may type them, without a minus and a field."""
        if self.is_phrase:
            return f'"{self.text}"'
        return f"{'*' * self.is_suffix}{self.text}{'*' * self.is_prefix}"

    @property
    def is_word(self) -> bool:
        """Whether the clause is a single word, which matches in any of its forms."""
        if self.is_phrase or self.is_prefix or self.is_suffix:
            return False
        return len(word_pattern().findall(self.text)) == 1

    def stands_in(self, text: str) -> bool:
        """Return whether a text contains the words, with any punctuation between them.

        Case and accents do not matter. Either the clause or the text may have `oe` for `ö`.
        """
        return any(pattern.search(spelling) for pattern, spelling in self._spellings(text))

    def find_joined_words(self) -> list[list[str]]:
        """Return, for each word, the spellings in which texts may contain it.

        The first is the word alone, the others join it with its neighbours: `M 8` gives
        `[["m", "m8"], ["8", "m8"]]`. Empty if no words can be joined.
        """
        words = term_pattern().findall(normalise(self.text))
        spellings = [[word] for word in words]
        for start in range(len(words)):
            joined = words[start]
            for end in range(start + 1, min(len(words), start + _MAX_JOINED)):
                if not _may_be_joined(words[end - 1], words[end]):
                    break
                joined += words[end]
                for place in range(start, end + 1):
                    spellings[place].append(joined)
        has_joined = any(len(alternatives) > 1 for alternatives in spellings)
        return spellings if has_joined else []

    def found_in(self, text: str) -> list[str]:
        """Return the matches in a text, in lower case without accents.

        The match of a part of a word is the whole word.
        """
        matches: list[str] = []
        for pattern, spelling in self._spellings(text):
            matches += [match[0] for match in pattern.finditer(spelling)]
        return matches

    def _spellings(self, text: str) -> Iterator[tuple[re.Pattern[str], str]]:
        """Yield a pattern of the clause and the spelling of a text in which to search for it.

        First both without accents, then both with `oe` for `ö` and the like, then the text without
        the raised numbers of footnotes.
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

    `parse` sets the fields up to `like`. Search adds the others, which depend on the project
    (`engine.search.typed`).
    """

    typed: str
    """What the user typed."""
    text: str
    """What is searched for: no operators, excluded words or names of files to search in."""
    clauses: tuple[Clause, ...] = ()
    """Conditions on passages, then on titles."""
    like: str = ""
    """Id or path of the document that hits should resemble, or empty."""
    like_document: Document | None = None
    """The document that `like` names."""
    documents: frozenset[int] | None = None
    """Ids of the documents to search in; None for all."""
    names: tuple[str, ...] = ()
    """The file names in the query, if it is restricted to these files."""
    keywords: str = ""
    """The text that BM25 gets."""
    meaning: str = ""
    """The text that the encoder gets."""
    missing_codes: tuple[str, ...] = ()
    """Codes in `text`, as typed, that no chunk contains."""
    codes: tuple[str, ...] = ()
    """What documents write for the `missing_codes`."""
    respelt_codes: frozenset[str] = frozenset()
    """Those of the `missing_codes` that documents write in another way, see `codes`."""

    @property
    def wildcards(self) -> list[Clause]:
        """The clauses such as `pay*` and `*pay` that passages must match."""
        wildcards = []
        for clause in self.clauses:
            is_required = not clause.is_excluded and not clause.in_title
            is_part = clause.is_prefix or clause.is_suffix
            if is_required and is_part and not clause.is_phrase:
                wildcards.append(clause)
        return wildcards

    @property
    def text_and_codes(self) -> str:
        """`text`, followed by what documents write for its missing codes."""
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
        """Record a clause or the document of `like:`; return what stays in the query's text."""
        nonlocal like
        has_minus = part["minus"] is not None
        field = (part["field"] or "").lower()
        content = part["phrase"] or part["prefix"] or part["suffix"] or part["word"] or ""
        is_excluded_word = has_minus and content[:1].isalpha()  # -5 is a number
        is_plain = part["word"] and not field and not is_excluded_word
        if is_plain or not _has_word(content) or (field == "like:" and has_minus):
            return part[0]
        if field == "like:":
            like = content
            return ""
        is_emphasised = part["open"] is not None and part[0] != query.strip()
        if is_emphasised:  # `it is *really* late`, as in chats
            return content
        is_phrase = part["phrase"] is not None
        is_open_phrase = is_phrase and part["closing"] is None
        is_prefix = part["prefix"] is not None or part["open"] is not None or is_open_phrase
        is_suffix = part["suffix"] is not None
        in_title = field == "title:"
        clauses.append(Clause(content, is_phrase, is_prefix, is_suffix, has_minus, in_title))
        return "" if has_minus or field else content

    text = _OPERATOR.sub(take_clause, query)
    clauses.sort(key=lambda clause: (clause.in_title, clause.is_excluded))
    if not word_pattern().search(text):
        titles = [clause for clause in clauses if clause.in_title and not clause.is_excluded]
        text = " ".join(clause.text for clause in titles) or text
    return ParsedQuery(
        query,
        text,
        tuple(clauses),
        like,
    )


def plain_text(query: str) -> str:
    """Return a query without operators, as it is judged, with normalised white space.

    A query of operators only keeps them.
    """
    return query_words(parse(query).text.strip() or query)


def respell_query(query: str, respell: Callable[[str], str]) -> str:
    """Return a query in which `respell` has replaced each plain word.

    Excluded words, phrases, prefixes and the document of `like:` stay as they are.
    """

    def respell_words(text: str) -> str:
        return word_pattern().sub(lambda word: respell(word[0]), text)

    parts: list[str] = []
    end = 0
    for part in _OPERATOR.finditer(query):
        parts.append(respell_words(query[end : part.start()]))
        is_like = (part["field"] or "").lower() == "like:"
        if part["word"] and not part["minus"] and not is_like:
            end = part.start("word")  # leaves the word to the next call of `respell_words`
        else:
            end = part.end()
        parts.append(query[part.start() : end])
    parts.append(respell_words(query[end:]))
    return "".join(parts)


def _has_word(content: str) -> bool:
    """Return whether a clause contains a word. A lone Arabic tatweel is none: folding drops it."""
    return bool(word_pattern().search(content) and _split_words(content))


def _split_words(content: str) -> list[str]:
    """Return the words of a clause, folded like the text in which they are searched."""
    return term_pattern().findall(fold(normalise(content)))


def _may_be_joined(word: str, following: str) -> bool:
    """Return whether two words of a clause match a text that joins them: `8 mm` `8mm`, `M 8` `M8`.

    That is if one ends in a digit where the other begins with a letter, or the reverse.
    """
    return word[-1].isdigit() != following[0].isdigit()


@lru_cache(maxsize=256)
def _compile(clause: Clause) -> re.Pattern[str]:
    """Return a pattern that finds the words of a clause in a folded text.

    In a script that is written without spaces, a match may begin and end within a longer run.
    """
    words = _split_words(clause.text)
    whole = re.escape(words[0])
    for previous, word in pairwise(words):
        between = r"[\W_]*" if _may_be_joined(previous, word) else r"[\W_]+"
        whole += between + re.escape(word)
    if _IS_UNSPACED.match(words[0]):
        start = ""
    else:
        start = r"(?<![^\W_])"
    if clause.is_suffix:
        start += f"(?:{word_pattern().pattern})?"
    if _IS_UNSPACED.match(words[-1]):
        end = ""
    elif clause.is_prefix:
        end = f"(?:{word_pattern().pattern})?"
    else:
        end = r"(?![^\W_])"
    return re.compile(start + whole + end)
