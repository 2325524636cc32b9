"""A run under Wine that is killed at random moments loses nothing: `kill.py [TIMES] [SEED]`.

Each kill is what TerminateProcess does. It ends a process of `recover.py`, which does the work of
its stages itself, or, every fifth time, `engine run`, whose stage has to notice. Then the next run
must succeed, and its search must find the documents that were added before the kills. Every tenth
run embeds, too, by a tiny encoder: it loads torch, which takes longest.
"""

from __future__ import annotations

import json
import os
import random
import select
import subprocess
import sys
import tempfile
import time
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from smoke import run_engine
from wine import ROOT, build_command, build_environment, windows_path

WORDS = (
    "anchor",
    "bollard",
    "capstan",
    "davit",
    "ensign",
    "fender",
    "gangway",
    "hawser",
)
KEYWORDS = "ingest,index"
ALL = "ingest,index,embed"
SECONDS = 1800.0
ANSWER = "answer "
BUILD_MODEL = """
import sys
from pathlib import Path
from fixtures.tiny_model import build_tiny_model
build_tiny_model(Path(sys.argv[1]))
"""


class Worker:
    """A process of `recover.py`, which runs a project's stages in itself, and searches it."""

    def __init__(self, project: str, documents: str) -> None:
        script = windows_path(Path(__file__).with_name("recover.py"))
        self._process = subprocess.Popen(
            build_command([script, project, documents]),
            env=build_environment(SECONDS),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
        )
        self.read_answer()  # its libraries are loaded

    def send(self, stages: str, words: list[str]) -> None:
        """Begin to run the stages, and to search the words."""
        assert self._process.stdin is not None
        line = json.dumps([stages.split(","), words]) + "\n"
        self._process.stdin.write(line.encode())
        self._process.stdin.flush()

    def read_answer(self) -> str:
        """Wait for the end of what was begun; return "good", or what went wrong."""
        assert self._process.stdout is not None
        printed = []
        for data in self._process.stdout:
            line = data.decode(errors="replace")
            if line.startswith(ANSWER):
                return str(json.loads(line.removeprefix(ANSWER)))
            printed.append(line)
        return "the process ended\n" + "".join(printed)

    def kill(self) -> bool:
        """End the process; return whether it was at work."""
        readable, _, _ = select.select(
            [self._process.stdout],
            [],
            [],
            0,
        )
        self._process.kill()
        self._process.wait()
        # Not read to its end: under Wine, a child that was just being created keeps it open.
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                with suppress(OSError):
                    pipe.close()
        return not readable


@dataclass
class Story:
    """A project that is run, killed and run again.

    `seconds`: how long the quickest whole runs took, by their stages. `words`: one for each
    document.
    """

    folder: Path
    rng: random.Random
    words: list[str] = field(default_factory=list)
    seconds: dict[str, float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Make the model and the project."""
        (self.folder / "documents").mkdir()
        subprocess.run(
            [sys.executable, "-c", BUILD_MODEL, str(self.folder / "model")],
            env={**os.environ, "PYTHONPATH": str(ROOT / "tests")},
            check=True,
        )
        self.project = windows_path(self.folder / "project")
        self._documents = windows_path(self.folder / "documents")
        self._worker = Worker(self.project, self._documents)

    def add_document(self) -> None:
        """Write a document that its first word finds."""
        number = len(self.words)
        word = f"{WORDS[number % len(WORDS)]}{number}"
        text = f"The {word} lies on the quay."
        (self.folder / "documents" / f"{word}.txt").write_text(text)
        self.words.append(word)

    def run(self, stages: str) -> str:
        """Run the stages to their end and search; return "good", or what went wrong."""
        started = time.monotonic()
        self._worker.send(stages, self.words)
        outcome = self._worker.read_answer()
        seconds = time.monotonic() - started
        self.seconds[stages] = min(seconds, self.seconds.get(stages, seconds))
        return outcome

    def kill_worker(self, stages: str) -> bool:
        """Kill the process that runs the stages itself; return whether it was still at work."""
        self._worker.send(stages, self.words)
        time.sleep(self.rng.uniform(0.0, 1.0) * self.seconds[stages])
        was_running = self._worker.kill()
        self._worker = Worker(self.project, self._documents)
        return was_running

    def kill_engine(self) -> bool:
        """Kill `engine run`, whose stage goes on; return whether it was still at work."""
        command = build_command(["-m", "engine", "run", self.project, "--only", KEYWORDS])
        nothing = subprocess.DEVNULL
        environment = build_environment(SECONDS)
        if "engine" not in self.seconds:
            started = time.monotonic()
            run_engine(
                "run",
                self.project,
                "--only",
                KEYWORDS,
            )
            self.seconds["engine"] = time.monotonic() - started
            self.add_document()
        run = subprocess.Popen(
            command, env=environment, stdin=nothing, stdout=nothing, stderr=nothing
        )
        time.sleep(self.rng.uniform(0.1, 1.0) * self.seconds["engine"])
        was_running = run.poll() is None
        run.kill()
        run.wait()
        return was_running

    def end(self) -> None:
        """End the process that is left."""
        self._worker.kill()


def main(times: int, seed: int) -> int:
    """Kill as many runs; return 0 if nothing was lost."""
    good = 0
    running = 0
    with tempfile.TemporaryDirectory(dir=os.environ.get("BMEMBED_SMOKE")) as folder:
        story = Story(Path(folder), random.Random(seed))
        story.add_document()
        print(f"first run: {story.run(KEYWORDS)}, {story.seconds[KEYWORDS]:.1f} s", flush=True)
        for number in range(1, times + 1):
            stages = ALL if number % 10 == 3 else KEYWORDS
            if stages not in story.seconds:
                print(f"first run that embeds: {story.run(stages)}", flush=True)
            story.add_document()
            started = time.monotonic()
            if number % 5:
                was_running = story.kill_worker(stages)
            else:
                was_running = story.kill_engine()
            outcome = story.run(stages)
            good += outcome == "good"
            running += was_running
            took = time.monotonic() - started
            print(
                f"{number}: {stages}, at work: {was_running}, {outcome}, {took:.0f} s", flush=True
            )
        story.end()
        story.add_document()
        run_engine(
            "run",
            story.project,
            "--only",
            KEYWORDS,
        )
        output = run_engine(
            "search",
            story.project,
            story.words[-1],
            "--mode",
            "bm25",
            "--json",
        )
        is_found = json.loads(output)["hits"][0]["path"] == f"{story.words[-1]}.txt"
    print(f"{good} of {times} good; {running} runs were at work when they were killed")
    print(f"a last run of the command line finds its document: {is_found}")
    return int(good < times or not is_found)


if __name__ == "__main__":
    numbers = [int(argument) for argument in sys.argv[1:3]]
    sys.exit(main(*(numbers + [50, 0][len(numbers) :])))
