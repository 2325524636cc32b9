"""Forms of a word that stemmers keep apart: British and American, old and new German spelling,
irregular plurals and verbs.
"""

from __future__ import annotations

import re

from engine.lexical.characters import complete_street

_IRREGULAR_NOUNS = """
child children, foot feet, goose geese, louse lice, man men, mouse mice, ox oxen, tooth teeth,
woman women,
half halves, knife knives, loaf loaves, scarf scarves, shelf shelves, thief thieves, wife wives,
wolf wolves,
analysis analyses, axis axes, catharsis catharses, crisis crises, diagnosis diagnoses,
emphasis emphases, hypothesis hypotheses, metastasis metastases, oasis oases,
parenthesis parentheses, prognosis prognoses, synthesis syntheses, thesis theses,
appendix appendices, helix helices, index indices, matrix matrices, vertex vertices,
vortex vortices,
automaton automata, criterion criteria, phenomenon phenomena, polyhedron polyhedra,
bacterium bacteria, curriculum curricula, equilibrium equilibria, erratum errata,
maximum maxima, memorandum memoranda, minimum minima, momentum momenta, optimum optima,
quantum quanta, spectrum spectra, stratum strata, symposium symposia,
antenna antennae, formula formulae, larva larvae, vertebra vertebrae,
alumnus alumni, bacillus bacilli, cactus cacti, corpus corpora, focus foci, fungus fungi,
locus loci, nucleus nuclei, radius radii, stimulus stimuli
"""
# Not those that are words of their own, too: found, left, rose.
_IRREGULAR_VERBS = """
arise arose arisen, become became, begin began begun, break broke broken, bring brought,
build built, buy bought, catch caught, choose chose chosen, deal dealt, draw drew drawn,
drive drove driven, eat ate eaten, forbid forbade forbidden, forget forgot forgotten,
freeze froze frozen, give gave given, grow grew grown, hear heard, hold held, keep kept,
know knew known, lend lent, lose lost, make made, mean meant, meet met, overtake overtook overtaken,
pay paid, rebuild rebuilt, repay repaid, resell resold, ride rode ridden, seek sought, sell sold,
send sent, shake shook shaken, show shown, sing sang sung, sink sank sunk, sleep slept,
speak spoke spoken, spend spent, steal stole stolen, strike struck, swear swore sworn,
swim swam swum, take took taken, teach taught, tell told, think thought, throw threw thrown,
understand understood, undertake undertook undertaken, withdraw withdrew withdrawn,
withhold withheld, write wrote written
"""
# American, then British.
_SPELT_OTHERWISE = """
airplane aeroplane, aluminum aluminium, cozy cosy, curb kerb, defense defence, disk disc,
draft draught, enroll enrol, fulfill fulfil, gray grey, installment instalment, jewelry jewellery,
license licence, math maths, mold mould, mustache moustache, offense offence, pajama pyjama,
plow plough, practice practise, practicing practising, practiced practised, pretense pretence, skillful skilful, tire tyre, toward towards,
aging ageing, acknowledgment acknowledgement, judgment judgement, burned burnt, learned learnt,
spelled spelt, inquire enquire, inquired enquired, inquiry enquiry, inquiries enquiries
"""


def _read_forms(groups: str) -> dict[str, str]:
    forms: dict[str, str] = {}
    for group in groups.split(","):
        usual, *others = group.split()
        forms |= dict.fromkeys(others, usual)
    return forms


_ENGLISH_WORDS = {
    **_read_forms(_IRREGULAR_NOUNS),
    **_read_forms(_IRREGULAR_VERBS),
    **_read_forms(_SPELT_OTHERWISE),
}
# What a word contains, a pattern of what is replaced there, and the replacement.
_Rule = tuple[str, str, str]
_ENGLISH_RULES: tuple[_Rule, ...] = (
    # organise and organisation, but not revise and precise, whose nouns have an s, too
    (
        "is",
        r"(?<=[a-z]{3})(?<!v)(?<!prec)(?<!conc)(?<!exc)(?<!inc)"
        r"is(?=(?:e[drs]?|ers|ing|ations?|able)$)",
        "iz",
    ),
    ("lys", r"lys(?=(?:e[drs]?|ers|ing)$)", "lyz"),
    (
        "our",
        r"(?<=[a-z]{2})our"
        r"(?=(?:s|ed|ing|al|ally|able|ably|ers?|hoods?|less|ful|ites?|y|ism)?$)",
        "or",
    ),
    ("re", r"(?<=[a-z]{2}[bt])re(?=s?$)", "er"),
    ("centr", r"centr(?=ed$|ing$)", "center"),
    ("logu", r"logu(?:e(?=s?$)|(?=ed$|ing$))", "log"),
    ("gramme", r"gramme(?=s?$)", "gram"),
    ("ae", r"ae(?=m[aio]|sth|o)", "e"),  # anaemia, archaeology
    ("paed", r"^paed|(?<=o)paed", "ped"),
    ("oe", r"^oe(?=dem|soph|str)", "e"),
    ("foet", r"^foet", "fet"),
    ("rrhoea", r"rrhoea", "rrhea"),
    ("sulph", r"sulph", "sulf"),
    ("sceptic", r"^sceptic", "skeptic"),
    ("artefact", r"^artefact", "artifact"),
)
_GERMAN_RULES: tuple[_Rule, ...] = (
    ("ph", r"ph", "f"),
    ("nti", r"nti(?=al|ell)", "nzi"),  # Potential
    ("selbstst", r"selbstst", "selbst"),
    ("gh", r"gh(?=urt|ett)", "g"),  # Joghurt
    ("thunf", r"^thunf", "tunf"),
    ("aufwandig", r"aufwandig", "aufwendig"),
    ("", r"([b-df-hj-np-tv-z])\1\1", r"\1\1"),  # Schifffahrt
)


def unify_forms(word: str, language: str) -> str:
    """Return the form that stands for all of a lower-case word without accents.

    `colour` → `color`, `mice` → `mouse`, German `hauptstr` → `hauptstrasse`. It need not be a word:
    both sides of a search only have to agree.
    """
    if language == "en":
        singular = word.removesuffix("s")
        if word in _ENGLISH_WORDS:
            return _ENGLISH_WORDS[word]
        if singular in _ENGLISH_WORDS:
            return f"{_ENGLISH_WORDS[singular]}s"
        return _replace(word, _ENGLISH_RULES)
    if language == "de":
        return _replace(complete_street(word), _GERMAN_RULES)
    return word


def _replace(word: str, rules: tuple[_Rule, ...]) -> str:
    for part, pattern, replacement in rules:
        if part in word:
            word = re.sub(pattern, replacement, word)
    return word
