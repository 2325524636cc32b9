"""Real llama.cpp at length: hundreds of answers, a crash of its process, and a server of it
behind a bad line.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
import urllib.request
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from fixtures.chat_models import chat_model, outcome
from fixtures.fake_endpoint import serving
from fixtures.fault_proxy import CUT, DELAY, DROP, ERROR, HALF_OPEN, spoiling
from fixtures.gguf_models import load
from fixtures.passages import answer_about
from fixtures.pipeline import engine_here, environment

from engine.core.records import Chunk
from engine.llm.chat import ChatModel
from engine.llm.prompts import Message
from engine.llm.requests import Reply, Request, UnansweredError
from engine.llm.shapes import EVENTS, PAIRS, QUESTIONS, Shape
from engine.project.folder import ProjectFolder
from engine.queries.llm.ledger import answer_files
from engine.queries.llm.prompted import PromptedWriter

Make = Callable[..., ProjectFolder]
SEGFAULT = Path(__file__).parents[1] / "fixtures" / "segfault"


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_five_hundred_answers_of_llama_cpp_are_all_whole(tiny_gguf_file: Path) -> None:
    """Each is JSON of the shape asked for and within its limit, in tokens.

    Where the limit has ended it, all but its last entry are the model's alone, and it is told
    (`cut`).
    """
    model = load(tiny_gguf_file)
    shapes: list[Shape] = [EVENTS, QUESTIONS, PAIRS]
    whole = cut = entries = 0
    for n in range(500):
        message = Message("Answer with JSON.", f"Passage {n}: the pump {n} stands in hall {n}.")
        reply = model.complete(Request(message, shapes[n % 3], 3, 700, n))
        assert reply.cut or 0 < model.count(reply.text) <= 700
        items = shapes[n % 3].read(reply.text)
        assert 0 <= len(items) <= 3
        whole, cut, entries = whole + 1, cut + reply.cut, entries + len(items) - reply.cut
    model.close()
    print(
        f"{whole} whole answers with {entries} finished entries, {cut} of them with a last one that"
        " its limit has ended"
    )
    assert whole == 500
    assert entries > 100, "random weights write many an empty list, which is an answer, too"


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("prompt", ["one-step", "two-step"])
def test_a_run_reads_every_answer_and_gives_up_if_none_is_usable(
    tmp_path: Path, tiny_gguf_file: Path, prompt: str
) -> None:
    """From the documents to `generate`, as a user runs it: of random weights no question is
    right, which 200 chunks show.
    """
    project = ProjectFolder.create(
        tmp_path / "project",
        {
            "corpus": {"paths": ["documents"]},
            "queries": {
                "backend": "gguf",
                "model": str(tiny_gguf_file),
                "prompt": prompt,
                "answer_tokens": 128,
                "consistency_top": 0,
            },
        },
    )
    (project.path / "documents").mkdir()
    for number in range(500):
        text = (
            f"The pump {number} stands in hall {number}. It was bought in the year {1500 + number}."
        )
        (project.path / "documents" / f"pump-{number}.txt").write_text(text)
    completed = subprocess.run(
        [
            sys.executable,
            "-m",
            "engine",
            "run",
            str(project.path),
            "--only",
            "ingest,index,generate",
        ],
        env=environment(),
        capture_output=True,
        text=True,
        timeout=3000,
        check=False,
    )
    assert completed.returncode == 5, completed.stderr
    assert "200 chunks" in completed.stderr
    (ledger,) = answer_files(project)
    answers = [json.loads(line) for line in ledger.read_text().splitlines()]
    reasons = Counter(reason for answer in answers for *_, reason in answer["lost"])
    print(f"{len(answers)} chunks answered, of their entries were dropped: {dict(reasons)}")
    assert len({answer["key"] for answer in answers}) == len(answers) >= 200
    assert {answer["problem"] for answer in answers} == {""}
    assert reasons.total() > 50, "entries were read; of random weights none can be right"


@pytest.mark.posix(reason="ctypes raises OSError for a forbidden address on Windows")
def test_a_segfault_of_the_models_process_loses_no_finished_item(
    asked_project: Make, tiny_gguf_file: Path
) -> None:
    project = asked_project(
        backend="gguf", model=str(tiny_gguf_file), answer_tokens=128, prompt="one-step"
    )
    command = [
        sys.executable,
        "-m",
        "engine",
        "generate",
        str(project.path),
    ]
    crashing = {
        **environment(),
        "PYTHONPATH": f"{SEGFAULT}{os.pathsep}{os.environ.get('PYTHONPATH', '')}",
        "SEGFAULT_AFTER": "2",
        "SEGFAULT_PROJECT": str(project.path),
    }
    completed = subprocess.run(
        command, env=crashing, capture_output=True, text=True, timeout=120, check=False
    )
    assert completed.returncode == 5
    assert "SIGSEGV" in completed.stderr or "crashed" in completed.stderr
    (ledger,) = answer_files(project)
    finished = ledger.read_text().splitlines()
    assert 2 <= len(finished) < 6
    engine_here("generate", str(project.path))
    lines = ledger.read_text().splitlines()
    assert lines[: len(finished)] == finished
    assert len({json.loads(line)["key"] for line in lines}) == len(lines) == 6, (
        "nothing is asked twice"
    )


@pytest.fixture(scope="module")
def server(tiny_gguf_file: Path) -> Iterator[str]:
    """The address of llama_cpp.server with the tiny model, started for real."""
    pytest.importorskip("uvicorn")
    pytest.importorskip("fastapi")
    import socket

    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    command = [
        sys.executable,
        "-m",
        "llama_cpp.server",
        "--model",
        str(tiny_gguf_file),
        "--host",
        "127.0.0.1",
        "--port",
        str(port),
        "--n_ctx",
        "2048",
        "--n_threads",
        "1",
        "--chat_format",
        "chatml",
    ]
    started = subprocess.Popen(
        command,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    url = f"http://127.0.0.1:{port}/v1"
    try:
        end = time.monotonic() + 60
        while time.monotonic() < end and started.poll() is None:
            with suppress(OSError):
                urllib.request.urlopen(f"{url}/models", timeout=5).close()
                break
            time.sleep(0.1)
        assert started.poll() is None, "the server ended"
        yield url
    finally:
        started.kill()
        started.wait()


def endpoint(url: str, seconds: float = 30) -> ChatModel:
    return chat_model(
        url,
        context=2048,
        seconds=seconds,
    )


@pytest.mark.parametrize("shape", [EVENTS, QUESTIONS, PAIRS])
def test_a_llama_cpp_server_answers(server: str, shape: Shape) -> None:
    model = endpoint(server)
    replies = [
        model.complete(Request(Message("Be brief.", "What is in it?"), shape, 1, 200, seed))
        for seed in range(3)
    ]
    assert all(reply.text.lstrip().startswith("{") for reply in replies)


def test_a_chunk_is_sent_to_a_llama_cpp_server(server: str) -> None:
    text = "The pump stands in hall 4. It was bought in 1998."
    answer = answer_about(
        PromptedWriter(endpoint(server), "one-step", 1, 64),
        Chunk(1, 0, 0, len(text), text, (), 9, text, "0" * 64, 0),
        "Pumps",
    )
    assert answer.seconds > 0
    assert "HTTP" not in answer.problem


def test_a_long_chunk_is_cut_by_a_llama_cpp_servers_own_tokens(server: str) -> None:
    """Of the tiny model each byte is a token.

    A server with a context of 2,048 refuses what does not fit.
    """
    text = "水泵在四号厅。" * 150  # 3,150 bytes
    model = endpoint(server)
    assert model.count(text) == len(text.encode()) + 1, "and one for the begin"
    answer = answer_about(
        PromptedWriter(model, "one-step", 8, 64),
        Chunk(1, 0, 0, len(text), text, (), 9, text, "0" * 64, 0),
        "Pumps",
    )
    assert "HTTP" not in answer.problem


def test_a_chunk_that_a_llama_cpp_server_refuses_is_sent_in_halves(server: str) -> None:
    """The settings promise a context of 8,192 tokens; the server has 2,048."""
    text = "水泵在四号厅。" * 96  # 2,016 bytes
    model = chat_model(
        server,
        context=8192,
        seconds=30,
    )
    answer = answer_about(
        PromptedWriter(model, "one-step", 8, 32),
        Chunk(1, 0, 0, len(text), text, (), 9, text, "0" * 64, 0),
        "Pumps",
    )
    assert "context" not in answer.problem


def through_a_bad_line(url: str) -> None:
    """What each fault is told as, and that the message after it goes through."""
    expected = [
        (DROP, "broke off"),
        (ERROR, "HTTP 500: no model"),
        (DELAY, ""),
        (CUT, "broke off"),
        (HALF_OPEN, "no answer within"),
        ("pass", ""),
    ]
    faults = [
        "pass",
        "pass",
        *(fault for fault, _ in expected),
    ]
    with spoiling(url, faults) as proxy:
        model = endpoint(proxy.url, seconds=5)
        for seed in range(2):
            # a server that knows one form of the schema only is asked twice at first
            if len(proxy.met) < 2:
                assert model.complete(
                    Request(Message("Be brief.", "What is in it?"), QUESTIONS, 1, 40, seed)
                ).text
        for seed, (fault, why) in enumerate(expected):
            request = Request(
                Message("Be brief.", "What is in it?"),
                QUESTIONS,
                1,
                40,
                seed,
            )
            result = outcome(model, request)
            if why:
                assert isinstance(result, UnansweredError), fault
                assert why in str(result)
                assert not result.lasting, "it is worth asking again in another run"
            else:
                assert isinstance(result, Reply), f"{fault}: {result}"
        assert proxy.met == faults


def test_a_bad_line_is_an_error_and_the_next_message_goes_through() -> None:
    with serving(lambda *_: '{"questions": []}') as served:
        through_a_bad_line(served.url)


def test_a_bad_line_to_a_llama_cpp_server_is_an_error_and_the_next_message_goes_through(
    server: str,
) -> None:
    through_a_bad_line(server)
