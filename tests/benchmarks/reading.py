"""Reading real files: what comes of each, how fast beside kreuzberg called directly, and what files that harm was done to do.

python tests/benchmarks/reading.py [FOLDER] [--processes N] [--mutants 3000] [--unchanged 10000]
"""

from __future__ import annotations

import argparse
import compileall
import multiprocessing
import os
import random
import resource
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import psutil

import engine
from engine.corpus.formats import FORMATS, ending_of, true_format
from engine.corpus.inside import files_inside, may_hold_files
from engine.corpus.readers import Member, UnreadableFileError
from engine.corpus.sandbox.outcome import Limits, Outcome
from engine.corpus.sandbox.pool import Pool
from engine.corpus.scan import ScannedFile, scan

SHARED = Path(__file__).resolve().parents[3] / "shared" / "data" / "office"
ENGINE = Path(engine.__file__).parent
DIRECT = frozenset({"pdf", "docx", "doc", "pptx", "ppt", "xlsx", "xls", "odt", "ods", "rtf", "epub"})
BESIDE = frozenset({"html", "eml", "msg", "txt", "md", "csv", "json", "zip"})  # which kreuzberg reads, too
PAGED = ("pdf", "pptx", "docx")
ROUNDS = 3


def read_all(files: list[ScannedFile], limits: Limits, processes: int) -> tuple[list[Outcome], float]:
    """What comes of every file, and the seconds that it took, the processes' start included."""
    pool = Pool(processes, limits)
    started = time.perf_counter()
    outcomes = list(pool.map(lambda file: pool.read(file.absolute, file.format), files, weight=_length))
    seconds = time.perf_counter() - started
    pool.close()
    return outcomes, seconds


def _length(outcome: Outcome) -> int:
    return outcome.length


def directly(path: str) -> str:
    """kreuzberg without anything around it: the text alone, with the structure and pages that the engine shows of it."""
    from kreuzberg import (
        ConcurrencyConfig,
        ExtractionConfig,
        KreuzbergError,
        PageConfig,
        extract_bytes_sync,
        extract_file_sync,
    )

    from engine.corpus.office import MIME

    format = FORMATS[ending_of(path)]
    config = ExtractionConfig(
        use_cache=False, enable_quality_processing=False, output_format="plain", disable_ocr=True,
        pages=PageConfig(extract_pages=True) if format in PAGED else None,
        include_document_structure=format not in PAGED[:2],
        concurrency=ConcurrencyConfig(max_threads=1),
    )  # fmt: skip
    try:
        if format in BESIDE:
            return str(extract_file_sync(path, None, config).content)
        return str(extract_bytes_sync(Path(path).read_bytes(), MIME[format], config).content)
    except (KreuzbergError, OSError, ValueError, RuntimeError):
        return ""


def by_default(path: str) -> str:
    """kreuzberg as it is without a word of ours, but for what it would keep of a former pass."""
    from kreuzberg import ExtractionConfig, KreuzbergError, extract_file_sync

    try:
        return str(extract_file_sync(path, None, ExtractionConfig(use_cache=False)).content)
    except (KreuzbergError, OSError, ValueError, RuntimeError):
        return ""


PEERS = {"kreuzberg alone": directly, "kreuzberg with its own settings": by_default}


def outcomes_of(files: list[ScannedFile], processes: int) -> None:
    """Of all files: how many gave text, and why the others did not."""
    outcomes, seconds = read_all(files, Limits(), processes)
    counts = Counter(outcome.kind or ("closed" if outcome.closed else "text") for outcome in outcomes)
    parts = Counter(part.kind for outcome in outcomes for part in outcome.left_out)
    print(f"{len(files)} files in {seconds:.1f} s, {processes} processes: {dict(counts.most_common())}")
    print(f"  inside them {sum(len(outcome.documents) for outcome in outcomes)} documents; left out: {dict(parts)}")


def throughput(files: list[ScannedFile], processes: int, what: str, unpacked: Sequence[Path] = ()) -> None:
    """The same office files through the pool and through kreuzberg alone, in as many processes, alternating: by the clock, and by
    the processor time of this process and all that it started, which leans less on what else computes. The `unpacked` files are
    given to kreuzberg, too: they lie inside the others.
    """
    chosen, paths = files * 3, [str(path) for path in (*(file.absolute for file in files), *unpacked)] * 3
    ours: list[tuple[float, float]] = []
    theirs: dict[str, list[tuple[float, float]]] = {name: [] for name in PEERS}
    told: dict[str, int] = {}
    for _ in range(ROUNDS):
        used, (outcomes, seconds) = _computing(), read_all(chosen, Limits(), processes)
        ours.append((seconds, _computing() - used))
        told[""] = sum(map(_length, outcomes))
        for name, peer in PEERS.items():
            taken, told[name] = _alone(peer, paths, processes)
            theirs[name].append(taken)
    print(f"{len(chosen)} {what}, {processes} processes, best of {ROUNDS}; {told['']:,} characters of text:")
    for at, by in enumerate(("clock", "processor time")):
        own = min(run[at] for run in ours)
        print(f"  by the {by} {own:.2f} s")
        for name, runs in theirs.items():
            ratio = min(run[at] for run in runs) / own
            text = ratio * told[""] / told[name]
            print(
                f"    {name} {ratio * own:.2f} s: {ratio:.2f} of its throughput in files, {text:.2f} in characters of text"
            )


def _alone(peer: Callable[[str], str], paths: list[str], processes: int) -> tuple[tuple[float, float], int]:
    """Seconds by the clock, and of processor time, that a peer takes for all files, the processes' start included; and the
    characters that it tells.
    """
    used, started = _computing(), time.perf_counter()
    with multiprocessing.get_context("spawn").Pool(processes) as pool:
        texts = pool.map(peer, paths, chunksize=8)
        seconds = time.perf_counter() - started
        pool.close()
        pool.join()
    return (seconds, _computing() - used), sum(map(len, texts))


def _computing() -> float:
    """Seconds that this process and those of its children that have ended computed, theirs included."""
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(one.ru_utime + one.ru_stime for one in used)


def compared(files: list[ScannedFile], processes: int) -> None:
    """All files whose names' endings tell kreuzberg of a format that it reads, and those of them that are not locked: it leaves
    these shut, where keys are derived for them here. Then office files alone; those that are not locked; these with kreuzberg
    given the files inside them as well, which it does not look for; and those that hold no files. In the last two both have the
    same to do.
    """
    chosen = [file for file in files if FORMATS.get(ending_of(file.path)) in DIRECT | BESIDE]
    throughput(chosen, processes, "files")
    throughput([file for file in chosen if not _is_locked(file)], processes, "files that are not locked")
    chosen = [file for file in files if FORMATS.get(ending_of(file.path)) in DIRECT]
    throughput(chosen, processes, "office files")
    chosen = [file for file in chosen if not _is_locked(file)]
    throughput(chosen, processes, "office files that are not locked")
    with tempfile.TemporaryDirectory() as folder:
        unpacked = list(_unpacked(chosen, Path(folder)))
        what = f"office files that are not locked, kreuzberg with the {3 * len(unpacked)} inside them as files of their own"
        throughput(chosen, processes, what, unpacked)
    chosen = [file for file in chosen if not may_hold_files(file.format, file.absolute.read_bytes())]
    throughput(chosen, processes, "office files that are not locked and hold no files")


def _unpacked(files: list[ScannedFile], folder: Path) -> Iterator[Path]:
    """The office files that lie right inside others, written to a folder."""
    for file in files:
        data = file.absolute.read_bytes()
        for number, found in enumerate(files_inside(file.format, data) if may_hold_files(file.format, data) else ()):
            if isinstance(found, Member) and FORMATS.get(ending_of(found.path)) in DIRECT:
                path = folder / f"{file.absolute.stem}-{number}{ending_of(found.path)}"
                path.write_bytes(found.data)
                yield path


def _is_locked(file: ScannedFile) -> bool:
    """Whether a file opens with a password only, as far as is told without reading it."""
    try:
        true_format(file.absolute, file.format, file.absolute.read_bytes())
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
            made.append(ScannedFile(folder, path.name, path, 0, 0, file.format))
        watch = _Peak()
        outcomes, seconds = read_all(made, Limits(seconds=20), processes)
        peak = watch.end()
    counts = Counter(outcome.kind or "text" for outcome in outcomes)
    print(
        f"{count} mutated files in {seconds:.1f} s: {dict(counts.most_common())}; largest reading process {peak / 1e6:,.0f} MB"
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
    """The largest resident memory that any child of this process has had, looked at ten times a second."""

    def __init__(self) -> None:
        import threading

        self._most, self._stop = 0, threading.Event()
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
    asked = parser.parse_args()
    if not asked.folder.is_dir():
        print(f"{asked.folder} is missing: nothing is measured.")
        return 0
    compileall.compile_dir(ENGINE, quiet=1)  # as an installation leaves it: kreuzberg's own modules are compiled, too
    files = scan([asked.folder]).files
    outcomes_of(files, asked.processes)
    if not asked.without_throughput:
        compared(files, asked.processes)
    if asked.mutants:
        mutants(files, asked.mutants, asked.processes)
    if asked.unchanged:
        unchanged(asked.unchanged)
    return 0


if __name__ == "__main__":
    sys.exit(main())
