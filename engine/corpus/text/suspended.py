"""Suspended hyphens at the end of a line: `Kunden-` and `und Lieferantendaten` in the next line are not `Kundenund`.

A conjunction in the next line may also be the end of the word (`Frau-en`, `in-to`, `sail-or`), so it counts only in texts of
its language, and the doubtful ones only where what stands before or behind them is as it is with a suspended hyphen.
"""

from __future__ import annotations

from collections.abc import Mapping

_ALWAYS: Mapping[str, frozenset[str]] = {
    "de": frozenset("und oder bzw beziehungsweise sowie samt respektive".split()),
    "en": frozenset(("and", "nor", "versus", "vs")),
    "nl": frozenset("en of tot alsmede respectievelijk".split()),
    "fr": frozenset(("et", "ou", "ni")),
    "es": frozenset(("y", "o", "e", "u", "ni")),
    "it": frozenset(("e", "o", "ed", "od")),
    "pt": frozenset(("e", "ou")),
    "sv": frozenset(("och", "eller", "samt")),
    "da": frozenset(("og", "eller", "samt")),
}
"""By language: words that no word ends in behind a line's end."""
_OF_ANY = frozenset("und oder bzw beziehungsweise sowie and och eller".split())
"""Of these those that end no word of the other languages, either."""
_DOUBTFUL: Mapping[str, frozenset[str]] = {
    "de": frozenset("bis noch aber statt als auch".split()),
    "en": frozenset(("or", "to", "but", "through", "as", "not")),
    "nl": frozenset(("dan",)),
    "fr": frozenset(("plus",)),
}
"""Words that others end in, too: dennoch, into, sailor."""
_FIRST_PARTS = frozenset(
    "pre post short long medium mid over under non anti pro high low left right first second third fourth one two three four "
    "five six seven eight nine ten half full part multi single double micro macro inter intra up down on off in out self sub "
    "super semi bi tri upper lower inner outer early late small large near far north south east west fore back front rear "
    "vor nach ein aus an ab auf zu um über unter haupt neben hin her innen außen hoch tief rück vorder hinter ober mittel "
    "kurz lang klein groß alt neu zwei drei vier fünf sechs sieben acht neun zehn elf zwölf".split()
)
_COMMON: Mapping[str, frozenset[str]] = {
    "de": frozenset("der die das und ist nicht mit von zu den auf für im dem ein eine des sich werden wird oder bei".split()),
    "en": frozenset("the of and to is that for with are this be by as on or from which not have must shall".split()),
    "nl": frozenset("de het een van en voor zijn dat niet met op te aan bij door wordt worden deze naar als".split()),
    "fr": frozenset("le la les des du et est une dans pour que par sur au avec ce qui sont aux pas".split()),
    "es": frozenset("el la los las de del y en que para con una por se al es su lo como más".split()),
    "it": frozenset("il la i le di del della che per con una e è gli al nel sono da dei non".split()),
    "pt": frozenset("o a os as de do da dos que para com uma em no na por ao é não e".split()),
    "sv": frozenset("och att det som en är av för den med på till inte ett om har de eller".split()),
    "da": frozenset("og at det som en er af for den med på til ikke et om har de eller".split()),
}

_WORDS = frozenset(("into", "onto", "upto"))
_BEGINS_A_WORD = "-\u2010([\"'„“«"


def language_of(words: Mapping[str, int]) -> str:
    """The language of a text that most of its commonest words are of, as an ISO 639-1 code; empty where none is.

    `words` counts the words of the text, in lower case.
    """
    counts = {
        language: sum(words.get(word, 0) for word in common) for language, common in _COMMON.items()
    }
    language = max(counts, key=lambda one: counts[one])
    return language if counts[language] else ""


def is_suspended(left: str, right: str, following: str, words: Mapping[str, int], language: str) -> bool:
    """Whether the hyphen between two parts of a word stands for a word that follows.

    `right` is the part in the next line, `following` the word behind it, `words` counts the words of the text, in lower case.
    """
    conjunction = right.casefold()
    first = left.rpartition("-")[2].casefold()
    if words.get(first + conjunction):
        return False
    if not following[0].isalnum() and following[0] not in _BEGINS_A_WORD:
        return False
    if conjunction in _OF_ANY or conjunction in _ALWAYS.get(language, ()):
        return True
    if conjunction not in _DOUBTFUL.get(language, ()):
        return False
    if "-" in following.strip("-") or first.isdigit():
        return True
    return first in _FIRST_PARTS and f"{first}{conjunction}" not in _WORDS
