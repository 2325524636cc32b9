"""The last line of a screen: the keys that work here, as many as fit."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from textual.binding import ActiveBinding, Binding
from textual.content import Content
from textual.style import Style

from bmembed_tui.widgets.plain import plain
from bmembed_tui.widgets.safe import SafeStatic

# Actions that many screens have, the most wanted first.
COMMON_ACTIONS = (
    "help",
    "run_all",
    "steps",
    "quit",
    "settings",
    "leave",
)
# These are shown even where space is short.
ESSENTIAL_ACTIONS = ("help", "quit")


class KeyLine(SafeStatic):
    """The keys of the screen, first those that are special to it.

    Where space is short, the least wanted keys are left out instead of cutting one off. The
    palette's key comes last. The help lists all keys; a click on a key presses it.
    """

    DEFAULT_CSS = """
    KeyLine {
        dock: bottom; height: 1; padding: 0 1;
        background: $footer-background; color: $footer-foreground;
    }
    """

    def on_mount(self) -> None:
        self.screen.bindings_updated_signal.subscribe(self, lambda _: self._draw())

    def on_resize(self) -> None:
        self._draw()

    def _draw(self) -> None:
        """Draw the keys that fit, and the palette's key at the right."""
        if not self.is_attached:
            return
        active_bindings = self.screen.active_bindings
        palette = active_bindings.get(self.app.COMMAND_PALETTE_BINDING)
        palette_key = [self._format_key(palette.binding)] if palette else []
        keys = {binding: self._format_key(binding) for binding in _list_bindings(active_bindings)}
        room = self.content_size.width - sum(key.cell_length for key in palette_key) - 1
        while keys and sum(key.cell_length + 2 for key in keys.values()) > room:
            del keys[_find_least_wanted(list(keys))]
        line = Content("  ").join(keys.values())
        gap = plain(" " * (room - line.cell_length) + "▏")
        self.update(Content.assemble(line, gap, *palette_key), layout=False)

    def _format_key(self, binding: Binding) -> Content:
        """Return a key and what it does; a click on them presses the key."""
        key = Content.assemble(
            plain(self.app.get_key_display(binding), "bold $footer-key-foreground"),
            plain(f" {binding.description}"),
        )
        return key.stylize(Style.from_meta({"@click": f"app.simulate_key({binding.key!r})"}))


def _list_bindings(active_bindings: Mapping[str, ActiveBinding]) -> list[Binding]:
    """Return the bindings to show, the most wanted first; of an action, its first key."""
    by_action: dict[str, Binding] = {}
    for active in active_bindings.values():
        if active.binding.show and active.enabled:
            by_action.setdefault(active.binding.action, active.binding)
    return sorted(by_action.values(), key=_rank_binding)


def _find_least_wanted(bindings: Sequence[Binding]) -> Binding:
    """Return the last binding that is not essential, else the last of all."""
    for binding in reversed(bindings):
        if _get_action_name(binding) not in ESSENTIAL_ACTIONS:
            return binding
    return bindings[-1]


def _get_action_name(binding: Binding) -> str:
    """Return the action without its owner: `quit` of `app.quit`."""
    return binding.action.rpartition(".")[2]


def _rank_binding(binding: Binding) -> int:
    """Return 0 for keys that are special to the screen, then common actions in their order."""
    name = _get_action_name(binding)
    if name in COMMON_ACTIONS:
        return COMMON_ACTIONS.index(name) + 1
    return 0
