"""Why a hit was found: each ranker's rank and share of the score, and the adapter's effect."""

from __future__ import annotations

from typing import ClassVar

from textual import work
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, Vertical, VerticalScroll
from textual.content import Content
from textual.screen import ModalScreen

from bmembed_tui.client.engine_client import Ask
from bmembed_tui.client.progress import format_bar
from bmembed_tui.steps.search.hit_text import (
    format_heading,
    format_origin,
    format_place,
    format_score,
)
from bmembed_tui.steps.search.model import NAMES
from bmembed_tui.widgets.change_line import await_or_show_error
from bmembed_tui.widgets.plain import plain
from bmembed_tui.widgets.safe import SafeButton, SafeStatic
from engine.core.messages.search import Explain, Explained, Hit, Mode, RankComparison, Ranked

BAR_COLUMNS = 10
RANKERS = ("bm25", "semantic")


class WhyDialog(ModalScreen[None]):
    """All that is known of a hit of `query`.

    The encoder is asked for the hit's ranks, and may have to be loaded first. `mode`: the mode that
    found the hit; None for the project's default.
    """

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,q,w", "dismiss", "close", id="dialog.close-why")
    ]

    def __init__(
        self,
        ask: Ask,
        query: str,
        hit: Hit,
        mode: Mode | None = None,
    ) -> None:
        super().__init__()
        self._ask = ask
        self._query = query
        self._hit = hit
        self._mode = mode

    def compose(self) -> ComposeResult:
        hit = self._hit
        place_text = " · ".join(filter(None, (hit.path, format_place(hit), format_origin(hit))))
        with Vertical(classes="dialog"):
            yield SafeStatic(f"Why hit {hit.rank}", classes="dialog-title")
            with VerticalScroll(classes="dialog-body"):
                yield SafeStatic(plain(hit.title or hit.path, "bold"))
                yield SafeStatic(plain(place_text, "$text-muted"))
                yield SafeStatic(plain(format_heading(hit)))
                rankers = format_explanation(hit, None, "asking the encoder …")
                yield SafeStatic(rankers, id="why-rankers")
                yield SafeStatic(plain(f"\n{hit.snippet}", lines=True))
            with Horizontal(classes="dialog-buttons"):
                yield SafeButton(
                    "Close",
                    id="close",
                    variant="primary",
                    action="screen.dismiss",
                )

    def on_mount(self) -> None:
        self.call_after_refresh(self._set_focus)
        self.load()

    def _set_focus(self) -> None:
        """Focus the text if it can be scrolled, else the button."""
        scroll = self.query_one(VerticalScroll)
        if scroll.max_scroll_y:
            scroll.focus()
        else:
            self.query_one("#close").focus()

    @work
    async def load(self) -> None:
        """Ask the engine for the ranks of the hit, and show them or the error."""
        explanation_line = self.query_one("#why-rankers", SafeStatic)

        def show_error(error: Content) -> None:
            explanation = format_explanation(
                self._hit,
                None,
                "not known",
            )
            explanation_line.update(Content("\n").join([explanation, error]))

        request = self._ask(Explain(self._query, (self._hit.chunk_id,), self._mode))
        explained = await await_or_show_error(self, request, show_error)
        if explained is not None:
            explanation_line.update(format_explanation(self._hit, explained))


def format_explanation(
    hit: Hit,
    explained: Explained | None,
    adapter: str = "",
) -> Content:
    """Return a line for each ranker, and one on the adapter.

    `adapter`: the text of the adapter's line while there is no explanation.
    """
    ranks = None
    if explained:
        ranks = explained.chunks.get(hit.chunk_id, RankComparison())
        adapter = format_adapter(explained, ranks)
    lines = [(NAMES[name], format_ranker(name, hit, ranks)) for name in RANKERS]
    lines.append(("adapter", adapter))
    rows = [Content.assemble(plain(f"{name:<9}", "bold"), plain(text)) for name, text in lines]
    if explained and explained.note:
        rows.append(plain(explained.note, "$text-muted", lines=True))
    return Content("\n").join(rows)


def format_ranker(
    name: str,
    hit: Hit,
    ranks: RankComparison | None,
) -> str:
    """Return a ranker's rank, score and share of the score.

    The rank is that of the document if hits are grouped by document. A ranker that did not find the
    hit may still have ranked it: then the rank of the passage is returned. A hit without a rank
    that has a share is not embedded yet: its similarity was estimated. `ranks`: None while the
    encoder is asked for them.
    """
    ranked = hit.rankers.get(name)
    rank_name = "rank"
    if ranked is None and name == "semantic" and ranks is not None:
        ranked = _find_rank_in_use(ranks)
        rank_name = "passage rank"
    if ranked is None and not hit.shares:
        return "not asked"
    text = "not among its best hits"
    if name == "semantic" and ranks is not None and hit.shares.get(name):
        text = "not embedded: estimated"
    if ranked is not None:
        scale = "score" if name == "bm25" else "similarity"
        rank = ranked.document_rank or ranked.rank
        text = f"{rank_name} {rank:<3} {scale} {format_score(name, ranked.score)}"
    if hit.shares:
        share = hit.shares.get(name, 0.0)
        return f"{text:<26} {format_bar(share, BAR_COLUMNS)} {share:4.0%} of the score"
    if name in hit.rankers:
        return text
    return f"{text}, not used for this list"


def _find_rank_in_use(ranks: RankComparison) -> Ranked | None:
    """Return the hit's rank by the encoder in use; None where it is not known."""
    if ranks.in_use_rank is None or ranks.in_use_cosine is None:
        return None
    return Ranked(ranks.in_use_rank, ranks.in_use_cosine)


def format_adapter(explained: Explained, ranks: RankComparison) -> str:
    """Return the passage's ranks by base and by the encoder in use: whether the adapter moved it.

    They are ranks among all passages, unlike those of the rankers if hits are grouped by document.
    """
    if ranks.in_use_rank is None:
        return "not ranked by the encoder"
    if explained.in_use == "base":
        return "not in use"
    if ranks.base_rank is None:
        return f"{explained.in_use}; base rank unknown"
    before = _format_passage_rank(ranks.base_rank, ranks.base_cosine)
    now = _format_passage_rank(ranks.in_use_rank, ranks.in_use_cosine)
    return f"{explained.in_use}: passage rank {before} → {now}"


def _format_passage_rank(rank: int, similarity: float | None) -> str:
    """Return a rank with the similarity, such as `12 (0.457)`."""
    return f"{rank:,}" if similarity is None else f"{rank:,} ({similarity:.3f})"
