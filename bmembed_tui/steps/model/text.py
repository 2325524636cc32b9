"""What the engine's doctor found, in words for the step Model."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from textual.content import Content

from bmembed_tui.home.new_project import PRESETS
from bmembed_tui.widgets.plain import plain
from engine.core.messages.project import Finding

MACHINE = ("gpu", "memory", "memory need", "disk", "disk need", "threads", "python", "network", "permissions")
OWN_LINES = ("model", "device", "dtype")  # these stand beside what they are about


def of_topic(findings: Iterable[Finding], topic: str) -> list[Finding]:
    """The findings of one topic."""
    return [finding for finding in findings if finding.topic == topic]


def format_choice(findings: Iterable[Finding], topic: str) -> Content:
    """What was chosen and why, or what stands against the wish."""
    found = of_topic(findings, topic)
    if not found:
        return plain("not known while something else is wrong", "$text-muted")
    if found[0].state == "problem":
        return _problem(found[0])
    return Content.assemble(plain(f"→ {found[0].found}", "bold"), plain(f": {found[0].follows}"))


def format_model(findings: Iterable[Finding]) -> Content:
    """Whether a model can be used, and what it is."""
    return Content("\n").join(_line(finding) for finding in of_topic(findings, "model"))


def _line(finding: Finding) -> Content:
    if finding.state == "problem":
        return _problem(finding)
    return Content.assemble(
        plain("✓ ", "$text-success"), plain(finding.found), plain(f"; {finding.follows}", "$text-muted")
    )


def _problem(finding: Finding) -> Content:
    return Content.assemble(
        plain(f"✗ problem: {finding.found}. ", "bold $text-error"), plain(finding.follows, lines=True)
    )


def format_machine(findings: Iterable[Finding]) -> Content:
    """Memory, disk and the rest, problems first; some topics are shown only as problems."""
    shown = [finding for finding in findings if finding.topic not in OWN_LINES]
    wrong = [finding for finding in shown if finding.state == "problem"]
    good = [finding for topic in MACHINE for finding in of_topic(shown, topic) if finding.state != "problem"]
    return Content("\n").join(_of_machine(finding) for finding in [*wrong, *good])


def _of_machine(finding: Finding) -> Content:
    name = f"{finding.topic}: "
    if finding.state == "problem":
        return Content.assemble(
            plain("✗ problem ", "bold $text-error"), plain(name, "bold"), plain(f"{finding.found} — {finding.follows}")
        )
    sign = plain("· ", "$text-muted") if finding.state == "absent" else plain("✓ ", "$text-success")
    return Content.assemble(
        sign, plain(name, "bold"), plain(finding.found), plain(f" — {finding.follows}", "$text-muted")
    )


def format_preset(preset: str, settings: Mapping[str, Any], values: Mapping[str, Any]) -> Content:
    """What a training preset means. `settings`: of training; `values`: the preset's own where those are null."""
    steps, queries = (settings.get(key) or values.get(key) for key in ("steps", "queries_per_step"))
    size = f" At most {steps:,} steps of {queries:,} queries." if steps and queries else ""
    return plain(f"{PRESETS.get(preset, '')}.{size}")
