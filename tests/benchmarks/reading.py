"""Reading real files: what comes of each, words compared with two other readers, throughput with
the libraries called directly, and what files that harm was done to do.

python tests/benchmarks/reading.py [FOLDER] [--processes N] [--mutants 3000] [--unchanged 10000]
[--save W.json] [--against W.json]
"""

from __future__ import annotations

import argparse
import compileall
import json
import multiprocessing
import os
import random
import re
import resource
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

import psutil
from peer_readers import PEERS, first, texts

import engine
from engine.corpus.formats import UnreadableFileError
from engine.corpus.formats.recognition import find_true_format
from engine.corpus.sandbox.outcome import Limits, Outcome
from engine.corpus.sandbox.pool import Pool
from engine.corpus.scan.scan import ScannedFile, scan

SHARED = Path(__file__).resolve().parents[3] / "shared" / "data" / "office"
ENGINE = Path(engine.__file__).parent
WORD = re.compile(r"[^\W_]+")
ROW = (
    "files",
    "text",
    "words",
    "peer 1",
    "peer 2",
    "agreed",
    "missed",
    "former",
    "lost",
    "gained",
    "emptied",
    "opened",
)
ROUNDS = 3


def read_all(
    files: list[ScannedFile], limits: Limits, processes: int
) -> tuple[list[Outcome], float]:
    """What comes of every file, and the seconds that it took, the processes' start included."""
    pool = Pool(processes, limits)
    started = time.perf_counter()
    outcomes = list(
        pool.map(lambda file: pool.read(file.absolute, file.format), files, weight=_length)
    )
    seconds = time.perf_counter() - started
    pool.close()
    return outcomes, seconds


def _length(outcome: Outcome) -> int:
    return outcome.length


def outcomes_of(files: list[ScannedFile], processes: int) -> None:
    """Of all files: how many gave text, and why the others did not."""
    outcomes, seconds = read_all(files, Limits(), processes)
    counts = Counter(
        outcome.kind or ("closed" if outcome.inaccessible else "text") for outcome in outcomes
    )
    parts = Counter(part.kind for outcome in outcomes for part in outcome.left_out)
    print(
        f"{len(files)} files in {seconds:.1f} s, {processes} processes:"
        f" {dict(counts.most_common())}"
    )
    print(
        f"  inside them {sum(len(outcome.documents) for outcome in outcomes)} documents; left out:"
        f" {dict(parts)}"
    )


def words(
    files: list[ScannedFile], processes: int, save: Path | None, against: Path | None
) -> None:
    """By format: files with text, distinct words of their own text (not of files inside them),
    and words that both peers find and we miss, on their own or within a longer one. `against` is
    what `save` wrote earlier: words found then and not now.
    """
    chosen = [file for file in files if true_ending(file) in PEERS]
    outcomes, _ = read_all(chosen, Limits(), processes)
    with multiprocessing.get_context("spawn").Pool(processes) as pool:
        asked = [(str(file.absolute), true_ending(file)) for file in chosen]
        peers = [
            [distinct(text) for text in found] for found in pool.map(texts, asked, chunksize=4)
        ]
    own = [
        distinct("\n".join(found.text for found in outcome.documents if not found.member))
        for outcome in outcomes
    ]
    if against:
        before = json.loads(against.read_text())
    else:
        before = {}
    rows: dict[str, Counter[str]] = {}
    for file, ours, theirs in zip(chosen, own, peers, strict=True):
        row = rows.setdefault(true_ending(file), Counter())
        path = str(file.absolute)
        if len(theirs) > 1:
            agreed = set.intersection(*theirs)
        else:
            agreed = set()
        row.update(
            files=1,
            text=bool(ours),
            words=len(ours),
            agreed=len(agreed),
            missed=len(lacking(agreed, ours)),
        )
        row.update({f"peer {at + 1}": bool(found) for at, found in enumerate(theirs)})
        former = set(before.get(path, ()))
        row.update(
            former=len(former),
            lost=len(lettered(lacking(former, ours))),
            gained=len(lettered(lacking(ours, former))),
        )
        row.update(
            emptied=bool(former) and not ours, opened=bool(ours) and not former if before else 0
        )
    for name, row in [*sorted(rows.items()), ("all", sum(rows.values(), Counter()))]:
        print(
            f"  {name:5}",
            ", ".join(f"{key} {row[key]:,}" for key in ROW if row[key] or key in ROW[:3]),
        )
    if save:
        save.write_text(
            json.dumps(
                {str(file.absolute): sorted(ours) for file, ours in zip(chosen, own, strict=True)}
            )
        )


def true_ending(file: ScannedFile) -> str:
    """The format that the content has, where that can be found out."""
    try:
        return find_true_format(file.absolute, file.format, file.absolute.read_bytes())
    except (UnreadableFileError, OSError):
        return file.format


def distinct(text: str) -> set[str]:
    """The words of a text, in small letters."""
    return set(WORD.findall(text.casefold()))


def lettered(words: set[str]) -> set[str]:
    """Those with a letter: a number that is shown in another way is not lost."""
    return {word for word in words if any(map(str.isalpha, word))}


def lacking(wanted: set[str], found: set[str]) -> set[str]:
    """The words that are neither found nor part of a found one: a line's end parts some."""
    joined = " ".join(found)
    return {word for word in wanted - found if word not in joined}


def throughput(files: list[ScannedFile], processes: int) -> None:
    """The same office files through the pool and through the libraries alone, in as many
    processes, in turns: by the clock and by the processor time of this process and all that it
    started, which leans less on what else computes.
    """
    chosen = [
        file
        for file in files
        if true_ending(file) in PEERS and true_ending(file) not in ("html", "eml")
    ]
    chosen = [file for file in chosen if not _is_locked(file)] * 3
    asked = [(str(file.absolute), true_ending(file)) for file in chosen]
    ours: list[tuple[float, float]] = []
    theirs: list[tuple[float, float]] = []
    for _ in range(ROUNDS):
        used = _computing()
        _, seconds = read_all(chosen, Limits(), processes)
        ours.append((seconds, _computing() - used))
        used = _computing()
        started = time.perf_counter()
        with multiprocessing.get_context("spawn").Pool(processes) as pool:
            pool.map(first, asked, chunksize=8)
            seconds = time.perf_counter() - started
            pool.close()
            pool.join()
        theirs.append((seconds, _computing() - used))
    print(
        f"{len(chosen)} office files that are not locked, {processes} processes, best of {ROUNDS}:"
    )
    for at, by in enumerate(("clock", "processor time")):
        own = min(run[at] for run in ours)
        direct = min(run[at] for run in theirs)
        print(
            f"  by the {by} {own:.2f} s, the libraries called directly {direct:.2f} s:"
            f" {direct / own:.2f} of their throughput"
        )


def _computing() -> float:
    """Seconds that this process and those of its children that have ended computed, theirs
    included.
    """
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(one.ru_utime + one.ru_stime for one in used)


def _is_locked(file: ScannedFile) -> bool:
    """Whether a file opens with a password only, as far as is told without reading it."""
    try:
        find_true_format(file.absolute, file.format, file.absolute.read_bytes())
    except UnreadableFileError as error:
        return error.kind == "encrypted"
    return False


def mutants(files: list[ScannedFile], count: int, processes: int) -> None:
    """Files with flipped, cut, doubled or zeroed bytes."""
    random.seed(1)
    small = [file for file in files if file.size < 300_000]
    with tempfile.TemporaryDirectory() as folder:
        made = []
        for number in range(count):
            file = random.choice(small)
            path = Path(folder, f"{number:05}{file.absolute.suffix or '.eml'}")
            path.write_bytes(mutated(file.absolute.read_bytes()))
            made.append(ScannedFile(folder, path.name, str(path), 0, 0, file.format))
        watch = _Peak()
        outcomes, seconds = read_all(made, Limits(seconds=20), processes)
        peak = watch.end()
    counts = Counter(outcome.kind or "text" for outcome in outcomes)
    print(
        f"{count} mutated files in {seconds:.1f} s: {dict(counts.most_common())}; largest reading"
        f" process {peak / 1e6:,.0f} MB"
    )
    for outcome in outcomes:
        if "crashed" in outcome.reason or outcome.kind in ("timed out", "out of memory"):
            print(f"  {outcome.kind}: {outcome.reason}")


def mutated(data: bytes) -> bytes:
    """One of: a few bytes changed, the end cut off, a piece doubled, a piece zeroed."""
    content = bytearray(data)
    kind = random.randrange(4)
    if not content:
        return b""
    at = random.randrange(len(content))
    if kind == 0:
        for _ in range(random.randint(1, 30)):
            content[random.randrange(len(content))] = random.randrange(256)
    elif kind == 1:
        del content[at:]
    else:
        piece = content[at : at + random.randint(1, 2000)]
        content[at : at + len(piece)] = piece * 2 if kind == 2 else bytes(len(piece))
    return bytes(content)


class _Peak:
    """The largest resident memory that any child of this process has had, looked at ten times a
    second.
    """

    def __init__(self) -> None:
        import threading

        self._most = 0
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._look, daemon=True)
        self._thread.start()

    def _look(self) -> None:
        me = psutil.Process()
        while not self._stop.wait(0.1):
            for child in me.children(recursive=True):
                try:
                    self._most = max(self._most, child.memory_info().rss)
                except psutil.Error:
                    continue

    def end(self) -> int:
        """Stop looking; the largest size seen."""
        self._stop.set()
        self._thread.join()
        return self._most


def unchanged(count: int) -> None:
    """A second ingest over files that did not change."""
    from engine.api import Project

    with tempfile.TemporaryDirectory() as folder:
        documents = Path(folder, "documents")
        for number in range(count):
            path = documents / f"{number // 500:03}" / f"{number:05}.txt"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(f"The pelican {number} boards at dawn.\n")
        project = Project.create(Path(folder, "project"), [documents])
        times = []
        for _ in range(3):
            started = time.perf_counter()
            project.run(("ingest",))
            times.append(time.perf_counter() - started)
        project.close()
    print(f"{count} files: first ingest {times[0]:.1f} s, a second one {min(times[1:]):.1f} s")


def main() -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=Path, nargs="?", default=SHARED)
    parser.add_argument("--processes", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--mutants", type=int, default=3000)
    parser.add_argument("--unchanged", type=int, default=10_000)
    parser.add_argument("--without-throughput", action="store_true")
    parser.add_argument("--save", type=Path)
    parser.add_argument("--against", type=Path)
    asked = parser.parse_args()
    if not asked.folder.is_dir():
        print(f"{asked.folder} is missing: nothing is measured.")
        return 0
    compileall.compile_dir(ENGINE, quiet=1)  # as an installation leaves it
    files = scan([asked.folder]).files
    outcomes_of(files, asked.processes)
    words(files, asked.processes, asked.save, asked.against)
    if not asked.without_throughput:
        throughput(files, asked.processes)
    if asked.mutants:
        mutants(files, asked.mutants, asked.processes)
    if asked.unchanged:
        unchanged(asked.unchanged)
    return 0


if __name__ == "__main__":
    sys.exit(main())
