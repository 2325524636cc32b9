"""The last line: the keys that work here, as many as there is room for."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from rich.cells import cell_len
from textual.app import ComposeResult
from textual.binding import Binding
from textual.reactive import reactive
from textual.widgets import Footer
from textual.widgets._footer import FooterKey

USUAL = ("help", "run_all", "steps", "quit", "settings", "leave")  # actions known everywhere, the most wanted first
BORDER = 2  # columns that the palette's key takes for its border


class ShownKey(NamedTuple):
    """All that is seen of a key, and what it does."""

    key: str
    display: str
    description: str
    action: str
    disabled: bool
    tooltip: str

    @property
    def width(self) -> int:
        """Columns of the key with its description: a blank on each side of the key, one after the description."""
        return cell_len(self.display) + cell_len(self.description) + 3

    @property
    def weight(self) -> int:
        action = self.action.rpartition(".")[2]
        return USUAL.index(action) + 1 if action in USUAL else 0


class LineKey(FooterKey):
    """A key of the place. It is never compact: one that looks whether it is has its styles computed three times."""

    compact = reactive(False)


class KeyLine(Footer):
    """A `Footer` that begins with the keys of the place, and leaves out the least wanted ones instead of cutting one off.

    All of them are in the help. The line is made anew only where other keys are to be shown: most moves of the focus
    change none.
    """

    _shown: tuple[ShownKey, ...] = ()

    def compose(self) -> ComposeResult:
        self._shown = self._wanted() if self._bindings_ready else ()
        palette = self.app.COMMAND_PALETTE_BINDING
        for key in self._shown:
            yield FooterKey(*key, classes="-command-palette") if key.key == palette else LineKey(*key)

    async def recompose(self) -> None:
        if self.is_attached and self._bindings_ready and self._wanted() != self._shown:
            await super().recompose()

    def on_resize(self) -> None:
        if self._bindings_ready:
            self.call_after_refresh(self.recompose)

    def _wanted(self) -> tuple[ShownKey, ...]:
        """The keys that there is room for; the palette's comes last."""
        beside = list(self._palette())
        keys = sorted(self._own_keys(), key=lambda key: key.weight)
        room = self.app.size.width - sum(key.width + BORDER for key in beside)
        while keys and sum(key.width for key in keys) > room:
            keys.pop()
        return (*keys, *beside)

    def _own_keys(self) -> Iterator[ShownKey]:
        seen: set[str] = set()
        for _node, binding, enabled, tooltip in self.screen.active_bindings.values():
            if binding.show and binding.action not in seen:
                seen.add(binding.action)
                yield self._shown_key(binding, enabled, tooltip)

    def _palette(self) -> Iterator[ShownKey]:
        found = self.screen.active_bindings.get(self.app.COMMAND_PALETTE_BINDING)
        if found is not None:
            yield self._shown_key(found.binding, found.enabled, found.binding.tooltip or found.binding.description)

    def _shown_key(self, binding: Binding, enabled: bool, tooltip: str) -> ShownKey:
        return ShownKey(
            binding.key, self.app.get_key_display(binding), binding.description, binding.action, not enabled, tooltip
        )
