"""The page of a window, and the script that adds the terminal of textual-serve and its font.

A web view receives its page as a URL in which every character is escaped, several times over. With
the terminal in the page, that took as long as the rest of the start.
"""

from __future__ import annotations

import base64
import secrets
from dataclasses import dataclass
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path

from engine.core.errors import EngineError
from engine.core.extras import install_command

_PAGE_FOLDER = Path(__file__).parent / "page"
# The places of textual-serve's minified script that are changed. Each must occur once.
_SOCKET = "this.socket=new WebSocket("
_HANDLE = "window.onresize=()=>{this.fit()}"
_WEBGL = "this.terminal.loadAddon(this.webglAddon),"
_LINKS = "this.terminal.loadAddon(this.weblinksAddon),"
# pywebview evaluates strings to call the page, hence 'unsafe-eval'; nothing can be loaded or sent.
POLICY = (
    "default-src 'none'; script-src 'nonce-{nonce}' 'unsafe-eval'; style-src 'unsafe-inline';"
    " img-src data:; connect-src 'none'; form-action 'none'; base-uri 'none'; frame-src 'none';"
    " object-src 'none'"
)


@dataclass(frozen=True, slots=True)
class Page:
    """The page of a window."""

    html: str  # what the window shows first
    script: str  # run in the page afterwards: it starts the terminal


def build_page(static: Traversable | None = None) -> Page:
    """Return the page. Raises EngineError for an unknown version of the terminal's code.

    `static`: the folder of the terminal's code, by default that of textual-serve.
    """
    static = static or files("textual_serve") / "static"
    nonce = secrets.token_urlsafe(18)
    parts = {
        "policy": POLICY.format(nonce=nonce),
        "nonce": nonce,
        "style": (static / "css" / "xterm.css").read_text(encoding="utf-8"),
        "bridge": (_PAGE_FOLDER / "bridge.js").read_text(encoding="utf-8"),
    }
    html = (_PAGE_FOLDER / "index.html").read_text(encoding="utf-8")
    for name, part in parts.items():
        html = html.replace(f"@{name}@", part)
    font_file = static / "fonts" / "RobotoMono-VariableFont_wght.ttf"
    font = base64.b64encode(font_file.read_bytes()).decode("ascii")
    terminal = _adapt_terminal((static / "js" / "textual.js").read_text(encoding="utf-8"))
    # `null` is the value of the script, which pywebview sends back as JSON.
    return Page(html, f'{terminal}\nwindow.beginTerminal("{font}"); null')


def _adapt_terminal(code: str) -> str:
    """Return the terminal's code, changed to use the bridge in place of a web socket.

    Raises EngineError for an unknown version of the code.
    """
    if any(code.count(part) != 1 for part in (_SOCKET, _HANDLE, _WEBGL, _LINKS)):
        raise EngineError(
            "The window's terminal cannot be shown.",
            "This program does not know the installed version of textual-serve.",
            f"Install what the window needs again: {install_command('desktop')}",
            code="window-unavailable",
        )
    code = code.replace(_SOCKET, "this.socket=new window.BridgeSocket(")
    code = code.replace(_WEBGL, "")  # the canvas does as well, and needs no graphics card
    code = code.replace(_LINKS, "")  # an address in a document must not open a page
    return code.replace(_HANDLE, f"window.bmembed=this,{_HANDLE}")
