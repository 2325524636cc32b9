"""Reading real files: outcomes, words and throughput beside other readers, and damaged files.

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
from typing import NamedTuple

import psutil
from peer_readers import PEERS, read_with_all, read_with_first

import engine
from engine.corpus.formats import UnreadableFileError
from engine.corpus.formats.recognition import find_true_format
from engine.corpus.sandbox.outcome import Limits, Outcome
from engine.corpus.sandbox.pool import Pool
from engine.corpus.scan.scan import ScannedFile, scan

SHARED = Path(__file__).resolve().parents[3] / "shared" / "data" / "office"
ENGINE = Path(engine.__file__).parent
WORD = re.compile(r"[^\W_]+")
# Counts of a format; the first three are printed also where they are 0.
COUNTS = (
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


class Readings(NamedTuple):
    """What comes of every file, and the seconds that all took, the processes' start included."""

    outcomes: list[Outcome]
    seconds: float


class Seconds(NamedTuple):
    """On the clock, and of the processors."""

    clock: float
    processor: float


def read_all(
    files: list[ScannedFile],
    limits: Limits,
    processes: int,
) -> Readings:
    """Read files as the product does."""
    pool = Pool(processes, limits)
    started = time.perf_counter()
    outcomes = list(
        pool.map(lambda file: pool.read(file.absolute, file.format), files, weight=_length)
    )
    seconds = time.perf_counter() - started
    pool.close()
    return Readings(outcomes, seconds)


def _length(outcome: Outcome) -> int:
    return outcome.length


def print_outcomes(files: list[ScannedFile], processes: int) -> None:
    """Print how many files gave text, and why the others did not."""
    outcomes, seconds = read_all(
        files,
        Limits(),
        processes,
    )
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


def compare_words(
    files: list[ScannedFile], processes: int, save: Path | None, against: Path | None
) -> None:
    """Print counts of the words of files' own text, not of files inside them, by format.

    Words that both peers find are missed if they are found neither on their own nor within a
    longer one. `against`: what `save` wrote earlier; words found then and not now are lost.
    """
    files = [file for file in files if true_format(file) in PEERS]
    words = []
    for outcome in read_all(files, Limits(), processes).outcomes:
        texts = [document.text for document in outcome.documents if not document.member]
        words.append(words_of("\n".join(texts)))
    with multiprocessing.get_context("spawn").Pool(processes) as pool:
        requests = [(str(file.absolute), true_format(file)) for file in files]
        peers_words = [
            [words_of(text) for text in texts]
            for texts in pool.map(read_with_all, requests, chunksize=4)
        ]
    former_words = json.loads(against.read_text()) if against else {}
    counts: dict[str, Counter[str]] = {}
    for file, own, peers in zip(files, words, peers_words, strict=True):
        format_counts = counts.setdefault(true_format(file), Counter())
        format_counts.update(_count_words(own, peers))
        former = set(former_words.get(str(file.absolute), ()))
        format_counts.update(_count_changes(own, former))
        if former_words:
            format_counts["opened"] += bool(own) and not former
    total = sum(counts.values(), Counter())
    for format, format_counts in [*sorted(counts.items()), ("all", total)]:
        cells = [
            f"{name} {format_counts[name]:,}"
            for name in COUNTS
            if format_counts[name] or name in COUNTS[:3]
        ]
        print(f"  {format:5}", ", ".join(cells))
    if save:
        paths = [str(file.absolute) for file in files]
        save.write_text(json.dumps(dict(zip(paths, map(sorted, words), strict=True))))


def _count_words(own: set[str], peers: list[set[str]]) -> dict[str, int]:
    """Return the counts of one file's words, and of those that its peers find."""
    agreed = set.intersection(*peers) if len(peers) > 1 else set()
    counts = {
        "files": 1,
        "text": bool(own),
        "words": len(own),
        "agreed": len(agreed),
        "missed": len(find_lacking(agreed, own)),
    }
    for number, peer_words in enumerate(peers, 1):
        counts[f"peer {number}"] = bool(peer_words)
    return counts


def _count_changes(own: set[str], former: set[str]) -> dict[str, int]:
    """Return the counts of one file's words, compared with those that were found earlier."""
    return {
        "former": len(former),
        "lost": len(with_letters(find_lacking(former, own))),
        "gained": len(with_letters(find_lacking(own, former))),
        "emptied": bool(former) and not own,
    }


def true_format(file: ScannedFile) -> str:
    """Return the format that the content has, that of the name where this is not found out."""
    try:
        return find_true_format(
            file.absolute,
            file.format,
            file.absolute.read_bytes(),
        )
    except (UnreadableFileError, OSError):
        return file.format


def words_of(text: str) -> set[str]:
    """Return the words of a text, in small letters."""
    return set(WORD.findall(text.casefold()))


def with_letters(words: set[str]) -> set[str]:
    """Return the words that have a letter: a number shown in another way is not lost."""
    return {word for word in words if any(map(str.isalpha, word))}


def find_lacking(expected: set[str], words: set[str]) -> set[str]:
    """Return the expected words that are not there, nor part of one: a line's end parts some."""
    joined = " ".join(words)
    return {word for word in expected - words if word not in joined}


def compare_throughput(files: list[ScannedFile], processes: int) -> None:
    """Print the throughput of office files beside that of the libraries alone.

    Both have as many processes, in turns. The processor time, of this process and all that it
    started, leans less on what else computes than the clock.
    """
    office_formats = PEERS.keys() - {"html", "eml"}
    files = [file for file in files if true_format(file) in office_formats and not _is_locked(file)]
    files *= 3
    requests = [(str(file.absolute), true_format(file)) for file in files]
    own_runs = []
    direct_runs = []
    for _ in range(ROUNDS):
        processor_before = _processor_seconds()
        seconds = read_all(files, Limits(), processes).seconds
        own_runs.append(Seconds(seconds, _processor_seconds() - processor_before))
        processor_before = _processor_seconds()
        started = time.perf_counter()
        with multiprocessing.get_context("spawn").Pool(processes) as pool:
            pool.map(
                read_with_first,
                requests,
                chunksize=8,
            )
            seconds = time.perf_counter() - started
            pool.close()
            pool.join()
        direct_runs.append(Seconds(seconds, _processor_seconds() - processor_before))
    print(
        f"{len(files)} office files that are not locked, {processes} processes, best of {ROUNDS}:"
    )
    for place, name in enumerate(("clock", "processor time")):
        own = min(run[place] for run in own_runs)
        direct = min(run[place] for run in direct_runs)
        print(
            f"  by the {name} {own:.2f} s, the libraries called directly {direct:.2f} s:"
            f" {direct / own:.2f} of their throughput"
        )


def _processor_seconds() -> float:
    """Return the processor time of this process and of its children that have ended."""
    usages = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(usage.ru_utime + usage.ru_stime for usage in usages)


def _is_locked(file: ScannedFile) -> bool:
    """Return whether a file opens with a password only, if that is known without reading it."""
    try:
        find_true_format(
            file.absolute,
            file.format,
            file.absolute.read_bytes(),
        )
    except UnreadableFileError as error:
        return error.kind == "encrypted"
    return False


def read_mutants(
    files: list[ScannedFile],
    count: int,
    processes: int,
) -> None:
    """Print the outcomes of files with flipped, cut, doubled or zeroed bytes."""
    random.seed(1)
    small = [file for file in files if file.size < 300_000]
    with tempfile.TemporaryDirectory() as folder:
        mutants = []
        for number in range(count):
            file = random.choice(small)
            path = Path(folder, f"{number:05}{file.absolute.suffix or '.eml'}")
            path.write_bytes(mutate(file.absolute.read_bytes()))
            mutants.append(ScannedFile(folder, path.name, str(path), 0, 0, file.format))
        watch = _MemoryWatch()
        outcomes, seconds = read_all(
            mutants,
            Limits(seconds=20),
            processes,
        )
        peak = watch.end()
    counts = Counter(outcome.kind or "text" for outcome in outcomes)
    print(
        f"{count} mutated files in {seconds:.1f} s: {dict(counts.most_common())}; largest reading"
        f" process {peak / 1e6:,.0f} MB"
    )
    for outcome in outcomes:
        if "crashed" in outcome.reason or outcome.kind in ("timed out", "out of memory"):
            print(f"  {outcome.kind}: {outcome.reason}")


def mutate(data: bytes) -> bytes:
    """Change a few bytes, cut off the end, double a piece, or zero one."""
    content = bytearray(data)
    kind = random.randrange(4)
    if not content:
        return b""
    start = random.randrange(len(content))
    if kind == 0:
        for _ in range(random.randint(1, 30)):
            content[random.randrange(len(content))] = random.randrange(256)
    elif kind == 1:
        del content[start:]
    else:
        piece = content[start : start + random.randint(1, 2000)]
        content[start : start + len(piece)] = piece * 2 if kind == 2 else bytes(len(piece))
    return bytes(content)


class _MemoryWatch:
    """The largest memory that any child of this process has had, looked at ten times a second."""

    def __init__(self) -> None:
        import threading

        self._peak = 0
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._look, daemon=True)
        self._thread.start()

    def _look(self) -> None:
        process = psutil.Process()
        while not self._stop.wait(0.1):
            for child in process.children(recursive=True):
                try:
                    self._peak = max(self._peak, child.memory_info().rss)
                except psutil.Error:
                    continue

    def end(self) -> int:
        """Stop looking, and return the largest size in bytes."""
        self._stop.set()
        self._thread.join()
        return self._peak


def ingest_unchanged(count: int) -> None:
    """Print how long a second ingest takes over files that did not change."""
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
    """Print all measurements."""
    parser = argparse.ArgumentParser()
    parser.add_argument(
        "folder",
        type=Path,
        nargs="?",
        default=SHARED,
    )
    parser.add_argument(
        "--processes",
        type=int,
        default=os.cpu_count() or 1,
    )
    parser.add_argument(
        "--mutants",
        type=int,
        default=3000,
    )
    parser.add_argument(
        "--unchanged",
        type=int,
        default=10_000,
    )
    parser.add_argument("--without-throughput", action="store_true")
    parser.add_argument("--save", type=Path)
    parser.add_argument("--against", type=Path)
    options = parser.parse_args()
    if not options.folder.is_dir():
        print(f"{options.folder} is missing: nothing is measured.")
        return 0
    compileall.compile_dir(ENGINE, quiet=1)  # as an installation leaves it
    files = scan([options.folder]).files
    print_outcomes(files, options.processes)
    compare_words(
        files,
        options.processes,
        options.save,
        options.against,
    )
    if not options.without_throughput:
        compare_throughput(files, options.processes)
    if options.mutants:
        read_mutants(
            files,
            options.mutants,
            options.processes,
        )
    if options.unchanged:
        ingest_unchanged(options.unchanged)
    return 0


if __name__ == "__main__":
    sys.exit(main())
