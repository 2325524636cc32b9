"""Why a hit was found: what each ranker says of it, its part in the score, and whether the adapter moved it."""

from __future__ import annotations

from textual.content import Content

from bmembed_tui.steps.progress import bar
from bmembed_tui.steps.search.hit_text import heading_of, origin_of, place_of, ranker_score
from bmembed_tui.steps.search.model import NAMES
from bmembed_tui.steps.search.search_as_you_type import LOADING, Facts
from bmembed_tui.widgets.plain import plain
from bmembed_tui.widgets.safe import SafeStatic
from bmembed_tui.widgets.text_rows import fitted
from engine.core.messages.search import Explained, Hit, RankComparison

BAR = 10  # columns of a bar
RANKERS = ("bm25", "semantic")
WIDE = 100  # columns from which the parts of a similarity are shown beside it
APART = "had no part in this list"


class WhyPanel(SafeStatic):
    """A few lines on the selected hit. Their number is always the same, so that nothing moves."""

    def draw(self, hit: Hit | None, mode: str, facts: Facts, *, loading: bool) -> None:
        """Show what is known. `mode`: the one that found it. `loading`: the encoder cannot be used yet."""
        if hit is None:
            self.update("", layout=False)
            return
        width = max(20, self.content_size.width)
        lines = [*ranker_lines(hit, mode, width, facts), ("adapter", adapter_text(hit, facts, loading=loading))]
        rows = [Content.assemble(plain(f"{name:<9}", "bold"), plain(fitted(text, width - 9))) for name, text in lines]
        head = plain(fitted(f"Why hit {hit.rank}", width), "$text-muted")
        self.update(Content("\n").join([head, *rows]), layout=False)


def ranker_lines(hit: Hit, mode: str, width: int = 200, facts: Facts | None = None) -> list[tuple[str, str]]:
    """(ranker, its rank and score and share) for both rankers, of a hit that `mode` found.

    Of a ranker that had no part in it, what `facts` know.
    """
    return [
        (NAMES[name], _ranked(name, hit, width) if name in hit.rankers else _unranked(name, hit, mode, width, facts))
        for name in RANKERS
    ]


def _ranked(name: str, hit: Hit, width: int) -> str:
    ranked = hit.rankers[name]
    offset = ranked.hub_offset
    text = _with_share(_place(name, ranked.rank, ranked.score, offset), hit.shares.get(name), width)
    return text + (f", {_parts(ranked.score, offset)}" if offset is not None and width >= WIDE else "")


def _with_share(text: str, share: float | None, width: int) -> str:
    if share is None:
        return text
    return f"{text:<26} {bar(share, BAR)} {share:4.0%}{' of the score' if width >= 64 else ''}"


def _place(name: str, rank: int, score: float, hub_offset: float | None = None) -> str:
    scale = "score" if name == "bm25" else "cosine" if hub_offset is None else "similarity"
    return f"rank {rank:<3} {scale} {ranker_score(name, score)}"


def _parts(similarity: float, hub_offset: float) -> str:
    return f"cosine {similarity + hub_offset:.3f} less {hub_offset:.3f} as a hub"


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


def _hub_lines(similarity: float, hub_offset: float) -> list[str]:
    return [
        f"\nSimilarity {similarity:.3f}, by which semantic search ranks, is {_parts(similarity, hub_offset)}:",
        "half of how near the chunk is to questions about other documents, so that one that is near to",
        "whatever is asked does not stand before better ones. The adapter's ranks are by cosine alone.",
    ]


def adapter_text(hit: Hit, facts: Facts, *, loading: bool) -> str:
    """Whether the adapter moved the hit, or why that is not known yet."""
    if facts.explained is not None and hit.chunk_id in facts.explained.chunks:
        return _moved(facts.explained, facts.explained.chunks[hit.chunk_id])
    if facts.explain_error:
        return f"not known: {facts.explain_error}"
    return LOADING if loading else "asking …"


def _moved(explained: Explained, ranks: RankComparison) -> str:
    if ranks.served_rank is None:
        return "not ranked by the encoder" + (f": {explained.note}" if explained.note else "")
    after = f"{ranks.served_rank:,}"
    if explained.served == "base":
        return f"none is served; base ranks it {after}"
    if ranks.base_rank is None:
        return f"{explained.served}: rank {after}; base rank unknown (w)"
    gap = ranks.base_rank - ranks.served_rank
    if not gap:
        return f"{explained.served}: did not move it, rank {after}"
    return f"{explained.served}: base rank {ranks.base_rank:,} → {after}, {'up' if gap > 0 else 'down'} {abs(gap):,}"


def why_text(hit: Hit, mode: str, facts: Facts, *, loading: bool) -> Content:
    """All that is known of a hit that `mode` found, nothing left out."""
    explained = facts.explained
    parts = [
        plain(hit.title or hit.path, "bold"),
        plain(" · ".join(filter(None, (hit.path, place_of(hit), origin_of(hit)))), "$text-muted"),
        plain(heading_of(hit)),
        plain(""),
        *(
            Content.assemble(plain(f"{name:<9}", "bold"), plain(text))
            for name, text in ranker_lines(hit, mode, facts=facts)
        ),
        Content.assemble(plain(f"{'adapter':<9}", "bold"), plain(adapter_text(hit, facts, loading=loading))),
    ]
    ranks = explained.chunks.get(hit.chunk_id) if explained else None
    if ranks is not None and ranks.base_cosine is not None and ranks.served_cosine is not None:
        parts.append(plain(f"         cosine by base {ranks.base_cosine:.3f}, as served {ranks.served_cosine:.3f}"))
        if ranks.similarity is not None and ranks.hub_offset is not None:
            parts += [plain(line, lines=True) for line in _hub_lines(ranks.similarity, ranks.hub_offset)]
    if explained is not None and explained.note:
        parts.append(plain(f"\n{explained.note}", lines=True))
    if hit.shares:
        parts.append(plain("\nThe bars: what part of the hit's score each ranker gave.", "$text-muted", lines=True))
    parts += [plain("\nWhat was found:", "$text-muted", lines=True), plain(hit.snippet)]
    return Content("\n").join(parts)
