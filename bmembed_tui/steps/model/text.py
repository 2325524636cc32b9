"""What the engine's doctor found, in words for the step Encoder."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from textual.content import Content

from bmembed_tui.home.new_project import PRESETS
from bmembed_tui.widgets.plain import plain
from engine.core.messages.encoders import EncoderFile, EncoderOffer
from engine.core.messages.project import Finding
from engine.core.text import size_text
from engine.settings.training_schema import TrainingSettings

MACHINE = (
    "gpu",
    "memory",
    "memory need",
    "disk",
    "disk need",
    "threads",
    "python",
    "network",
    "permissions",
)
SUITS = 0.9
"""Share of the documents' text whose language an encoder must know to suit them."""
OWN_LINES = ("model", "languages", "device", "dtype")  # these stand beside what they are about
SIGNS = {
    "problem": ("✗ problem ", "bold $text-error"),
    "note": ("! ", "$text-warning"),
    "absent": ("· ", "$text-muted"),
}


def of_topic(findings: Iterable[Finding], topic: str) -> list[Finding]:
    """The findings of one topic."""
    return [finding for finding in findings if finding.topic == topic]


def encoder_line(one: EncoderFile) -> Content:
    """`✓ e5-small-v2  Hugging Face, 133 MB: 384 dimensions, at most 512 tokens, en`."""
    sign, style = ("✗ ", "$text-error") if one.problem else ("✓ ", "$text-success")
    facts = f"  {one.place}, {size_text(one.size)}: {one.problem or one.facts}"
    return Content.assemble(
        plain(sign, style), plain(", ".join(one.names)), plain(facts, "$text-muted")
    )


def offer_line(offer: EncoderOffer, languages: str) -> Content:
    """`⇣ multilingual-e5-small  488.0 MB to fetch, many languages: suits your documents (84%
    German)`.
    """
    facts = f"  {size_text(offer.size)} to fetch, {offer.languages}"
    if not offer.fits:
        verdict = ": too large for this machine"
    elif offer.known >= SUITS:
        verdict = f": suits your documents ({languages})" if languages else ""
    else:
        verdict = f": knows {offer.known:.0%} of your documents' text" if languages else ""
    sign = ("⇣ ", "$text-accent" if offer.fits else "$text-muted")
    return Content.assemble(
        plain(*sign), plain(offer.name), plain(f"{facts}{verdict}", "$text-muted")
    )


def format_topic(findings: Iterable[Finding], topic: str) -> Content:
    """What was found of one topic, and what follows from it; of the model, also which languages
    it does not know.
    """
    found = [
        one
        for name in (topic, *(["languages"] if topic == "model" else []))
        for one in of_topic(findings, name)
    ]
    if not found:
        return plain("not known while something else is wrong", "$text-muted")
    return Content("\n").join(_line(finding, "") for finding in found)


def format_machine(findings: Iterable[Finding]) -> Content:
    """Memory, disk and the rest, problems first and with what to do; some topics are shown only
    as problems.
    """
    shown = [finding for finding in findings if finding.topic not in OWN_LINES]
    wrong = [finding for finding in shown if finding.state == "problem"]
    good = [
        finding
        for topic in MACHINE
        for finding in of_topic(shown, topic)
        if finding.state != "problem"
    ]
    lines = [*wrong, *(replace(finding, follows="") for finding in good)]
    return Content("\n").join(_line(finding, f"{finding.topic}: ") for finding in lines)


def _line(finding: Finding, name: str) -> Content:
    sign = SIGNS.get(finding.state, ("✓ ", "$text-success"))
    if finding.state == "problem":
        style = ""
    else:
        style = "$text-muted"
    follows = plain(finding.follows and f" — {finding.follows}", style, lines=not name)
    return Content.assemble(plain(*sign), plain(name, "bold"), plain(finding.found), follows)


def format_preset(training: TrainingSettings, values: Mapping[str, Any]) -> Content:
    """What a training preset means. `values`: its own, where those of `training` are null."""
    steps, queries = (
        getattr(training, key) or values.get(key) for key in ("steps", "queries_per_step")
    )
    if steps and queries:
        size = f" At most {steps:,} steps of {queries:,} queries."
    else:
        size = ""
    return plain(f"{PRESETS.get(training.preset, '')}.{size}")
