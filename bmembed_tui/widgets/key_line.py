"""The last line: the keys that work here, as many as there is room for."""

from __future__ import annotations

from textual.binding import Binding
from textual.content import Content
from textual.style import Style

from bmembed_tui.widgets.plain import plain
from bmembed_tui.widgets.safe import SafeStatic

USUAL = (
    "help",
    "run_all",
    "steps",
    "quit",
    "settings",
    "leave",
)  # actions known everywhere, the most wanted first
KEPT = ("help", "quit")  # these stay, however many others there are


class KeyLine(SafeStatic):
    """Begins with the keys of the place, and leaves out the least wanted ones instead of cutting
    one off. The palette's comes last. All of them are in the help; a click on one presses it.
    """

    DEFAULT_CSS = """
    KeyLine { dock: bottom; height: 1; padding: 0 1; background: $footer-background; color: $footer-foreground; }
    """  # noqa: E501

    def on_mount(self) -> None:
        self.screen.bindings_updated_signal.subscribe(self, lambda _: self._draw())

    def on_resize(self) -> None:
        self._draw()

    def _draw(self) -> None:
        if not self.is_attached:
            return
        active = self.screen.active_bindings
        bindings = [one.binding for one in active.values() if one.binding.show and one.enabled]
        first = {
            binding.action: binding for binding in reversed(bindings)
        }  # of the keys of an action
        palette = active.get(self.app.COMMAND_PALETTE_BINDING)
        if palette:
            last = [self._key(palette.binding)]
        else:
            last = []
        wanted = [
            binding for binding in sorted(bindings, key=_weight) if first[binding.action] is binding
        ]
        keys = {binding: self._key(binding) for binding in wanted}
        room = self.content_size.width - sum(key.cell_length for key in last) - 1
        while keys and sum(key.cell_length + 2 for key in keys.values()) > room:
            del keys[next((one for one in reversed(keys) if _name(one) not in KEPT), [*keys][-1])]
        shown = Content("  ").join(keys.values())
        self.update(
            Content.assemble(shown, plain(" " * (room - shown.cell_length) + "▏"), *last),
            layout=False,
        )

    def _key(self, binding: Binding) -> Content:
        key = Content.assemble(
            plain(self.app.get_key_display(binding), "bold $footer-key-foreground"),
            plain(f" {binding.description}"),
        )
        return key.stylize(Style.from_meta({"@click": f"app.simulate_key({binding.key!r})"}))


def _name(binding: Binding) -> str:
    return binding.action.rpartition(".")[2]


def _weight(binding: Binding) -> int:
    if _name(binding) in USUAL:
        return USUAL.index(_name(binding)) + 1
    return 0
