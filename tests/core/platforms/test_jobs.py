"""Jobs of Windows, with stand-ins for the calls of its libraries."""

from __future__ import annotations

import ctypes
import importlib.util
import subprocess
import sys
from collections.abc import Callable
from types import ModuleType, SimpleNamespace
from typing import Any

import psutil
import pytest

from engine.core.platforms import jobs


class Library:
    """A library of Windows: notes each call, and answers 1 unless told otherwise."""

    def __init__(self, calls: list[tuple[str, tuple[Any, ...]]]) -> None:
        self.calls = calls
        self.answers: dict[str, Callable[..., int]] = {}
        self._functions: dict[str, Callable[..., int]] = {}

    def __getattr__(self, name: str) -> Callable[..., int]:
        def call(*arguments: Any) -> int:
            self.calls.append((name, arguments))
            return self.answers.get(name, lambda *_: 1)(*arguments)

        return self._functions.setdefault(name, call)


class Windows:
    """The module `jobs` as it is on Windows."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.calls: list[tuple[str, tuple[Any, ...]]] = []
        self.library = Library(self.calls)
        with monkeypatch.context() as context:
            context.setattr(sys, "platform", "win32")
            context.setattr(
                ctypes,
                "WinDLL",
                lambda *_, **__: self.library,
                raising=False,
            )
            assert jobs.__file__ is not None
            spec = importlib.util.spec_from_file_location("jobs_of_windows", jobs.__file__)
            assert spec is not None
            assert spec.loader is not None
            self.jobs: ModuleType = importlib.util.module_from_spec(spec)
            spec.loader.exec_module(self.jobs)
        monkeypatch.setattr(
            self.jobs,
            "subprocess",
            SimpleNamespace(Popen=self._start),
        )
        monkeypatch.setattr(
            psutil,
            "Process",
            lambda number: SimpleNamespace(resume=lambda: self.calls.append(("resume", (number,)))),
        )

    def _start(
        self,
        command: list[str],
        creationflags: int,
        **_: Any,
    ) -> SimpleNamespace:
        self.calls.append(("start", (creationflags,)))
        return SimpleNamespace(
            pid=7,
            kill=lambda: self.calls.append(("kill", ())),
            communicate=lambda: self.calls.append(("wait", ())),
        )

    def refuse(self, function: str) -> None:
        self.library.answers[function] = lambda *_: 0

    @property
    def names(self) -> list[str]:
        return [name for name, _ in self.calls]


@pytest.fixture
def windows(monkeypatch: pytest.MonkeyPatch) -> Windows:
    return Windows(monkeypatch)


CHILD: Any = SimpleNamespace(pid=7, kill=lambda: None)


def test_a_job_has_no_limits_that_forbid_nesting(windows: Windows) -> None:
    job = windows.jobs.Job(2**31)
    limits = [arguments for name, arguments in windows.calls if name == "SetInformationJobObject"]
    assert [(kind, content) for _, kind, content, _ in limits] == [(9, jobs.pack_limits(2**31, 1))]
    assert job.add(CHILD.pid) is True


@pytest.mark.parametrize(
    "function", ["AssignProcessToJobObject", "SetInformationJobObject", "OpenProcess"]
)
def test_a_job_says_that_it_does_not_hold_a_child(windows: Windows, function: str) -> None:
    windows.refuse(function)
    if function == "OpenProcess":
        windows.refuse("AssignProcessToJobObject")  # it gets no process
    assert windows.jobs.Job(2**31).add(CHILD.pid) is False


def test_a_program_runs_once_it_is_in_its_job(windows: Windows) -> None:
    job = windows.jobs.Job(2**31, 2)
    windows.calls.clear()
    windows.jobs.start_in_job(
        ["tesseract"],
        job,
        creationflags=0x200,
    )
    assert windows.calls[0] == ("start", (0x204,))
    assert windows.calls[-1] == ("resume", (7,))
    assert windows.names.index("AssignProcessToJobObject") < windows.names.index("resume")


def test_a_program_that_its_job_does_not_hold_never_runs(windows: Windows) -> None:
    windows.refuse("AssignProcessToJobObject")
    with pytest.raises(OSError, match="limit"):
        windows.jobs.start_in_job(["tesseract"], windows.jobs.Job(2**31))
    assert "resume" not in windows.names
    assert windows.names[-2:] == ["kill", "wait"]


def test_what_a_child_has_started_ends_with_it(windows: Windows) -> None:
    job = windows.jobs.Job(2**31, 2)
    job.end(CHILD)
    assert windows.names[-1] == "TerminateJobObject"
    job.close()
    windows.calls.clear()
    job.end(CHILD)
    assert windows.names == []


@pytest.mark.posix(reason="Windows has jobs")
def test_elsewhere_a_job_bounds_nothing() -> None:
    job = jobs.Job(2**31)
    with jobs.start_in_job([sys.executable, "-c", ""], job, stdin=subprocess.DEVNULL) as child:
        assert job.add(child.pid) is False
    assert child.returncode == 0
