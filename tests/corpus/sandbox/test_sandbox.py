"""The reading processes: what they may not do, and what becomes of a file that is too much for
one.
"""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import psutil
import pytest
from fixtures import office
from fixtures.endings import SEGMENTATION_FAULT
from fixtures.shown_numbers import numbers

import engine
from engine.core.assets import asset_path
from engine.core.platforms import SYSTEM
from engine.core.records import Marked
from engine.corpus.formats import LeftOut
from engine.corpus.sandbox import child, worker
from engine.corpus.sandbox.child import find_confinement
from engine.corpus.sandbox.confinement import Confinement
from engine.corpus.sandbox.outcome import HEADER, Limits, Outcome, decode_finding, encode_finding
from engine.corpus.sandbox.pool import Pool

ROW = b"<tr><td rowspan=50 colspan=50>a tern"  # which takes long for its length
SLOW = b"<html><body><table>" + ROW * 600_000
HUGE = b"[" + b"[]," * 20_000_000 + b"1]"
LOCKED_DOWN = Confinement(
    low_integrity=True,
    restricted=True,
    refuses_reading=True,
    refuses_writing=True,
    refuses_network=True,
)
AMPLE = 600  # seconds, for what is not about time: the machine may be busy with much else


@pytest.fixture
def pool() -> Iterator[Callable[..., Pool]]:
    pools: list[Pool] = []

    def make(processes: int = 1, **limits: int) -> Pool:
        pools.append(Pool(processes, Limits(**limits)))
        return pools[-1]

    yield make
    for made in pools:
        made.close()


def write(path: Path, content: bytes) -> Path:
    path.write_bytes(content)
    return path


def test_files_are_read_in_order_by_several_processes(
    tmp_path: Path, pool: Callable[..., Pool]
) -> None:
    reading = pool(2, files=7)
    files = [write(tmp_path / f"{n:02}.txt", f"The pelican {n}.".encode()) for n in range(30)]
    texts = [
        outcome.documents[0].text
        for outcome in reading.map(lambda path: reading.read(path, "txt"), files)
    ]
    assert texts == [f"The pelican {n}." for n in range(30)]


def test_a_slow_item_leaves_no_other_process_idle(pool: Callable[..., Pool]) -> None:
    """The first item ends when the last has begun: it would wait for ever were only a few handed
    over ahead of it.
    """
    begun = threading.Event()

    def work(number: int) -> int:
        begun.set() if number == 99 else None
        return number if number or begun.wait(20) else -1

    assert list(pool(2).map(work, range(100))) == list(range(100))


@pytest.mark.parametrize("seed", range(8))
def test_whatever_takes_long_each_item_is_done_once_and_in_order(
    pool: Callable[..., Pool], seed: int
) -> None:
    """Slow and fast work and takers by turns; results that weigh more than may be held.

    Nobody waits to be woken by the clock.
    """
    rng = random.Random(seed)
    max_held = rng.choice([0, 3, 2**26])
    wake_seconds = 30.0 if seed % 2 else 0.1
    shares = [rng.choice([0.0, 0.05, 0.5]) for _ in range(2)]
    done: list[int] = []

    def work(item: int) -> int:
        time.sleep(rng.random() / 500 if rng.random() < shares[0] else 0)
        done.append(item)
        return item

    taken: list[int] = []
    count = rng.choice([0, 1, 7, 200])
    results = pool(rng.choice([1, 2, 5])).map(
        work, range(count), weight=lambda _: 1, max_held=max_held, wake_seconds=wake_seconds
    )
    for result in results:
        time.sleep(rng.random() / 500 if rng.random() < shares[1] else 0)
        taken.append(result)
    assert taken == [*range(count)]
    assert sorted(done) == taken


def test_who_takes_sleeps_while_the_first_item_takes_long(pool: Callable[..., Pool]) -> None:
    """Also where all after it are done, as many as may be: a second of waiting takes next to no
    time of the processor.
    """
    taken = pool(2).map(lambda number: number or time.sleep(1.0), range(300))
    started = time.thread_time()
    assert next(taken) is None
    assert time.thread_time() - started < 0.3
    assert [*taken] == [*range(1, 300)]


def test_texts_that_wait_for_a_slow_item_are_bounded(pool: Callable[..., Pool]) -> None:
    """Each of them weighs as much as all may that wait: two are done, and no more than 8 others
    handed over beside the first.
    """
    done: list[int] = []

    def work(number: int) -> int:
        if not number:
            time.sleep(0.5)
        done.append(number)
        return number

    taken = pool(2).map(
        work,
        range(60),
        weight=lambda _: 2**26,
    )
    assert next(taken) == 0
    assert done.index(0) <= 11
    assert [*taken] == [*range(1, 60)]


def test_finished_results_do_not_wait_for_unfinished_ones(pool: Callable[..., Pool]) -> None:
    """The second item ends when the first was taken."""
    taken = threading.Event()
    results = pool(2).map(lambda number: number or taken.wait(20), [1, 0])
    assert next(results) == 1
    taken.set()
    assert list(results) == [True]


def test_what_an_item_raises_is_raised_in_its_turn(pool: Callable[..., Pool]) -> None:
    taken = pool(2).map(lambda number: 6 // (3 - number), range(50))
    assert [next(taken) for _ in range(3)] == [2, 3, 6]
    with pytest.raises(ZeroDivisionError):
        next(taken)


def test_a_pool_closes_while_items_wait_that_nobody_takes(pool: Callable[..., Pool]) -> None:
    done: list[int] = []
    reading = pool(2)
    results = reading.map(done.append, range(100_000))
    next(results)
    reading.close()
    assert len(done) < 1000


def test_a_file_that_takes_too_long_is_ended_from_outside(
    tmp_path: Path, pool: Callable[..., Pool]
) -> None:
    reading = pool(seconds=2)
    outcome = reading.read(write(tmp_path / "a.html", SLOW), "html")
    assert (outcome.kind, outcome.documents) == ("timed out", [])
    assert "2 s" in outcome.reason
    assert (
        reading.read(write(tmp_path / "b.txt", b"The heron."), "txt").documents[0].text
        == "The heron."
    )


def test_a_file_of_many_slow_things_is_given_up_after_a_while(
    tmp_path: Path, pool: Callable[..., Pool]
) -> None:
    """Each of its pages is read in time; all of them would take far longer than a file may."""
    page = b"<html><body><p>The pelican.</p><table>" + ROW * 300
    members = {f"{number:04}.html": page for number in range(2000)}
    outcome = pool(seconds=2, whole_file_factor=1).read(
        write(tmp_path / "a.zip", office.zipped(members)), "zip"
    )
    assert (outcome.left_out[-1].kind, outcome.left_out[-1].member) == ("timed out", "…")
    assert numbers(outcome.left_out[-1].reason) == [2]
    assert 0 < len(outcome.documents) < 2000


def test_a_file_that_needs_too_much_memory_is_ended(
    tmp_path: Path, pool: Callable[..., Pool]
) -> None:
    reading = pool(memory=512 * 2**20, seconds=AMPLE)
    outcome = reading.read(write(tmp_path / "a.json", HUGE), "json")
    assert outcome.kind == "out of memory"
    assert "536.9 MB" in outcome.reason
    assert (
        reading.read(write(tmp_path / "b.txt", b"The heron."), "txt").documents[0].text
        == "The heron."
    )


def test_a_member_that_takes_too_long_leaves_the_others(
    tmp_path: Path, pool: Callable[..., Pool]
) -> None:
    inside = {
        "a.txt": "The tern.",
        "m.eml": office.eml({"slow.html": SLOW, "b.txt": b"The heron."}),
        "z.txt": "The gull.",
    }
    path = write(tmp_path / "a.zip", office.zipped(inside))
    for seconds in (2, 8, 32):  # however busy the machine is, one of them suffices for the others
        outcome = pool(seconds=seconds).read(path, "zip")
        if len(outcome.documents) == 4:
            break
    assert [document.member for document in outcome.documents] == [
        "a.txt",
        "m.eml",
        "m.eml/b.txt",
        "z.txt",
    ]
    assert [(part.member, part.kind) for part in outcome.left_out] == [
        ("m.eml/slow.html", "timed out")
    ]


def test_a_crash_of_the_reader_costs_one_file(tmp_path: Path, pool: Callable[..., Pool]) -> None:
    reading = pool(seconds=AMPLE)

    def crash() -> None:
        while not reading.children:
            time.sleep(0.01)
        (child,) = reading.children
        while child.used == 0:
            time.sleep(0.01)
        time.sleep(0.2)
        os.kill(child.process.pid, signal.SIGSEGV)  # on Windows it ends with this as exit code

    threading.Thread(target=crash, daemon=True).start()
    outcome = reading.read(write(tmp_path / "a.html", SLOW), "html")
    assert (outcome.kind, SEGMENTATION_FAULT in outcome.reason) == ("crashed", True)
    assert (
        reading.read(write(tmp_path / "b.txt", b"The heron."), "txt").documents[0].text
        == "The heron."
    )


def test_a_fault_of_a_reader_is_reported_without_its_message(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The message may quote the document, and the reason is in the log of the run."""

    def fail(*_arguments: object, **_options: object) -> None:
        raise ValueError("in: the code of the vault")

    monkeypatch.setattr("engine.corpus.formats.opening.read_everything", fail)
    monkeypatch.setattr(
        worker,
        "limit_time",
        lambda _seconds: None,
    )
    source, target = os.pipe()
    asked = {
        "path": str(tmp_path / "a.txt"),
        "format": "txt",
        "without": [],
    }
    worker.answer_request(
        target,
        {**asked, "passwords": [], "ocr": None},
        AMPLE,
    )
    os.close(target)
    with open(source, "rb") as answers:
        answer = json.loads(answers.read()[HEADER.size :])
    assert (answer["type"], answer["kind"]) == ("failed", "crashed")
    assert "ValueError" in answer["reason"]
    assert "vault" not in answer["reason"]


on_linux = pytest.mark.skipif(
    sys.platform != "linux", reason="the limits are those of Linux's kernel"
)


def test_a_renewed_process_is_another_one_of_the_same_parent(
    tmp_path: Path, pool: Callable[..., Pool]
) -> None:
    reading = pool(files=1)
    pids = []
    for number in range(3):
        assert reading.read(
            write(tmp_path / f"{number}.pdf", office.pdf("The pelican.")), "pdf"
        ).documents
        (child,) = reading.children
        pids.append(child.process.pid)
    assert len(set(pids)) == 3
    assert psutil.Process(pids[-1]).parent() == psutil.Process()


@on_linux
def test_a_library_that_crashes_where_it_gets_no_memory_is_not_reported_as_a_damaged_file(
    tmp_path: Path, pool: Callable[..., Pool]
) -> None:
    """PDFium aborts then, without a word. With more memory the file is read."""
    path = write(tmp_path / "a.pdf", office.pdf("\n".join(["pelican " * 2500] * 80)))
    reading = pool(memory=300 * 2**20, seconds=AMPLE)
    outcome = reading.read(path, "pdf")
    assert (outcome.kind, numbers(outcome.reason)[-1]) == ("crashed", 314.6)
    assert (
        reading.read(write(tmp_path / "b.txt", b"The heron."), "txt").documents[0].text
        == "The heron."
    )
    assert pool(seconds=AMPLE).read(path, "pdf").documents


@on_linux
@pytest.mark.parametrize("kept", [True, False])
def test_compiled_modules_are_kept_for_the_next_start_unless_python_must_not(
    tmp_path: Path, *, kept: bool
) -> None:
    """Readers are loaded by no other process of the program, so none else would keep them."""
    program = (
        "import sys; from pathlib import Path; from engine.corpus.sandbox.pool import Pool\n"
        "pool = Pool(1); print(len(pool.read(Path(sys.argv[1]), 'txt').documents)); pool.close()"
    )
    tree = tmp_path / "tree"
    shutil.copytree(
        Path(engine.__file__).parent, tree / "engine", ignore=shutil.ignore_patterns("__pycache__")
    )
    shutil.copytree(asset_path("sandbox"), tree / "assets" / "sandbox")
    environment = {
        name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"
    }
    environment |= {"PYTHONPATH": str(tree)} | ({} if kept else {"PYTHONDONTWRITEBYTECODE": "1"})
    path = write(tmp_path / "a.txt", b"The heron.")
    command = [
        sys.executable,
        "-P",
        "-c",
        program,
        str(path),
    ]
    done = subprocess.run(
        command,
        env=environment,
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout == "1\n"
    assert (
        bool([*(tree / "engine" / "corpus" / "formats").glob("__pycache__/opening.*.pyc")]) == kept
    )


@on_linux
def test_what_reads_a_long_file_ends_with_the_program_that_is_killed(tmp_path: Path) -> None:
    program = (
        "import sys; from pathlib import Path; from engine.corpus.sandbox.outcome import"
        " Limits\nfrom engine.corpus.sandbox.pool import Pool\npool = Pool(1, Limits(seconds=60));"
        " pool.read(Path(sys.argv[1]), 'txt'); print(flush=True)\npool.read(Path(sys.argv[2]),"
        " 'html')"
    )
    files = [write(tmp_path / "a.txt", b"The tern."), write(tmp_path / "b.html", SLOW)]
    command = [
        sys.executable,
        "-c",
        program,
        *map(str, files),
    ]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as started:
        assert started.stdout is not None
        started.stdout.readline()
        time.sleep(0.5)
        readers = psutil.Process(started.pid).children(recursive=True)
        started.kill()
    assert len(readers) == 1
    assert psutil.wait_procs(readers, 4)[1] == []


@on_linux
def test_a_reading_process_is_confined_and_has_no_sockets(
    tmp_path: Path, pool: Callable[..., Pool]
) -> None:
    reading = pool()
    assert reading.read(write(tmp_path / "a.txt", b"The heron."), "txt").documents
    (child,) = reading.children
    status = Path(f"/proc/{child.process.pid}/status").read_text()
    assert "Seccomp:\t2" in status
    limits = Path(f"/proc/{child.process.pid}/limits").read_text()
    assert str(Limits().memory) in limits
    handles = {os.readlink(path) for path in Path(f"/proc/{child.process.pid}/fd").iterdir()}
    assert not [handle for handle in handles if handle.startswith("socket:")]


def test_a_file_that_the_system_does_not_open_is_closed(
    tmp_path: Path, pool: Callable[..., Pool]
) -> None:
    path = tmp_path / "gone.txt"
    with pytest.raises(FileNotFoundError) as error:
        path.stat()  # in the system's own words, not in those of C
    outcome = pool().read(path, "txt")
    assert (outcome.inaccessible, outcome.reason) == (True, str(error.value.strerror).lower())


def test_closing_ends_every_process(tmp_path: Path) -> None:
    reading = Pool(1, Limits(seconds=AMPLE))
    answer: list[bool] = []
    path = write(tmp_path / "a.html", SLOW)
    waiting = threading.Thread(
        target=lambda: answer.append(reading.read(path, "html").inaccessible)
    )
    waiting.start()
    while not reading.children:
        time.sleep(0.01)
    (child,) = reading.children
    while child.used == 0:
        time.sleep(0.01)
    reading.close()
    waiting.join(60)
    assert child.process.poll() is not None
    assert answer
    assert not working_children()


def working_children() -> list[psutil.Process]:
    """Reading processes of ours; one that ends meanwhile does not count."""
    found = []
    for one in psutil.Process().children():
        with suppress(psutil.NoSuchProcess):
            if "sandbox.worker" in one.cmdline():
                found.append(one)
    return found


def test_nonsense_from_a_reading_process_is_not_believed(
    tmp_path: Path, pool: Callable[..., Pool]
) -> None:
    outcome = pool().read(
        write(tmp_path / "a.pdf", office.pdf("The pelican.", "The heron.")), "pdf"
    )
    assert not outcome.reason
    document = replace(
        outcome.documents[0],
        marked=(Marked("link", "The heron", "heron.md"), Marked("caption", "Pier")),
    )
    message = encode_finding(document)
    assert decode_finding(message) == document
    for change in (
        {"pages": [[999, 1, "page 1"]]},
        {"text": 5},
        {"headings": [["0", 1, "x"]]},
        {"marked": [["x", "", ""]]},
        {"pages": [[0, 10**30, "page 1"]]},
        {"headings": [[0, 1, 5]]},
        {"created": [1]},
        {"changed": float("nan")},
        {"created": 10**400},
        {"text": "half a character: \ud800"},
    ):
        with pytest.raises((ValueError, TypeError)):
            decode_finding({**message, **change})
    left = encode_finding(LeftOut("a.bin", "skipped", "binary", "it is binary"))
    assert decode_finding(left) == LeftOut("a.bin", "skipped", "binary", "it is binary")
    for change in ({"kind": ["x"]}, {"state": "elsewhere"}, {"reason": None}):
        with pytest.raises((ValueError, TypeError)):
            decode_finding({**left, **change})


def test_a_reading_process_cannot_say_more_than_a_file_may_hold() -> None:
    limits = Limits(text=5, findings=3)
    outcome = Outcome()
    for number in range(3):
        outcome.keep(LeftOut(f"{number}", "skipped", "binary", ""), limits)
    with pytest.raises(ValueError, match="more than"):
        outcome.keep(LeftOut("3", "skipped", "binary", ""), limits)


@pytest.mark.parametrize(
    "message",
    [
        {"type": "begin", "member": "n" * 11},
        {"type": "begin", "member": "\ud800"},
        {"type": "failed", "kind": "damaged", "reason": "\ud800"},
        {"type": "inaccessible", "reason": 5},
    ],
)
def test_names_and_reasons_are_texts_of_a_length_that_is_bounded(
    message: dict[str, Any],
    pool: Callable[..., Pool],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def loads(text: str) -> dict[str, Any]:
        answer: dict[str, Any] = json.loads(text)
        return answer if answer["type"] == "ready" else message

    answers = SimpleNamespace(loads=loads, dumps=json.dumps)
    monkeypatch.setattr("engine.corpus.sandbox.child.json", answers)
    outcome = pool(names=10).read(write(tmp_path / "a.txt", b"pelican"), "txt")
    assert (outcome.kind, outcome.documents, outcome.inaccessible) == ("damaged", [], False)


def test_no_text_is_kept_outside_the_project(
    tmp_path: Path, pool: Callable[..., Pool], monkeypatch: pytest.MonkeyPatch
) -> None:
    home = tmp_path / "home"
    home.mkdir()
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("TMPDIR", str(home))
    folder = tmp_path / "documents"
    folder.mkdir()
    outcome = pool().read(write(folder / "a.docx", office.docx()), "docx")
    assert "pelican" in outcome.documents[0].text
    assert [path for path in home.rglob("*") if path.is_file()] == []
    assert [item.name for item in folder.iterdir()] == ["a.docx"]


def test_reading_a_pdf_leaves_nothing_anywhere(
    tmp_path: Path, pool: Callable[..., Pool], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A library that had to be unpacked before it reads could not be by a confined process."""
    home = tmp_path / "home"
    home.mkdir()
    for name in ("HOME", "TMPDIR", "XDG_CACHE_HOME"):
        monkeypatch.setenv(name, str(home))
    outcome = pool().read(write(tmp_path / "a.pdf", office.pdf("The pelican.")), "pdf")
    assert [document.text for document in outcome.documents] == ["The pelican."]
    assert list(home.iterdir()) == []


def test_modules_of_the_current_folder_are_not_executed(
    tmp_path: Path, pool: Callable[..., Pool], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("json", "xberg", "lxml", "ctypes"):
        (tmp_path / f"{name}.py").write_text(
            f"open({str(tmp_path / 'mark')!r}, 'w')\nraise SystemExit"
        )
    monkeypatch.chdir(tmp_path)
    outcome = pool().read(write(tmp_path / "a.docx", office.docx()), "docx")
    assert "pelican" in outcome.documents[0].text
    assert not (tmp_path / "mark").exists()


@pytest.mark.skipif(SYSTEM != "linux", reason="it names what Linux grants")
def test_a_reader_says_what_the_system_refuses_it() -> None:
    confinement = find_confinement()
    assert confinement == Confinement(files=True, calls=True, landlock=confinement.landlock)
    assert confinement.is_complete == (confinement.landlock > 0)


@pytest.mark.parametrize("is_added", [True, False])
def test_a_readers_job_is_reported_as_windows_has_set_it(
    monkeypatch: pytest.MonkeyPatch, *, is_added: bool
) -> None:
    monkeypatch.setattr(
        child.Job,
        "add",
        lambda *_: is_added,
    )
    assert find_confinement().job is is_added


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (OSError(5, "Access is denied"), "[Errno 5] Access is denied"),
        (RuntimeError("Traceback:\n  line 1\nImportError: gone\n"), "ImportError: gone"),
        (RuntimeError(), "RuntimeError"),
    ],
)
def test_where_no_process_can_be_locked_down_others_read_and_no_more_is_tried(
    monkeypatch: pytest.MonkeyPatch, error: Exception, reason: str
) -> None:
    limits = Limits()
    tried = []

    def start(lock_down: bool) -> child.ReadingProcess:
        tried.append(lock_down)
        if lock_down:
            raise error
        return child.start_reader(limits, lock_down=False)

    monkeypatch.setattr(
        child,
        "can_lock_down",
        lambda: True,
    )
    lockdown = child.LockdownTrial()
    for _ in range(2):
        reader = child.start_child(
            limits,
            None,
            start,
            lockdown,
        )
        reader.end()
        assert reader.confinement.restricted is False
    assert tried == [True, False, False]
    assert lockdown.failure == reason


def test_where_no_process_starts_at_all_locking_down_is_tried_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def start(lock_down: bool) -> child.ReadingProcess:
        raise OSError(lock_down)

    monkeypatch.setattr(
        child,
        "can_lock_down",
        lambda: True,
    )
    lockdown = child.LockdownTrial()
    with pytest.raises(OSError, match="False"):
        child.start_child(
            Limits(),
            None,
            start,
            lockdown,
        )
    assert lockdown.failure == ""


@pytest.mark.skipif(SYSTEM != "windows", reason="no other system has such processes")
def test_a_reader_is_locked_down_and_gets_the_file_as_a_handle(
    tmp_path: Path, pool: Callable[..., Pool]
) -> None:
    reading = pool(seconds=AMPLE)
    outcome = reading.read(write(tmp_path / "a.pdf", office.pdf("The pelican.")), "pdf")
    assert [document.text for document in outcome.documents] == ["The pelican."]
    (reader,) = reading.children
    assert isinstance(reader.process, child.LockedDownProcess)
    confinement = reader.confinement
    assert (confinement.restricted, confinement.low_integrity, confinement.job) == (True,) * 3


@pytest.mark.parametrize(
    ("confinement", "means", "complete"),
    [
        (Confinement(calls=True, landlock=4), ("seccomp", "Landlock"), True),
        (Confinement(files=True, calls=True), ("seccomp",), False),
        (replace(LOCKED_DOWN, job=True), ("job", "restricted token"), True),
        (LOCKED_DOWN, ("restricted token",), False),
        (
            Confinement(low_integrity=True, job=True, refuses_writing=True),
            ("job", "low integrity"),
            False,
        ),
        (Confinement(low_integrity=True, refuses_writing=True), ("low integrity",), False),
        (Confinement(job=True), ("job",), False),
        (Confinement(files=True), ("limits",), False),
    ],
)
def test_what_is_refused_is_what_holds(
    confinement: Confinement, means: tuple[str, ...], *, complete: bool
) -> None:
    refused, by = confinement.describe()
    assert refused
    assert [word in by for word in means] == [True] * len(means)
    assert confinement.is_complete is complete


def test_nothing_is_claimed_where_nothing_holds() -> None:
    assert Confinement().describe() == ("", "")
    unheeded = Confinement(low_integrity=True, restricted=True)
    assert unheeded.describe() == ("", "")


def test_what_was_tried_in_vain_is_named_apart_from_what_was_not() -> None:
    refused, _ = replace(LOCKED_DOWN, refuses_network=False, job=True).describe()
    assert [part.count(",") for part in refused.split("; not ")] == [2, 0]
    assert refused.endswith("the network")
