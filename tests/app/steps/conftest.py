"""What tests of several steps share."""

from __future__ import annotations

import pytest

from bmembed_tui.steps.search.search_as_you_type import Searching


@pytest.fixture
def no_encoder(monkeypatch: pytest.MonkeyPatch) -> None:
    """The step does not have the encoder loaded when it is entered: for tests that search by
    words alone.
    """
    monkeypatch.setattr(
        Searching,
        "warm_up",
        lambda self: None,
    )
