"""What a run writes down holds no text of the documents, also when it fails, unless the user
asks for it.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from fixtures.pipeline import ROOT, engine, environment

from engine.core.errors import fault_record

SECRET = "the vault opens at nine"


def runs_of_words(text: str) -> set[tuple[str, ...]]:
    """Every three words that stand in a row, without those of numbers alone."""
    words = re.findall(r"\w+", text.lower())
    runs = set(zip(words, words[1:], words[2:], strict=False))
    return {run for run in runs if not all(map(str.isdecimal, run))}


def test_no_three_words_of_the_documents_and_no_query_are_in_the_logs(project: Path) -> None:
    from engine.project.folder import ProjectFolder

    engine("train", str(project), "--force")  # in a process of its own, whose output is kept
    store = ProjectFolder.open(project).store()
    stored = list(store.documents(with_text=True))
    texts = [document.text for document in stored]
    queries = [query.text for query in (*store.queries(), *store.judged())]
    store.close()
    documents = set().union(*map(runs_of_words, texts))
    query_words = set().union(*map(runs_of_words, queries))
    logs = [
        path
        for path in (project / "runs").rglob("*")
        if path.is_file() and "checkpoints" not in path.parts
    ]
    assert {"events.jsonl", "run.json", "train.log"} <= {path.name for path in logs}
    assert min(len(documents), len(query_words)) > 200
    own_words = runs_of_words(
        " ".join(path.read_text("utf-8") for path in (ROOT / "engine").rglob("*.py"))
    )  # such as "at the end"
    # A file that takes long to read is named, and names may stand in the text, too.
    names = set().union(*(runs_of_words(document.path) for document in stored))
    for path in logs:
        log_words = runs_of_words(path.read_text("utf-8", "replace"))
        assert not log_words & (documents - own_words - names), path.name
        assert not log_words & (query_words - own_words), path.name


def fail() -> BaseException:
    try:
        try:
            raise KeyError(SECRET)
        except KeyError as error:
            raise ValueError(f"cannot use {SECRET}") from error
    except ValueError as error:
        return error


def test_a_fault_is_recorded_without_its_message(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("BMEMBED_LOG_TEXT", raising=False)
    record = fault_record(fail())
    assert "vault" not in record.replace(f'"{SECRET}"', "")
    assert record.index("KeyError") < record.index("ValueError")
    assert re.search(r"\bfail\b", record)
    monkeypatch.setenv("BMEMBED_LOG_TEXT", "1")
    assert f"cannot use {SECRET}" in fault_record(fail())


OF_A_THREAD = "t = threading.Thread(target=fail); t.start(); t.join()"
OF_RUBBISH = "Rubbish()"
OF_MEMORY = "raise RuntimeError('cannot read, out of memory: ' + quoted)"
OF_ITS_OWN = "raise RuntimeError('in: ' + quoted)"


@pytest.mark.parametrize(
    ("fault", "with_text"),
    [
        *((fault, False) for fault in (OF_A_THREAD, OF_RUBBISH, OF_MEMORY, OF_ITS_OWN)),
        (OF_ITS_OWN, True),
        *(
            pytest.param(fault, True, marks=pytest.mark.slow)
            for fault in (OF_A_THREAD, OF_RUBBISH, OF_MEMORY)
        ),
    ],
)
def test_a_fault_of_a_stage_logs_no_text_unless_that_is_asked_for(
    project: Path, tmp_path: Path, fault: str, with_text: bool
) -> None:
    """A fault whose message quotes the document, in the stage's own process; some of them Python
    itself prints.
    """
    (tmp_path / "sitecustomize.py").write_text(
        "import sys, threading\n"
        "if 'engine.runs.stage_process' in sys.orig_argv:\n"
        "    project = sys.orig_argv[sys.orig_argv.index('engine.runs.stage_process') + 1]\n"
        "    quoted = open(project + '/documents/note.txt').read()\n"
        "    def fail(*rest):\n"
        "        raise ValueError('in: ' + quoted)\n"
        "    class Rubbish:\n"
        "        __del__ = fail\n"
        "    def broken(self, *rest, **named):\n"
        f"        {fault}\n"
        "        raise KeyError\n"
        "    import engine.lexical.stage as stage\n"
        "    stage.STAGE.run = broken\n"
    )
    (project / "documents" / "note.txt").write_text(SECRET)
    extra = {"BMEMBED_LOG_TEXT": "1"} if with_text else {}
    completed = subprocess.run(
        [sys.executable, "-m", "engine", "index", str(project), "--force"],
        capture_output=True,
        text=True,
        check=False,
        env={
            **environment(),
            **extra,
            "PYTHONPATH": os.pathsep.join([str(tmp_path), environment()["PYTHONPATH"]]),
        },
    )
    assert completed.returncode == (6 if fault == OF_MEMORY else 5), completed.stderr
    newest = max((project / "runs").iterdir())
    log = (newest / "index.log").read_text()
    assert ("RuntimeError" if fault in (OF_MEMORY, OF_ITS_OWN) else "ValueError") in log
    assert (SECRET in log) == with_text
    assert SECRET not in (newest / "events.jsonl").read_text()
    assert SECRET not in (newest / "run.json").read_text()
