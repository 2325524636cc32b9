"""The reranker in step Search: on or off by a key, and a dialog that chooses and fetches one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from textual import on, work
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, Vertical
from textual.content import Content
from textual.screen import ModalScreen

from bmembed_tui.client.engine_client import Ask, parse_answer, run_command
from bmembed_tui.steps.search.hit_actions import HitActions
from bmembed_tui.widgets.change_line import ChangeLine, await_or_show_error
from bmembed_tui.widgets.choice_row import ChoiceRow
from bmembed_tui.widgets.model_fetcher import ModelFetcher
from bmembed_tui.widgets.model_list import ModelList
from bmembed_tui.widgets.plain import plain
from bmembed_tui.widgets.safe import SafeButton, SafeStatic
from engine.core.errors import EngineError
from engine.core.messages.models import ListedModel
from engine.core.messages.project import ChangeSettings, ReadSettings
from engine.core.messages.search import MeasureReranker, RerankerSpeed
from engine.core.text import duration, size_text
from engine.settings.load import validate
from engine.settings.schema import SearchSettings

WHAT = "A reranker reads the best hits again, each together with the query, and orders them."
USES = (
    ("on", "on"),
    ("off", "off"),
    ("auto", "once it proves better"),
)
NONE_CHOSEN = "None is chosen yet."
MEASURING = "measuring {} on this machine …"
IS_SERVER = "{} is a server: it gets each query and the passages found."


class RerankerActions(HitActions):
    """Turns the reranker on and off, and chooses one."""

    @work(exclusive=True, group="rerank")
    async def action_rerank(self) -> None:
        """Turn the reranker on or off; where none is chosen, offer some."""
        try:
            settings = validate((await self.ask(ReadSettings())).settings).search
            if not settings.reranker:
                self.action_choose_reranker()
                return
            rerank = "off" if self._is_reranking(settings) else "on"
            await self.ask(ChangeSettings({"search.rerank": rerank}))
            if rerank == "off":
                self._say("Reranker off.")
            elif is_server(settings.reranker):
                self._say(f"Reranker on. {IS_SERVER.format(settings.reranker)}")
            else:
                # Before the search, since reranking ends early if another request waits.
                self._say(f"Reranker on: {MEASURING.format(settings.reranker)}")
                speed = await self.ask(MeasureReranker())
                self._say(f"Reranker on. {format_speed(speed)}")
            self._search_anew()
        except EngineError as error:
            self._say(f"✗ {error.what} {error.why}".rstrip())

    def _is_reranking(self, settings: SearchSettings) -> bool:
        """Return whether hits are reranked now."""
        answer = self.searching.answer(self.active)
        if settings.rerank == "auto" and answer is not None:
            return answer.reranking or answer.reranked is not None
        return settings.rerank == "on"

    def action_choose_reranker(self) -> None:
        self.app.push_screen(RerankerDialog(self.ask), self._take_choice)

    def _take_choice(self, changed: bool | None) -> None:
        """Search again after the dialog. `changed`: whether a setting was changed."""
        if changed and self.is_attached:
            self.host.load()
        # Measuring may have ended the reranking of the present hits.
        self._search_anew()

    def _search_anew(self) -> None:
        if self.is_attached and not self.searching.question.empty:
            self.searching.search(
                self.searching.question,
                self.mode,
                again=True,
            )


class RerankerDialog(ModalScreen[bool]):
    """Chooses a reranker and when it is used; closes with whether a setting was changed."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "close", "close", id="dialog.close-reranker")
    ]

    def __init__(self, ask: Ask) -> None:
        super().__init__()
        self._ask = ask
        self._fetcher = ModelFetcher(self, self._show_speed)
        self._settings = SearchSettings()
        self._is_changed = False

    def compose(self) -> ComposeResult:
        with Vertical(classes="dialog reranker-dialog"):
            yield SafeStatic("Reranker", classes="dialog-title")
            yield SafeStatic(WHAT, id="reranker-what")
            yield ChoiceRow(
                "Rerank",
                USES,
                id="reranker-use",
            )
            yield SafeStatic("", id="reranker-speed")
            yield ModelList(self._format_reranker, format_rerankers_note)
            yield ChangeLine(self._ask, id="reranker-change")
            with Horizontal(classes="dialog-buttons"):
                yield SafeButton(
                    "Close",
                    id="close",
                    action="screen.close",
                )

    def on_mount(self) -> None:
        self.load()

    @work(exclusive=True, group="settings")
    async def load(self) -> None:
        """Read the settings, show them, and list the rerankers."""
        answer = await await_or_show_error(
            self,
            self._ask(ReadSettings()),
            self._show_speed,
        )
        if answer is not None:
            self._show(validate(answer.settings).search)
            self.query_one(ModelList).find(find_rerankers())

    def _show(self, settings: SearchSettings) -> None:
        """Show when hits are reranked, and how fast the chosen reranker is."""
        self._settings = settings
        row = self.query_one(ChoiceRow)
        row.show(settings.rerank)
        row.disabled = not settings.reranker
        if not settings.reranker:
            self._show_speed(NONE_CHOSEN)
        elif is_server(settings.reranker):
            self._show_speed(IS_SERVER.format(settings.reranker))
        else:
            self.measure()

    def _show_speed(self, text: Content | str) -> None:
        self.query_one("#reranker-speed", SafeStatic).update(text)

    @work(exclusive=True, group="measure")
    async def measure(self) -> None:
        """Show how long the chosen reranker takes on this machine."""
        self._show_speed(MEASURING.format(self._settings.reranker))
        speed = await await_or_show_error(
            self,
            self._ask(MeasureReranker()),
            self._show_speed,
        )
        if speed is not None:
            self._show_speed(format_speed(speed))

    def _format_reranker(self, model: ListedModel) -> Content:
        return format_reranker(model, is_chosen=model.name == self._settings.reranker)

    @on(ChoiceRow.Chosen)
    def _choose_use(self, event: ChoiceRow.Chosen) -> None:
        self.query_one(ChangeLine).propose({"search.rerank": event.value})

    @on(ModelList.Chosen)
    def _choose_model(self, event: ModelList.Chosen) -> None:
        """Propose the chosen reranker; fetch one of the catalogue when it is chosen twice."""
        model: ListedModel = event.model
        if not model.here:
            if self._fetcher.confirm(model.name, model.size):
                self.fetch(model.name, model.size)
            return
        self._fetcher.forget()
        if model.problem:
            self._show_speed(f"✗ {model.name}: {model.problem}")
        else:
            self._propose(model.name)

    @work(exclusive=True, group="fetch")
    async def fetch(self, name: str, size: int) -> None:
        """Fetch a reranker, and propose it when it is here."""
        if await self._fetcher.fetch(name, size) is not None:
            self.query_one(ModelList).find(find_rerankers())
            self._propose(name)

    def _propose(self, name: str) -> None:
        changes = {"search.reranker": name, "search.rerank": "on"}
        self.query_one(ChangeLine).propose(changes, f"{name} reranks the hits.\n")

    @on(ChangeLine.Written)
    def _show_written(self, event: ChangeLine.Written) -> None:
        self._is_changed = True
        self._show(validate(event.settings).search)
        self.query_one(ModelList).find(find_rerankers())

    @on(ChangeLine.Dropped)
    def _revert(self) -> None:
        self.query_one(ChoiceRow).show(self._settings.rerank)

    def action_close(self) -> None:
        self.dismiss(self._is_changed)


async def find_rerankers() -> tuple[ListedModel, ...]:
    """Return rerankers, those on this machine first, then those of the catalogue."""
    listed = parse_answer(tuple[ListedModel, ...], await run_command("models", "--json"))
    return tuple(model for model in listed if model.kind == "reranker")


def is_server(reranker: str) -> bool:
    """Return whether the reranker is an address."""
    return "://" in reranker


def format_speed(speed: RerankerSpeed) -> str:
    """Return how fast a reranker is, and what it adds to a search."""
    rate = f"{speed.name}: {speed.format_rate} on this machine"
    if not speed.passages:
        return f"{rate}: too slow for a search (setting search.rerank_seconds)."
    return f"{rate}; a search reranks {speed.passages} in {duration(speed.seconds)}."


def format_rerankers_note(models: Sequence[ListedModel]) -> str:
    """Return how many rerankers are on this machine, and whether others can be fetched."""
    count = sum(model.here for model in models)
    if count:
        note = f"{count} on this machine; Enter takes one."
    else:
        note = "None is on this machine."
    if count < len(models):
        note += " ⇣ can be fetched."
    return note


def format_reranker(model: ListedModel, *, is_chosen: bool) -> Content:
    """Return the line of a reranker in the list.

    Examples: `✓ ettin-reranker-17m-v1  67.2 MB, in use` or `⇣ bge-reranker-v2-m3  2.3 GB to fetch,
    many languages, Apache-2.0`.
    """
    facts = [size_text(model.size)]
    sign = plain("✓ ", "$text-success")
    if model.problem:
        sign = plain("✗ ", "$text-error")
        facts = [model.problem]
    elif not model.here:
        sign = plain("⇣ ", "$text-accent")
        facts = [
            f"{size_text(model.size)} to fetch",
            _format_languages(model),
            model.licence,
        ]
        if not model.room:
            facts.append("more than the disk has room for")
    elif is_chosen:
        facts.append("in use")
    if not model.problem and not model.fits:
        facts.append(f"takes {size_text(model.memory)}, more memory than is free")
    text = "  " + ", ".join(filter(None, facts))
    return Content.assemble(
        sign,
        plain(model.name),
        plain(text, "$text-muted"),
    )


def _format_languages(model: ListedModel) -> str:
    """Return `many languages`, `12 languages`, or up to five codes such as `de, en`."""
    if "*" in model.languages:
        return "many languages"
    if len(model.languages) > 5:
        return f"{len(model.languages)} languages"
    return ", ".join(model.languages)
