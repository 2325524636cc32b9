"""What belongs to the thread of Qt's windows: the clipboard, folders that are dropped, and that
nothing is fetched.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from functools import cache
from typing import Any

Dropped = Callable[[list[str]], None]


class GuiThread:
    """Takes calls from any thread to the one of the windows."""

    def __init__(self, carrier: Any) -> None:
        self._carrier = carrier

    def copy(self, text: str) -> None:
        with suppress(RuntimeError):  # the window has just been closed
            self._carrier.copied.emit(text)

    def show_icon(self, view: Any, path: str) -> None:
        with suppress(RuntimeError):
            self._carrier.pictured.emit(view, path)

    def watch(self, view: Any, dropped: Dropped) -> None:
        """Call `dropped` with the paths of files and folders that are dropped on `view`, which
        sees nothing of it.

        The view is kept from fetching anything, also where its page were led elsewhere, which no
        policy of the page forbids.
        """
        with suppress(RuntimeError):
            self._carrier.watched.emit(view, dropped)


def set_application_name(name: str) -> None:
    """Name this program as its desktop entry is named, so that the system shows its window as
    that one's. Before any window.
    """
    from PySide6.QtCore import QCoreApplication
    from PySide6.QtGui import QGuiApplication

    QCoreApplication.setApplicationName(name)
    QGuiApplication.setDesktopFileName(name)


@cache
def gui_thread() -> GuiThread:
    """The one of this process. Call it when there is a window."""
    from PySide6.QtCore import QEvent, QObject, Qt, Signal
    from PySide6.QtGui import QGuiApplication, QIcon
    from PySide6.QtWebEngineCore import QWebEngineUrlRequestInfo, QWebEngineUrlRequestInterceptor

    class Refusing(QWebEngineUrlRequestInterceptor):  # type: ignore[misc]
        def interceptRequest(self, info: QWebEngineUrlRequestInfo) -> None:
            info.block(info.requestUrl().scheme() != "data")

    class Carrier(QObject):  # type: ignore[misc]  # the extra is not there for the type checker
        copied = Signal(str)
        pictured = Signal(object, str)
        watched = Signal(object, object)

        def take(self, text: str) -> None:
            QGuiApplication.clipboard().setText(text)

        def picture(self, view: Any, path: str) -> None:
            with suppress(RuntimeError):
                view.window().setWindowIcon(QIcon(path))

        def watch(self, view: Any, dropped: Dropped) -> None:
            self.dropped = dropped
            self.refusing = Refusing()
            view.page().profile().setUrlRequestInterceptor(self.refusing)
            view.page().navigationRequested.connect(lambda request: request.reject())
            view.setAcceptDrops(True)
            view.installEventFilter(self)

        def eventFilter(self, watched: QObject, event: QEvent) -> bool:
            kinds = (QEvent.Type.DragEnter, QEvent.Type.DragMove, QEvent.Type.Drop)
            if event.type() not in kinds or not event.mimeData().hasUrls():
                return bool(super().eventFilter(watched, event))
            event.setDropAction(Qt.DropAction.CopyAction)
            event.accept()
            if event.type() == QEvent.Type.Drop:
                self.dropped(
                    [url.toLocalFile() for url in event.mimeData().urls() if url.isLocalFile()]
                )
            return True

    carrier: Any = Carrier()
    carrier.moveToThread(QGuiApplication.instance().thread())
    carrier.copied.connect(carrier.take, Qt.ConnectionType.QueuedConnection)
    carrier.pictured.connect(carrier.picture, Qt.ConnectionType.QueuedConnection)
    carrier.watched.connect(carrier.watch, Qt.ConnectionType.QueuedConnection)
    return GuiThread(carrier)
