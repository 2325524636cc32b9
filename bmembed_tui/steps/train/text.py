"""What the Train step says in words and numbers. Pure: state in, text out."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from textual.content import Content

from bmembed_tui.client.in_app import advice
from bmembed_tui.client.progress import STOPPED, bar, format_progress
from bmembed_tui.client.project_status import at_work
from bmembed_tui.client.run_history import Curve, History
from bmembed_tui.client.run_state import RunState, StageRun
from bmembed_tui.steps.result.model import FLATTERING
from bmembed_tui.widgets.plain import plain
from engine.core.events import Choice
from engine.core.messages.project import ProjectStatus
from engine.core.text import duration

WHAT_IT_DOES = """The encoder turns texts into vectors; texts that mean the same should lie close together. Training shows it \
your queries and the chunks that answer them, as keyword search and the encoder itself rank them, so that it learns your \
documents' own words. The encoder itself is not changed: a small adapter is trained beside it.

Every now and then the adapter is tested on held-out queries, which it never learns from, and the best one is kept. You may \
pause, stop, or close the app at any time: nothing is lost."""  # noqa: E501
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
    """The lines above the chart.

    `unfolded`: with figures that only experts read, and those of held-out queries.
    """
    curve = history.curve(state, current=status.done("train"))
    if state.running and state.current == "train":
        lines = list(_at_work(state, curve, requested, unfolded=unfolded))
    else:
        if state.running:
            lines = [plain(f"▶ {at_work(state)}{format_progress(state)}", "bold")]
        else:
            lines = []
        lines += _at_rest(status, state, curve, history.record(state, "train"))
    return Content("\n").join([*lines, *(_held_out(curve) if unfolded else _folded(curve))])


def _at_work(state: RunState, curve: Curve, requested: str, *, unfolded: bool) -> Iterator[Content]:
    last = curve.steps[-1] if curve.steps else None
    how = requested or ("paused" if state.paused else "")
    if not state.steps or last is None:
        yield Content.assemble(
            plain(f"{how or 'preparing'}", "bold"), plain(format_progress(state))
        )
    else:
        share = last.step / last.steps if last.steps > 0 else 0.0
        left = how or f"{duration(last.seconds_left)} left"
        style = "bold $text-warning" if how else "bold"
        yield Content.assemble(
            plain(f"step {last.step:,} of {last.steps:,}  ", "bold"),
            plain(bar(share), "$text-primary"),
            plain(f" {100 * share:.0f} %  "),
            plain(left, style),
        )
        if unfolded:
            yield plain(
                f"loss {last.loss:.3f} · learning rate {last.learning_rate:.2g} ·"
                f" {last.tokens_per_second:,.0f} tokens/s · {last.memory_mb:,.0f} MB"
            )


def _held_out(curve: Curve) -> Iterator[Content]:
    first = next(iter(curve.held_out), None)
    best = curve.best
    if first is None or best is None:
        return
    of = f"Held-out {_kind(curve)}"
    if best.step == 0:
        yield plain(
            f"{of}: Hit@10 {first.hit_at_10:.1f} %, nDCG@10 {first.ndcg_at_10:.1f} %. Every later"
            " check was clearly worse."
        )
        return
    hits = f"{first.hit_at_10:.1f} → {best.hit_at_10:.1f} %"
    ndcg = f"{first.ndcg_at_10:.1f} → {best.ndcg_at_10:.1f} %"
    yield plain(f"{of}: Hit@10 {hits}, nDCG@10 {ndcg} at the best step, {best.step:,}")
    if curve.synthetic:
        yield plain(FLATTERING, "$text-warning")


def _folded(curve: Curve) -> Iterator[Content]:
    if (best := curve.best) is not None:
        if best.step:
            place = f"step {best.step:,}"
        else:
            place = "the start, before any step"
        yield plain(f"Best by held-out {_kind(curve)}: {place}. f shows figures.")


def _kind(curve: Curve) -> str:
    if curve.synthetic:
        return "queries"
    return "titles and headings"


def _at_rest(
    status: ProjectStatus, state: RunState, curve: Curve, record: StageRun | None
) -> Iterator[Content]:
    ending = _ending(state, curve)
    if ending:
        yield plain(ending, "bold $text-error" if state.state == "failed" else "bold $text-warning")
        if state.state == "failed" and state.error:
            yield plain(f"{state.error.what} {advice(state.error)}".strip())
    if record is not None and (not ending or status.done("train")):
        yield from _result(status, record)
    if not curve.steps and record is None:
        yield plain(WHAT_IT_DOES, lines=True)
        yield plain("The time left is shown here once training has started.", "$text-muted")


def _ending(state: RunState, curve: Curve) -> str:
    """How a training that has not come to its end was ended; empty where none was."""
    run = state.stages.get("train")
    if state.running:
        return ""
    if run is None or run.state not in ("running", "failed", "lost"):
        if state.state == "lost":
            return f"The last run {STOPPED}."
        return ""
    if curve.steps:
        place = f" at step {curve.steps[-1].step:,} of {curve.steps[-1].steps:,}"
    else:
        place = ""
    if state.state == "cancelled":
        return f"Stopped{place}. The next run resumes there."
    if state.state == "lost":
        return f"Training{place} {STOPPED}."
    if state.state == "failed":
        return f"Training failed{place}."
    return ""


def _result(status: ProjectStatus, record: StageRun) -> Iterator[Content]:
    summary = record.summary
    if status.state("train") == "stale":
        yield plain(
            f"The adapter is out of date: {status.stage('train').reason}.", "bold $text-warning"
        )
    if not summary.get("adapter"):
        yield plain(
            f"No adapter was trained: {summary.get('reason') or 'it gave none'}.",
            "bold $text-warning",
        )
        return
    if "given" in summary:
        of = (
            f"{_count(summary['given'])} of {_count(summary.get('chunks'))} chunks, whose vectors"
            " are given"
        )
        yield plain(f"A map was fitted to {of}; nothing was trained.", "bold")
        return
    best = summary.get("best_step")
    steps = summary.get("steps")
    if best == 0:
        kept = "every step was clearly worse than the start"
    else:
        kept = f"the adapter of step {_count(best)} is kept"
    why = ENDED.get(str(summary.get("ended")), "")
    head = plain(f"Trained {_count(steps)} steps in {duration(record.seconds)}: {kept}.", "bold")
    yield Content.assemble(head, plain(f" It ended because {why}." if why else ""))


def _count(value: Any) -> str:
    return f"{value:,}" if isinstance(value, int) else "?"


def format_details(choices: Mapping[str, Choice], warnings: list[str]) -> Content:
    """Warnings, then every automatic choice with its reason."""
    lines = [plain(f"! {text}", "$text-warning") for text in warnings]
    lines += [
        Content.assemble(
            plain(f"{choice.setting}: {choice.value}", "bold"), plain(f"  {choice.reason}")
        )
        for choice in choices.values()
    ]
    return Content("\n").join(lines)
