"""A real report with all that can be asked for: docs/report.md describes report.json, and
report.html says nothing else.
"""

from __future__ import annotations

import copy
import dataclasses
import itertools
import json
import math
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from fixtures.pipeline import ROOT, copy_project, engine_here
from fixtures.readability import reading_ease
from lxml import html

from engine.core.messages.report import SCALE, Change, FoundHit
from engine.core.systems import INTERPOLATED, label_of
from engine.core.text import metric_name
from engine.evaluation.reporting.page import render
from engine.evaluation.reporting.report import read_report
from engine.evaluation.reporting.verdict import gates_of, tables_of, verdict_of
from engine.project.folder import ProjectFolder

pytestmark = pytest.mark.charts

DOCUMENTED = ROOT / "docs" / "report.md"
TEMPLATE = ROOT / "assets" / "report" / "report.html.j2"
SHAPES = ("interval", "difference", "decision")
NUMBER = re.compile(r"[-+]?\d[\d,]*(?:\.\d+)?(?:e[-+]?\d+)?")
Path_ = tuple[str, ...]


@pytest.fixture(scope="module")
def report(finished: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    project = copy_project(finished, tmp_path_factory.mktemp("report") / "project")
    folder = ProjectFolder.open(project)
    store = folder.store()
    texts = [chunk.text for chunk in store.chunks()][:70]
    store.close()
    judged = [{"query": " ".join(text.split()[3:9]), "evidence": text[:60]} for text in texts]
    lines = [
        *judged,
        {"query": "what nobody wrote", "evidence": "not to be found in any of the documents"},
    ]
    questions = project / "more.jsonl"
    questions.write_text("\n".join(json.dumps(line) for line in lines), encoding="utf-8")
    engine_here(
        "import-judgments",
        str(project),
        str(questions),
    )
    engine_here(
        "run",
        str(project),
        "--only",
        "ingest,evaluate",
    )
    printed = json.loads(engine_here("report", str(project), "--json").stdout)
    return read_report(Path(printed["folder"]))


def test_held_out_queries_of_the_documents_own_sentences_give_no_verdict(
    report: dict[str, Any],
) -> None:
    verdicts = {
        part["kind"]: {
            gap["verdict"]
            for row in part["comparison"]["differences"].values()
            for gap in row.values()
        }
        for part in report["query_sets"]
    }
    assert verdicts["synthetic"] <= {"proves nothing", "no difference shown"}
    assert "proves nothing" not in verdicts["judged"] | verdicts["document"]


def test_the_gate_and_the_table_have_the_same_figures(report: dict[str, Any]) -> None:
    gates = gates_of(report)
    tables = tables_of(report)
    for mode, name, system in (
        ("semantic", "adapted", "adapted"),
        ("hybrid", "adapted 0.5", "weighted_adapted"),
    ):
        gate = gates[mode]  # type: ignore[index]
        table = tables[gate.rung]
        assert gate.queries == table.queries
        (adapted,) = (
            candidate.difference for candidate in gate.candidates if candidate.name == name
        )
        gap = table.gap(system, "weighted_base" if mode == "hybrid" else "base")
        assert adapted is not None
        assert gap is not None
        figures = [
            [difference.value, difference.low, difference.high, difference.p_value]
            for difference in (adapted, gap)
        ]
        assert figures[0] == pytest.approx(figures[1])


def test_the_page_begins_with_the_verdict_and_all_else_is_folded_up(report: dict[str, Any]) -> None:
    verdict = verdict_of(report)
    page = html.document_fromstring(render(report))
    unfolded = " ".join(
        page.xpath("//body//text()[count(ancestor::details) = count(ancestor::summary)]")
    )
    assert len(unfolded.split()) <= 1_500
    assert reading_ease(unfolded) >= 50
    assert all(mode.sentence in unfolded for mode in verdict.modes)
    assert not page.xpath("//table[not(ancestor::details)]")
    tables = tables_of(report)
    figures = [
        f"{tables[mode.kind].systems[bar.system]['ndcg@10'].value:.1f}"
        for mode in verdict.modes
        for bar in mode.bars
    ]
    assert figures
    assert page.xpath("//div[@class='bars']/b/text()") == figures


def documented() -> dict[Path_, str]:
    """Key → unit, the shapes that come back written out."""
    tables: dict[str, dict[Path_, str]] = {"": {}}
    part = ""
    for line in DOCUMENTED.read_text(encoding="utf-8").splitlines():
        if line.startswith("#"):
            title = line.lstrip("# ")
            part = title if title in SHAPES else ""
            tables.setdefault(part, {})
        elif row := re.match(r"\| `([^`]+)` \| ([^|]+) \|", line):
            key = tuple(re.sub(r"\[\]", ".[]", row[1]).split("."))
            if row[2] in SHAPES:
                written = tables[row[2]]
            else:
                written = {(): row[2]}
            tables[part] |= {key + rest: unit for rest, unit in written.items()}
    return tables[""]


def leaves(value: Any, path: Path_ = ()) -> Iterator[tuple[Path_, Any]]:
    """Everything that holds nothing else, with its path."""
    if isinstance(value, dict) and value:
        for key, item in value.items():
            yield from leaves(item, (*path, key))
    elif isinstance(value, list) and value:
        for item in value:
            yield from leaves(item, (*path, "[]"))
    else:
        yield path, value


def fits(key: Path_, path: Path_) -> bool:
    return len(key) == len(path) and all(
        part == name or (part.isupper() and name != "[]")
        for part, name in zip(key, path, strict=True)
    )


def describes(
    key: Path_,
    unit: str,
    path: Path_,
    value: Any,
) -> bool:
    if fits(key, path) or (unit == "any" and fits(key, path[: len(key)])):
        return True
    return value in (None, [], {}) and fits(
        key[: len(path)], path
    )  # a shape or a list that this time is not there


def test_report_json_is_what_its_page_describes(report) -> None:
    described = documented()
    values = list(leaves(report))
    assert len(described) > 150
    strange = {
        path
        for path, value in values
        if not any(describes(*entry, path, value) for entry in described.items())
    }
    assert not strange
    paths = {
        path
        for path, value in values
        if value is not None or path[-1] in ("needed", "p_value", "rung", "excluded_by", "share")
    }
    # A tiny model's adapter need not change a ranking.
    changes = [("query_sets", "[]", "changes", way, "[]") for way in ("better", "worse")]
    paths |= {(*path, part.name) for path in changes for part in dataclasses.fields(Change)}
    lists = [(*path, which, "[]") for path in changes for which in ("hits_before", "hits_after")]
    paths |= {(*path, part.name) for path in lists for part in dataclasses.fields(FoundHit)}
    empty = {path for path, value in values if value == []}
    absent = ("decision", "reranker", "expectation", "preferences")
    undecided = {path for path, value in values if value is None and path[-1] in absent}
    missing = [
        key
        for key, unit in described.items()
        if not any(fits(key[: len(path)], path) for path in undecided)
        and not any(fits(key, path[: len(key)] if unit == "any" else path) for path in paths)
        and not any(
            key[-n:] == ("[]",) * n and fits(key[:-n], path) for n in (1, 2) for path in empty
        )
    ]
    assert not missing, missing


def own_words() -> list[str]:
    """What the template itself says, numbers included, the longest first."""
    source = TEMPLATE.read_text(encoding="utf-8").partition("</style>")[2]
    blocks = r"\{\{.*?\}\}|\{%.*?%\}"
    literals = (
        text
        for block in re.findall(blocks, source, re.DOTALL)
        for text in re.findall(r'"([^"]*)"', block)
    )
    parts = re.split(
        f"{blocks}|<[^>]*>",
        source,
        flags=re.DOTALL,
    )
    words = [*literals, *(" ".join(part.split()) for part in parts)]
    words += [SCALE, "of 100"]  # of the verdict
    return sorted(
        {word for word in words if re.search(r"\d", word)},
        key=len,
        reverse=True,
    )


def told_texts(report: dict[str, Any]) -> list[str]:
    """Texts and names of report.json that hold numbers, as the page writes them, the longest
    first.
    """
    texts = {str(value) for _, value in leaves(report) if isinstance(value, str)}
    names = {name for path, _ in leaves(report) for name in path}
    texts |= names | {metric_name(name) for name in names} | {label_of(name) for name in names}
    texts |= {label_of(text) for text in texts if text.startswith(INTERPOLATED)}
    quoted = {
        text for text in texts if re.search(r"\d", text) and re.search(r"[^\W\d]|\..*\.", text)
    }
    quoted |= {report["created"][:10], report["created"][11:16]}
    return sorted(
        quoted,
        key=len,
        reverse=True,
    )


def numbers_on_page(page: str, report: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """Numbers in the text of the page with the text that they stand in, without its own words
    and quoted texts.
    """
    (body,) = html.document_fromstring(page).xpath("//body")
    words = own_words()
    quoted = told_texts(report)
    sentences, names = (
        [text for text in quoted if (len(text) > 40) is long] for long in (True, False)
    )
    whole = {" ".join(str(value).split()) for _, value in leaves(report) if isinstance(value, str)}
    for node in body.xpath(".//text()[not(ancestor::*[@id='tick'])]"):
        text = rest = " ".join(node.split())
        if text in whole:
            continue
        for passage in itertools.chain(sentences, words, names):
            rest = rest.replace(" ".join(passage.split()), " ")
        for number in NUMBER.finditer(rest):
            yield number[0], text


def roundings(report: dict[str, Any]) -> set[str]:
    """Every number of report.json as docs/report.md lets the page show it."""
    numbers = {(path, value) for path, value in leaves(report) if isinstance(value, (int, float))}
    ways: set[str] = {f"{len(part['unmatched'])}" for part in report["query_sets"]}
    for path, value in numbers:
        ways |= {
            f"{value}",
            f"{value:g}",
            f"{value:,}",
            f"{value:.0f}",
            f"{value:.1f}",
            f"{value:.3f}",
        }
        if path in (
            ("threshold", "hidden"),
            ("threshold", "accuracy"),
            ("threshold", "unthresholded"),
        ):
            ways.add(f"{100 * value:.1f}")
        if path[-2:] == ("expectation", "risk"):
            ways.add(f"{100 * value:.0f}")
        if path[-1] in ("needed", "judged_needed"):
            unit = 10 ** max(0, len(f"{value:.0f}") - 2)
            ways.add(f"{math.ceil(value / unit) * unit:,}")
    return ways | {f"+{way}" for way in ways if way[0] not in "-+"}


def marked(report: dict[str, Any]) -> dict[str, Any]:
    """The report with a number of its own at every place."""
    numbers: Callable[[], int] = itertools.count(20_000, 7).__next__

    def mark(value: Any) -> Any:
        if isinstance(value, dict):
            return {key: mark(item) for key, item in value.items()}
        if isinstance(value, list):
            return [mark(item) for item in value]
        if isinstance(value, bool) or not isinstance(value, (int, float)):
            return value
        return numbers() + (0.4 if isinstance(value, float) else 0)

    return {**mark(copy.deepcopy(report)), "schema": 4}


@pytest.mark.parametrize(
    "change",
    [lambda report: report, marked],
    ids=["as it is", "a number of its own at every place"],
)
def test_every_number_on_the_page_stands_in_report_json(report, change) -> None:
    changed = change(report)
    rounded = roundings(changed)
    numbers = list(numbers_on_page(render(changed), changed))
    assert len(numbers) > 500
    assert not {number: text for number, text in numbers if number not in rounded}


def test_a_number_that_is_not_in_report_json_is_noticed(report) -> None:
    page = render(marked(report)).replace("queries measured", "queries measured in 12.5 ways", 1)
    rounded = roundings(marked(report))
    assert [number for number, _ in numbers_on_page(page, report) if number not in rounded] == [
        "12.5"
    ]
