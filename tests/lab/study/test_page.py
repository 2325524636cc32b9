"""What studies and sweeps show, made of cells as they keep them."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import pytest
from fixtures.drawing import charts_of, scale, signs, texts, values
from lxml import html
from rich.console import Console

from engine.cli.console import show_study
from engine.lab.study.catalogue import Chart, Correlation, Study, study_of, sweep_of
from engine.lab.study.grid import Cell, make_grid
from engine.lab.study.measures import average_pages, average_seeds, collect_figures, read_value
from engine.lab.study.page import MASKED_ONLY, SHIPPED_TEXT, rows_of, write_study, write_tables
from engine.lab.study.tables import format_figure
from engine.settings.load import validate

pytestmark = pytest.mark.charts

EVIL = "<script>alert(1)</script>"
TOLD = {"same_as": None, "error": None}


def interval(value: float) -> dict[str, float]:
    return {
        "value": value,
        "low": value - 3,
        "high": value + 3,
    }


def kept(**rows: dict[str, Any]) -> dict[str, Any]:
    return {
        "rows": rows,
        "similarities": None,
        "distances": None,
        "seconds": {"train": 12.0},
        "reason": "",
    }


def sweep_page(folder: Path) -> dict[str, Any]:
    cells = make_grid(
        ["ranking.k=200,1000", "training.objective=listnet,mixed"], validate({}), 5000
    )
    gaps = [
        (4.0, 1.0, 7.0, "better"),
        (-2.0, -5.0, -0.5, "worse"),
        None,
        (0.5, -1.0, 2.0, "no difference shown"),
    ]
    found: list[Any] = []
    for gap in gaps:
        verdict = gap and {
            **dict(zip(("value", "low", "high", "verdict"), gap, strict=True)),
            "p_value": 0.2,
            "needed": 1234,
        }
        adapted = gap and {"held-out ndcg@10": interval(40 + gap[0]), "Δ held-out ndcg@10": verdict}
        bm25 = {"held-out ndcg@10": interval(50)}
        base = {"held-out ndcg@10": interval(40)}
        found.append(kept(bm25=bm25, base=base, adapted=adapted) if adapted else None)
    told = [
        TOLD,
        TOLD,
        {**TOLD, "error": {"what": EVIL, "why": ""}},
        TOLD,
    ]
    return write_study(
        folder, "mine", sweep_of(cells), {}, list(zip(cells, told, found, strict=True))
    )


def test_the_page_is_self_contained_and_has_the_figures(tmp_path: Path) -> None:
    found = sweep_page(tmp_path)
    told = json.loads((tmp_path / f"{found['name']}.json").read_text())
    assert {**told, "folder": str(tmp_path)} == found
    assert found["finished"] == 3
    assert found["columns"] == ["Δ held-out ndcg@10", "held-out ndcg@10"], "what was measured"
    assert found["cells"][0]["changes"] == {"ranking.k": 200, "training.objective": "listnet"}
    text = (tmp_path / f"{found['name']}.html").read_text()
    page = html.fromstring(text)
    assert not page.xpath("//script | //img | //link | //iframe")
    assert "http" not in text.replace("http-equiv", "")
    assert EVIL in page.text_content()
    (gaps,) = charts_of(page)
    read = scale(gaps)
    assert [round(read(at)[0], 1) for (at,) in signs(gaps, "point")] == [4, -2, 0.5]
    assert [tuple(round(x, 1) for x, _ in line) for line in values(gaps, "whisker")] == [
        (1, 7),
        (-5, -0.5),
        (-1, 2),
    ]
    assert texts(gaps, "label")[:2] == ["k 200, objective listnet", "k 200, objective mixed"]
    assert [
        bar[0].get("style").partition(";")[0] for bar in gaps.xpath(".//g[@class='point']")
    ] == [f"fill: var(--c{number})" for number in (3, 2, 0)]
    cell = page.xpath("//span[@class='better']/..")[0].text_content()
    assert all(one in cell for one in ("4.000 better", "1.000 to 7.000", "p = 0.200", "1,234"))
    assert page.xpath("//span[@class='worse']")[0].text == "-2.000 worse"


@pytest.mark.parametrize("measured", ["map@10 (multihop)", "map@10"])
def test_a_column_of_several_measures_is_called_by_the_one_that_was_measured(
    tmp_path: Path, measured: str
) -> None:
    """Documents have no passages, so that theirs is the usual MAP."""
    figures = {measured: interval(40), "hit@1": interval(50)}
    cells = [(Cell(1, {"ranking.m": 6}, "", "m 6"), TOLD, kept(adapted=figures))]
    table = write_study(
        tmp_path,
        "mine",
        study_of("bmembed-t7"),
        {},
        cells,
    )
    assert table["columns"] == ["hit@1", measured]
    assert table["rows"][0]["values"][measured] == interval(40)
    head = html.parse(tmp_path / "bmembed-t7.html").xpath("//th[@class='n']")
    assert head[1].text == {"map@10": "MAP@10"}.get(measured, "MAP@10 (several passages)")
    write_study(
        tmp_path,
        "mine",
        study_of("bmembed-f3"),
        {},
        cells,
    )
    (chart,) = charts_of(html.parse(tmp_path / "bmembed-f3.html"))
    assert chart.get("aria-label").startswith(f"{measured} by m")


def test_a_sweep_has_the_map_of_each_set_of_queries(tmp_path: Path) -> None:
    cells = make_grid(
        ["ranking.k=200"],
        validate({}),
        5000,
    )
    figures = {"map@10": interval(40), "document-written map@10": interval(60)}
    page = write_study(
        tmp_path, "mine", sweep_of(cells), {}, [(cells[0], TOLD, kept(adapted=figures))]
    )
    assert page["columns"] == ["map@10", "document-written map@10"]
    assert page["rows"][-1]["values"]["document-written map@10"] == interval(60)


def test_the_table_of_the_terminal(tmp_path: Path) -> None:
    told = io.StringIO()
    show_study(sweep_page(tmp_path), Console(file=told, width=200, highlight=False))
    (row,) = [line for line in told.getvalue().splitlines() if "k 200, objective listnet" in line]
    assert "4.000" in row
    assert "44.00" in row


def test_rows_are_of_each_model_training_and_system_over_seeds() -> None:
    study = Study(
        name="s",
        source="",
        shows="",
        differs="",
        columns=["MAP|map", "rest"],
        systems={"base": "Base", "adapted": "Tuned"},
    )
    cells = []
    for model, training, seed, gain in (
        ("a", "x", 0, 1),
        ("a", "x", 1, 3),
        ("a", "y", 0, 5),
        ("a", "y", 1, 5),
        ("b", "x", 0, 7),
        ("b", "x", 1, None),
    ):
        rows = {"base": {"map": interval(10)}} | (
            {"adapted": {"map": interval(10 + gain)}} if gain else {}
        )
        cells.append((Cell(len(cells) + 1, {}, "", training, model, seed), TOLD, kept(**rows)))
    found = {row.label: row.values["MAP|map"] for row in rows_of(study, cells)}
    assert list(found) == [
        "a · Base",
        "a · x · Tuned",
        "a · y · Tuned",
        "b · Base",
        "b · x · Tuned",
    ]
    assert found["a · Base"] == found["b · Base"] == interval(10), (
        "what no training changes keeps its interval over queries"
    )
    mean = found["a · x · Tuned"]
    assert (mean["value"], mean["seeds"]) == (12, [11, 13])
    assert (mean["low"], mean["high"]) == pytest.approx((12 - 12.71, 12 + 12.71)), (
        "t = 12.71, s = √2, s/√2 = 1"
    )
    assert found["a · y · Tuned"] == interval(15)
    assert found["b · x · Tuned"] == interval(17), "of the seed that gave an adapter"


def test_a_row_without_an_adapter_says_why() -> None:
    systems = {"base": "Base", "adapted": "Tuned"}
    study = Study(
        name="s",
        source="",
        shows="",
        differs="",
        columns=["map"],
        systems=systems,
    )
    untrained = {**kept(base={"map": interval(10)}), "reason": "3 training queries are too few"}
    cells = [(Cell(1, {}, "", "a quarter"), TOLD, untrained)]
    rows = {row.label: row for row in rows_of(study, cells)}
    assert rows["a quarter · Tuned"].values["map"] is None
    assert [row.reason for row in rows.values()] == ["", "3 training queries are too few"]
    mafin = study.model_copy(update={"by": "black box"})
    assert [row.label for row in rows_of(mafin, cells)] == ["Base"], (
        "a kind of queries that a project has not"
    )


def test_what_one_training_lacks_of_base_another_has() -> None:
    study = Study(
        name="s",
        source="",
        shows="",
        differs="",
        columns=["map", "general"],
        systems={"base": "Base"},
    )
    cells = [
        (Cell(number, {}, "", training), TOLD, kept(base=found))
        for number, (training, found) in enumerate(
            (("x", {"map": interval(10)}), ("y", {"map": interval(11), "general": interval(3)})), 1
        )
    ]
    (row,) = rows_of(study, cells)
    assert row.values == {"map": interval(10), "general": interval(3)}


def test_densities_of_general_questions_are_drawn_for_each_encoder(tmp_path: Path) -> None:
    part = {
        "count": 2,
        "mean": 0.5,
        "density": [0.0, 2.0, 0.0],
    }
    systems = {
        name: dict.fromkeys(("correct", "top", "random"), part)
        for name in ("base", "adapted", "in_use")
    }
    curves = {
        "name": "wiki",
        "queries": 2,
        "k": 5,
        "cosines": [0.0, 0.5, 1.0],
        "systems": systems,
    }
    found = {**kept(base={"general hit@5": interval(70)}), "general similarities": curves}
    write_study(
        tmp_path,
        "mine",
        study_of("domain-f5"),
        {},
        [(Cell(1, {}, "", "PT"), TOLD, found)],
    )
    charts = charts_of(html.parse(tmp_path / "domain-f5.html"))
    assert [[len(line) for line in values(chart, "line")] for chart in charts] == [
        [3, 3, 3],
        [3, 3, 3],
    ]


def test_the_page_and_the_terminal_say_of_which_queries_similarities_are(tmp_path: Path) -> None:
    values = {
        "nDCG@3": interval(40),
        "accuracy@3": interval(50),
        "ndcg@10": interval(60),
    }
    found = {
        **kept(base=values),
        "similarities": {"name": "judged queries", "queries": 1234, "kind": "judged"},
    }
    page = write_study(
        tmp_path,
        "mine",
        study_of("domain-t9").with_top_k(3),
        {},
        [(Cell(1, {}, "", "PT"), TOLD, found)],
    )
    assert page["similarities_of"] == {
        "columns": ["nDCG@3", "accuracy@3"],
        "name": "judged queries",
        "queries": 1234,
    }
    told = io.StringIO()
    show_study(page, Console(file=told, width=200, highlight=False))
    for text in (told.getvalue(), html.parse(tmp_path / "domain-t9.html").getroot().text_content()):
        assert "1,234 judged queries: nDCG@3, accuracy@3" in text
    assert average_pages([page])["similarities_of"] is None


def test_the_interval_of_a_mean_over_three_seeds() -> None:
    found = average_seeds([{"map": value, "name": "x"} for value in (1.0, 2.0, 3.0)])
    assert found["name"] == "x"
    assert (found["map"]["value"], found["map"]["high"]) == pytest.approx((2, 2 + 4.30 / 3**0.5))


def test_over_seeds_base_keeps_intervals_over_queries_and_widths_are_means() -> None:
    cells = []
    for seed, (base, tuned, half) in enumerate(((76, 60, 8), (77, 61, 9), (78, 65, 10))):
        rows = {
            "base": {"accuracy@5": {"value": base, "low": base - half, "high": base + half}},
            "adapted": {"accuracy@5": {"value": tuned, "low": tuned - half, "high": tuned + half}},
        }
        cells.append((Cell(seed + 1, {}, "", "PT", "", seed), TOLD, kept(**rows)))
    rows = {row.label: row.values for row in rows_of(study_of("domain-t2"), cells)}
    width = "accuracy@5, width of interval"
    assert rows["base"]["accuracy@5"] == {"value": 77, "low": 68, "high": 86}
    assert rows["base"][width] == 18
    assert rows["PT"]["accuracy@5"]["high"] == pytest.approx(62 + 4.30 * (7 / 3) ** 0.5)
    assert (rows["PT"][width]["value"], rows["PT"][width]["seeds"]) == (18, [16, 18, 20])


def test_a_seed_without_a_figure_leaves_it_to_the_others() -> None:
    ten = {"map": interval(10), "rest": None}
    fifty = {
        "map": interval(50),
        "only": interval(3),
        "name": "x",
    }
    for seeds in ([ten, {"map": None}, fifty], [{}, ten, fifty]):
        found = average_seeds(seeds)
        assert (found["map"]["value"], found["map"]["seeds"]) == (30, [10, 50])
        assert (found["only"], found["name"], found["rest"]) == (interval(3), "x", None)


def test_a_correlation_is_over_the_rows_of_its_systems(tmp_path: Path) -> None:
    study = Study(
        name="s",
        source="",
        shows="",
        differs="",
        columns=["map", "coe", "constant"],
        systems={"adapted": "", "adapted, whitened": "whitened"},
        correlations=[
            Correlation(of=["map", "coe"]),
            Correlation(of=["map", "coe"], over=["adapted"]),
            Correlation(of=["map", "constant"]),
        ],
    )
    cells = []
    for number, (value, whitened) in enumerate(((1, 3), (2, 2), (3, 1)), 1):
        rows = {
            "adapted": {"map": interval(value), "coe": value, "constant": 4},
            "adapted, whitened": {"map": interval(value), "coe": whitened},
        }
        cells.append((Cell(number, {}, "", str(number)), TOLD, kept(**rows)))
    found = write_study(
        tmp_path,
        "mine",
        study,
        {},
        cells,
    )
    assert [(each["r"], each["rows"]) for each in found["correlations"]] == [
        (pytest.approx(0), 6),
        (pytest.approx(1), 3),
        (None, 3),
    ]
    assert (tmp_path / "s-correlations.csv").read_text().splitlines()[1] == "MAP,coe,0.0,6"


def test_charts_and_correlations_of_rows(tmp_path: Path) -> None:
    study = Study(
        name="s",
        source="",
        shows="",
        differs="",
        columns=["map", "coe"],
        systems={"adapted": ""},
        correlations=[Correlation(of=["map", "coe"])],
        charts=[
            Chart(kind="line", x="1/training.teacher_temperature", y="map", by="ranking.strategy"),
            Chart(kind="scatter", x="map", y="coe"),
        ],
    )
    cells = [
        (
            Cell(
                number,
                {"training.teacher_temperature": alpha, "ranking.strategy": "uniform"},
                "",
                f"α {alpha}",
            ),
            TOLD,
            kept(adapted={"map": interval(at), "coe": 100 - 2 * at}),
        )
        for number, (alpha, at) in enumerate(((10, 20), (2, 24), (1, 30)), 1)
    ]
    found = write_study(
        tmp_path,
        "mine",
        study,
        {},
        cells,
    )
    assert found["correlations"] == [{"of": ["map", "coe"], "r": pytest.approx(-1), "rows": 3}]
    line, dots = charts_of(html.fromstring((tmp_path / "s.html").read_text()))
    assert [(round(x, 2), round(y, 1)) for x, y in values(line, "line")[0]] == [
        (0.1, 20),
        (0.5, 24),
        (1, 30),
    ]
    assert [
        (round(x, 1), round(y, 1))
        for x, y in map(scale(dots), [at for (at,) in signs(dots, "line")])
    ] == [
        (20, 60),
        (24, 52),
        (30, 40),
    ]


def test_measures_of_a_report() -> None:
    report = {
        "query_sets": [
            {
                "kind": kind,
                "comparison": {
                    "systems": {"base": {"hit@1": at}},
                    "differences": {"adapted": {"hit@1": at}},
                },
            }
            for kind, at in (("judged", 1), ("synthetic", 2))
        ],
        "general": {"systems": {"base": {"hit@1": 3}}, "differences": {}, "distances": None},
        "sentences": None,
        "diagnostics": {"base": {"COE, percent": 4}},
        "robustness": {
            "median_words": 7,
            "synonyms": {"model": "", "share": 0.0},
            "rows": [
                {
                    "kind": "clean",
                    "words": 0,
                    "systems": {"base": {"hit@1": 9}},
                    "differences": {},
                    "mrr_losses": {},
                },
                {
                    "kind": "typo",
                    "words": 2,
                    "systems": {"base": {"hit@1": 5}},
                    "differences": {"base": {"hit@1": 6}},
                    "mrr_losses": {"base": 8},
                },
            ],
        },
    }
    assert collect_figures(report) == {
        "base": {"hit@1": 1, "held-out hit@1": 2, "general hit@1": 3, "COE": 4},
        "adapted": {"Δ hit@1": 1, "Δ held-out hit@1": 2},
        "base, clean": {"hit@1": 9, "median words": 7},
        "base, typo 2": {"hit@1": 5, "Δ hit@1": 6, "loss of MRR@10": 8, "median words": 7},
    }


def test_questions_that_only_measure_count_where_there_are_no_others() -> None:
    report = {
        "general": None,
        "sentences": None,
        "diagnostics": {},
        "robustness": None,
    }

    def set_of(kind: str, value: int) -> dict[str, Any]:
        return {"kind": kind, "comparison": {"systems": {"base": {"hit@1": value}}}}

    measuring = set_of("measuring", 2)
    for sets, expected in (([measuring], 2), ([set_of("judged", 1), measuring], 1)):
        rows = collect_figures({**report, "query_sets": sets})
        assert rows == {"base": {"hit@1": expected}}


@pytest.mark.parametrize(
    ("name", "general", "expected"),
    [
        ("domain-f2", "squad", "squad"),
        ("domain-f2", "", SHIPPED_TEXT),
        ("domain-t2", "squad", None),
    ],
)
def test_the_page_names_the_general_text(
    tmp_path: Path, name: str, general: str, expected: str | None
) -> None:
    one = {**kept(base={"distance, mean": 0.5, "accuracy@5": 1}), "general_text": general}
    page = write_study(
        tmp_path,
        "mine",
        study_of(name),
        {},
        [(Cell(1, {}, "", "FT"), TOLD, one)],
    )
    assert page["general_text"] == expected
    text = html.parse(tmp_path / f"{name}.html").getroot().text_content()
    assert (f"General text: {expected}" in text) == (expected is not None)


def test_each_row_that_was_trained_says_of_which_step_it_is(tmp_path: Path) -> None:
    one = kept(base={"accuracy@5": 1}, adapted={"accuracy@5": 2, "step": 500})
    page = write_study(
        tmp_path, "mine", study_of("domain-t2"), {}, [(Cell(1, {}, "", "FT"), TOLD, one)]
    )
    assert page["columns"] == ["accuracy@5", "step"]
    assert [row["values"].get("step") for row in page["rows"][:2]] == [None, 500]


def test_the_steps_that_several_seeds_kept_are_listed() -> None:
    cells = []
    for seed, step in enumerate((20, 10, 20)):
        rows = {"Mafin": {"recall@1": interval(40 + seed), "step": step}}
        cells.append((Cell(seed + 1, {}, "", "Unsup.", "", seed), TOLD, kept(**rows)))
    (row,) = rows_of(study_of("mafin-t1"), cells)
    assert row.values["step"] == "20, 10, 20"
    (first,) = rows_of(study_of("mafin-t1"), cells[:1] + cells[2:])
    assert first.values["step"] == 20


def test_without_a_language_model_a_study_measures_masking_only(tmp_path: Path) -> None:
    systems = {"base": {"hit@1": 1}}
    rows = [
        {"kind": kind, "words": 0, "systems": systems, "differences": {}, "mrr_losses": {}}
        for kind in ("clean", "mask shared", "substitute shared")
    ]
    report = {
        "query_sets": [],
        "general": None,
        "sentences": None,
        "diagnostics": {},
    }
    for model, labels in (
        ("", ["original", "masked"]),
        ("a model", ["original", "masked", "substituted"]),
    ):
        robustness = {
            "median_words": 7,
            "rows": rows,
            "synonyms": {"model": model, "share": 50.0},
        }
        one = kept(**collect_figures({**report, "robustness": robustness}))
        page = write_study(
            tmp_path, "mine", study_of("bmembed-t5"), {}, [(Cell(1, {}, "", "BMEmbed"), TOLD, one)]
        )
        assert [row["label"] for row in page["rows"]] == [f"Base, {label}" for label in labels]
        assert page["notes"] == ([] if model else [MASKED_ONLY])
        text = html.parse(tmp_path / "bmembed-t5.html").getroot().text_content()
        assert (MASKED_ONLY in text) == (not model)


def test_a_column_may_be_the_width_of_an_interval() -> None:
    values = {
        "map": None,
        "accuracy@5": {"value": 40.0, "low": 35.5, "high": 44.0},
        "steps": 3,
    }
    columns = (
        "map|accuracy@5",
        "accuracy@5, width of interval",
        "steps, width of interval",
        "map, width of interval",
    )
    assert [read_value(values, column) for column in columns] == [
        values["accuracy@5"],
        8.5,
        None,
        None,
    ]


def test_numbers_for_reading() -> None:
    assert [format_figure(one) for one in (None, 12, 0.12345, interval(44.4444), "text")] == [
        "–",
        "12",
        "0.123",
        "44.44",
        "text",
    ]


def test_the_mean_over_data_sets_is_of_what_all_have() -> None:
    first, second = (
        {
            "columns": ["mrr", "loss"],
            "rows": [{"label": label, "values": values} for label, values in rows.items()],
        }
        for rows in (
            {
                "CLS": {"mrr": {"value": 40.0, "low": 30.0, "high": 50.0}, "loss": None},
                "mean": {"mrr": 1, "loss": 2},
            },
            {"CLS": {"mrr": {"value": 60.0, "low": 50.0, "high": 70.0}, "loss": 5.0}},
        )
    )
    mean = average_pages([first, second])
    assert mean["rows"] == [{"label": "CLS", "values": {"mrr": 50.0}, "reason": ""}]
    assert mean["columns"] == ["mrr"]


def test_the_mean_over_data_sets_has_the_files_of_a_study(tmp_path: Path) -> None:
    pages = []
    for number, value in enumerate((40, 60)):
        figures = kept(adapted={"mrr@10": interval(value)})
        cells = [(Cell(1, {}, "", "Average"), TOLD, figures)]
        place = tmp_path / str(number)
        pages.append(write_study(place, "mine", study_of("pipelines-2"), {}, cells))
    write_tables(tmp_path, average_pages(pages))
    assert (tmp_path / "pipelines-2.csv").read_text().splitlines() == [
        'row,MRR@10,"MRR@10, low","MRR@10, high"',
        "Average,50.0,,",
    ]
    assert r"Average & 50.00 \\" in (tmp_path / "pipelines-2.tex").read_text()
    assert "folder" not in json.loads((tmp_path / "pipelines-2.json").read_text())
    assert html.parse(tmp_path / "pipelines-2.html").xpath("//td")[0].text == "50.00"
