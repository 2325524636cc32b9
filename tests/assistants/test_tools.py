"""What the tools answer, by documents made by hand."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from urllib.parse import urlsplit
from urllib.request import url2pathname

import pytest
from fixtures.assistants import called, called_in, indexed

from engine.core.records import Document

LEASE = "# Lease\n\nThe tenant pays the rent monthly.\n\nThe landlord repairs the roof.\n"


def key_of(shelf: Path, path: str) -> str:
    found = Document(
        path,
        str(shelf / "handbook documents"),
        "",
        "",
        "",
        "",
        0,
        0.0,
    )
    return f"handbook:{found.stable_id}"


def test_a_search_gives_the_best_passage_of_each_document_and_says_that_there_are_more(
    handbook: Path, shelf: Path
) -> None:
    found = called(
        handbook,
        "search",
        query="roof",
    )
    assert {hit["path"] for hit in found["results"]} == {
        "contracts/lease.md",
        "reports/wing #1.txt",
    }
    assert found["truncated"] is False
    assert [(one["project"], one["mode"]) for one in found["searched"]] == [("handbook", "bm25")]
    lease = next(hit for hit in found["results"] if hit["path"] == "contracts/lease.md")
    assert lease["id"] == key_of(shelf, "contracts/lease.md")
    assert (lease["title"], lease["line"], set(lease["rankers"])) == ("Lease", 1, {"bm25"})
    assert "The landlord repairs the roof." in lease["text"]
    first = called(
        handbook,
        "search",
        query="roof",
        top=1,
    )
    assert (len(first["results"]), first["truncated"]) == (1, True)
    assert first["results"][0] == found["results"][0]


def test_filters_and_operators(handbook: Path) -> None:
    def paths(**arguments: Any) -> set[str]:
        return {hit["path"] for hit in called(handbook, "search", **arguments)["results"]}

    assert paths(query="pays", types=["txt"]) == {"contracts/loan.txt"}
    assert paths(query="pays roof", paths=["contracts/**"]) == {
        "contracts/lease.md",
        "contracts/loan.txt",
    }
    assert paths(query='"repairs the roof"') == {"contracts/lease.md"}
    assert paths(query="roof -tunnel") == {"contracts/lease.md"}
    assert paths(query="roof", before="2020-01-01") == set()
    assert paths(query="roof", authors=None) == {"contracts/lease.md", "reports/wing #1.txt"}


def test_a_url_names_the_file_whatever_is_in_its_name(handbook: Path, shelf: Path) -> None:
    (hit,) = called(handbook, "search", query="wing")["results"]
    url = urlsplit(hit["url"])
    assert (url.scheme, url.netloc, url.fragment) == ("file", "", "")
    assert Path(url2pathname(url.path)) == shelf / "handbook documents" / "reports/wing #1.txt"
    assert called(handbook, "fetch", id=hit["id"])["url"] == hit["url"]


def test_a_document_is_fetched_whole_and_a_long_one_cut(handbook: Path, shelf: Path) -> None:
    lease = called(
        handbook,
        "fetch",
        id=key_of(shelf, "contracts/lease.md"),
    )
    assert (lease["title"], lease["text"].strip()) == ("Lease", LEASE.strip())
    facts = {name: lease["metadata"].get(name) for name in ("project", "path", "type", "next_line")}
    assert facts == {
        "project": "handbook",
        "path": "contracts/lease.md",
        "type": "md",
        "next_line": None,
    }
    gauge = called(
        handbook,
        "fetch",
        id=key_of(shelf, "reports/gauge.txt"),
    )
    assert len(gauge["text"]) == 50_000
    number = int(gauge["metadata"]["next_line"])
    assert (
        gauge["text"].split("\n")[number - 2]
        == f"{number - 1}: the gauge shows a steady pressure of air"
    )
    rest = called(
        handbook,
        "get",
        id=gauge["id"],
        start=number,
        end=number,
    )
    assert rest["text"] == f"{number}: the gauge shows a steady pressure of air"


@pytest.mark.parametrize(
    ("asked", "start", "end", "truncated"),
    [
        ({"start": 3, "end": 5}, 3, 5, False),
        ({}, 1, 200, False),
        ({"start": 401}, 401, 600, False),
        ({"start": 1, "end": 1400}, 1, 1000, True),
        ({"start": 7, "end": 10**9}, 7, 1006, True),
    ],
)
def test_lines_of_a_document(
    handbook: Path, shelf: Path, asked: dict[str, int], start: int, end: int, truncated: bool
) -> None:
    got = called(
        handbook,
        "get",
        id=key_of(shelf, "reports/gauge.txt"),
        **asked,
    )
    assert (got["start"], got["end"], got["truncated"]) == (start, end, truncated)
    assert got["lines"] in (1500, 1501)
    lines = got["text"].split("\n")
    assert len(lines) == end - start + 1
    assert lines[0] == f"{start}: the gauge shows a steady pressure of air"


def test_an_endless_line_is_cut(handbook: Path, shelf: Path) -> None:
    got = called(
        handbook,
        "get",
        id=key_of(shelf, "reports/endless.txt"),
    )
    assert (got["start"], got["end"], got["truncated"], len(got["text"])) == (1, 1, True, 50_000)
    assert got["next_offset"] == 50_000
    first = called(
        handbook,
        "fetch",
        id=got["id"],
    )
    assert (first["metadata"]["next_line"], first["metadata"]["next_offset"]) == ("1", "50000")
    rest = called(
        handbook,
        "get",
        id=got["id"],
        start=1,
        end=1,
        offset=50_000,
    )
    assert rest["truncated"] is False
    assert "next_offset" not in rest
    assert (got["text"] + rest["text"]).strip() == ("steam " * 10_000).strip()


@pytest.mark.parametrize("asked", [{"start": 9}, {"start": 5, "end": 4}])
def test_lines_that_there_are_not(
    handbook: Path,
    shelf: Path,
    asked: dict[str, int],
) -> None:
    assert (
        called(handbook, "get", id=key_of(shelf, "contracts/lease.md"), **asked)["code"]
        == "lines-missing"
    )


def test_documents_like_one(handbook: Path, shelf: Path) -> None:
    found = called(
        handbook,
        "similar",
        id=key_of(shelf, "contracts/lease.md"),
    )
    paths = [hit["path"] for hit in found["results"]]
    assert "contracts/lease.md" not in paths
    assert "contracts/loan.txt" in paths


def test_an_offset_is_where_a_fetched_text_ends(tmp_path: Path) -> None:
    """Also within a line that is not the first; and the lines after it are read as they are."""
    text = "short\n" + "steam " * 10_000 + "\nlast"
    project = indexed(tmp_path / "notes", {"a.txt": text})
    (hit,) = called(project, "search", query="steam")["results"]
    first = called(
        project,
        "fetch",
        id=hit["id"],
    )
    facts = first["metadata"]
    assert facts["next_line"] == "2"
    asked = {"start": 2, "offset": int(facts["next_offset"])}
    assert first["text"] + called(project, "get", id=hit["id"], **asked)["text"] == text


def test_documents_are_counted(handbook: Path) -> None:
    found = called(handbook, "facets")
    counts = found["projects"]["handbook"]
    assert found["truncated"] is False
    assert (counts["type"], counts["folder"]) == (
        {"txt": 4, "md": 1},
        {"reports": 3, "contracts": 2},
    )
    assert called(handbook, "facets", query="roof")["projects"]["handbook"]["type"] == {
        "md": 1,
        "txt": 1,
    }


def test_the_most_frequent_of_many_facet_values_are_counted_and_marked_as_truncated(
    tmp_path: Path,
) -> None:
    project = indexed(tmp_path / "notes", {f"{number}/a.txt": "a pump" for number in range(21)})
    found = called(project, "facets")
    assert (found["truncated"], len(found["projects"]["notes"]["folder"])) == (True, 20)


def test_status(handbook: Path) -> None:
    (found,) = called(handbook, "status")["projects"]
    assert (found["project"], found["mode"], found["running"]) == ("handbook", "bm25", False)
    assert found["counts"]["documents"] == 5
    assert found["stages"]["index"].startswith("done")
    assert found["stages"]["embed"].startswith("to do")


def test_projects_take_turns_and_ids_name_them(tmp_path: Path) -> None:
    one = indexed(
        tmp_path / "one",
        {"a.txt": "a pump and a pump", "b.txt": "a pump somewhere in a much longer text"},
    )
    other = indexed(tmp_path / "deep" / "other", {"c.txt": "the pump", "d.txt": "a valve"})
    both = [one, other]
    found = called_in(
        both,
        "search",
        query="pump",
    )
    assert [hit["path"] for hit in found["results"]] == ["a.txt", "c.txt", "b.txt"]
    assert [hit["id"].rpartition(":")[0] for hit in found["results"]] == ["one", "other", "one"]
    assert {
        hit["path"] for hit in called_in(both, "search", query="pump", project="one")["results"]
    } == {
        "a.txt",
        "b.txt",
    }
    assert called_in(both, "fetch", id=found["results"][1]["id"])["text"].strip() == "the pump"
    bare_id = found["results"][1]["id"].rpartition(":")[2]  # of a document of the second project
    assert called_in(both, "fetch", id=bare_id)["text"].strip() == "the pump"
    assert called_in(both, "fetch", id="three:0123456789")["code"] == "project-missing"
    assert set(called_in(both, "facets")["projects"]) == {"one", "other"}


def test_projects_of_one_name_are_told_apart(tmp_path: Path) -> None:
    both = [
        indexed(tmp_path / name / "notes", {"a.txt": f"a pump of {name}"})
        for name in ("first", "second")
    ]
    found = called_in(
        both,
        "search",
        query="pump",
    )
    assert [hit["project"] for hit in found["results"]] == ["first/notes", "second/notes"]
    texts = [called_in(both, "fetch", id=hit["id"])["text"].strip() for hit in found["results"]]
    assert texts == ["a pump of first", "a pump of second"]


def test_a_project_that_cannot_be_searched_does_not_hide_the_others(
    tmp_path: Path, handbook: Path
) -> None:
    from engine.api import Project

    new = Project.create(str(tmp_path / "new"), [tmp_path]).path
    found = called_in(
        [new, handbook],
        "search",
        query="roof",
    )
    assert len(found["results"]) == 2
    assert [one.get("error", {}).get("code") for one in found["searched"]] == ["not-built", None]
    assert called(new, "search", query="roof")["code"] == "not-built"


def test_a_damaged_project_does_not_hide_the_others(tmp_path: Path, handbook: Path) -> None:
    broken = indexed(tmp_path / "broken", {"a.txt": "a roof"})
    (broken / "project.db").write_bytes(b"x" * 10_000)
    found = called_in(
        [broken, handbook],
        "search",
        query="roof",
    )
    assert [one.get("error", {}).get("code") for one in found["searched"]] == [
        "database-damaged",
        None,
    ]
    assert len(found["results"]) == 2


def test_a_document_whose_file_is_gone_is_not_given_away(tmp_path: Path) -> None:
    project = indexed(tmp_path / "notes", {"a.txt": "a pump", "b.txt": "a valve"})
    (hit,) = called(project, "search", query="pump")["results"]
    (tmp_path / "notes documents" / "a.txt").unlink()
    assert called(project, "fetch", id=hit["id"])["code"] == "document-missing"
    assert called(project, "similar", id=hit["id"])["code"] == "document-missing"
    assert called(project, "search", query="pump")["results"] == []
