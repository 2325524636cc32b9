"""The stream between app and window, cut anywhere."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bmembed_tui.window.packets import READY, PacketError, Unpacker, build_packet


def test_a_packet_by_hand() -> None:
    assert build_packet("D", "é".encode()) == b"D\x00\x00\x00\x02\xc3\xa9"


@given(
    st.lists(st.tuples(st.sampled_from("DMP"), st.binary(max_size=300))),
    st.integers(1, 50),
    st.binary(max_size=30),
)
def test_pieces_of_any_length(
    packets: list[tuple[str, bytes]],
    step: int,
    noise: bytes,
) -> None:
    stream = (
        noise.replace(b"_", b"")
        + READY
        + b"".join(build_packet(kind, payload) for kind, payload in packets)
    )
    unpacker = Unpacker()
    found = list[tuple[str, bytes]]()
    for start in range(0, len(stream), step):
        found.extend(unpacker.feed(stream[start : start + step]))
    assert found == packets


@pytest.mark.parametrize("wrong", [b"X\x00\x00\x00\x01a", b"D\xff\xff\xff\xff"])
def test_what_is_no_packet_is_refused(wrong: bytes) -> None:
    with pytest.raises(PacketError):
        list(Unpacker().feed(READY + wrong))
