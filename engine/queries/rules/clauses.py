"""Parsing of plain English sentences by rules into subject, finite verb and rest."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from engine.queries.rules.statistics import TermStatistics
from engine.queries.rules.tokens import Token, tokenize
from engine.queries.rules.verbs import AUXILIARIES, NEGATED, VerbForm, is_participle, verb_form
from engine.queries.rules.vocabulary import ENGLISH, english_words, word_set

DETERMINERS = english_words("determiners")
PREPOSITIONS = english_words("prepositions")
_BREAKS = english_words("clause_openers")
_COMPLEMENT_OPENERS = DETERMINERS | PREPOSITIONS | _BREAKS
_LEADS = PREPOSITIONS | word_set(
    "if when while although though because unless once whenever where given despite"
)
_ADVERBS = english_words("adverbs")
_WITH_PREPOSITION = english_words("verbs_with_preposition")
_TAIL_OPENERS = english_words("tail_openers")
_NEW_SUBJECT = english_words("new_subjects")
_NO_SUBJECT = english_words("no_subjects")
_OF_SOMEONE = word_set("he she they his her their")
_CLAUSE_ENDS = _BREAKS | word_set("and but it they he she")
_BEFORE_NOUN = DETERMINERS | PREPOSITIONS | word_set("and or to")
_AFTER_PARTICIPLE = word_set("by here above below herein earlier")
_SPEECH = word_set("said says added wrote told")
MAX_SUBJECT = 12


@dataclass(frozen=True, slots=True)
class Clause:
    """A clause, of which `auxiliary subject verb rest` is a question.

    *announced* gives the auxiliary *did* and the verb *announce*, *is* gives *is* and no verb.
    `statement`: the finite part as written (*announced*, *is*). `lead`: an adverbial before the
    subject. `insertion`: an apposition that was cut out of the subject.
    """

    lead: str
    subject: str
    auxiliary: str
    verb: str
    rest: str
    statement: str
    insertion: str = ""

    @property
    def is_be(self) -> bool:
        """Whether the only verb is a form of *be*."""
        return self.auxiliary in ("is", "are", "was", "were") and not self.verb


def parse_clause(text: str, statistics: TermStatistics) -> Clause | None:
    """Return the main clause of a cleaned English sentence, or None if its verb is uncertain."""
    tokens = tokenize(text)
    lead, tokens = _split_lead(text, tokens)
    tokens, insertion = _cut_insertion(text, tokens, statistics)
    at = _find_verb(tokens, statistics)
    if at is None:
        return None
    subject_tokens = list(tokens[:at])
    while subject_tokens and _is_adverb(subject_tokens[-1]):
        subject_tokens.pop()
    if not _is_good_subject(subject_tokens):
        return None
    start = subject_tokens[0].start
    subject = lower_first(text[start : subject_tokens[-1].end], statistics)
    end = _find_clause_end(tokens, at + 1)
    rest = ""
    if end > at + 1:
        start = tokens[at].end
        rest = text[start : tokens[end - 1].end].strip()
    lead = lower_first(lead, statistics)
    return _build_clause(lead, subject, tokens, at, rest, insertion, statistics)


def _build_clause(
    lead: str,
    subject: str,
    tokens: Sequence[Token],
    at: int,
    rest: str,
    insertion: str,
    statistics: TermStatistics,
) -> Clause | None:
    """Return the clause whose finite verb is the token `at`."""
    word = tokens[at].folded
    auxiliary = NEGATED.get(word, word)
    if word in NEGATED:
        rest = f"not {rest}"
    following = [token.folded for token in tokens[at + 1 : at + 4]]
    if word in AUXILIARIES and not _is_main_have(auxiliary, following):
        if not rest:
            return None
        return Clause(lead, subject, auxiliary, "", rest, auxiliary, insertion)
    reading = reading_of("have" if auxiliary in ("has", "have") else word, statistics)
    if reading is None:
        return None
    base = reading.base
    if word == "had":
        base = "have"
        helper = "did"
    elif word == "has" or reading.form == "third":
        helper = "does"
    elif reading.form == "base":
        helper = "do"
    else:
        helper = "did"
    return Clause(lead, subject, helper, base, rest, tokens[at].text, insertion)


def _is_main_have(auxiliary: str, following: Sequence[str]) -> bool:
    """Return whether a form of *have* is the main verb, without a participle after it."""
    if auxiliary not in ("has", "have", "had"):
        return False
    for word in following:
        if word not in _ADVERBS and not word.endswith("ly"):
            return word not in ("been", "had", "done") and not is_participle(word)
    return True


def _split_lead(text: str, tokens: list[Token]) -> tuple[str, list[Token]]:
    if tokens and tokens[0].folded in _LEADS:
        for position, token in enumerate(tokens[:16]):
            if token.text == "," and position > 1 and position + 3 < len(tokens):
                return text[: token.start], tokens[position + 1 :]
    return "", tokens


def _cut_insertion(
    text: str, tokens: list[Token], statistics: TermStatistics
) -> tuple[list[Token], str]:
    """Cut an apposition between two commas out of the subject (*X, head of Y, said*)."""
    commas = [position for position, token in enumerate(tokens[:26]) if token.text == ","]
    if len(commas) < 2:
        return tokens, ""
    first, second, *_ = commas
    after = second + 1
    if not 1 <= first <= 8 or after >= len(tokens):
        return tokens, ""
    if _find_verb(tokens[: first + 1], statistics) is not None:
        return tokens, ""
    word = tokens[after].folded
    if word not in AUXILIARIES and verb_form(word) is None:
        return tokens, ""
    start = tokens[first + 1].start
    insertion = text[start : tokens[second].start]
    return tokens[:first] + tokens[after:], insertion.strip()


def _find_verb(tokens: Sequence[Token], statistics: TermStatistics) -> int | None:
    for at, token in enumerate(tokens[: MAX_SUBJECT + 2]):
        if not token.text[-1].isalnum():
            if token.text in ("'", "’", "-", "%", "&", "/", "$"):
                continue
            return None
        if at == 0:
            if token.folded in AUXILIARIES or _is_order(tokens):
                return None
            continue
        if token.folded in _BREAKS:
            return None
        if token.folded in AUXILIARIES or _is_finite(tokens, at, statistics):
            return at
    return None


def reading_of(word: str, statistics: TermStatistics) -> VerbForm | None:
    """Return a word as a form of a known verb, or as a past in *-ed*.

    The base of the latter must occur in the corpus (*erased*, *erase*).
    """
    known = verb_form(word)
    if known is not None:
        return known
    if not word.endswith("ed") or len(word) < 5 or not word.isalpha():
        return None
    bases = [word[:-1], word[:-2]]
    if word[-3] == word[-4]:
        bases.append(word[:-3])
    if word[-3] == "i":
        bases.append(word[:-3] + "y")
    best = max(bases, key=lambda base: statistics.frequency.get(base, 0))
    if statistics.frequency.get(best, 0):
        return VerbForm(best, "past")
    return None


def _is_order(tokens: Sequence[Token]) -> bool:
    """Return whether a sentence starts with a bare verb (*use such information …*)."""
    verb = verb_form(tokens[0].folded)
    if verb is None or verb.form != "base" or len(tokens) < 2:
        return False
    return tokens[1].folded in DETERMINERS


def _is_finite(tokens: Sequence[Token], at: int, statistics: TermStatistics) -> bool:
    token = tokens[at]
    before = tokens[at - 1]
    reading = reading_of(token.folded, statistics)
    if reading is None or reading.form == "participle" or token.is_capital:
        return False
    if before.folded in _BEFORE_NOUN:
        return False
    after = tokens[at + 1] if at + 1 < len(tokens) else None
    if reading.form == "past":
        if after is None:
            return True
        if after.folded in AUXILIARIES or after.folded in _AFTER_PARTICIPLE:
            return False
        return not _is_reduced_relative(tokens, at)
    if after is None or not _may_follow(after):
        return False
    if after.folded in PREPOSITIONS and reading.base not in _WITH_PREPOSITION:
        return False
    is_plural = _is_plural(before.folded)
    if reading.form == "third":
        return not is_plural
    return reading.form == "base" and is_plural


def _is_plural(word: str) -> bool:
    """Return whether a word looks like a plural."""
    return word.endswith("s") and not word.endswith(("ss", "'s", "us", "is"))


def _is_reduced_relative(tokens: Sequence[Token], at: int) -> bool:
    """Return whether a past is a reduced relative clause (*the deal announced on Monday is …*).

    A finite auxiliary then follows before any comma or conjunction.
    """
    if tokens[at + 1].folded not in PREPOSITIONS:
        return False
    for token in tokens[at + 2 : at + 16]:
        if token.text in (",", ";") or token.folded in _CLAUSE_ENDS:
            return False
        if token.folded in AUXILIARIES:
            return True
    return False


def _may_follow(token: Token) -> bool:
    """Return whether a word can open the complement of a verb.

    A finite verb cannot: it would make the word before it a noun.
    """
    if token.folded in AUXILIARIES:
        return False
    if token.has_digit or token.folded in _COMPLEMENT_OPENERS:
        return True
    reading = verb_form(token.folded)
    return token.text[-1].isalnum() and (reading is None or reading.form == "base")


def _is_good_subject(tokens: Sequence[Token]) -> bool:
    if not tokens or len(tokens) > MAX_SUBJECT:
        return False
    words = [token.folded for token in tokens]
    first = words[0]
    if len(words) == 1 and first in ENGLISH.vague:
        return False
    if first in PREPOSITIONS or first in _BREAKS or first in _NO_SUBJECT:
        return False
    if first in _OF_SOMEONE or not ENGLISH.personal.isdisjoint(words):
        return False
    return not ENGLISH.function_words.issuperset(words)


def _find_clause_end(tokens: Sequence[Token], begin: int) -> int:
    for at in range(begin, len(tokens)):
        mark = tokens[at].text
        if mark in (";", ":", "—", "–", "(", "...", "?", "!", "|"):
            return at
        after = tokens[at + 1 : at + 6]
        if not after:
            continue
        word = tokens[at].folded
        opens_clause = word in ("but", "so") or (word == "and" and after[0].folded in _NEW_SUBJECT)
        if opens_clause and at > begin:
            return at
        if mark == "," and _opens_tail(after, at - begin):
            return at
    return len(tokens)


def _opens_tail(after: Sequence[Token], length: int) -> bool:
    """Return whether a tail follows a comma: speech, a relative clause, a participle, an aside."""
    first, *others = after
    if any(token.folded in _SPEECH for token in others):
        return True
    if first.folded in _TAIL_OPENERS or first.folded.endswith("ing") or _ends_in_ly(first):
        return True
    return length > 6 and not (first.is_capital or first.has_digit)


def _is_adverb(token: Token) -> bool:
    return token.folded in _ADVERBS or _ends_in_ly(token)


def _ends_in_ly(token: Token) -> bool:
    return token.folded.endswith("ly") and len(token.folded) > 4 and not token.is_capital


def lower_first(text: str, statistics: TermStatistics) -> str:
    """Return a text with its first word in lower case, if the corpus writes it so in sentences."""
    word = text.split(" ", 1)[0].strip(".,'’").removesuffix("'s").removesuffix("’s")
    if not word or not word[0].isupper() or word == "I":
        return text
    if word[1:] != word[1:].lower():
        return text
    folded = word.casefold()
    if folded in statistics.capitalised:
        return text
    if folded in ENGLISH.function_words or folded in statistics.lower_case:
        return text[0].lower() + text[1:]
    return text
