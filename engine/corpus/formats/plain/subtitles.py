"""Subtitles and transcripts of meetings (SubRip, WebVTT): who says what, and when."""

from __future__ import annotations

import re
from html import unescape

_BEGINNING = re.compile(r"\s*(?:WEBVTT\b|\d+\s*\n\s*\d+:\d\d:\d\d[,.]\d+ *-->)")
_BLOCK_END = re.compile(r"\n\s*\n")
_TIME = re.compile(r"(\d+:\d\d(?::\d\d)?)[,.]\d+ *--> *\d.*")
_SPEAKER = re.compile(r"<v(?:\.[^\s<>]*)?\s+([^<>]+)>")
_MARK = re.compile(r"</?[a-z][^<>]*>|\{\\[^{}]*\}", re.IGNORECASE)
_FOR_PLAYERS = ("WEBVTT", "NOTE", "STYLE", "REGION")
_SENTENCE_ENDS = (".", "!", "?", "\u2026", "\u3002")
_LONG = 300  # characters


def are_subtitles(text: str) -> bool:
    """Tell whether a text begins as subtitles do."""
    return _BEGINNING.match(text) is not None


def show_subtitles(text: str) -> str:
    """Return what is said, a line for each sentence after the time at which it begins."""
    lines: list[str] = []
    speaker = ""
    for block in _BLOCK_END.split(text):
        time = _TIME.search(block)
        if time is None:
            if not block.lstrip().startswith(_FOR_PLAYERS):
                lines.append(block.strip())
            continue
        cue = block[time.end() :]
        named = _SPEAKER.search(cue)
        words = " ".join(unescape(_MARK.sub("", cue)).split())
        is_new_speaker = named is not None and named[1] != speaker
        if named is not None:
            speaker = named[1]
        if is_new_speaker:
            lines.append(f"{time[1]} {speaker}: {words}")
        elif lines and not lines[-1].endswith(_SENTENCE_ENDS) and len(lines[-1]) < _LONG:
            lines[-1] += f" {words}"
        elif words:
            lines.append(f"{time[1]} {words}")
    return "\n".join(filter(None, lines))
