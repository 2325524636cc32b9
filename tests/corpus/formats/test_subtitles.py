"""Subtitles and transcripts of meetings."""

from __future__ import annotations

from pathlib import Path

import pytest
from fixtures.read_files import only, opened

SUBRIP = (
    "1\n00:00:01,000 --> 00:00:04,000\n<i>The pelican</i> boards\nat\n\n"
    "2\n00:00:05,500 --> 00:00:06,000\n{\\an8}dawn.\n\n"
    "3\n01:02:03,000 --> 01:02:04,000\nMind the gap!\n"
)
MEETING = (
    "WEBVTT\n\nNOTE recorded by a program\n\nSTYLE\n::cue { color: red }\n\n"
    "5f1a-0\n00:01.000 --> 00:04.000 align:start\n<v Ada Quay>R&amp;D moors</v>\n\n"
    "5f1a-1\n00:04.000 --> 00:06.000\n<v Ada Quay>at <c.red>noon</c></v>\n\n"
    "5f1a-2\n00:07.000 --> 00:08.000\n<v Bo>Why?</v>\n\n00:09.000 --> 00:10.000\n\n"
)


@pytest.mark.parametrize(
    ("name", "source", "text"),
    [
        (
            "crane_film.srt",
            SUBRIP,
            "00:00:01 The pelican boards at dawn.\n01:02:03 Mind the gap!",
        ),
        ("crane_film.vtt", MEETING, "00:01 Ada Quay: R&D moors at noon\n00:07 Bo: Why?"),
        ("crane_film.vtt", "\ufeff" + MEETING.replace("\n", "\r\n"), None),
    ],
)
def test_what_is_said_is_read_in_sentences(
    tmp_path: Path, name: str, source: str, text: str | None
) -> None:
    document = only(opened(tmp_path, name, source.encode()))
    assert document.text == (text or "00:01 Ada Quay: R&D moors at noon\n00:07 Bo: Why?")
    assert document.title == "Crane film"


def test_speech_without_full_stops_is_divided(tmp_path: Path) -> None:
    cue = "\n\n{n}\n00:{n:02}:00.000 --> 00:{n:02}:30.000\n" + "pelican " * 12
    source = "WEBVTT" + "".join(cue.format(n=n) for n in range(10))
    lines = only(opened(tmp_path, "a.vtt", source.encode())).text.split("\n")
    assert [line[:8] for line in lines] == ["00:00:00", "00:04:00", "00:08:00"]
    assert sum(line.count("pelican") for line in lines) == 120


def test_arrows_in_other_texts_stay(tmp_path: Path) -> None:
    source = "Plan\n\n1\n00:00:01,000 --> 00:00:04,000\nfirst"
    assert only(opened(tmp_path, "a.txt", source.encode())).text == source
