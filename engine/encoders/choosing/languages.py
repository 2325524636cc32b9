"""The languages that an encoder was made for, from its model card or its name."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from engine.core.messages.project import Finding
from engine.core.text import language_name
from engine.encoders.choosing.proposal import format_proposal, measure_machine, propose_encoder
from engine.models.catalogue import MANY, find_model
from engine.models.installed import read_installed
from engine.project.store.store import Store

if TYPE_CHECKING:
    from engine.encoders.encoder import EncoderSource

MIN_SHARE = 0.2
MIN_DOCUMENTS = 0.1
"""Shares of the text and of the documents in unknown languages from which doctor reports them.

Both must be reached, so that one long document does not suffice.
"""
# Share of a single language below which its detection is most often a mistake.
MIN_SHOWN = 0.01
MAX_CARD_SIZE = 1 << 16  # characters of a model card that are read
_FRONT_MATTER = re.compile(r"---\s*\n(.*?)\n---", re.DOTALL)
# A line `language: en` or `language: [en, de]`, or `language:` with lines `- en` below it.
_LANGUAGES = re.compile(r"^languages?:[ \t]*(.*(?:\n[ \t]*-[ \t].*)*)", re.MULTILINE)
# `en` or `deu`, but no part of `zh-Hans`.
_CODE = re.compile(r"(?<![\w-])[a-z]{2,3}(?![\w-])")
_ENGLISH_ONLY = re.compile(
    r"""
    ^(
        all-(minilm|mpnet|distilroberta)
        | multi-qa-
        | msmarco-
        | (e5|gte)-(small|base|large)
        | nomic-embed-text-v1
        | mxbai-embed
        | snowflake-arctic-embed-(xs|s|m|m-long|l)([-.]|$)  # not its version 2
    )
    | [-_.](en|english)([-_.]|$)  # bge-small-en-v1.5
    """,
    re.VERBOSE,
)
"""Names of models that were trained on English alone."""


def languages_of(source: EncoderSource) -> frozenset[str]:
    """Return the codes of an encoder's languages, such as en; empty if unknown."""
    return card_languages(source.folder.path if source.folder else None, source.name)


def card_languages(folder: Path | None, name: str) -> frozenset[str]:
    """Return the codes of a model's languages, empty if unknown.

    They are those of the card in its folder, if any; else those of the catalogue; else its name may
    show that it knows English only.
    """
    codes = _read_card_languages(folder / "README.md") if folder else []
    if codes:
        return frozenset(codes)
    entry = find_model(name)
    if entry and MANY in entry.languages:
        return frozenset()
    if entry:
        return frozenset(entry.languages)
    if _ENGLISH_ONLY.search(name.lower()):
        return frozenset({"en"})
    return frozenset()


def _read_card_languages(card: Path) -> list[str]:
    """Return the codes in the front matter of a model card; empty if there is none."""
    if not card.is_file():
        return []
    with card.open(encoding="utf-8", errors="replace") as file:
        text = file.read(MAX_CARD_SIZE)
    front_matter = _FRONT_MATTER.match(text)
    if front_matter is None:
        return []
    languages = _LANGUAGES.search(front_matter[1])
    if languages is None:
        return []
    return _CODE.findall(languages[1])


def knows(source: EncoderSource, language: str) -> bool:
    """Return whether an encoder, as far as is known, was trained on a language (a code or "none").

    The answer is yes for one whose languages are unknown, and for documents in no single language.
    """
    known = languages_of(source)
    return not known or language in (*known, "none")


def language_finding(store: Store, source: EncoderSource) -> Finding | None:
    """Return doctor's finding about documents in languages that the encoder does not know.

    None if too little text, or too few documents, are in such languages.
    """
    known_languages = languages_of(source)
    if not known_languages:
        return None
    documents = store.languages_but("und")
    lengths: Counter[str] = Counter()
    for _, code, length in documents:
        lengths[code] += length
    shares = foreign_shares(known_languages, lengths)
    foreign_documents = sum(code in shares for _, code, _ in documents)
    if not shares or foreign_documents < MIN_DOCUMENTS * len(documents):
        return None
    large = {code: share for code, share in shares.items() if share >= MIN_SHOWN}
    languages = [f"{language_name(code)} {share:.0%}" for code, share in large.items()]
    percent = round(100 * sum(shares.values()))
    other_percent = percent - sum(round(100 * share) for share in large.values())
    if other_percent > 0:
        languages.append(f"others {other_percent}%")
    problem = (
        f"{percent}% of the documents' text is in languages that {source.name} was not trained on"
        f" ({', '.join(languages)})"
    )
    consequence = f"semantic search finds little of it; {_suggest_encoder(lengths)}"
    return Finding(
        "languages",
        "note",
        problem,
        consequence,
        "languages-unknown",
    )


def _suggest_encoder(lengths: Mapping[str, int]) -> str:
    """Say what to do: use the encoder of the catalogue that suits these languages, if there is one.

    `lengths` counts characters by language.
    """
    total = sum(lengths.values())
    shares = {code: length / total for code, length in lengths.items()}
    model = propose_encoder(shares, measure_machine())
    if model is None:
        return "for another model, see 'engine encoders', then set encoder.model"
    return format_proposal(model, read_installed(model.name) is not None)


def foreign_shares(known: frozenset[str], lengths: Mapping[str, int]) -> dict[str, float]:
    """Return the share of text in each language that an encoder does not know, largest first.

    Empty if their sum is less than `MIN_SHARE`, or if the encoder's languages are unknown.
    `lengths` counts characters by language.
    """
    total = sum(lengths.values())
    if not known or not total:
        return {}
    foreign = {code: count / total for code, count in lengths.items() if code not in known}
    if sum(foreign.values()) < MIN_SHARE:
        return {}
    return dict(sorted(foreign.items(), key=lambda item: -item[1]))
