"""What must run in the thread of Qt's windows: the clipboard, drops, icons, blocked requests.

Importing it needs the optional package PySide6.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from functools import cache
from typing import Any

from PySide6.QtCore import QCoreApplication, QEvent, QObject, Qt, Signal
from PySide6.QtGui import QGuiApplication, QIcon
from PySide6.QtWebEngineCore import QWebEngineUrlRequestInfo, QWebEngineUrlRequestInterceptor

DropCallback = Callable[[list[str]], None]


class GuiThread:
    """Passes calls from any thread to the thread of the windows.

    `carrier`: an object of that thread, whose signals `get_gui_thread` connects.
    """

    def __init__(self, carrier: Any) -> None:
        self._carrier = carrier

    def copy(self, text: str) -> None:
        with suppress(RuntimeError):  # the window has just been closed
            self._carrier.copy_requested.emit(text)

    def show_icon(self, view: Any, path: str) -> None:
        with suppress(RuntimeError):
            self._carrier.icon_requested.emit(view, path)

    def watch(self, view: Any, on_drop: DropCallback) -> None:
        """Call `on_drop` with the paths of files and folders that are dropped on `view`.

        The page does not see these files. All requests of the view are blocked, too, which also
        holds if the view is led to another page, where this page's policy has no effect.
        """
        with suppress(RuntimeError):
            self._carrier.watch_requested.emit(view, on_drop)


def set_application_name(name: str) -> None:
    """Name this program as its desktop entry, so that the system connects its window with it.

    Call it before there is a window.
    """
    QCoreApplication.setApplicationName(name)
    QGuiApplication.setDesktopFileName(name)


# The type checker does not see the optional package.
class _RequestBlocker(QWebEngineUrlRequestInterceptor):  # type: ignore[misc]
    def interceptRequest(self, info: QWebEngineUrlRequestInfo) -> None:
        info.block(info.requestUrl().scheme() != "data")


class _Carrier(QObject):  # type: ignore[misc]
    copy_requested = Signal(str)
    icon_requested = Signal(object, str)
    watch_requested = Signal(object, object)

    def copy(self, text: str) -> None:
        QGuiApplication.clipboard().setText(text)

    def show_icon(self, view: Any, path: str) -> None:
        with suppress(RuntimeError):
            view.window().setWindowIcon(QIcon(path))

    def watch(self, view: Any, on_drop: DropCallback) -> None:
        """Block all requests of the view, and hand files dropped on it to `on_drop`."""
        self.on_drop = on_drop
        self.blocker = _RequestBlocker()
        view.page().profile().setUrlRequestInterceptor(self.blocker)
        view.page().navigationRequested.connect(lambda request: request.reject())
        view.setAcceptDrops(True)
        view.installEventFilter(self)

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:
        """Accept files dragged over the view, before the page sees them."""
        kinds = (
            QEvent.Type.DragEnter,
            QEvent.Type.DragMove,
            QEvent.Type.Drop,
        )
        if event.type() not in kinds or not event.mimeData().hasUrls():
            return bool(super().eventFilter(watched, event))
        event.setDropAction(Qt.DropAction.CopyAction)
        event.accept()
        if event.type() == QEvent.Type.Drop:
            urls = event.mimeData().urls()
            self.on_drop([url.toLocalFile() for url in urls if url.isLocalFile()])
        return True


@cache
def get_gui_thread() -> GuiThread:
    """Return the thread of this process's windows. Call it when there is a window."""
    carrier: Any = _Carrier()
    carrier.moveToThread(QGuiApplication.instance().thread())
    carrier.copy_requested.connect(carrier.copy, Qt.ConnectionType.QueuedConnection)
    carrier.icon_requested.connect(carrier.show_icon, Qt.ConnectionType.QueuedConnection)
    carrier.watch_requested.connect(carrier.watch, Qt.ConnectionType.QueuedConnection)
    return GuiThread(carrier)
