"""The texts of step Train, as pure functions."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from textual.content import Content

from bmembed_tui.client.in_app import format_advice
from bmembed_tui.client.progress import STOPPED, format_bar, format_progress
from bmembed_tui.client.project_status import format_current_step
from bmembed_tui.client.run_history import Curve, History
from bmembed_tui.client.run_state import RunState, StageRun
from bmembed_tui.steps.result.model import FLATTERING
from bmembed_tui.widgets.plain import plain
from engine.core.events import Choice
from engine.core.messages.offer import TeacherCost
from engine.core.messages.project import ProjectStatus
from engine.core.text import duration

WHAT_IT_DOES = (
    "The encoder turns texts into vectors; texts that mean the same should lie close together."
    " Training shows it your queries and the chunks that answer them, as keyword search and the"
    " encoder itself rank them, so that it learns your documents' own words. The encoder itself is"
    " not changed: a small adapter is trained instead.\n"
    "\n"
    "Every now and then the adapter is tested on held-out queries, which it never learns from, and"
    " the best one is kept. You may pause, stop, or close the app at any time: nothing is lost."
)
# Why a training ended, by the reason in its summary.
ENDED = {
    "all steps": "all steps are done",
    "no gain": "held-out queries showed no further gain",
    "asked": "it was stopped",
}


def format_status(
    status: ProjectStatus,
    state: RunState,
    history: History,
    requested: str,
    *,
    unfolded: bool = False,
) -> Content:
    """Return the lines above the chart.

    `requested`: a control that has not taken effect yet, such as `pausing …`; empty for none.
    `unfolded`: whether to include figures for experts, and those of held-out queries.
    """
    curve = history.build_curve(state, current=status.done("train"))
    lines: list[Content] = []
    if state.running and state.current == "train":
        lines += _format_running(
            state,
            curve,
            requested,
            unfolded=unfolded,
        )
    else:
        if state.running:
            activity = f"▶ {format_current_step(state)}{format_progress(state)}"
            lines.append(plain(activity, "bold"))
        lines += _format_at_rest(
            status,
            state,
            curve,
            history.find_record(state, "train"),
        )
    if unfolded:
        lines += _format_held_out(curve)
    else:
        lines += _format_folded(curve)
    return Content("\n").join(lines)


def _format_running(
    state: RunState, curve: Curve, requested: str, *, unfolded: bool
) -> Iterator[Content]:
    """Return the progress of a training, or that it is being prepared or paused."""
    control = requested
    if state.paused and not requested:
        control = "paused"
    if not state.steps or not curve.steps:
        yield Content.assemble(plain(control or "preparing", "bold"), plain(format_progress(state)))
        return
    last = curve.steps[-1]
    share = last.step / last.steps if last.steps > 0 else 0.0
    if control:
        time_left = plain(control, "bold $text-warning")
    elif last.step >= last.steps:
        time_left = plain("finishing", "bold")
    else:
        time_left = plain(f"{duration(last.seconds_left)} left", "bold")
    yield Content.assemble(
        plain(f"step {last.step:,} of {last.steps:,}  ", "bold"),
        plain(format_bar(share), "$text-primary"),
        plain(f" {100 * share:.0f} %  "),
        time_left,
    )
    if unfolded:
        yield plain(
            f"loss {last.loss:.3f} · learning rate {last.learning_rate:.2g} ·"
            f" {last.tokens_per_second:,.0f} tokens/s · {last.memory_mb:,.0f} MB"
        )


def _format_held_out(curve: Curve) -> Iterator[Content]:
    """Return the figures of held-out queries at the first and the best check."""
    best = curve.best
    if best is None:
        return
    first = curve.held_out[0]
    queries = f"Held-out {_format_kind(curve)}"
    if best.step == 0:
        figures = f"{queries}: Hit@10 {first.hit_at_10:.1f} %, nDCG@10 {first.ndcg_at_10:.1f} %"
        if len(curve.held_out) == 1:
            yield plain(f"{figures} before the first step")
        else:
            yield plain(f"{figures}. Every later check was clearly worse.")
        return
    hits = f"{first.hit_at_10:.1f} → {best.hit_at_10:.1f} %"
    ndcg = f"{first.ndcg_at_10:.1f} → {best.ndcg_at_10:.1f} %"
    yield plain(f"{queries}: Hit@10 {hits}, nDCG@10 {ndcg} at the best step, {best.step:,}")
    if curve.synthetic:
        yield plain(FLATTERING, "$text-warning")


def _format_folded(curve: Curve) -> Iterator[Content]:
    """Return which step is best, without figures; nothing before two are compared."""
    best = curve.best
    if best is not None and (best.step or len(curve.held_out) > 1):
        place = f"step {best.step:,}" if best.step else "the start, before any step"
        yield plain(f"Best by held-out {_format_kind(curve)}: {place}. f shows figures.")


def _format_kind(curve: Curve) -> str:
    """Return what the held-out queries are."""
    if curve.synthetic:
        return "queries"
    return "titles and headings"


def _format_at_rest(
    status: ProjectStatus, state: RunState, curve: Curve, record: StageRun | None
) -> Iterator[Content]:
    """Return how the last training ended, its result, or what training does.

    `record`: the last report of a training that has finished; None before the first.
    """
    ending = _format_ending(state, curve)
    if ending and state.state == "failed":
        yield plain(ending, "bold $text-error")
        if state.error:
            yield plain(f"{state.error.what} {format_advice(state.error)}".strip())
    elif ending:
        yield plain(ending, "bold $text-warning")
    if record is not None and (not ending or status.done("train")):
        yield from _format_result(status, record)
    if not curve.steps and record is None:
        yield plain(WHAT_IT_DOES, lines=True)
        yield plain("The time left is shown here once training has started.", "$text-muted")


def _format_ending(state: RunState, curve: Curve) -> str:
    """Return how an unfinished training ended; empty if no training is unfinished."""
    if state.running:
        return ""
    if state.stage("train").state not in ("running", "failed", "lost"):
        if state.state == "lost":
            return f"The last run {STOPPED}."
        return ""
    place = ""
    if curve.steps:
        last = curve.steps[-1]
        place = f" at step {last.step:,} of {last.steps:,}"
    if state.state == "cancelled":
        return f"Stopped{place}. The next run resumes there."
    if state.state == "lost":
        return f"Training{place} {STOPPED}."
    if state.state == "failed":
        return f"Training failed{place}."
    return ""


def _format_result(status: ProjectStatus, record: StageRun) -> Iterator[Content]:
    """Return whether the adapter is up to date, which step's adapter is kept, and why."""
    summary = record.summary
    if status.state("train") == "stale":
        reason = status.stage("train").reason
        yield plain(f"The adapter is out of date: {reason}.", "bold $text-warning")
    if not summary.get("adapter"):
        reason = summary.get("reason") or "it gave none"
        yield plain(f"No adapter was trained: {reason}.", "bold $text-warning")
        return
    best = summary.get("best_step")
    if best == 0:
        outcome = "every step was clearly worse than the start"
    else:
        outcome = f"the adapter of step {_format_number(best)} is kept"
    steps = _format_number(summary.get("steps"))
    parts = [plain(f"Trained {steps} steps in {duration(record.seconds)}: {outcome}.", "bold")]
    end_reason = ENDED.get(str(summary.get("ended")))
    if end_reason:
        parts.append(plain(f" It ended because {end_reason}."))
    yield Content.assemble(*parts)


def _format_number(value: Any) -> str:
    if isinstance(value, int):
        return f"{value:,}"
    return "?"


def format_teacher(teacher: TeacherCost) -> str:
    """Return what the encoder learns from a reranker as teacher, and how long scoring takes."""
    return (
        f"The encoder learns the order in which the reranker {teacher.name} puts what BM25 and the"
        f" encoder find for each query. Scoring takes {teacher.format_cost}, and is kept.\n"
    )


def format_details(choices: Mapping[str, Choice], warnings: list[str]) -> Content:
    """Return the warnings, then every automatic choice with its reason."""
    lines = [plain(f"! {text}", "$text-warning") for text in warnings]
    for choice in choices.values():
        head = plain(f"{choice.setting}: {choice.value}", "bold")
        lines.append(Content.assemble(head, plain(f"  {choice.reason}")))
    return Content("\n").join(lines)
