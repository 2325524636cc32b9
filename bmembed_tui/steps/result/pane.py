"""Step Evaluate: whether adaptation helped, what is in use and why, and which queries changed."""

from __future__ import annotations

import asyncio
from pathlib import Path
from textwrap import fill
from typing import Any, ClassVar

from textual import events, on, work
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical, VerticalScroll
from textual.content import Content
from textual.widgets import OptionList

from bmembed_tui.client.in_app import format_next_step
from bmembed_tui.client.progress import format_activity
from bmembed_tui.client.project_status import STAGES
from bmembed_tui.client.run_state import RunState
from bmembed_tui.open_file import open_file
from bmembed_tui.steps.base import StepPane
from bmembed_tui.steps.result.interval_chart import draw_interval_chart
from bmembed_tui.steps.result.model import METRICS, explain_outdated, format_caution, list_figures
from bmembed_tui.widgets.plain import plain
from bmembed_tui.widgets.safe import SafeButton, SafeOptions, SafeStatic
from engine.core.errors import EngineError, NotBuiltError
from engine.core.messages.project import ProjectStatus
from engine.core.messages.report import (
    SCALE,
    Change,
    EvaluationReport,
    ModeVerdict,
    Outcome,
    QuerySetReport,
    ReadReport,
    ReportVerdict,
    SearchMode,
)
from engine.core.text import metric_name

SIGNS: dict[Outcome, tuple[str, str]] = {
    "proved": ("▲", "bold $text-success"),
    "expected": ("△", "bold $text-success"),
    "stays": ("=", "bold $text-warning"),
    "not measured": ("·", "bold $text-warning"),
}
MAX_BAR_WIDTH = 50  # cells of a bar of 100 percent
FIGURE_WIDTH = 10  # cells for what precedes a bar besides its label
NOTHING = (
    "Nothing has been measured yet.\n"
    "Evaluation puts questions with known answers to every way to search, and compares what they"
    " find: keywords, the encoder before and after adaptation, interpolations of the two, and"
    " hybrid search with each.\n"
    "Semantic and hybrid search each get the encoder that is proved, or expected, to be better."
)


class ResultPane(StepPane):
    """The verdict, and on request the figures with intervals and the queries that changed most."""

    step = "result"
    title = "Evaluate"
    lead = "Did adaptation help?"
    buttons: ClassVar[dict[str, str]] = {
        "primary": "Measure",
        "open-report": "Open report",
        "export": "Export …",
    }
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("f", "details", "all figures", id="result.details"),
        Binding("l", "lists", "compare lists", id="result.lists"),
        Binding("p", "passages", "judge", id="result.passages"),
        Binding("m", "metric", "metric", id="result.metric"),
        Binding("j", "queries", "next queries", id="result.queries"),
        Binding("b", "changes", "better/worse", id="result.changes"),
        Binding("o", "open_report", "report", id="result.open"),
        Binding("pagedown", "page_down", "page down", show=False, id="result.page-down"),
        Binding("pageup", "page_up", "page up", show=False, id="result.page-up"),
        Binding("y", "copy_path", "copy report's path", show=False, id="result.copy"),
    ]

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self._result: EvaluationReport | None = None
        self._metric = METRICS[0]
        self._query_set = 0  # the number of the shown set; 0 is the set of the verdict
        self._shows_worse = False
        self._shows_details = False
        self._shown_changes: tuple[Change, ...] = ()
        self._shown_error: object = None

    def compose_body(self) -> ComposeResult:
        with VerticalScroll(id="result-scroll", can_focus=False):
            yield SafeStatic("", id="outdated")
            yield SafeStatic("", id="verdict")
            with Vertical(id="details"):
                yield SafeStatic("", id="figures-title")
                yield SafeStatic("", id="figures")
                yield SafeStatic("", id="caution")
                yield SafeStatic("", id="changes-title")
                yield SafeOptions(id="changes")

    def on_resize(self, _event: events.Resize) -> None:
        if self._result is not None:
            self.call_after_refresh(self.draw)

    def show_status(self, status: ProjectStatus) -> None:
        self._draw_buttons()
        if status.built("evaluate"):
            self.load()

    def show_run(self, state: RunState) -> None:
        self._draw_buttons()

    @work(exclusive=True, group="report")
    async def load(self) -> None:
        """Read the report and draw it; show the error if that fails."""
        try:
            self._result = await self.ask(ReadReport())
        except NotBuiltError:
            self._result = None
        except EngineError as error:
            # The report is read with every status: show the same error once.
            if self.is_attached and error.as_dict() != self._shown_error:
                self._shown_error = error.as_dict()
                self.host.show_error(error)
            return
        self._shown_error = None
        if self.is_attached:
            self.draw()
            self.refresh_bindings()

    # Drawing

    @property
    def _queries(self) -> QuerySetReport | None:
        """The query set to show; those of the verdict come first."""
        if self._result is None or not self._result.query_sets:
            return None
        query_sets = self._result.query_sets
        verdict = self._result.verdict.default
        kinds = [query_set.kind for query_set in query_sets]
        first = 0
        if verdict is not None and verdict.kind in kinds:
            first = kinds.index(verdict.kind)
        return query_sets[(first + self._query_set) % len(query_sets)]

    def draw(self) -> None:
        """Draw the verdict, and the details if they are shown."""
        result = self._result
        queries = self._queries
        self._draw_buttons()
        self.query_one("#details").display = self._shows_details and result is not None
        verdict = self.query_one("#verdict", SafeStatic)
        if result is None:
            verdict.update(NOTHING)
            return
        verdict.update(format_verdict(result.verdict, self._width))
        if queries is None:
            self.query_one("#figures", SafeStatic).update("There were no queries to measure with.")
            return
        self._draw_figures(queries, result)
        self._draw_changes(queries)

    @property
    def _width(self) -> int:
        return max(40, self.query_one("#result-scroll").scrollable_content_region.width - 1)

    def _draw_figures(self, queries: QuerySetReport, result: EvaluationReport) -> None:
        """Draw the figures of a query set by the chosen metric, and their caution."""
        table = queries.comparison
        title = f"{metric_name(self._metric)} in percent, {table.queries} {queries.name} · ✓ in use"
        if table.left_out:
            title += f" ({table.left_out} without an answer in the corpus are left out)"
        self.query_one("#figures-title", SafeStatic).update(plain(f"\n{title}", "bold", lines=True))
        figures = list_figures(
            table,
            self._metric,
            result.own_systems,
        )
        self.query_one("#figures", SafeStatic).update(draw_interval_chart(figures, self._width))
        caution = format_caution(queries, [mode.outcome for mode in result.verdict.modes])
        self.query_one("#caution", SafeStatic).update(f"! {caution}" if caution else "")

    def _draw_changes(self, queries: QuerySetReport) -> None:
        """Draw the queries that have gained most, or those that have lost most."""
        changes = queries.changes
        if self._shows_worse:
            self._shown_changes = changes.worse
            direction = "lost"
        else:
            self._shown_changes = changes.better
            direction = "gained"
        if queries.changed_system == "adapted":
            system = "Adapted, which is not in use,"
        else:
            system = "In use"
        title = (
            f"{system} against base, by semantic search: queries better: {changes.count_better},"
            f" worse: {changes.count_worse}, equal: {changes.count_equal}."
        )
        if self._shown_changes:
            title += f" The most {direction}:"
        self.query_one("#changes-title", SafeStatic).update(plain(f"\n{title}", "bold", lines=True))
        lines = [
            (str(number), plain(f"{change.before:5.1f} → {change.after:5.1f}  {change.text}"))
            for number, change in enumerate(self._shown_changes)
        ]
        self.query_one("#changes", SafeOptions).show(lines)
        self.query_one("#changes").display = bool(lines)

    def _draw_buttons(self) -> None:
        """Draw the buttons, the first with the next thing to do, and how current figures are."""
        status = self.host.status
        currency = self._describe_currency()
        outdated = self.query_one("#outdated", SafeStatic)
        outdated.update(currency)
        outdated.display = bool(currency)
        if status.done("evaluate", "embed"):
            label = "Search"
        elif self.host.is_busy:
            label = "Running …"
        elif status.built("evaluate"):
            label = "Measure again"
        else:
            label = "Make search better …"
        self.query_one("#primary", SafeButton).label = label
        self.query_one("#open-report").disabled = self._result is None
        self.query_one("#export").disabled = self._result is None

    def _describe_currency(self) -> Content:
        """Return how far a comparison is, or else why the figures are out of date, if they are."""
        text = ""
        style = "$text-warning"
        if self.host.is_busy:
            if self.host.run_state.current == "evaluate":
                text = format_activity(self.host.run_state)
                style = "bold $text-accent"
        else:
            reason = explain_outdated(self.host.status)
            if reason:
                text = f"~ {reason}"
        return plain(text, style)

    # Actions

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        if action in ("details", "metric", "queries", "changes", "open_report", "copy_path"):
            return self._result is not None
        if action == "lists":
            return self.host.status.built("train")
        return super().check_action(action, parameters)

    def action_primary(self) -> None:
        if self.host.status.done("evaluate", "embed"):
            self.host.go("search")
        elif self.host.is_busy:
            # The button stays enabled, since a disabled one would lose the focus.
            self.notify("Running. The result appears here.", markup=False)
        elif self.host.status.built("evaluate"):
            self.host.start_run(STAGES, follow=True)
        else:
            self.host.action_improve()

    def action_export(self) -> None:
        self.host.action_export()

    @on(OptionList.OptionSelected, "#changes")
    def _search_for(self, event: OptionList.OptionSelected) -> None:
        self.host.search_for(self._shown_changes[event.option_index].text)

    def action_details(self) -> None:
        if self._shows_details:
            self._shows_details = False
            self.draw()
        else:
            self._show_details()

    def action_metric(self) -> None:
        """Show the figures by the next metric; if they are hidden, by the present one."""
        if self._shows_details:
            following = METRICS.index(self._metric) + 1
            self._metric = METRICS[following % len(METRICS)]
        self._show_details()

    def action_queries(self) -> None:
        """Show the figures of the next query set; if they are hidden, of the present one."""
        if self._shows_details:
            self._query_set += 1
        self._show_details()

    def _show_details(self, changed: str = "#figures") -> None:
        """Show the figures, and scroll to what has changed."""
        self._shows_details = True
        self.draw()
        self.call_after_refresh(self.query_one(changed).scroll_visible, animate=False)

    def action_page_down(self) -> None:
        self.query_one("#result-scroll").scroll_page_down()

    def action_page_up(self) -> None:
        self.query_one("#result-scroll").scroll_page_up()

    def action_changes(self) -> None:
        """Switch between better and worse queries; if they are hidden, show them."""
        if self._shows_details:
            self._shows_worse = not self._shows_worse
        self._show_details("#changes")

    @work(exclusive=True, group="open")
    async def action_open_report(self) -> None:
        result = await asyncio.to_thread(open_file, self._report)
        if result.problem and self.is_attached:
            self.notify(
                result.problem,
                markup=False,
                severity="warning",
            )

    def action_lists(self) -> None:
        """Compare the lists of two encoders.

        If semantic or hybrid search is the only mode without proof, its lists are compared.
        """
        from bmembed_tui.steps.judging.lists import ListsScreen

        mode: SearchMode | None = None
        if self._result is not None:
            mode = self._result.verdict.only_unproved
        self.app.push_screen(ListsScreen(self.ask, mode), self._reload_after_judging)

    def action_passages(self) -> None:
        """Judge passages."""
        from bmembed_tui.steps.judging.passages import PassagesScreen

        self.app.push_screen(PassagesScreen(self.ask), self._reload_after_judging)

    def _reload_after_judging(self, has_answers: bool | None) -> None:
        if has_answers and self.is_attached:
            self.host.load()  # new answers make the figures out of date

    def action_copy_path(self) -> None:
        self.app.copy_to_clipboard(str(self._report))
        self.notify("The report's path is on the clipboard.", markup=False)

    @property
    def _report(self) -> Path:
        assert self._result is not None
        return self._result.folder / "report.html"


def format_verdict(verdict: ReportVerdict, width: int) -> Content:
    """Return a sentence for each search mode with a bar for each way to search, then next steps.

    The bars are at most `width` cells wide.
    """
    parts: list[Content] = []
    for mode in verdict.modes:
        if parts:
            parts.append(plain(""))
        sign, style = SIGNS[mode.outcome]
        parts.append(plain(f"{sign} {mode.sentence}", style))
        parts += _draw_bars(mode, width)
    if not verdict.modes:
        text = "· Nothing was measured: there are no questions to measure with."
        parts.append(plain(text, "bold $text-warning"))
    if any(mode.bars for mode in verdict.modes):
        parts.append(plain(SCALE, "$text-muted"))
    parts += [plain(note) for note in verdict.notes]
    parts.append(plain(""))
    steps = [format_next_step(step) for step in verdict.next_steps]
    if len(steps) == 1:
        parts.append(plain(f"Next: {steps[0]}"))
    else:
        parts += [plain(f"{number}. {step}") for number, step in enumerate(steps, 1)]
    return Content("\n").join(parts)


def _draw_bars(verdict: ModeVerdict, width: int) -> list[Content]:
    """Return a line for each way to search in a mode, then the difference in words."""
    label_width = max((len(bar.label) for bar in verdict.bars), default=0)
    full_width = max(0, min(MAX_BAR_WIDTH, width - label_width - FIGURE_WIDTH))
    lines = []
    for bar in verdict.bars:
        filled = round(bar.figure.value / 100 * full_width)
        head = plain(f"  {bar.label:<{label_width}} {bar.figure.value:5.1f} ")
        lines.append(Content.assemble(head, plain("█" * filled, "$text-accent")))
    if lines and verdict.format_difference:
        wrapped = fill(
            verdict.format_difference, width, initial_indent="  ", subsequent_indent="  "
        )
        lines.append(plain(wrapped, lines=True))
    return lines
