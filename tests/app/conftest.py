"""A small real project, made once by the real engine with a tiny model; tests get copies."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import psutil
import pytest
from fixtures.app import drawn_when_looked_at, styles_parsed_once
from fixtures.long_training import end_run, lengthen
from fixtures.pipeline import copy_project
from fixtures.preloaded import STARTER
from fixtures.served_here import runs_here, served_here
from fixtures.user_folders import DATA, STATE


@pytest.fixture
def new_project(new_built: Path, tmp_path: Path) -> Path:
    """A copy of the project that nothing was run for."""
    return copy_project(new_built, tmp_path / "handbook")


@pytest.fixture
def finished_project(finished_built: Path, tmp_path: Path) -> Path:
    """A copy of the project after a run."""
    return copy_project(finished_built, tmp_path / "handbook")


@pytest.fixture
def long_project(finished_project: Path) -> Iterator[Path]:
    """A finished project whose next training goes on until it is ended."""
    yield lengthen(finished_project)
    end_run(finished_project)


@pytest.fixture(autouse=True)
def engine_served_here(
    request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> Iterator[None]:
    """The app's server of searches is a thread of this process, and so are runs, except for
    tests that are about processes.
    """
    if request.node.get_closest_marker("processes"):
        yield
    elif "long_project" in request.fixturenames:  # its trainings are killed
        with served_here(monkeypatch):
            yield
    else:
        with served_here(monkeypatch), runs_here(monkeypatch):
            yield


@pytest.fixture(autouse=True)
def no_process_stays() -> Iterator[None]:
    """Tests of single screens start servers that no app closes: they must not pile up, nor be
    taken for a later test's.
    """
    before = {child.pid for child in psutil.Process().children()}
    yield
    for child in psutil.Process().children():
        if child.pid in {*before, *STARTER.keepers}:
            continue
        with suppress(psutil.NoSuchProcess):  # it has just ended
            if child.status() != psutil.STATUS_ZOMBIE:
                child.kill()
                child.wait(10)


@pytest.fixture(scope="session", autouse=True)
def parsed_styles() -> Iterator[None]:
    """A style sheet is parsed once for all tests."""
    with styles_parsed_once():
        yield


@pytest.fixture(autouse=True)
def states_in_between(request: pytest.FixtureRequest) -> Iterator[None]:
    """Each of them is drawn for a test marked `drawn` alone."""
    if request.node.get_closest_marker("drawn"):
        yield
    else:
        with drawn_when_looked_at():
            yield


@pytest.fixture(autouse=True)
def started_at_home(monkeypatch: pytest.MonkeyPatch) -> None:
    """The app was started in no folder that it would offer to search."""
    monkeypatch.setattr("bmembed_tui.home.screen.find_current_folder", lambda: None)


@pytest.fixture
def own_folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The user's data and state: no other test's projects and recent ones are known."""
    monkeypatch.setenv(DATA, str(tmp_path / "data"))
    monkeypatch.setenv(STATE, str(tmp_path / "state"))
