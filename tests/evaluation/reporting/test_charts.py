"""Charts show what they are given: marks stand where the axes say so, told apart without
colours, in the page's own.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import warnings
from pathlib import Path
from typing import Any

import pytest
from fixtures.drawing import corners, parsed, scale, shapes, signs, texts, values
from fixtures.user_folders import HOME
from lxml import etree

from engine.evaluation.reporting.charts import (
    MAX_LABEL_LENGTH,
    Bar,
    Line,
    bar_chart,
    change_chart,
    gap_chart,
    line_chart,
)
from engine.evaluation.reporting.svg import WIDTH

pytestmark = pytest.mark.charts

ROOT = Path(__file__).resolve().parents[3]
STYLE = (ROOT / "assets" / "report" / "style.css.j2").read_text(encoding="utf-8")
PAIR = [Line(name, [(0, 5), (1, 6)], number, [(4, 6), (5, 7)]) for number, name in enumerate("ab")]
ALL = {
    "bars": lambda: bar_chart("t", [Bar("one", 20, 10, 40, 0), Bar("two", 40, 30, 40, 1)]),
    "gaps": lambda: gap_chart("t", [Bar("a", 2, 1, 3, 3), Bar("b", -2, -4, 0, 2)]),
    "changes": lambda: change_chart("t", [100.0, 50.0, -25.0], "x", "y"),
    "lines": lambda: line_chart("t", PAIR, "x", "y"),
}
# Of DejaVu Sans, the widest of the fonts that are usual, in ems; figures have 0.636.
ADVANCES = {
    " ": 0.318,
    ".": 0.318,
    "(": 0.39,
    ")": 0.39,
    "–": 0.5,
    "+": 0.838,
    "-": 0.361,
    "t": 0.392,
    "o": 0.612,
}


def approx_points(*points: tuple[float, float]) -> Any:
    return [pytest.approx(point, abs=0.05) for point in points]


def test_bars_and_whiskers_end_at_their_values() -> None:
    chart = parsed(bar_chart("t", [Bar("one", 20, 10, 40, 0), Bar("two", 35.5, 30, 39, 1)]))
    first, second = values(chart, "bar")
    assert [
        (min(x for x, _ in bar), max(x for x, _ in bar)) for bar in (first, second)
    ] == approx_points((0, 20), (0, 35.5))
    whiskers = [(low[0], high[0]) for low, high in values(chart, "whisker")]
    assert whiskers == approx_points((10, 40), (30, 39))
    read = scale(chart)
    assert [[read(at)[0] for at in row] for row in signs(chart, "whisker")[-2:]] == [
        pytest.approx(row, abs=0.05) for row in ([10, 30], [40, 39])
    ]
    tops = [min(y for _, y in bar) for bar in shapes(chart, "bar")]
    assert tops[0] < tops[1]
    assert texts(chart, "label") == ["one", "two", "20.0 (10.0–40.0)", "35.5 (30.0–39.0)"]
    assert [bar[0].get("style").partition(";")[0] for bar in chart.xpath(".//g[@class='bar']")] == [
        "fill: var(--c0)",
        "fill: var(--c1)",
    ]


def test_a_label_that_is_written_like_a_colour_stays_a_text() -> None:
    names = ["#010203", "#010299"]
    chart = parsed(bar_chart("#020300", [Bar(name, 20, 10, 40, 0) for name in names]))
    assert texts(chart, "label")[:2] == names
    assert chart.get("aria-label") == "#020300"
    assert "var(--c0)" in chart.find(".//g[@class='bar']").find("path").get("style")


def test_labels_and_values_stand_next_to_their_row() -> None:
    chart = parsed(ALL["bars"]())
    rows = [sum(y for _, y in bar) / len(bar) for bar in shapes(chart, "bar")]
    beside = {text.text: float(text.get("y")) for text in chart.xpath(".//g[@class='label']/text")}
    for row, names in zip(
        rows, (("one", "20.0 (10.0–40.0)"), ("two", "40.0 (30.0–40.0)")), strict=True
    ):
        assert [beside[name] for name in names] == [pytest.approx(row + 4.5, abs=1)] * 2


@pytest.mark.parametrize("chart", [bar_chart, gap_chart])
@pytest.mark.parametrize(
    "bar", [Bar("best", 100, 100, 100, 0), Bar("some", 5, -2, 7, 0), Bar("none", 0, 0, 0, 0)]
)
def test_values_next_to_bars_are_not_cut_off(chart, bar) -> None:
    (value,) = (text for text in parsed(chart("t", [bar])).iter("text") if "(" in (text.text or ""))
    assert (
        float(value.get("x")) + sum(12 * ADVANCES.get(letter, 0.636) for letter in value.text)
        <= WIDTH
    )


def test_differences_lie_on_both_sides_of_zero() -> None:
    chart = parsed(gap_chart("t", [Bar("a", 2, 1, 3, 3), Bar("b", -2, -4, 0, 2)]))
    read = scale(chart)
    assert [read(at)[0] for (at,) in signs(chart, "point")] == pytest.approx([2, -2], abs=0.05)
    assert [(low[0], high[0]) for low, high in values(chart, "whisker")] == approx_points(
        (1, 3), (-4, 0)
    )
    assert [x for x, _ in values(chart, "zero")[0]] == pytest.approx([0, 0], abs=0.05)
    assert texts(chart, "label") == ["a", "b", "+2.0 (+1.0 to +3.0)", "-2.0 (-4.0 to +0.0)"]
    assert gap_chart("t", []) == ""


def test_changes_stand_up_and_down_from_zero_and_equal_ones_are_one_step() -> None:
    chart = parsed(change_chart("t", [100.0, 50.0, 50.0, *[0.0] * 5, -25.0, -25.0], "x", "y"))
    gains, losses = values(chart, "bar")
    start = shapes(chart, "bar")[0][0][0]
    right = shapes(chart, "bar")[0][-1][0]
    query = (right - start) / 10
    edges = [
        0,
        0,
        1,
        1,
        3,
        3,
        8,
        8,
        10,
        10,
    ]
    for shape, heights in (
        (gains, [0, 100, 100, 50, 50, 0, 0, 0, 0, 0]),
        (losses, [0] * 7 + [-25] * 2 + [0]),
    ):
        assert [y for _, y in shape] == pytest.approx(heights, abs=0.05)
    for shape in shapes(chart, "bar"):
        assert [(x - start) / query for x, _ in shape] == pytest.approx(edges, abs=0.01)
    styles = [path.get("style") for path in chart.xpath(".//g[@class='bar']/path")]
    assert "var(--c3)" in styles[0]
    assert "var(--c2)" in styles[1]
    assert [text for text in texts(chart, "tick") if text in ("1", "10")] == ["1", "10"]
    assert change_chart("t", [0.0, 0.0], "x", "y") == change_chart("t", [], "x", "y") == ""


def test_lines_pass_through_their_values_and_survive_constant_ones() -> None:
    points = [
        (0.0, 1.0),
        (10.0, 5.0),
        (20.0, 3.0),
    ]
    chart = parsed(line_chart("t", [Line("s", points, 0)], "x", "y"))
    assert values(chart, "line") == [approx_points(*points)]
    assert [[scale(chart)(at) for at in line] for line in signs(chart)] == [approx_points(*points)]
    for constant in (0.0, 5.0, -2.0):
        chart = parsed(line_chart("t", [Line("s", [(3, constant)], 0)], "x", "y"))
        assert [[scale(chart)(at) for at in line] for line in signs(chart)] == [
            approx_points((3, constant))
        ]
    assert line_chart("t", [Line("s", [], 0)], "x", "y") == ""


def test_an_axis_reaches_the_given_value() -> None:
    chart = parsed(line_chart("t", [Line("s", [(0, 1), (1, 2)], 0)], "x", "y", y_most=9.5))
    assert max(float(text) for text in texts(chart, "tick")) == 10


def test_long_curves_are_thinned_but_keep_their_end() -> None:
    chart = parsed(
        line_chart("t", [Line("s", [(step, step) for step in range(100_000)], 0)], "x", "y")
    )
    ((*_, last),) = values(chart, "line")
    assert last == pytest.approx((99_999, 99_999), rel=1e-3)
    zigzag = [Line("s", [(step, step % 2 * step) for step in range(100_001)], 0)]
    (points,) = shapes(parsed(line_chart("t", zigzag, "x", "y")), "line")
    assert len(points) <= 402


def test_whiskers_of_several_lines_are_drawn_apart() -> None:
    chart = parsed(line_chart("t", PAIR, "x", "y"))
    across = [low[0] for low, _ in shapes(chart, "whisker")]
    assert [across[2] - across[0], across[3] - across[1]] == pytest.approx([5, 5], abs=0.02)
    assert min(across) >= min(x for x, _ in shapes(chart, "grid")[0])
    assert [x for line in signs(chart) for x, _ in line] == across
    assert [(low[1], high[1]) for low, high in values(chart, "whisker")] == approx_points(
        *[(4, 6), (5, 7)] * 2
    )
    alone = parsed(line_chart("t", PAIR[:1], "x", "y"))
    assert [(low[0], high[0]) for low, high in values(alone, "whisker")] == approx_points(
        (0, 0), (1, 1)
    )


def test_names_of_many_lines_take_as_many_rows_as_they_need() -> None:
    lines = [
        Line(f"a system with a long name, number {number}", [(0, 1), (1, number)], number)
        for number in range(6)
    ]
    root = parsed(line_chart("t", lines, "x", "y"))
    names = [item for item in root.iter("text") if (item.text or "").startswith("a system")]
    assert len(names) == 6
    assert len({item.get("y") for item in names}) > 1
    assert all(float(item.get("x")) + 6.6 * len(item.text) <= 660 for item in names)
    plot = min(y for line in shapes(root, "grid") for _, y in line)
    assert max(float(item.get("y")) for item in names) < plot


@pytest.mark.parametrize("points", [1, 2])
def test_eight_lines_are_told_apart_without_colours(points) -> None:
    lines = [
        Line(f"s{number}", [(x, number) for x in range(points)], number) for number in range(8)
    ]
    chart = parsed(line_chart("t", lines, "x", "y"))
    for kind in ("line", "sample"):
        groups = chart.xpath(f".//g[@class='{kind}']")
        looks = {
            (
                tuple(
                    re.findall(r"dasharray: ([^;]*)", " ".join(path.get("style") for path in group))
                ),
                tuple(corners(group.xpath("./path[@class='sign']")[0])),
            )
            for group in groups
        }
        assert len(groups) == len(looks) == 8
        assert len({shape for _, shape in looks}) == 8
        assert len({dashes for dashes, _ in looks}) == (4 if points > 1 else 1)


def test_a_line_without_a_name_is_neither_in_the_legend_nor_signed() -> None:
    lines = [
        Line("", [(0, 1), (1, 2)], 0),
        Line("a", [(0, 1)], 1),
        Line("b", [(1, 2)], 2),
    ]
    chart = parsed(line_chart("t", lines, "x", "y"))
    assert texts(chart, "label") == ["a", "b"]
    assert [len(line) for line in signs(chart)] == [0, 1, 1]
    assert [len(line) for line in shapes(chart, "line")] == [2]


@pytest.mark.parametrize("name", ALL)
def test_a_chart_takes_every_colour_from_the_page_and_nothing_else_from_anywhere(name) -> None:
    svg = ALL[name]()
    assert svg == ALL[name]()
    assert svg.startswith('<svg role="img" aria-label="t" ')
    assert f'viewBox="0 0 {WIDTH} ' in svg
    used = set(re.findall(r"(?:fill|stroke): ([^;\"]+)", svg)) - {"none"}
    assert used
    declared = {f"var({variable})" for variable in re.findall(r"(--\w+):", STYLE)}
    assert used <= declared
    for sign in ("url(", "<script", "<!", " on", "javascript", "@import"):
        assert sign not in svg, sign
    root = etree.fromstring(svg)
    here = {item.get("id") for item in root.iter()}
    for item in root.iter():
        for attribute, value in item.attrib.items():
            if attribute.endswith("href"):
                assert value.startswith("#")
                assert value[1:] in here


def test_every_colour_of_charts_is_set_for_light_dark_and_paper() -> None:
    blocks = [block.split("}")[0] for block in STYLE.split(":root {")[1:]]
    assert len(blocks) == 3
    for block in blocks:
        assert {
            "--ink",
            "--soft",
            "--rule",
            "--paper",
            *(f"--c{number}" for number in range(8)),
        } <= set(re.findall(r"(--\w+):", block))


@pytest.mark.parametrize(
    ("label", "text"),
    [
        ("cost $x$ or $\\frac{1}{2$", "cost $x$ or $\\frac{1}{2$"),
        ("<b>&amp;\"'", "<b>&amp;\"'"),
        ("中文 標籤", "中文 標籤"),
        (
            "nul\0 esc\x1b[31m half\ud800 turned\u202e two\nlines",
            "nul� esc�[31m half� turned� two…",
        ),
        ("x" * 100, "x" * (MAX_LABEL_LENGTH - 1) + "…"),
    ],
)
def test_a_label_is_shown_as_it_is_written_and_warns_of_nothing(label, text) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        chart = parsed(gap_chart("t", [Bar(label, 1, 0, 2, 0)]))
        lines = [Line(label, [(0, 1)], 0), Line("b", [(1, 2)], 1)]
        legend = parsed(line_chart("t", lines, "x", "y"))
    assert texts(chart, "label")[0] == text
    assert (
        texts(legend, "label")[0][: MAX_LABEL_LENGTH - 1] == label_of(label)[: MAX_LABEL_LENGTH - 1]
    )


def label_of(label: str) -> str:
    return re.sub(r"[\0\x1b\ud800\u202e]", "�", label).replace("\n", " ")


ALONE = """
import sys
from engine.evaluation.reporting.charts import Bar, bar_chart
assert not any(name.partition(".")[0] == "matplotlib" for name in sys.modules)
sys.stdout.write(bar_chart("t", [Bar("one", 20, 10, 40, 0), Bar("two", 40, 30, 40, 1)]))
assert "matplotlib.pyplot" not in sys.modules
import os
assert not any(name.startswith("MPL") for name in os.environ), os.environ
"""


def bare_environment(home: Path, temporary: Path) -> dict[str, str]:
    """The variables that Python needs, and none of the user's."""
    needed = {name: os.environ[name] for name in ("PATH", "SYSTEMROOT") if name in os.environ}
    folders = {HOME: str(home), "TMPDIR": str(temporary)}
    return {
        **needed,
        **folders,
        "PYTHONPATH": str(ROOT),
        "PYTHONUTF8": "1",
    }


def test_the_users_matplotlib_has_no_say_and_nothing_is_left_behind(tmp_path) -> None:
    home = tmp_path / "home"
    work = tmp_path / "work"
    (home / ".config" / "matplotlib").mkdir(parents=True)
    work.mkdir()
    # Read as matplotlib does, the first would make text curves and black ground, the second would
    # end the program.
    (home / ".config" / "matplotlib" / "matplotlibrc").write_text(
        "svg.fonttype: path\nfigure.facecolor: black\nno: key\n"
    )
    (work / "matplotlibrc").write_bytes(b"font.family: \xff\n")
    before = sorted(tmp_path.rglob("*"))
    (tmp_path / "temporary").mkdir()
    completed = subprocess.run(
        [sys.executable, "-c", ALONE],
        cwd=work,
        capture_output=True,
        text=True,
        check=False,
        encoding="utf-8",
        env={**bare_environment(home, tmp_path / "temporary"), "PYTHONDONTWRITEBYTECODE": "1"},
    )
    assert (completed.returncode, completed.stderr) == (0, "")
    assert completed.stdout == ALL["bars"]()
    assert sorted(path for path in tmp_path.rglob("*") if path.name != "temporary") == before


def test_a_broken_choice_of_backend_and_a_home_that_cannot_be_written_do_no_harm(tmp_path) -> None:
    (tmp_path / "file").touch()
    nowhere = tmp_path / "file" / "nowhere"
    completed = subprocess.run(
        [sys.executable, "-c", ALONE.rpartition("import os")[0]],
        capture_output=True,
        text=True,
        check=False,
        encoding="utf-8",
        env={
            **bare_environment(nowhere, tmp_path),
            "MPLBACKEND": "no such backend",
            "MPLCONFIGDIR": str(nowhere),
        },
    )
    assert (completed.returncode, completed.stderr) == (0, "")
    assert completed.stdout == ALL["bars"]()


def test_whoever_else_uses_matplotlib_keeps_what_was_set() -> None:
    import matplotlib

    theirs: Any = {
        "svg.fonttype": "path",
        "font.size": 31.0,
        "text.color": "red",
        "lines.dash_capstyle": "round",
    }
    ours = ALL["lines"]()
    with matplotlib.rc_context(theirs):
        before = dict(matplotlib.rcParams)
        assert ALL["lines"]() == ours
        assert dict(matplotlib.rcParams) == before
