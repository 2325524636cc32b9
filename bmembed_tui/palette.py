"""The command palette: the commands that are available here and now."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple, cast

from textual.command import DiscoveryHit, Hit, Hits, Provider

from bmembed_tui.widgets.plain import plain

if TYPE_CHECKING:
    from bmembed_tui.project.screen import ProjectScreen


class Offer(NamedTuple):
    """A command of the palette: its name, what it does, and the function that does it."""

    name: str
    help: str
    call: Callable[[], Any]


class Commands(Provider):
    """The app's commands, those of the screen, and those of the visible step."""

    async def discover(self) -> Hits:
        for offer in self.list_offers():
            # Content instead of a string, so that it is not read as markup.
            yield DiscoveryHit(
                plain(offer.name), offer.call, text=offer.name, help=cast(str, plain(offer.help))
            )

    async def search(self, query: str) -> Hits:
        matcher = self.matcher(query)
        for offer in self.list_offers():
            score = matcher.match(offer.name)
            if score > 0:
                yield Hit(
                    score,
                    plain(offer.name),
                    offer.call,
                    text=offer.name,
                    help=cast(str, plain(offer.help)),
                )

    def list_offers(self) -> Iterator[Offer]:
        """Return the commands of the screen, of the open project, and of the app."""
        from bmembed_tui.project.screen import ProjectScreen

        screen = self.screen
        app = self.app
        if hasattr(screen, "palette_commands"):
            commands: Mapping[str, tuple[str, str]] = screen.palette_commands()
            for name, (help_text, action) in commands.items():
                yield Offer(
                    name,
                    help_text,
                    partial(screen.run_action, action),
                )
        if isinstance(screen, ProjectScreen):
            yield from _list_project_offers(screen)
        for name, help_text, action in (
            ("Help", "keys and what this step is for", "help"),
            ("Jump", "go to a field or button by a letter", "jump"),
            ("Light or dark", "change the colours", "switch_theme"),
            (
                "Diagnostics",
                "facts about this machine and project, to copy into a bug report",
                "diagnostics",
            ),
            ("Keys: edit the key map", "write a file with every key, to change", "edit_keymap"),
            (
                "Shortcut: install",
                "add the app's window to the applications menu",
                "install_shortcut",
            ),
            ("Quit", "close the app; a run continues", "quit"),
        ):
            yield Offer(
                name,
                help_text,
                partial(app.run_action, action),
            )


def _list_project_offers(screen: ProjectScreen) -> Iterator[Offer]:
    """Return the commands of the visible step, to other steps, on runs and on the project."""
    from bmembed_tui.client.project_status import STEPS

    pane = screen.pane
    if pane is not None:
        for name, (help_text, action) in pane.palette_commands().items():
            yield Offer(
                name,
                help_text,
                partial(pane.run_action, action),
            )
    for number, step in enumerate(STEPS, 1):
        if pane is None or pane.step != step.key:
            go_to_step = partial(screen.action_go, step.key)
            yield Offer(
                f"Go to {step.title}",
                f"step {number}",
                go_to_step,
            )
    yield from _list_run_offers(screen)
    yield Offer(
        "Settings",
        "every setting of this project",
        screen.action_settings,
    )
    yield Offer(
        "Export",
        "the adapter, the encoder, vectors, chunks or queries, for use elsewhere",
        screen.action_export,
    )
    yield Offer(
        "Remove this project", "everything made from the documents; they stay", screen.action_remove
    )
    yield Offer(
        "Refresh the status",
        "when files were changed by hand",
        screen.load,
    )
    yield Offer(
        "Projects",
        "back to the first screen; a run continues",
        screen.action_leave,
    )


def _list_run_offers(screen: ProjectScreen) -> Iterator[Offer]:
    """Return the command that starts a run, or those that control the run in progress."""
    if not screen.is_busy:
        yield Offer(
            "Run everything",
            "bring every step up to date",
            screen.action_run_all,
        )
    elif screen.has_run:
        if screen.is_paused:
            yield Offer(
                "Run: resume",
                "continue the run",
                partial(screen.control, "resume"),
            )
        else:
            yield Offer(
                "Run: pause",
                "the run waits at its next safe point",
                partial(screen.control, "pause"),
            )
        yield Offer(
            "Run: stop",
            "at the next safe point; the next run resumes there",
            partial(screen.control, "cancel"),
        )
