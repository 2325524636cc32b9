"""What decides whether files that gave nothing, or were read by OCR, are tried again: passwords, OCR, and limits."""

from __future__ import annotations

from pathlib import Path

from engine.corpus.sandbox.tesseract import Tesseract, find_tesseract
from engine.project.stage import StageContext
from engine.project.store.artifact_info import CorpusInfo

_GONE = " (gone)"


def reading_limits(context: StageContext) -> dict[str, int]:
    """Kind of failure → the limit that it was met at: where that is raised, such files are worth another try."""
    corpus = context.settings.corpus
    limits = {"timed out": corpus.reading_seconds, "out of memory": corpus.reading_memory_mb}
    return limits | ({"needs OCR": corpus.ocr_seconds} if corpus.ocr else {})


def passwords_file(context: StageContext) -> Path:
    """Where the user's passwords lie; a relative path is taken from the project's folder."""
    return context.project.path / Path(context.settings.corpus.passwords_file).expanduser()


def passwords_mark(context: StageContext) -> tuple[int, ...] | None:
    """A mark that changes with the file of passwords and gives away nothing of what it holds."""
    if not context.settings.corpus.passwords_file:
        return None
    try:
        status = passwords_file(context).stat()
    except OSError:
        return None
    return (status.st_mtime_ns,)


def wanted_tesseract(context: StageContext) -> Tesseract | None:
    """What reads pictures, where it is wanted and there. Raises SettingsError for a language that it does not know."""
    corpus = context.settings.corpus
    if not corpus.ocr:
        return None
    found = find_tesseract(corpus.ocr_languages)
    if found is None:
        context.warn("corpus.ocr is on, but no tesseract with data for a language was found: scans are not read.")
    else:
        context.choose("ocr", found.languages, f"{found.version} at {found.program}")
    return found


def ocr_mark(context: StageContext, tesseract: Tesseract | None) -> str:
    """A mark that changes when pictures are read otherwise than before. A tesseract that is gone takes nothing away; when it comes
    back, what was left unread meanwhile is read."""
    if tesseract is not None:
        return tesseract.mark
    former = context.store.artifact(CorpusInfo)
    mark = former.info.ocr if former and context.settings.corpus.ocr else ""
    return f"{mark.removesuffix(_GONE)}{_GONE}" if mark else ""
