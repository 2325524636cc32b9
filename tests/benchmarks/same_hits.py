"""Whether two versions of the engine find the same, to the last digit: hits of a fixed list of
queries, compared.

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
RENAMED: dict[str, str] = {}
"""Keys of the answers that have another name by now: former name → name."""
JUDGED = 60
PASSAGES = 40
EXPLAINED = 3
PATIENCE = 3  # rounds of each engine in `times`


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
        self._input, self._output = (
            cast(TextIO, self._process.stdin),
            cast(TextIO, self._process.stdout),
        )

    def ask(self, method: str, **params: Any) -> Any:
        """The result, or the error's message."""
        self._input.write(
            json.dumps({"jsonrpc": "2.0", "id": 1, "method": method, "params": params}) + "\n"
        )
        self._input.flush()
        answer = json.loads(self._output.readline())
        if "result" in answer:
            return answer["result"]
        return {"error": answer["error"]["message"]}

    def close(self) -> None:
        """Let it end by itself."""
        self._input.close()
        self._process.wait()


@contextmanager
def copied(project: Path, settings: dict[str, str]) -> Iterator[Path]:
    """A copy of a project, with other settings of search."""
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder) / "project"
        shutil.copytree(project, copy)
        file = copy / "project.toml"
        lines = file.read_text("utf-8").splitlines()
        at = lines.index("[search]") + 1
        lines[at:] = [line for line in lines[at:] if line.split("=")[0].strip() not in settings]
        lines[at:at] = [f"{key} = {value}" for key, value in settings.items()]
        file.write_text("\n".join(lines) + "\n", "utf-8")
        yield copy


def queries(project: Path) -> list[str]:
    """What is asked: the fixed ones, judged ones, and passages."""
    with closing(sqlite3.connect(f"file:{project / 'project.db'}?mode=ro", uri=True)) as database:
        judged = [
            text for (text,) in database.execute("SELECT text FROM judged_queries ORDER BY id")
        ]
        texts = [
            text for (text,) in database.execute("SELECT text FROM chunks WHERE live ORDER BY id")
        ]
        paths = [
            path
            for (path,) in database.execute(
                "SELECT path FROM documents WHERE live ORDER BY id LIMIT 1"
            )
        ]
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
    if len(items) > count:
        return [items[at * len(items) // count] for at in range(count)]
    return list(items)


def answers(checkout: Path, project: Path) -> Iterator[tuple[str, Any]]:
    """What an engine finds: (what was asked, the answer)."""
    wanted = queries(project)
    for settings in SETTINGS:
        with copied(project, settings) as copy:
            engine = Engine(checkout, copy)
            for number, query in enumerate(wanted):
                where = FILTERS[number // 2 % len(FILTERS)]
                facets = number % 2 == 0
                for mode in MODES:
                    for params in ({"facets": facets}, {"facets": not facets, **where}):
                        found = engine.ask("search", query=query, mode=mode, **params)
                        yield json.dumps([settings, mode, params, query]), _comparable(found, copy)
                        rows = [hit["chunk_id"] for hit in found.get("hits", ())][:EXPLAINED]
                    explained = engine.ask("explain", query=query, chunk_ids=rows)
                    yield (
                        json.dumps([settings, mode, "explain", query]),
                        _comparable(explained, copy),
                    )
            engine.close()


def _comparable(answer: Any, project: Path) -> Any:
    """All but the sentences, which each version words as it likes, the commands in them, and
    where the copy lies.
    """
    if isinstance(answer, dict):
        return {
            RENAMED.get(key, key): _comparable(value, project)
            for key, value in answer.items()
            if key not in ("notes", "note", "error", "commands")
        }
    if isinstance(answer, list):
        return [_comparable(value, project) for value in answer]
    if isinstance(answer, str):
        return answer.replace(str(project), "PROJECT")
    return answer


def compare(former: dict[str, Any], found: dict[str, Any]) -> int:
    """Print where two recordings differ; the number of such questions."""
    differing = [key for key in former.keys() | found.keys() if former.get(key) != found.get(key)]
    for key in sorted(differing)[:10]:
        print(key, *islice(_differences(former.get(key), found.get(key)), 5), sep="\n    ")
    hits = sum(len(answer.get("hits", ())) for answer in former.values())
    print(f"{len(former):,} questions, {hits:,} hits: {len(differing):,} answers differ")
    return len(differing)


def _differences(former: Any, now: Any, place: str = "") -> Iterator[str]:
    if isinstance(former, dict) and isinstance(now, dict) and former.keys() == now.keys():
        for key in former:
            yield from _differences(former[key], now[key], f"{place}.{key}")
    elif isinstance(former, list) and isinstance(now, list) and len(former) == len(now):
        for number, pair in enumerate(zip(former, now, strict=True)):
            yield from _differences(*pair, f"{place}[{number}]")
    elif former != now:
        yield f"{place}: {former!r:.200} → {now!r:.200}"


def times(checkouts: Sequence[Path], project: Path) -> None:
    """Print the median and the 95th percentile of a search in each mode, in milliseconds."""
    wanted = [query for query in queries(project) if query.strip("! ")]
    taken: dict[tuple[Path, str], list[float]] = {}
    with ExitStack() as stack:
        engines = {
            each: Engine(each, stack.enter_context(copied(project, {}))) for each in checkouts
        }
        for mode in MODES:
            for each in engines.values():
                each.ask("warm_up", mode=mode)
            for query in wanted * PATIENCE:
                for checkout, engine in engines.items():
                    start = time.perf_counter()
                    engine.ask("search", query=query, mode=mode)
                    taken.setdefault((checkout, mode), []).append(time.perf_counter() - start)
        for engine in engines.values():
            engine.close()
    for (checkout, mode), seconds in taken.items():
        high = sorted(seconds)[int(0.95 * len(seconds))]
        print(
            f"{checkout} {mode:<9} p50 {1000 * median(seconds):7.2f} ms   p95 {1000 * high:7.2f} ms"
        )


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("what", choices=("record", "compare", "times"))
    parser.add_argument("project", type=Path)
    parser.add_argument("file", type=Path, nargs="?")
    parser.add_argument(
        "--engine", type=Path, action="append", help="checkout of an engine; this one if left out"
    )
    given = parser.parse_args()
    engines = [each.resolve() for each in given.engine or [HERE]]
    if given.what == "times":
        times(engines, given.project)
        return 0
    if given.file is None:
        parser.error("name the file of the hits")
    found = json.loads(json.dumps(dict(answers(engines[0], given.project))))
    if given.what == "compare":
        return min(1, compare(json.loads(given.file.read_text("utf-8")), found))
    given.file.write_text(json.dumps(found), "utf-8")
    print(f"{len(found):,} answers are in {given.file}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
