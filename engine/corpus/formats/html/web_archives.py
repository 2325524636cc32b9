"""Web pages saved by Safari (.webarchive): the page itself, in Apple's property list."""

from __future__ import annotations

import plistlib
from codecs import BOM_UTF8
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from xml.parsers.expat import ExpatError

from engine.core.records import ReadDocument
from engine.corpus.formats import UnreadableFileError, read_bytes
from engine.corpus.formats.html import HtmlReader


class WebArchiveReader(HtmlReader):
    """A reader of .webarchive files."""

    def read(self, path: Path, data: bytes | None = None) -> Iterator[ReadDocument]:
        """Read a file; see `Reader.read`."""
        try:
            archive = plistlib.loads(read_bytes(path, data))
            resource = archive["WebMainResource"]
            page = bytes(resource["WebResourceData"])
            encoding = str(resource.get("WebResourceTextEncodingName", ""))
        except (
            ValueError,
            LookupError,
            TypeError,
            AttributeError,
            RecursionError,
            ExpatError,
        ) as error:
            raise UnreadableFileError(path, "it holds no web page", "damaged") from error
        # Pages need not name their encoding, since their server did.
        with suppress(LookupError, UnicodeError):
            page = BOM_UTF8 + page.decode(encoding).encode()
        yield from super().read(path, page)


READER = WebArchiveReader()
