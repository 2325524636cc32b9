"""Why a hit was found: what each ranker says of it, its part in the score, and whether the adapter moved it."""

from __future__ import annotations

from typing import Any

from textual.content import Content

from bmembed_tui.steps.search.model import NAMES, Hit, Standing, ranker_score
from bmembed_tui.steps.search.search_as_you_type import LOADING, Facts
from bmembed_tui.widgets.plain import plain
from bmembed_tui.widgets.safe import SafeStatic
from bmembed_tui.widgets.text_rows import fitted

BAR = 10  # columns of a bar
RANKERS = ("bm25", "semantic")
WIDE = 100  # columns from which the parts of a similarity are told beside it
APART = "had no part in this list"


class WhyPanel(SafeStatic):
    """A few lines on the selected hit. Their number is always the same, so that nothing moves."""

    def __init__(self, **options: Any) -> None:
        super().__init__("", **options)

    def draw(self, hit: Hit | None, mode: str, facts: Facts, *, loading: bool) -> None:
        """Show what is known. `mode`: the one that found it. `loading`: the encoder cannot be asked yet."""
        if hit is None:
            self.update("", layout=False)
            return
        width = max(20, self.content_size.width)
        lines = [*ranker_lines(hit, mode, width, facts), ("adapter", adapter_text(hit, facts, loading=loading))]
        told = [Content.assemble(plain(f"{name:<9}", "bold"), plain(fitted(text, width - 9))) for name, text in lines]
        self.update(
            Content("\n").join([plain(fitted(f"Why hit {hit.rank}", width), "$text-muted"), *told]), layout=False
        )


def ranker_lines(hit: Hit, mode: str, width: int = 200, facts: Facts | None = None) -> list[tuple[str, str]]:
    """(ranker, its rank and score and share) for both rankers, of a hit that `mode` found.

    Of a ranker that had no part in it, what `facts` know.
    """
    return [
        (NAMES[name], _ranked(name, hit, width) if name in hit.rankers else _unranked(name, hit, mode, width, facts))
        for name in RANKERS
    ]


def _ranked(name: str, hit: Hit, width: int) -> str:
    rank, score = hit.rankers[name]
    taken = hit.hub_offset if name == "semantic" else None
    told = _with_share(_place(name, rank, score, taken), hit.shares.get(name), width)
    return told + (f", {_parts(score, taken)}" if taken is not None and width >= WIDE else "")


def _with_share(text: str, share: float | None, width: int) -> str:
    if share is None:
        return text
    return f"{text:<26} {share_bar(share)} {share:4.0%}{' of the score' if width >= 64 else ''}"


def _place(name: str, rank: int, score: float, taken: float | None = None) -> str:
    scale = "score" if name == "bm25" else "cosine" if taken is None else "similarity"
    return f"rank {rank:<3} {scale} {ranker_score(name, score)}"


def _parts(similarity: float, taken: float) -> str:
    """Of what a similarity with hubs taken off is made."""
    return f"cosine {similarity + taken:.3f} less {taken:.3f} as a hub"


def _unranked(name: str, hit: Hit, mode: str, width: int, facts: Facts | None) -> str:
    explained = facts.explained if facts else None
    known = explained.chunks.get(hit.chunk_id) if explained and name == "semantic" else None
    if known is not None and known.rank is not None and known.similarity is not None:
        place = _place(name, known.rank, known.similarity, known.hub_offset)
    else:
        place = "not among its best" if mode == "hybrid" and hit.shares else ""
    if mode != "hybrid":
        return f"{place}, {APART}" if place else APART
    return _with_share(place or APART, hit.shares.get(name), width)


def _hub_lines(standing: Standing) -> list[str]:
    taken, similarity = standing.hub_offset or 0.0, standing.similarity or 0.0
    return [
        f"\nSimilarity {similarity:.3f}, by which semantic search ranks, is {_parts(similarity, taken)}:",
        "half of how near the chunk is to questions about other documents, so that one that is near to",
        "whatever is asked does not stand before better ones. The adapter's ranks are by cosine alone.",
    ]


def share_bar(share: float) -> str:
    """A bar of ten columns for a share from 0 to 1."""
    full = min(BAR, max(0, round(share * BAR)))
    return "█" * full + "░" * (BAR - full)


def adapter_text(hit: Hit, facts: Facts, *, loading: bool) -> str:
    """Whether the adapter moved the hit, or why that is not known yet."""
    if facts.explained is not None and hit.chunk_id in facts.explained.chunks:
        return facts.explained.adapter_text(hit.chunk_id)
    if facts.explain_error:
        return f"not known: {facts.explain_error}"
    return LOADING if loading else "asking …"


def why_text(hit: Hit, mode: str, facts: Facts, *, loading: bool) -> Content:
    """All that is known of a hit that `mode` found, nothing left out."""
    explained = facts.explained
    parts = [
        plain(hit.title or hit.path, "bold"),
        plain(" · ".join(filter(None, (hit.path, hit.place, hit.said))), "$text-muted"),
        plain(hit.heading),
        plain(""),
        *(
            Content.assemble(plain(f"{name:<9}", "bold"), plain(text))
            for name, text in ranker_lines(hit, mode, facts=facts)
        ),
        Content.assemble(plain(f"{'adapter':<9}", "bold"), plain(adapter_text(hit, facts, loading=loading))),
    ]
    standing = explained.chunks.get(hit.chunk_id) if explained else None
    if standing is not None and standing.base_cosine is not None and standing.served_cosine is not None:
        parts.append(
            plain(f"         cosine by base {standing.base_cosine:.3f}, as served {standing.served_cosine:.3f}")
        )
        if standing.similarity is not None and standing.hub_offset is not None:
            parts += [plain(line, lines=True) for line in _hub_lines(standing)]
    if explained is not None and explained.note:
        parts.append(plain(f"\n{explained.note}", lines=True))
    if hit.shares:
        parts.append(plain("\nThe bars: what part of the hit's score each ranker gave.", "$text-muted", lines=True))
    parts += [plain("\nWhat was found:", "$text-muted", lines=True), plain(hit.snippet)]
    return Content("\n").join(parts)
