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

from bmembed_tui.client.in_app import next_step
from bmembed_tui.client.project_status import STAGES
from bmembed_tui.client.run_state import RunState
from bmembed_tui.open_file import open_at
from bmembed_tui.steps.base import StepPane
from bmembed_tui.steps.result.interval_chart import interval_chart
from bmembed_tui.steps.result.model import METRICS, caution, figures, outdated_because
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
)
from engine.core.text import metric_name

SIGNS: dict[Outcome, tuple[str, str]] = {
    "proved": ("▲", "bold $text-success"),
    "expected": ("△", "bold $text-success"),
    "stays": ("=", "bold $text-warning"),
    "not measured": ("·", "bold $text-warning"),
}
NOTHING = """Nothing has been measured yet.
Evaluation puts questions with known answers to every way to search, and compares what they find: keywords, the encoder \
before and after adaptation, interpolations of the two, and hybrid search with each.
Semantic and hybrid search each get the encoder that is proved, or expected, to be better."""  # noqa: E501


class ResultPane(StepPane):
    """The verdict; behind a fold figures with intervals, what was compared, the queries that got
    better and worse.
    """

    step = "result"
    title = "Evaluate"
    lead = "Did adaptation help?"
    help_text = """First comes the verdict for each search mode: what is in use and why, and keyword search, search before \
adaptation and search now, in points of 100; then what to do next. d shows all figures.

Each line there is one way to search, measured on questions with known answers; ✓ marks what is in use.
● is the measured value, ├──┤ its 95 % confidence interval, which a narrow window shows as numbers. The last column is the \
difference to the base encoder: ▲ better, ▼ worse, = no difference shown (the interval holds 0, or Fisher's randomisation \
test finds none).

▲ proved: one kind of evidence shows the gain. First come judged questions (real questions with known answers: yours, or marked in \
Search with + and −), then preferences between two lists, then titles and headings that nothing was trained on, then queries by a \
language model or imported ones. Extractive ones prove nothing.
△ expected: nothing here speaks against it, and it helped on public collections. evaluation.gate = strict asks for proof.

Below the figures are the queries that changed most; \
Enter on one searches for it.

l shows the lists of the adapted encoder and of base side by side, without names: which is better? p asks about passages, but \
only about those that can change the comparison. Both are evidence for the next evaluation.

Export writes the adapter and the encoder to folders for peft and sentence-transformers, and more if you choose it."""  # noqa: E501
    buttons: ClassVar[dict[str, str]] = {
        "primary": "Measure",
        "open-report": "Open report",
        "export": "Export …",
    }
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("d", "details", "all figures", id="result.details"),
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
        self._set = 0
        self._worse = False
        self._open = False
        self._shown: tuple[Change, ...] = ()
        self._problem: object = None

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
        try:
            self._result = await self.ask(ReadReport())
        except NotBuiltError:
            self._result = None
        except EngineError as error:
            # it is read with every status
            if self.is_attached and error.as_dict() != self._problem:
                self._problem = error.as_dict()
                self.host.show_error(error)
            return
        self._problem = None
        if self.is_attached:
            self.draw()
            self.refresh_bindings()

    # Drawing

    @property
    def _queries(self) -> QuerySetReport | None:
        """Those of the verdict first."""
        if self._result is None or not self._result.query_sets:
            return None
        sets = self._result.query_sets
        verdict = self._result.verdict.default
        kind = verdict.kind if verdict is not None else ""
        first = next((place for place, one in enumerate(sets) if one.kind == kind), 0)
        return sets[(first + self._set) % len(sets)]

    def draw(self) -> None:
        result = self._result
        queries = self._queries
        self._draw_buttons()
        self.query_one("#details").display = self._open and result is not None
        verdict = self.query_one("#verdict", SafeStatic)
        if result is None:
            verdict.update(NOTHING)
            return
        verdict.update(verdict_content(result.verdict, self._width))
        if queries is None:
            self.query_one("#figures", SafeStatic).update("There were no queries to measure with.")
            return
        self._draw_figures(queries, result)
        self._draw_changes(queries)

    @property
    def _width(self) -> int:
        return max(40, self.query_one("#result-scroll").scrollable_content_region.width - 1)

    def _draw_figures(self, queries: QuerySetReport, result: EvaluationReport) -> None:
        table = queries.comparison
        title = f"{metric_name(self._metric)} in percent, {table.queries} {queries.name} · ✓ in use"
        if table.left_out:
            more = f" ({table.left_out} without an answer in the corpus are left out)"
        else:
            more = ""
        self.query_one("#figures-title", SafeStatic).update(
            plain(f"\n{title}{more}", "bold", lines=True)
        )
        chart = interval_chart(figures(table, self._metric, result.own_systems), self._width)
        self.query_one("#figures", SafeStatic).update(chart)
        warning = caution(queries, [one.outcome for one in result.verdict.modes])
        self.query_one("#caution", SafeStatic).update(f"! {warning}" if warning else "")

    def _draw_changes(self, queries: QuerySetReport) -> None:
        changes = queries.changes
        shown = changes.worse if self._worse else changes.better
        way = "lost" if self._worse else "gained"
        counts = (
            f"queries better: {changes.count_better}, worse: {changes.count_worse}, equal:"
            f" {changes.count_equal}"
        )
        if queries.changed_system == "adapted":
            what = "Adapted, which is not in use,"
        else:
            what = "In use"
        title = f"\n{what} against base, by semantic search: {counts}." + (
            f" The most {way}:" if shown else ""
        )
        self.query_one("#changes-title", SafeStatic).update(plain(title, "bold", lines=True))
        self._shown = shown
        lines = [
            (str(n), plain(f"{change.before:5.1f} → {change.after:5.1f}  {change.text}"))
            for n, change in enumerate(shown)
        ]
        self.query_one("#changes", SafeOptions).show(lines)
        self.query_one("#changes").display = bool(lines)

    def _draw_buttons(self) -> None:
        status = self.host.status
        button = self.query_one("#primary", SafeButton)
        if self.host.going:
            why = ""
        else:
            why = outdated_because(status)
        outdated = self.query_one("#outdated", SafeStatic)
        outdated.update(f"~ {why}" if why else "")
        outdated.display = bool(why)
        done = status.done("evaluate", "embed")
        if status.built("evaluate"):
            again = "Measure again"
        else:
            again = "Make search better …"
        if done:
            button.label = "Search"
        elif self.host.going:
            button.label = "Running …"
        else:
            button.label = again
        self.query_one("#open-report").disabled = self._result is None
        self.query_one("#export").disabled = self._result is None

    # Doing

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        if action in ("details", "metric", "queries", "changes", "open_report", "copy_path"):
            return self._result is not None
        if action == "lists":
            return self.host.status.built("train")
        return super().check_action(action, parameters)

    def action_primary(self) -> None:
        if self.host.status.done("evaluate", "embed"):
            self.host.go("search")
        elif self.host.going:
            # a button that cannot be pressed would lose the focus, and Enter with it
            self.notify("Running. The result appears here.", markup=False)
        elif self.host.status.built("evaluate"):
            self.host.start_run(STAGES, follow=True)
        else:
            self.host.action_improve()

    def action_export(self) -> None:
        self.host.action_export()

    @on(OptionList.OptionSelected, "#changes")
    def _search_for(self, event: OptionList.OptionSelected) -> None:
        self.host.search_for(self._shown[event.option_index].text)

    def action_details(self) -> None:
        if self._open:
            self._open = False
            self.draw()
        else:
            self._unfold()

    def action_metric(self) -> None:
        self._metric = METRICS[(METRICS.index(self._metric) + self._open) % len(METRICS)]
        self._unfold()

    def action_queries(self) -> None:
        self._set += self._open
        self._unfold()

    def _unfold(self, changed: str = "#figures") -> None:
        """Keys that change the figures show them first, and where they are."""
        self._open = True
        self.draw()
        self.call_after_refresh(self.query_one(changed).scroll_visible, animate=False)

    def action_page_down(self) -> None:
        self.query_one("#result-scroll").scroll_page_down()

    def action_page_up(self) -> None:
        self.query_one("#result-scroll").scroll_page_up()

    def action_changes(self) -> None:
        self._worse ^= self._open
        self._unfold("#changes")

    @work(exclusive=True, group="open")
    async def action_open_report(self) -> None:
        problem = (await asyncio.to_thread(open_at, self._report)).problem
        if problem and self.is_attached:
            self.notify(problem, markup=False, severity="warning")

    def action_lists(self) -> None:
        """Compare the lists of two encoders."""
        from bmembed_tui.steps.judging.lists import ListsScreen

        self.app.push_screen(ListsScreen(self.ask), self._judged)

    def action_passages(self) -> None:
        """Judge passages."""
        from bmembed_tui.steps.judging.passages import PassagesScreen

        self.app.push_screen(PassagesScreen(self.ask), self._judged)

    def _judged(self, has_answers: bool | None) -> None:
        if has_answers and self.is_attached:
            self.host.load()  # answers make the figures of before those of other evidence

    def action_copy_path(self) -> None:
        self.app.copy_to_clipboard(str(self._report))
        self.notify("The report's path is on the clipboard.", markup=False)

    @property
    def _report(self) -> Path:
        assert self._result is not None
        return self._result.folder / "report.html"


def verdict_content(verdict: ReportVerdict, width: int) -> Content:
    """For each mode a sentence and a bar for each way to search, at most `width` cells wide;
    then what to do next.
    """
    parts: list[Content] = []
    for one in verdict.modes:
        if parts:
            parts.append(plain(""))
        sign, style = SIGNS[one.outcome]
        parts.append(plain(f"{sign} {one.sentence}", style))
        parts += _bars(one, width)
    if not verdict.modes:
        parts.append(
            plain(
                "· Nothing was measured: there are no questions to measure with.",
                "bold $text-warning",
            )
        )
    if any(one.bars for one in verdict.modes):
        parts.append(plain(SCALE, "$text-muted"))
    parts += [plain(note) for note in verdict.notes]
    parts.append(plain(""))
    steps = [next_step(step) for step in verdict.next_steps]
    if len(steps) == 1:
        parts.append(plain(f"Next: {steps[0]}"))
    else:
        parts += [plain(f"{number}. {step}") for number, step in enumerate(steps, 1)]
    return Content("\n").join(parts)


def _bars(verdict: ModeVerdict, width: int) -> list[Content]:
    names = max((len(bar.label) for bar in verdict.bars), default=0)
    lines = []
    for bar in verdict.bars:
        filled = round(bar.figure.value / 100 * max(0, min(50, width - names - 10)))
        head = plain(f"  {bar.label:<{names}} {bar.figure.value:5.1f} ")
        lines.append(Content.assemble(head, plain("█" * filled, "$text-accent")))
    if lines and verdict.format_difference:
        wrapped = fill(
            verdict.format_difference, width, initial_indent="  ", subsequent_indent="  "
        )
        lines.append(plain(wrapped, lines=True))
    return lines
