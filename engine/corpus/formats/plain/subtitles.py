"""Subtitles and transcripts of meetings (SubRip, WebVTT): who says what, and when."""

from __future__ import annotations

import re
from html import unescape

# `WEBVTT`, or the number of the first block above its time.
_BEGINNING = re.compile(r"\s*(?:WEBVTT\b|\d+\s*\n\s*\d+:\d\d:\d\d[,.]\d+ *-->)")
_BLOCK_END = re.compile(r"\n\s*\n")
# `00:01:02,500 --> 00:01:04,000` and what follows it on the line.
_TIME = re.compile(r"(\d+:\d\d(?::\d\d)?)[,.]\d+ *--> *\d.*")
# `<v.loud Ada Lindner>`.
_SPEAKER = re.compile(r"<v(?:\.[^\s<>]*)?\s+([^<>]+)>")
# `</i>` and `{\an8}`.
_MARK = re.compile(r"</?[a-z][^<>]*>|\{\\[^{}]*\}", re.IGNORECASE)
_KEYWORDS_FOR_PLAYERS = ("WEBVTT", "NOTE", "STYLE", "REGION")
_SENTENCE_ENDS = (
    ".",
    "!",
    "?",
    "\u2026",
    "\u3002",
)
_MAX_LINE_LENGTH = 300  # characters of a line to which another cue is added


def are_subtitles(text: str) -> bool:
    """Return whether a text begins as subtitles do."""
    return _BEGINNING.match(text) is not None


def show_subtitles(text: str) -> str:
    """Return what is said, a line for each sentence, such as `00:01:02 Ada Lindner: Good day`.

    A line begins with the time. The speaker is named when another person begins to speak.
    """
    lines: list[str] = []
    speaker = ""
    for block in _BLOCK_END.split(text):
        time = _TIME.search(block)
        if time is None:
            if not block.lstrip().startswith(_KEYWORDS_FOR_PLAYERS):
                lines.append(block.strip())
            continue
        cue = block[time.end() :]
        words = " ".join(unescape(_MARK.sub("", cue)).split())
        speaker_tag = _SPEAKER.search(cue)
        if speaker_tag is not None and speaker_tag[1] != speaker:
            speaker = speaker_tag[1]
            lines.append(f"{time[1]} {speaker}: {words}")
        elif lines and not lines[-1].endswith(_SENTENCE_ENDS) and len(lines[-1]) < _MAX_LINE_LENGTH:
            # The sentence of the last block goes on.
            lines[-1] += f" {words}"
        elif words:
            lines.append(f"{time[1]} {words}")
    return "\n".join(filter(None, lines))
