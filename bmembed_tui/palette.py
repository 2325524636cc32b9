"""The command palette: what can be done here and now, nothing else."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple, cast

from textual.command import DiscoveryHit, Hit, Hits, Provider

from bmembed_tui.widgets.plain import plain

if TYPE_CHECKING:
    from bmembed_tui.project.screen import ProjectScreen


class Offer(NamedTuple):
    """A command: its name, what it does, and how."""

    name: str
    text: str
    call: Callable[[], Any]


class Commands(Provider):
    """The app's commands, those of the screen, and those of the visible step."""

    async def discover(self) -> Hits:
        for offer in self.offers():
            # content, so that it is shown as typed
            yield DiscoveryHit(
                plain(offer.name), offer.call, text=offer.name, help=cast(str, plain(offer.text))
            )

    async def search(self, query: str) -> Hits:
        matcher = self.matcher(query)
        for offer in self.offers():
            score = matcher.match(offer.name)
            if score > 0:
                yield Hit(
                    score,
                    plain(offer.name),
                    offer.call,
                    text=offer.name,
                    help=cast(str, plain(offer.text)),
                )

    def offers(self) -> Iterator[Offer]:
        from bmembed_tui.project.screen import ProjectScreen

        screen = self.screen
        app = self.app
        offered: Mapping[str, tuple[str, str]] = getattr(screen, "palette_commands", dict)()
        for name, (text, action) in offered.items():
            yield Offer(name, text, partial(screen.run_action, action))
        if isinstance(screen, ProjectScreen):
            yield from _project_offers(screen)
        for name, text, action in (
            ("Help", "keys and what this step is for", "help"),
            ("Jump", "go to a field or button by a letter", "jump"),
            ("Light or dark", "change the colours", "switch_theme"),
            (
                "Diagnostics",
                "facts about this machine and project, to copy into a bug report",
                "diagnostics",
            ),
            ("Keys: edit the key map", "write a file with every key, to change", "edit_keymap"),
            ("Quit", "close the app; a run continues", "quit"),
        ):
            yield Offer(name, text, partial(app.run_action, action))


def _project_offers(screen: ProjectScreen) -> Iterator[Offer]:
    from bmembed_tui.client.project_status import STEPS

    pane = screen.pane
    if pane is not None:
        for name, (text, action) in pane.palette_commands().items():
            yield Offer(name, text, partial(pane.run_action, action))
    for number, step in enumerate(STEPS, 1):
        if pane is None or pane.step != step.key:
            yield Offer(
                f"Go to {step.title}", f"step {number}", partial(screen.action_go, step.key)
            )
    yield from _run_offers(screen)
    yield Offer("Settings", "every setting of this project", screen.action_settings)
    yield Offer(
        "Export",
        "the adapter, the encoder, vectors, chunks or queries, for use elsewhere",
        screen.action_export,
    )
    yield Offer(
        "Remove this project", "everything made from the documents; they stay", screen.action_remove
    )
    yield Offer("Refresh the status", "when files were changed by hand", screen.load)
    yield Offer("Projects", "back to the first screen; a run continues", screen.action_leave)


def _run_offers(screen: ProjectScreen) -> Iterator[Offer]:
    if not screen.going:
        yield Offer("Run everything", "bring every step up to date", screen.action_run_all)
    elif screen.has_run:
        what, text = (
            ("resume", "continue the run")
            if screen.waits
            else ("pause", "the run waits at its next safe point")
        )
        yield Offer(f"Run: {what}", text, partial(screen.control, what))
        text = "at the next safe point; the next run resumes there"
        yield Offer("Run: stop", text, partial(screen.control, "cancel"))
