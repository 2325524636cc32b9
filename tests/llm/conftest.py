import pytest
from fixtures.asked_project import asked_project, indexed

__all__ = ["asked_project", "indexed"]


@pytest.fixture(autouse=True)
def hardly_paused(monkeypatch: pytest.MonkeyPatch) -> None:
    """A server that fails is asked again after a millisecond."""
    monkeypatch.setattr("engine.llm.chat.PAUSE_SECONDS", 0.001)
