"""Questions in languages for which the generator has no grammar: a few sentences with gaps for two phrases."""

from __future__ import annotations

import random

from engine.queries.rules.salience import Sentence

_TEMPLATES = {
    "de": (
        "Was ist zu {0} und {1} bekannt?",
        "Welchen Zusammenhang gibt es zwischen {0} und {1}?", "Was gilt für {0} bei {1}?",
        "Welche Rolle spielt {0} für {1}?", "Welche Angaben gibt es zu {0} und {1}?",
    ),
    "fr": (
        "Que sait-on sur {0} et {1} ?", "Quel est le lien entre {0} et {1} ?", "Quel rôle joue {0} pour {1} ?",
        "Quelles informations concernent {0} et {1} ?", "Que faut-il savoir sur {0} et {1} ?",
    ),
    "es": (
        "¿Qué se sabe sobre {0} y {1}?", "¿Qué relación hay entre {0} y {1}?", "¿Qué papel tiene {0} en {1}?",
        "¿Qué información hay sobre {0} y {1}?", "¿Qué se dice de {0} y {1}?",
    ),
}  # fmt: skip


def has_templates(code: str) -> bool:
    """Whether the generator can ask questions in the language: by a template, or in English by grammar."""
    return code in _TEMPLATES or code == "en"


def template_question(sentence: Sentence, code: str, rng: random.Random) -> str | None:
    """A template of the language with two distinctive phrases of the sentence; None when it has fewer than two."""
    phrases = [phrase.text for phrase in sentence.best(3) if phrase.sort != "number"]
    if len(phrases) < 2:
        return None
    first, second = sorted(rng.sample(range(len(phrases)), 2))
    return rng.choice(_TEMPLATES[code]).format(phrases[first], phrases[second])
