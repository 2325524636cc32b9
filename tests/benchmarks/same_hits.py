"""Whether two versions of the engine find the same for a fixed list of queries, to the last digit.

python tests/benchmarks/same_hits.py record PROJECT HITS.json [--engine CHECKOUT]
python tests/benchmarks/same_hits.py compare PROJECT HITS.json [--engine CHECKOUT]
python tests/benchmarks/same_hits.py times PROJECT [--engine CHECKOUT] [--engine CHECKOUT]

Each engine answers over a copy of the project, by `engine serve --stdio`, so that any version can
be asked. Queries are fixed ones that are hard to read, judged ones of the project, and the
beginnings of its chunks; each in every mode, with facets, explained, and through filters; and the
whole list once for each of `SETTINGS`. `times` gives the median of a search in each mode, the
engines taking turns.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager
from itertools import islice
from pathlib import Path
from statistics import median
from typing import Any, TextIO, cast

HERE = Path(__file__).parents[2]
MODES = ("bm25", "semantic", "hybrid")
FIXED = (
    "",
    "!!!",
    "the of and",
    "☂",
    "e-mail",
    "ISO-27001",
    "a" * 300,
    "Über Naïveté",
    "2031",
    "契約 期間",
    "no such wrod",
)
FILTERS: tuple[dict[str, Any], ...] = (
    {"types": ["md", "html", "beir"]},
    {"paths": ["*1*"]},
    {"languages": ["en"]},
    {"authors": ["a"]},
    {"after": "2001-01-01", "before": "2090-01-01"},
    {"types": ["pdf"], "paths": ["nothing/**"]},
)
SETTINGS: tuple[dict[str, str], ...] = (
    {},
    {"fusion": '"rrf"', "rrf_u": "20"},
    {"fusion": '"weighted"', "weight": "0.3", "top": "7"},
    {"hide_weak": "true", "named_documents": "false"},
)
RENAMED: dict[str, str] = {}  # by its former name, the name that a key of the answers has by now
JUDGED = 60  # queries
PASSAGES = 40  # queries
EXPLAINED = 3  # hits of a query
ROUNDS = 3  # of each engine in `times`


class Engine:
    """`engine serve --stdio` of one checkout over one project."""

    def __init__(self, checkout: Path, project: Path) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-P", "-m", "engine", "serve", "--stdio", str(project)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            env={**os.environ, "PYTHONPATH": str(checkout)},
        )
        self._input = cast(TextIO, self._process.stdin)
        self._output = cast(TextIO, self._process.stdout)

    def ask(self, method: str, **params: Any) -> Any:
        """Return the result, or the error's message."""
        request = {
            "jsonrpc": "2.0",
            "id": 1,
            "method": method,
            "params": params,
        }
        self._input.write(json.dumps(request) + "\n")
        self._input.flush()
        answer = json.loads(self._output.readline())
        if "result" in answer:
            return answer["result"]
        return {"error": answer["error"]["message"]}

    def close(self) -> None:
        """Close the input, and wait until the process has ended by itself."""
        self._input.close()
        self._process.wait()


@contextmanager
def copy_project(project: Path, settings: dict[str, str]) -> Iterator[Path]:
    """Copy a project for a while, with other settings of search."""
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder) / "project"
        shutil.copytree(project, copy)
        file = copy / "project.toml"
        lines = file.read_text("utf-8").splitlines()
        start = lines.index("[search]") + 1
        kept = [line for line in lines[start:] if line.split("=")[0].strip() not in settings]
        changed = [f"{key} = {value}" for key, value in settings.items()]
        file.write_text("\n".join([*lines[:start], *changed, *kept]) + "\n", "utf-8")
        yield copy


def build_queries(project: Path) -> list[str]:
    """Return the fixed queries, judged ones, and the beginnings of passages."""
    with closing(sqlite3.connect(f"file:{project / 'project.db'}?mode=ro", uri=True)) as database:

        def select(statement: str) -> list[str]:
            return [text for (text,) in database.execute(statement)]

        judged = select("SELECT text FROM judged_queries ORDER BY id")
        texts = select("SELECT text FROM chunks WHERE live ORDER BY id")
        paths = select("SELECT path FROM documents WHERE live ORDER BY id LIMIT 1")
    passages = [
        " ".join(text.split()[3 : 4 + number % 9])
        for number, text in enumerate(_spread(texts, PASSAGES))
    ]
    return [
        *FIXED,
        *(f"In {path}: what is said?" for path in paths),
        *_spread(judged, JUDGED),
        *passages,
    ]


def _spread(items: Sequence[str], count: int) -> list[str]:
    """Return so many items, spread over all of them."""
    if len(items) > count:
        return [items[number * len(items) // count] for number in range(count)]
    return list(items)


def ask_all(checkout: Path, project: Path) -> Iterator[tuple[str, Any]]:
    """Yield each question, as JSON, and what an engine answers."""
    queries = build_queries(project)
    for settings in SETTINGS:
        with copy_project(project, settings) as copy:
            engine = Engine(checkout, copy)
            for number, query in enumerate(queries):
                filters = FILTERS[number // 2 % len(FILTERS)]
                has_facets = number % 2 == 0
                for mode in MODES:
                    for params in ({"facets": has_facets}, {"facets": not has_facets, **filters}):
                        answer = engine.ask(
                            "search",
                            query=query,
                            mode=mode,
                            **params,
                        )
                        question = json.dumps([settings, mode, params, query])
                        yield question, _make_comparable(answer, copy)
                    # Of the hits through filters.
                    ids = [hit["chunk_id"] for hit in answer.get("hits", ())][:EXPLAINED]
                    answer = engine.ask(
                        "explain",
                        query=query,
                        chunk_ids=ids,
                    )
                    question = json.dumps([settings, mode, "explain", query])
                    yield question, _make_comparable(answer, copy)
            engine.close()


def _make_comparable(answer: Any, project: Path) -> Any:
    """Return the answer without what may differ between versions and copies.

    That is sentences, which each version words as it likes, the commands in them, and the folder.
    """
    if isinstance(answer, dict):
        return {
            RENAMED.get(key, key): _make_comparable(value, project)
            for key, value in answer.items()
            if key not in ("notes", "note", "error", "commands")
        }
    if isinstance(answer, list):
        return [_make_comparable(value, project) for value in answer]
    if isinstance(answer, str):
        return answer.replace(str(project), "PROJECT")
    return answer


def compare(former: dict[str, Any], answers: dict[str, Any]) -> int:
    """Print where two recordings differ, and return the number of questions where they do.

    `former` and `answers`: by question.
    """
    questions = former.keys() | answers.keys()
    differing = [key for key in questions if former.get(key) != answers.get(key)]
    for key in sorted(differing)[:10]:
        differences = _find_differences(former.get(key), answers.get(key))
        print(
            key,
            *islice(differences, 5),
            sep="\n    ",
        )
    hits = sum(len(answer.get("hits", ())) for answer in former.values())
    print(f"{len(former):,} questions, {hits:,} hits: {len(differing):,} answers differ")
    return len(differing)


def _find_differences(
    former: Any,
    now: Any,
    place: str = "",
) -> Iterator[str]:
    """Yield the places where two answers differ, and what stands there in each."""
    if isinstance(former, dict) and isinstance(now, dict) and former.keys() == now.keys():
        for key in former:
            yield from _find_differences(
                former[key],
                now[key],
                f"{place}.{key}",
            )
    elif isinstance(former, list) and isinstance(now, list) and len(former) == len(now):
        for number, pair in enumerate(zip(former, now, strict=True)):
            yield from _find_differences(*pair, f"{place}[{number}]")
    elif former != now:
        yield f"{place}: {former!r:.200} → {now!r:.200}"


def print_times(checkouts: Sequence[Path], project: Path) -> None:
    """Print the median and the 95th percentile of a search in each mode, in milliseconds."""
    queries = [query for query in build_queries(project) if query.strip("! ")]
    times: dict[tuple[Path, str], list[float]] = {}
    with ExitStack() as stack:
        engines = {}
        for checkout in checkouts:
            copy = stack.enter_context(copy_project(project, {}))
            engines[checkout] = Engine(checkout, copy)
        for mode in MODES:
            for engine in engines.values():
                engine.ask("warm_up", mode=mode)
            for query in queries * ROUNDS:
                for checkout, engine in engines.items():
                    start = time.perf_counter()
                    engine.ask(
                        "search",
                        query=query,
                        mode=mode,
                    )
                    times.setdefault((checkout, mode), []).append(time.perf_counter() - start)
        for engine in engines.values():
            engine.close()
    for (checkout, mode), seconds in times.items():
        p95 = sorted(seconds)[int(0.95 * len(seconds))]
        print(
            f"{checkout} {mode:<9} p50 {1000 * median(seconds):7.2f} ms   p95 {1000 * p95:7.2f} ms"
        )


def main() -> int:
    """Record, compare or measure; return 1 if answers differ."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("what", choices=("record", "compare", "times"))
    parser.add_argument("project", type=Path)
    parser.add_argument(
        "file",
        type=Path,
        nargs="?",
    )
    parser.add_argument(
        "--engine", type=Path, action="append", help="checkout of an engine; this one if left out"
    )
    options = parser.parse_args()
    checkouts = [checkout.resolve() for checkout in options.engine or [HERE]]
    if options.what == "times":
        print_times(checkouts, options.project)
        return 0
    if options.file is None:
        parser.error("name the file of the hits")
    answers = json.loads(json.dumps(dict(ask_all(checkouts[0], options.project))))
    if options.what == "compare":
        return min(1, compare(json.loads(options.file.read_text("utf-8")), answers))
    options.file.write_text(json.dumps(answers), "utf-8")
    print(f"{len(answers):,} answers are in {options.file}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
