"""Documents of a BEIR data set, whose reader runs in the process of the stage."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from engine.core.errors import DatasetError
from engine.core.records import ReadDocument
from engine.corpus.formats import UnreadableFileError, find_reader
from engine.corpus.sandbox.outcome import Outcome
from engine.corpus.scan.scan import ScannedFile, system_reason
from engine.corpus.text.blocks import restore_words
from engine.datasets.beir import MalformedError


def read_data_set(file: ScannedFile) -> Iterator[ReadDocument]:
    """Yield the documents of a data set.

    Raises UnreadableFileError if it is damaged.
    """
    try:
        for finding in find_reader(file.format).read(file.absolute):
            if isinstance(finding, ReadDocument):
                yield restore_words(finding)
    except MalformedError as error:
        place = error.place.removeprefix(str(file.absolute)).lstrip(", ")
        reason = ": ".join(filter(None, ("damaged", place, error.problem)))
        raise UnreadableFileError(file.absolute, reason) from error
    except DatasetError as error:
        raise UnreadableFileError(file.absolute, f"damaged: {error.why.rstrip('.')}") from error


def check_data_set(file: ScannedFile, should_stop: Callable[[], bool]) -> Outcome:
    """Return why a data set cannot be read, an empty outcome if it can.

    What can be read is stored block by block, so a damaged line must be known before the first.
    """
    try:
        for _ in read_data_set(file):
            if should_stop():
                return Outcome(reason="the reading was stopped", inaccessible=True)
    except UnreadableFileError as error:
        return Outcome(kind=error.kind, reason=error.why)
    except OSError as error:
        return Outcome(reason=system_reason(error), inaccessible=True)
    return Outcome()
