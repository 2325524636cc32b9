"""Why a hit was found: what each ranker says of it, its part in the score, and whether the
adapter moved it.
"""

from __future__ import annotations

from typing import ClassVar

from textual import work
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, Vertical, VerticalScroll
from textual.content import Content
from textual.screen import ModalScreen

from bmembed_tui.client.engine_client import Ask
from bmembed_tui.client.progress import bar
from bmembed_tui.steps.search.hit_text import heading_of, origin_of, place_of, ranker_score
from bmembed_tui.steps.search.model import NAMES
from bmembed_tui.widgets.change_line import answer_or_error
from bmembed_tui.widgets.plain import plain
from bmembed_tui.widgets.safe import SafeButton, SafeStatic
from engine.core.messages.search import Explain, Explained, Hit, Mode, RankComparison, Ranked

BAR = 10  # columns of a bar
RANKERS = ("bm25", "semantic")


class WhyDialog(ModalScreen[None]):
    """All that is known of a hit of `query`.

    The encoder is asked about it, which may have to be loaded first.
    """

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,q,w", "dismiss", "close", id="dialog.close-why")
    ]

    def __init__(self, ask: Ask, query: str, hit: Hit, mode: Mode | None = None) -> None:
        super().__init__()
        self._ask = ask
        self._query = query
        self._hit = hit
        self._mode = mode

    def compose(self) -> ComposeResult:
        hit = self._hit
        where = " · ".join(part for part in (hit.path, place_of(hit), origin_of(hit)) if part)
        with Vertical(classes="dialog"):
            yield SafeStatic(f"Why hit {hit.rank}", classes="dialog-title")
            with VerticalScroll(classes="dialog-body"):
                yield SafeStatic(plain(hit.title or hit.path, "bold"))
                yield SafeStatic(plain(where, "$text-muted"))
                yield SafeStatic(plain(heading_of(hit)))
                yield SafeStatic(why_text(hit, None, "asking the encoder …"), id="why-rankers")
                yield SafeStatic(plain(f"\n{hit.snippet}", lines=True))
            with Horizontal(classes="dialog-buttons"):
                yield SafeButton("Close", id="close", variant="primary", action="screen.dismiss")

    def on_mount(self) -> None:
        scroll = self.query_one(VerticalScroll)
        self.call_after_refresh(
            lambda: (scroll if scroll.max_scroll_y else self.query_one("#close")).focus()
        )
        self.load()

    @work
    async def load(self) -> None:
        text = self.query_one("#why-rankers", SafeStatic)
        request = self._ask(Explain(self._query, (self._hit.chunk_id,), self._mode))
        if explained := await answer_or_error(
            self, request, lambda error: text.update(self._without(error))
        ):
            text.update(why_text(self._hit, explained))

    def _without(self, error: Content) -> Content:
        return Content("\n").join([why_text(self._hit, None, "not known"), error])


def why_text(hit: Hit, explained: Explained | None, adapter: str = "") -> Content:
    """A line for each ranker, and one on the adapter: `adapter` while nothing is explained."""
    if explained:
        ranks = explained.chunks.get(hit.chunk_id, RankComparison())
    else:
        ranks = RankComparison()
    lines = [(NAMES[name], format_ranker(name, hit, ranks)) for name in RANKERS]
    lines.append(("adapter", format_adapter(explained, ranks) if explained else adapter))
    rows = [Content.assemble(plain(f"{name:<9}", "bold"), plain(text)) for name, text in lines]
    if explained and explained.note:
        rows.append(plain(explained.note, "$text-muted", lines=True))
    return Content("\n").join(rows)


def format_ranker(name: str, hit: Hit, ranks: RankComparison) -> str:
    """Rank, score and share of a ranker; of one that had no part in the hit, its place where
    that is known.
    """
    ranked = hit.rankers.get(name)
    if (
        ranked is None
        and name == "semantic"
        and ranks.in_use_rank is not None
        and ranks.in_use_cosine is not None
    ):
        ranked = Ranked(ranks.in_use_rank, ranks.in_use_cosine)
    if ranked is None and not hit.shares:
        return "not asked"
    text = "not among its best hits"
    if ranked is not None:
        scale = "score" if name == "bm25" else "similarity"
        text = f"rank {ranked.rank:<3} {scale} {ranker_score(name, ranked.score)}"
    if not hit.shares:
        if name in hit.rankers:
            return text
        return f"{text}, not used for this list"
    share = hit.shares.get(name, 0.0)
    return f"{text:<26} {bar(share, BAR)} {share:4.0%} of the score"


def format_adapter(explained: Explained, ranks: RankComparison) -> str:
    """Whether the adapter moved the hit: where the base encoder has it.

    The line above says where the one in use has it.
    """
    if ranks.in_use_rank is None:
        return "not ranked by the encoder"
    if explained.in_use == "base":
        return "not in use"
    if ranks.base_rank is None:
        return f"{explained.in_use}; base rank unknown"
    text = f"{explained.in_use}; without it rank {ranks.base_rank:,}"
    if ranks.base_cosine is None:
        return text
    return f"{text}, similarity {ranks.base_cosine:.3f}"
