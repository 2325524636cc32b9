"""The app as a person meets it: in a real terminal, by keys, from the first start to a hit."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import time
from pathlib import Path

import pytest
from fixtures.pipeline import ROOT, copy_documents
from fixtures.terminal import Terminal, terminal

QUESTION = "freezer door left open"


def project_of(found: Terminal, name: str) -> Path:
    return found.home / "bmembed" / "projects" / name


@pytest.mark.parametrize("size", [(80, 24), (200, 60)])
def test_from_the_first_start_to_a_hit(tmp_path: Path, size: tuple[int, int]) -> None:
    copy_documents(tmp_path / "papers", ("incidents",), 20)
    with terminal(tmp_path / "home", size) as found:
        found.start()
        assert "Try the sample" in found.until("New project")
        found.press("n")
        found.until("Kept in")
        found.type(str(tmp_path / "papers"))
        found.until("papers")
        found.press_until("Enter", "Read the documents")
        found.press("Enter")
        found.until("Continue")
        found.press("7")
        found.until("Hits come while you type", "hits ·")
        found.type(QUESTION)
        found.until("freezer")
        found.press("Down", "Enter")
        found.until("Freezer", "freezer")
        found.press("Escape")
        found.until("hits ·")
        found.press("C-q")
        found.until("Pane is dead")
    assert (project_of(found, "papers") / "project.toml").is_file()


@pytest.mark.slow
def test_the_sample_with_enter_only_through_a_lost_line(tmp_path: Path) -> None:
    """To the first adapted search with Enter alone; the line is lost in mid-training, the run goes on and is found again."""
    with terminal(tmp_path / "home") as found:
        found.start()
        found.until("Try the sample")
        found.press("Enter")
        found.until("Read the documents")
        found.press("Enter")
        found.until("Continue")
        found.press("Enter")
        found.until("Encoder")
        found.until("Continue")
        found.press("Enter")
        found.until("Generate")
        found.press("Enter")
        found.until("step 2 of", "step 3 of", seconds=300)
        found.cut()

        log = next(project_of(found, "sample").glob("runs/*[0-9a-f]/stage.json")).parent.parent
        size = sum(path.stat().st_size for path in log.glob("*/events.jsonl"))
        time.sleep(15)
        assert sum(path.stat().st_size for path in log.glob("*/events.jsonl")) > size, "the run ended with the line"

        found.start()
        found.until("Go to the run in progress")
        found.press("Enter")
        found.until("step ", seconds=60)
        found.until("Adaptation helped", "No difference shown", "not shown to be better", seconds=900)
        found.press("Enter")
        found.until("Hits come while you type", "hits ·")
        pressed = found.keys
        found.type(QUESTION)
        found.until("freezer")
        print(f"{pressed} key presses from the first start to the search field, {len(QUESTION)} of the question")
        assert pressed <= 12
    report = json.loads(next(project_of(found, "sample").glob("reports/*/report.json")).read_text())
    assert report["training"]["losses"]


def test_without_a_terminal_it_says_so() -> None:
    command = [sys.executable, "-m", "bmembed_tui"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL)
    assert done.returncode == 2
    assert "needs a terminal" in done.stderr
    assert not re.search("Traceback", done.stderr)
