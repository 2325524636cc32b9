"""The page of a window: a small text, and the script that puts the terminal of the installed
textual-serve and its font into it.

A web view is handed a page as an address, with every letter of it escaped, several times over: with
the terminal in it that took as long as all the rest of its start.
"""

from __future__ import annotations

import base64
import secrets
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path

from engine.core.errors import EngineError
from engine.core.extras import install_command

_HERE = Path(__file__).parent / "page"
_OWN_SOCKET = "this.socket=new WebSocket("
HANDLE = "window.onresize=()=>{this.fit()}"
_WEBGL = "this.terminal.loadAddon(this.webglAddon),"
_LINKS = "this.terminal.loadAddon(this.weblinksAddon),"
# pywebview itself makes functions from texts to call the page, hence 'unsafe-eval'; nothing can be
# loaded or sent.
POLICY = (
    "default-src 'none'; script-src 'nonce-{nonce}' 'unsafe-eval'; style-src 'unsafe-inline';"
    " img-src data:; connect-src 'none'; form-action 'none'; base-uri 'none'; frame-src 'none';"
    " object-src 'none'"
)


@dataclass(frozen=True, slots=True)
class Page:
    """`html`: what the window shows first.

    `script`: to be run in it then; it begins the terminal.
    """

    html: str
    script: str


def page() -> Page:
    """The whole page. Raises EngineError where the terminal's code is of another make."""
    static = files("textual_serve") / "static"
    parts = {
        "policy": POLICY.format(nonce=(nonce := secrets.token_urlsafe(18))),
        "nonce": nonce,
        "style": (static / "css" / "xterm.css").read_text(encoding="utf-8"),
        "bridge": (_HERE / "bridge.js").read_text(encoding="utf-8"),
    }
    html = (_HERE / "index.html").read_text(encoding="utf-8")
    for name, part in parts.items():
        html = html.replace(f"@{name}@", part)
    font = base64.b64encode(
        (static / "fonts" / "RobotoMono-VariableFont_wght.ttf").read_bytes()
    ).decode("ascii")
    terminal = _terminal((static / "js" / "textual.js").read_text(encoding="utf-8"))
    return Page(html, f'{terminal}\nwindow.beginTerminal("{font}"); null')


def _terminal(code: str) -> str:
    """The terminal's code, its way out led to the bridge."""
    if any(code.count(part) != 1 for part in (_OWN_SOCKET, HANDLE, _WEBGL, _LINKS)):
        raise EngineError(
            "The window's terminal cannot be shown.",
            "This program does not know the installed version of textual-serve.",
            f"Install what the window needs again: {install_command('desktop')}",
            code="window-unavailable",
        )
    code = code.replace(_OWN_SOCKET, "this.socket=new window.BridgeSocket(")
    code = code.replace(_WEBGL, "")  # its canvas does as well, and needs no graphics card
    code = code.replace(_LINKS, "")  # an address in a document must not be a way out
    return code.replace(HANDLE, f"window.bmembed=this,{HANDLE}")
