"""The page of a window, one text: the terminal of the installed textual-serve, its font, and our script."""

from __future__ import annotations

import base64
import importlib.util
import secrets
from pathlib import Path

from engine.errors import EngineError

_HERE = Path(__file__).parent / "page"
_OWN_SOCKET = "this.socket=new WebSocket("
_HANDLE = "window.onresize=()=>{this.fit()}"
_WEBGL = "this.terminal.loadAddon(this.webglAddon),"
_LINKS = "this.terminal.loadAddon(this.weblinksAddon),"
# pywebview itself makes functions from texts to call the page, hence 'unsafe-eval'; nothing can be loaded or sent.
POLICY = (
    "default-src 'none'; script-src 'nonce-{nonce}' 'unsafe-eval'; style-src 'unsafe-inline'; font-src data:; "
    "img-src data:; connect-src 'none'; form-action 'none'; base-uri 'none'; frame-src 'none'; object-src 'none'"
)


def page() -> str:
    """The whole page. Raises EngineError where the terminal's code is missing or of another make."""
    static = _static()
    nonce = secrets.token_urlsafe(18)
    terminal = (static / "js" / "textual.js").read_text(encoding="utf-8")
    if any(terminal.count(part) != 1 for part in (_OWN_SOCKET, _HANDLE, _WEBGL, _LINKS)):
        raise EngineError(
            "The window's terminal cannot be shown.",
            "The installed textual-serve is of a version that this program does not know.",
            "Install bmembed-tui[desktop] again.",
        )
    terminal = terminal.replace(_OWN_SOCKET, "this.socket=new window.BridgeSocket(")
    terminal = terminal.replace(_WEBGL, "")  # its canvas does as well, and needs no graphics card
    terminal = terminal.replace(_LINKS, "")  # an address in a document must not be a way out
    terminal = terminal.replace(_HANDLE, f"window.bmembed=this,{_HANDLE}").replace("</script", "<\\/script")
    font = base64.b64encode((static / "fonts" / "RobotoMono-VariableFont_wght.ttf").read_bytes()).decode("ascii")
    parts = {
        "policy": POLICY.format(nonce=nonce),
        "nonce": nonce,
        "font": font,
        "style": (static / "css" / "xterm.css").read_text(encoding="utf-8"),
        "bridge": (_HERE / "bridge.js").read_text(encoding="utf-8"),
        "terminal": terminal,
    }
    text = (_HERE / "index.html").read_text(encoding="utf-8")
    for name, part in parts.items():
        text = text.replace(f"@{name}@", part)
    return text


def _static() -> Path:
    found = importlib.util.find_spec("textual_serve")
    if found is None or not found.submodule_search_locations:
        raise EngineError(
            "A window cannot be opened: textual-serve is not installed.",
            "The terminal in the window is its.",
            "Install bmembed-tui[desktop].",
        )
    return Path(found.submodule_search_locations[0]) / "static"
