"""Compound files that are written: read back by olefile, which takes no defect, and by the reader of this program."""

from __future__ import annotations

import io

import olefile
import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.corpus.compound import CompoundFile
from engine.corpus.compound_writer import compound_file, taken_out

NAMES = st.text(st.characters(codec="utf-16", exclude_characters="/\\:!", min_codepoint=1), min_size=1, max_size=15)
PATHS = st.lists(NAMES, min_size=1, max_size=3).map("/".join)
CONTENTS = st.one_of(
    st.binary(max_size=200), st.integers(0, 20_000).map(lambda size: bytes(range(256)) * (size // 256))
)


def read_back(content: bytes) -> dict[str, bytes]:
    with olefile.OleFileIO(io.BytesIO(content), raise_defects=olefile.DEFECT_UNSURE) as opened:
        return {"/".join(path): opened.openstream(path).read() for path in opened.listdir()}


def read_by_the_program(content: bytes) -> dict[str, bytes]:
    opened = CompoundFile(content)
    return {name: opened.read(name) for name in opened.names()}


def is_distinguishable(streams: dict[str, bytes]) -> bool:
    """Whether no name is another's in other letters, and no stream is called as a folder is."""
    lowered = [path.upper().lower().casefold() for path in streams]
    folders = {path.rpartition("/")[0] for path in lowered} | {
        path.partition("/")[0] for path in lowered if "/" in path
    }
    return len(set(lowered)) == len(lowered) and not folders & set(lowered)


@given(st.dictionaries(PATHS, CONTENTS, max_size=12).filter(is_distinguishable))
def test_streams_are_read_back_as_they_were(streams: dict[str, bytes]) -> None:
    written = compound_file(streams)
    assert read_by_the_program(written) == streams
    if len({path.casefold() for path in streams}) == len(streams):
        assert read_back(written) == streams


@pytest.mark.parametrize(
    "size", [0, 1, 511, 512, 513, 4095, 4096, 7_000_000, 7_080_000, 7_100_000, 7_200_000, 20_000_000]
)
def test_streams_of_every_size_are_read_back(size: int) -> None:
    streams = {
        "Workbook": bytes(range(251)) * (size // 251) + bytes(size % 251),
        "Deep/Deeper/\x01Ole": b"small",
        "none": b"",
    }
    written = compound_file(streams)
    assert len(written) % 512 == 0
    assert read_back(written) == read_by_the_program(written) == streams


def test_a_folder_is_taken_out_without_its_neighbours() -> None:
    streams = {
        "Pool/_1/Workbook": b"one",
        "Pool/_1/Pool/_2/Book": b"two",
        "Pool/_11/Workbook": b"eleven",
        "Workbook": b"outer",
    }
    source = CompoundFile(compound_file(streams))
    assert read_back(taken_out(source, "Pool/_1/", 6)) == {"Workbook": b"one", "Pool/_2/Book": b"two"}
    with pytest.raises(OverflowError, match=r"\b5\b"):
        taken_out(source, "Pool/_1/", 5)
