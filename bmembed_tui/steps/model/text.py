"""The doctor's findings as text for step Encoder."""

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

# Topics that concern the machine, in the order in which they are shown.
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
MIN_KNOWN = 0.9
"""Share of the documents' text whose language an encoder must know to suit them."""
LANGUAGES_HERE = "Here: 'on this machine' lists it, and Enter on it fetches it."
"""What to do about languages that the encoder does not know, in place of commands."""
# These topics are shown below the choices that they concern.
TOPICS_OF_CHOICES = ("model", "languages", "device", "dtype")
SIGNS = {
    "problem": ("✗ problem ", "bold $text-error"),
    "note": ("! ", "$text-warning"),
    "absent": ("· ", "$text-muted"),
}


def filter_topic(findings: Iterable[Finding], topic: str) -> list[Finding]:
    """Return the findings of one topic."""
    return [finding for finding in findings if finding.topic == topic]


def format_encoder(encoder: EncoderFile) -> Content:
    """Return `✓ e5-small-v2  Hugging Face, 133 MB: 384 dimensions, at most 512 tokens, en`."""
    if encoder.problem:
        sign = plain("✗ ", "$text-error")
    else:
        sign = plain("✓ ", "$text-success")
    facts = f"  {encoder.place}, {size_text(encoder.size)}: {encoder.problem or encoder.facts}"
    return Content.assemble(
        sign,
        plain(", ".join(encoder.names)),
        plain(facts, "$text-muted"),
    )


def format_offer(offer: EncoderOffer, languages: str) -> Content:
    """Return a line on an encoder that can be fetched, and whether it suits the documents.

    Example: `⇣ multilingual-e5-small 488.0 MB to fetch, many languages: suits your documents (84%
    German)`. `languages`: those of the documents; empty where they are not known.
    """
    verdict = ""
    style = "$text-accent"
    if not offer.fits:
        verdict = ": too large for this machine"
        style = "$text-muted"
    elif languages and offer.known >= MIN_KNOWN:
        verdict = f": suits your documents ({languages})"
    elif languages:
        verdict = f": knows {offer.known:.0%} of your documents' text"
    facts = f"  {size_text(offer.size)} to fetch, {offer.languages}{verdict}"
    return Content.assemble(
        plain("⇣ ", style),
        plain(offer.name),
        plain(facts, "$text-muted"),
    )


def format_topic(findings: Iterable[Finding], topic: str) -> Content:
    """Return the findings of one topic, and what follows from them.

    The topic `model` includes the languages that the model does not know.
    """
    findings = list(findings)
    lines = filter_topic(findings, topic)
    if topic == "model":
        for finding in filter_topic(findings, "languages"):
            lines.append(replace(finding, follows=f"{finding.follows}. {LANGUAGES_HERE}"))
    if not lines:
        return plain("not known while something else is wrong", "$text-muted")
    return Content("\n").join(_format_finding(finding, heading="") for finding in lines)


def format_machine(findings: Iterable[Finding]) -> Content:
    """Return the findings that concern no choice of the step, such as memory and disk.

    Problems come first, with what to do, whatever their topic. Other findings are shown only if
    their topic is in `MACHINE`, and without what follows from them.
    """
    machine_findings = [finding for finding in findings if finding.topic not in TOPICS_OF_CHOICES]
    lines = [finding for finding in machine_findings if finding.state == "problem"]
    for topic in MACHINE:
        for finding in filter_topic(machine_findings, topic):
            if finding.state != "problem":
                lines.append(replace(finding, follows=""))
    return Content("\n").join(_format_finding(finding, f"{finding.topic}: ") for finding in lines)


def _format_finding(finding: Finding, heading: str) -> Content:
    """Return a finding after its heading. Without a heading, it may take several lines."""
    sign, sign_style = SIGNS.get(finding.state, ("✓ ", "$text-success"))
    follows = ""
    if finding.follows:
        follows = f" — {finding.follows}"
    style = "" if finding.state == "problem" else "$text-muted"
    return Content.assemble(
        plain(sign, sign_style),
        plain(heading, "bold"),
        plain(finding.found),
        plain(follows, style, lines=not heading),
    )


def format_preset(training: TrainingSettings, values: Mapping[str, Any]) -> Content:
    """Return what a training preset means.

    `values`: the preset's own values, used where those of `training` are null.
    """
    steps = training.steps or values.get("steps")
    queries = training.queries_per_step or values.get("queries_per_step")
    text = f"{PRESETS.get(training.preset, '')}."
    if steps and queries:
        text += f" At most {steps:,} steps of {queries:,} queries."
    return plain(text)
