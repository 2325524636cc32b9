"""Where a query's evidence stands in its chunk."""

from __future__ import annotations

from textual.content import Content

from bmembed_tui.widgets.plain import marked, plain


def evidence_span(evidence: str, chunk: str) -> tuple[int, int] | None:
    """(start, end) of the evidence, white space apart; None where it does not stand there."""
    wanted = "".join(evidence.split())
    at = "".join(chunk.split()).find(wanted)
    if not wanted or at < 0:
        return None
    places = [place for place, letter in enumerate(chunk) if not letter.isspace()]
    return places[at], places[at + len(wanted) - 1] + 1


def chunk_text(path: str, title: str, chunk: str, span: tuple[int, int] | None, evidence: str = "") -> Content:
    """A chunk under its document's path and title, the evidence marked. `evidence` is told where it is not in it."""
    parts = [Content("\n").join(part for part in (plain(path, "$text-muted"), plain(title, "bold")) if part.plain)]
    parts.append(Content("\n\n"))
    parts.append(marked(chunk, [span] if span else [], lines=True) if chunk else plain("The document is gone."))
    if evidence and span is None:
        parts.append(plain(f"\n\nIts evidence: {evidence}", lines=True))
    return Content.assemble(*parts)
