"""A chunk with a query's evidence marked."""

from __future__ import annotations

from textual.content import Content

from bmembed_tui.widgets.plain import marked, plain


def chunk_text(path: str, title: str, chunk: str, span: tuple[int, int] | None, evidence: str = "") -> Content:
    """A chunk under its document's path and title, the evidence marked. `evidence` follows where it is not in it."""
    parts = [Content("\n").join(part for part in (plain(path, "$text-muted"), plain(title, "bold")) if part.plain)]
    parts.append(Content("\n\n"))
    parts.append(marked(chunk, [span] if span else [], lines=True) if chunk else plain("The document is gone."))
    if evidence and span is None:
        parts.append(plain(f"\n\nIts evidence: {evidence}", lines=True))
    return Content.assemble(*parts)
