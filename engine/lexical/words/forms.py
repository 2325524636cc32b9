"""Forms of a word that stemmers do not unify.

These are British and American or old and new German spellings, irregular plurals and verbs, and
forms that stemmers recognise only with the accents, which have been removed.
"""

from __future__ import annotations

import re
from typing import NamedTuple

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
plow plough,
practice practise, practicing practising, practiced practised, pretense pretence,
skillful skilful, tire tyre, toward towards,
aging ageing, acknowledgment acknowledgement, judgment judgement, burned burnt, learned learnt,
spelled spelt, inquire enquire, inquired enquired, inquiry enquiry, inquiries enquiries
"""


def _read_forms(groups: str) -> dict[str, str]:
    """Return form → usual form: `mice` → `mouse`, `feet` → `foot` for `mouse mice, foot feet`."""
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
_ENGLISH_RULES = (
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
_GERMAN_RULES = (
    ("ph", r"ph", "f"),
    ("nti", r"nti(?=al|ell)", "nzi"),  # Potential
    ("selbstst", r"selbstst", "selbst"),
    ("gh", r"gh(?=urt|ett)", "g"),  # Joghurt
    ("thunf", r"^thunf", "tunf"),
    ("aufwandig", r"aufwandig", "aufwendig"),
    ("", r"([b-df-hj-np-tv-z])\1\1", r"\1\1"),  # Schifffahrt
)
# Stemmers keep the forms of these words apart, which also end compounds: Bankkonten.
_ENDINGS = {
    "de": """
aroma aromen, bonus boni, dogma dogmen, drama dramen, firma firmen, forum foren, globus globen,
gremium gremien, gymnasium gymnasien, individuum individuen, index indizes, ismus ismen,
jubilaum jubilaen, kaktus kakteen, kollegium kollegien, komma kommata, konto konten konti,
kriterium kriterien, lexikon lexika, material materialien, ministerium ministerien, museum museen,
praktikum praktika, praxis praxen, prinzip prinzipien, radius radien, rhythmus rhythmen,
risiko risiken, saldo salden, schema schemata, stipendium stipendien, studium studien,
szenario szenarien, thema themen themata, territorium territorien, villa villen, virus viren,
visum visa, zentrum zentren, zyklus zyklen
""",
    "es": """
capaz capaces, cruz cruces, eficaz eficaces, feliz felices, juez jueces, lapiz lapices, luz luces,
matriz matrices, nuez nueces, pez peces, raiz raices, veloz veloces, vez veces, voz voces
""",
    "fr": """
balai balais, delai delais, emploi emplois, envoi envois, essai essais, loi lois, octroi octrois,
oeil yeux, relai relais, roi rois, tournoi tournois,
bail baux, corail coraux, email emaux, travail travaux, vitrail vitraux
""",
    "nl": "kind kinderen, lid leden, schip schepen, stad steden",
}
_ALL_RULES = {
    "en": _ENGLISH_RULES,
    "de": _GERMAN_RULES,
    # Their accents are gone: funções, animais, homens.
    "pt": (
        ("es", r"(?<=[a-z])[oa]es$", "ao"),
        ("is", r"(?<=[a-z]{2}[aeou])is$", "l"),
        ("ns", r"(?<=[aeiou])ns$", "m"),
    ),
    "fr": (("ee", r"(?<=[a-z]{3})ees?$", "e"),),  # signée
    "ar": (
        ("\u0627\u0644", "^[\u0648\u0641\u0628\u0643](?=\u0627\u0644.{3})", ""),  # والكتاب
        # Folding has replaced this letter; the stemmer needs the former one.
        ("\u0647", "\u0647$", "\u0629"),
    ),
}


class _Rule(NamedTuple):
    """What is replaced in words that contain `part`, which is tested first as that is fast."""

    part: str
    pattern: re.Pattern[str]
    replacement: str


_RULES = {
    language: [_Rule(part, re.compile(pattern), new) for part, pattern, new in rules]
    for language, rules in _ALL_RULES.items()
}
_FORMS_OF_ENDINGS = {language: _read_forms(groups) for language, groups in _ENDINGS.items()}
_ALL_ENDINGS = {language: tuple(forms) for language, forms in _FORMS_OF_ENDINGS.items()}


def unify_forms(word: str, language: str) -> str:
    """Return the form that stands for all forms of a lower-case word without accents.

    `colour` → `color`, `mice` → `mouse`, German `hauptstr` → `hauptstrasse`. It need not be a word:
    both sides of a search only have to agree.
    """
    if language == "en":
        singular = word.removesuffix("s")
        if word in _ENGLISH_WORDS:
            return _ENGLISH_WORDS[word]
        if singular in _ENGLISH_WORDS:
            return f"{_ENGLISH_WORDS[singular]}s"
    if language == "de":
        word = complete_street(word)
    if word.endswith(_ALL_ENDINGS.get(language, ())):
        word = _replace_ending(word, _FORMS_OF_ENDINGS[language])
    for rule in _RULES.get(language, ()):
        if rule.part in word:
            word = rule.pattern.sub(rule.replacement, word)
    return word


def find_irregular(beginning: str, language: str) -> list[str]:
    """Return the irregular forms with a beginning: `mice` for `mic`; only for English.

    Their terms begin differently, since `unify_forms` turns `mice` into `mouse`.
    """
    if language != "en":
        return []
    return [word for word in _ENGLISH_WORDS if word.startswith(beginning)]


def _replace_ending(word: str, forms: dict[str, str]) -> str:
    """Return a word with the usual form of its ending: `bankkonten` → `bankkonto`."""
    for ending, form in forms.items():
        if word.endswith(ending):
            return word.removesuffix(ending) + form
    return word
