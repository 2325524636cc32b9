"""Who waits for whom: three threads, what is loaded when, searches that replace each other, a
repaired database.
"""

from __future__ import annotations

import importlib
import json
import threading
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from fixtures.serving import Answers, Slow, ask, ask_once, code, request

from engine.core.errors import ProjectBusyError
from engine.core.messages.search import Search
from engine.project.folder import ProjectFolder
from engine.project.store.artifact_info import EvaluationInfo, RerankerInfo
from engine.project.store.artifacts import Artifact
from engine.search import workers
from engine.search.searcher import Searcher
from engine.search.server import Server

SUPERSEDED = -32001
INVALID_PARAMS = -32602
INTERNAL = -32603
ENGINE = -32000
NO_METHOD = -32601


@pytest.fixture
def slow(
    indexed: Any,
    fake_encoder: Any,
    monkeypatch: pytest.MonkeyPatch,
) -> Iterator[Slow]:
    made = Slow(fake_encoder)
    monkeypatch.setattr(
        "engine.search.loaded.LoadedProject.query_encoder", lambda self, artifact: made
    )
    yield made
    made.go.set()


def test_bm25_and_other_methods_answer_while_a_semantic_search_is_under_way(
    project: ProjectFolder, slow: Slow
) -> None:
    output = Answers()

    def lines() -> Iterator[str]:
        yield request(
            "slow",
            "search",
            query="roof",
            mode="semantic",
        )
        assert slow.begun.wait(30)
        for key, text in (
            ("quick", request("quick", "search", query="roof", mode="bm25")),
            ("ping", request("ping", "ping")),
            ("other", request("other", "status")),
        ):
            yield text
            assert output.wait_for(key)
        assert output.ids() == ["quick", "ping", "other"]
        slow.go.set()

    Server(project, output, {"status": lambda: lambda: "fine"}).serve(lines())
    assert output.ids() == ["quick", "ping", "other", "slow"]


@pytest.mark.parametrize(
    ("named", "decided", "rerank", "light"),
    [
        ("r", "bm25", True, False),
        ("r", "bm25", None, False),
        ("r", "bm25", False, True),
        ("r", "hybrid", None, True),
        ("r", "", None, True),
        ("r", "", True, False),
        ("", "", True, False),
        ("", "bm25", None, True),
        ("", "", False, True),
    ],
)
def test_only_a_keyword_search_that_is_reranked_goes_to_the_thread_of_models(
    indexed: Any,
    project: ProjectFolder,
    monkeypatch: pytest.MonkeyPatch,
    named: str,
    decided: str,
    rerank: bool | None,
    light: bool,
) -> None:
    if decided:
        with closing(project.store()) as store:
            info = EvaluationInfo(reranker=RerankerInfo(True, "", "r", decided, 1.0))
            store.put_artifact(Artifact(info, "e", "reports/e"))
    names: dict[str, str] = {}
    search = Searcher.search

    def noted(self: Searcher, asked: Search, *stop: Any) -> Any:
        names[asked.query] = threading.current_thread().name
        return search(
            self,
            replace(asked, rerank=False),
            *stop,
        )

    monkeypatch.setattr(Searcher, "search", noted)
    project.change_settings({"search.reranker": named})
    asked = {} if rerank is None else {"rerank": rerank}
    ask(
        project,
        request(1, "search", query="full", mode="semantic"),
        request(2, "search", query="roof", mode="bm25", **asked),
        request(3, "warm_up", mode="bm25"),
    )
    assert (names["roof"] != names["full"]) == light
    assert names["warm up"] != names["full"]


def test_the_thread_is_chosen_without_opening_the_database_again(
    indexed: Any, project: ProjectFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    output = Answers()
    threads = list[str]()
    opened = list[str]()
    store = ProjectFolder.store
    search = Searcher.search

    def counted(self: ProjectFolder, **options: Any) -> Any:
        opened.append(threading.current_thread().name)
        return store(self, **options)

    def noted(self: Searcher, asked: Search, *stop: Any) -> Any:
        threads.append(threading.current_thread().name)
        return search(
            self,
            replace(asked, rerank=False),
            *stop,
        )

    def lines() -> Iterator[str]:
        for number in (1, 2, 3):
            yield request(
                number,
                "search",
                query="roof",
                mode="bm25",
            )
            assert output.wait_for(number)
            counts.append(len(opened))
        info = EvaluationInfo(reranker=RerankerInfo(True, "", "r", "bm25", 1.0))
        with closing(store(project)) as writing:
            writing.put_artifact(Artifact(info, "e", "reports/e"))
        yield request(
            4,
            "search",
            query="roof",
            mode="bm25",
        )

    counts: list[int] = []
    monkeypatch.setattr(ProjectFolder, "store", counted)
    monkeypatch.setattr(Searcher, "search", noted)
    project.change_settings({"search.reranker": "r"})
    Server(project, output).serve(lines())
    assert counts == [counts[0]] * 3
    assert threads[0] == threads[1] == threads[2] != threads[3]


def test_the_end_of_input_waits_for_open_requests(project: ProjectFolder, slow: Slow) -> None:
    output = Answers()
    done = threading.Event()
    asked = [request(n, "search", query="roof", mode="semantic") for n in range(5)] + [
        request("other", "work")
    ]
    extra = {"work": lambda: lambda: done.wait(30)}
    thread = threading.Thread(target=Server(project, output, extra).serve, args=(asked,))
    thread.start()
    assert slow.begun.wait(30)
    assert output.ids() == []
    slow.go.set()
    assert all(output.wait_for(n) for n in range(5))
    assert thread.is_alive()
    done.set()
    thread.join(30)
    assert output.ids() == [0, 1, 2, 3, 4, "other"]


# the thread of other methods


def test_other_methods_are_checked_and_answered_like_the_others(project: ProjectFolder) -> None:
    def double(number: int) -> Any:
        if number < 0:
            raise ValueError("number")
        return lambda: {"twice": 2 * number}

    answers = {
        answer["id"]: answer
        for answer in ask(
            project,
            request(1, "double", number=4),
            request(2, "double"),
            request(3, "double", number=4, colour="red"),
            request(4, "double", number=-1),
            json.dumps({"jsonrpc": "2.0", "id": 5, "method": "double", "params": [4]}),
            json.dumps({"jsonrpc": "2.0", "method": "double", "params": {"number": 4}}),
            request(6, "treble"),
            extra={"double": double},
        )
    }
    assert answers[1]["result"] == {"twice": 8}
    assert [code(answers[key]) for key in (2, 3, 4, 5)] == [INVALID_PARAMS] * 4
    assert answers[4]["error"]["message"] == "number"
    assert code(answers[6]) == NO_METHOD
    assert {"double", "search", "shutdown"} <= set(answers[6]["error"]["data"])
    assert set(answers) == {1, 2, 3, 4, 5, 6}


def test_faults_of_other_methods_are_answers(project: ProjectFolder) -> None:
    error = ProjectBusyError("what", "why", "to do")

    def busy() -> Any:
        raise error

    def clumsy() -> Any:
        raise KeyError("a fault of the program")

    extra = {
        "busy": lambda: busy,
        "clumsy": lambda: clumsy,
        "clumsy_at_once": clumsy,
        "no_json": lambda: lambda: {1, 2},
        "fine": lambda: lambda: 1,
    }
    answers = {
        answer["id"]: answer
        for answer in ask(project, *(request(n, n) for n in extra), extra=extra)
    }
    assert answers["busy"]["error"] == {
        "code": ENGINE,
        "message": error.what,
        "data": {
            "type": "ProjectBusyError",
            "code": "project-busy",
            "what": error.what,
            "why": error.why,
            "to_do": error.to_do,
            "stage": "",
            "command": "",
        },
    }
    assert [code(answers[name]) for name in ("clumsy", "clumsy_at_once", "no_json")] == [
        INTERNAL
    ] * 3
    assert answers["fine"]["result"] == 1


def test_other_tasks_run_in_order_in_one_thread_of_their_own(project: ProjectFolder) -> None:
    seen: list[tuple[int, str]] = []

    def work(number: int) -> Any:
        return lambda: seen.append((number, threading.current_thread().name))

    ask(
        project,
        *(request(n, "work", number=n) for n in range(20)),
        extra={"work": work},
    )
    assert [number for number, _ in seen] == list(range(20))
    assert len({name for _, name in seen}) == 1
    assert seen[0][1] != threading.current_thread().name


# what is loaded when


@pytest.fixture
def loading(
    monkeypatch: pytest.MonkeyPatch,
) -> Iterator[tuple[list[str], threading.Event, threading.Event]]:
    """Modules as they are loaded by `preload`; the first waits until it is let go."""
    loaded: list[str] = []
    begun = threading.Event()
    go = threading.Event()

    def load(name: str) -> Any:
        loaded.append(name)
        begun.set()
        assert go.wait(30)
        return importlib.import_module(name)

    class Loader:
        import_module = staticmethod(load)

    monkeypatch.setattr(workers, "importlib", Loader)
    yield loaded, begun, go
    go.set()


def test_ping_documents_and_other_methods_do_not_wait_for_heavy_modules(
    indexed: Any,
    project: ProjectFolder,
    loading: tuple[list[str], threading.Event, threading.Event],
) -> None:
    loaded, begun, go = loading
    output = Answers()

    def lines() -> Iterator[str]:
        yield request("status", "status")
        yield request("ping", "ping")
        yield request(
            "document",
            "document",
            document_id=1,
        )
        assert all(output.wait_for(key) for key in ("status", "ping", "document"))
        assert loaded == []
        yield request(
            "search",
            "search",
            query="roof",
            mode="semantic",
        )
        assert begun.wait(30)
        yield request("later", "status")
        yield request("ping later", "ping")
        assert output.wait_for("later")
        assert output.wait_for("ping later")
        go.set()

    Server(project, output, {"status": lambda: lambda: "fine"}).serve(lines())
    assert output.ids()[-1] == "search"
    assert output.all()[-1]["result"]["hits"]


def test_two_first_searches_load_the_modules_in_turn_and_neither_starts_before_they_are_whole(
    indexed: Any,
    project: ProjectFolder,
    loading: tuple[list[str], threading.Event, threading.Event],
    monkeypatch: Any,
) -> None:
    loaded, begun, go = loading
    early: list[bool] = []
    former = workers.ThreadSearcher.look

    def look(self: Any) -> Any:
        early.append(loaded[:2] != list(workers.HEAVY))
        return former(self)

    monkeypatch.setattr(
        workers.ThreadSearcher,
        "look",
        look,
    )
    output = Answers()

    def lines() -> Iterator[str]:
        yield request(
            1,
            "search",
            query="roof",
            mode="bm25",
        )
        yield request(
            2,
            "search",
            query="roof",
            mode="semantic",
        )
        assert begun.wait(30)
        go.set()

    Server(project, output).serve(lines())
    assert sorted(output.ids()) == [1, 2]
    assert early == [False, False]
    assert loaded == 2 * list(workers.HEAVY)


def test_a_module_that_cannot_be_loaded_is_tried_again_by_the_next_task(
    indexed: Any, project: ProjectFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = iter(["no_such_module_at_all"])

    class Loader:
        @staticmethod
        def import_module(name: str) -> Any:
            return importlib.import_module(next(names, name))

    monkeypatch.setattr(workers, "importlib", Loader)
    first, second = ask(project, *(request(n, "search", query="roof", mode="bm25") for n in (1, 2)))
    assert code(first) == INTERNAL
    assert second["result"]["hits"]


# searches of one series replace each other


def test_a_superseded_search_is_answered_at_once_and_never_done(
    project: ProjectFolder, slow: Slow
) -> None:
    output = Answers()

    def lines() -> Iterator[str]:
        yield request(
            "under way",
            "search",
            query="r",
            mode="semantic",
            series="typing",
        )
        assert slow.begun.wait(30)
        yield request(
            "stale",
            "search",
            query="ro",
            mode="semantic",
            series="typing",
        )
        yield request(
            "other",
            "search",
            query="wing",
            mode="semantic",
            series="other",
        )
        yield request(
            "alone",
            "search",
            query="rent",
            mode="semantic",
        )
        yield request(
            "last",
            "search",
            query="roof",
            series="typing",
        )
        assert output.wait_for("stale")
        assert output.ids() == ["stale"]
        yield request(
            "lexical",
            "search",
            query="roof",
            mode="bm25",
            series="typing",
        )
        assert output.wait_for("lexical")
        assert output.ids() == ["stale", "lexical"]
        slow.go.set()

    Server(project, output).serve(lines())
    assert output.ids() == ["stale", "lexical", "under way", "other", "alone", "last"]
    answers = {answer["id"]: answer for answer in output.all()}
    assert answers["stale"]["error"] == {"code": SUPERSEDED, "message": "superseded"}
    assert all("result" in answers[key] for key in answers if key != "stale")
    assert slow.asked == ["r", "wing", "rent", "roof"]


def test_each_key_stroke_replaces_the_one_before(project: ProjectFolder, slow: Slow) -> None:
    output = Answers()

    def lines() -> Iterator[str]:
        yield request(
            "first",
            "search",
            query="x",
            mode="semantic",
        )
        assert slow.begun.wait(30)
        for end in range(1, 5):
            yield request(
                end,
                "search",
                query="roof"[:end],
                mode="semantic",
                series="s",
            )
        assert output.wait_for(3)
        slow.go.set()

    server = Server(project, output)
    server.serve(lines())
    assert output.ids() == [1, 2, 3, "first", 4]
    assert slow.asked == ["x", "roof"]
    assert server.waiting == {}


def test_a_superseded_notification_is_not_answered(project: ProjectFolder, slow: Slow) -> None:
    output = Answers()
    note = {
        "jsonrpc": "2.0",
        "method": "search",
        "params": {"query": "ro", "mode": "semantic", "series": "s"},
    }

    def lines() -> Iterator[str]:
        yield request(
            1,
            "search",
            query="x",
            mode="semantic",
        )
        assert slow.begun.wait(30)
        yield json.dumps(note)
        yield request(
            2,
            "search",
            query="roof",
            mode="semantic",
            series="s",
        )
        slow.go.set()

    Server(project, output).serve(lines())
    assert output.ids() == [1, 2]
    assert slow.asked == ["x", "roof"]


# a repair


@pytest.mark.posix(reason="an open database cannot be replaced on Windows")
def test_a_database_that_a_repair_has_replaced_is_opened_again(
    indexed: Any, project: ProjectFolder
) -> None:
    store = project.store()
    store.backup(project.path / "project.db.bak")
    store.close()
    output = Answers()

    def lines() -> Iterator[str]:
        yield request(
            1,
            "search",
            query="tenant rent",
            mode="bm25",
        )
        yield request(
            2,
            "document",
            document_id=1,
        )
        assert output.wait_for(1)
        assert output.wait_for(2)
        spoil(project.path / "project.db")
        assert project.repair()
        indexed.put("contracts/lease.md", ["Cats are forbidden."])
        indexed.index()
        yield request(
            3,
            "search",
            query="cats",
            mode="bm25",
        )
        yield request(
            4,
            "search",
            query="cats",
            mode="semantic",
            top=1,
        )
        yield request(
            5,
            "document",
            document_id=1,
        )

    Server(project, output).serve(lines())
    answers = {answer["id"]: answer["result"] for answer in output.all()}
    assert answers[1]["hits"][0]["snippet"] == "The tenant pays the rent monthly."
    assert answers[2]["text"] == "The tenant pays the rent monthly. The landlord repairs the roof."
    assert [answers[key]["hits"][0]["snippet"] for key in (3, 4)] == ["Cats are forbidden."] * 2
    assert answers[5]["text"] == "Cats are forbidden."


def spoil(database: Path) -> None:
    for suffix in ("-wal", "-shm"):
        Path(f"{database}{suffix}").unlink(missing_ok=True)
    database.write_bytes(b"garbage" * 999)


def test_a_search_may_name_a_series_alone(indexed: Any, project: ProjectFolder) -> None:
    assert ask_once(project, request(1, "search", query="roof", mode="bm25", series=""))["result"][
        "hits"
    ]
