from __future__ import annotations

import json
from collections import Counter
from typing import Any, get_args

import pytest
from fixtures.errors import fails
from fixtures.pipeline import engine_here, stage_here
from fixtures.written_queries import queries_of

from engine.api import Project
from engine.core.errors import NotBuiltError, ProjectBusyError, UsageError
from engine.core.messages.queries import UNUSED, evidence_span
from engine.core.records import JudgedQuery, Origin
from engine.corpus.text.document_queries import document_queries
from engine.project.folder import ProjectFolder
from engine.project.store.artifact_info import QueriesInfo
from engine.project.store.store import Store
from engine.service import methods, query_uses
from engine.settings.edit import change


def states(call: Any) -> dict[str, str]:
    return {row["stage"]: row["state"] for row in call("status")["stages"]}


def test_pages_and_counts(project: ProjectFolder, call: Any) -> None:
    everything = queries_of(project)
    answer = call("queries")
    assert answer["total"] == answer["kept"] == len(everything) == len(answer["queries"])
    assert answer["made"] >= answer["kept"]
    assert answer["kinds"] == Counter(query.kind for query in everything)
    assert answer["splits"] == Counter(query.split for query in everything)
    page = call(
        "queries",
        offset=3,
        limit=2,
    )
    assert page["total"] == len(everything)
    assert [row["text"] for row in page["queries"]] == [query.text for query in everything[3:5]]
    assert call("queries", offset=10**6)["queries"] == []
    first = answer["queries"][0]
    store = project.store()
    document = store.document_card(everything[0].document_id)
    store.close()
    assert (first["path"], first["title"]) == (document.path, document.title)
    names = (
        "id",
        "text",
        "kind",
        "split",
        "evidence",
        "chunk_id",
        "document_id",
    )
    assert {name: first[name] for name in names} == {
        name: getattr(everything[0], name) for name in names
    }


def test_examples_are_written_queries_first_and_extractive_ones_only_without_others(
    project: ProjectFolder, call: Any
) -> None:
    store = project.store()
    generated = queries_of(project)
    written = {query.text for query in document_queries(store)}
    assert call("examples", limit=2) == call("examples")[:2]
    assert set(call("examples")) <= written
    store.put_judged([JudgedQuery(str(number), f"who pays {number}") for number in range(4)])
    assert call("examples", limit=2) == ["who pays 0", "who pays 2"]
    store.drop_judged(map(str, range(4)))
    with store.transaction():
        for document in store.documents():
            store.replace_document_queries(document.id, [])
    held_out = [query.text for query in generated if query.split == "heldout"]
    assert call("examples", limit=2) == list(dict.fromkeys(held_out))[:2]
    store.close()


def test_filters(project: ProjectFolder, call: Any) -> None:
    everything = queries_of(project)
    kind = everything[0].kind
    answer = call(
        "queries",
        kind=kind,
        split="train",
    )
    assert [row["id"] for row in answer["queries"]] == [
        q.id for q in everything if (q.kind, q.split) == (kind, "train")
    ]
    assert answer["total"] == len(answer["queries"]) > 0
    assert answer["kept"] == len(everything)
    call(
        "edit_query",
        id=everything[1].id,
        text="Über 100 % of the STRASSE?",
    )
    for text in ("über 100 %", "strasse", "  of the\n"):
        ids = [row["id"] for row in call("queries", text=text)["queries"]]
        assert everything[1].id in ids, text
    assert call("queries", text="100 %")["total"] == 1
    assert call("queries", text="no such words at all")["total"] == 0
    assert call("queries", kind="title' OR 1=1 --")["total"] == 0


def test_one_query_with_its_evidence(project: ProjectFolder, call: Any) -> None:
    for query in queries_of(project):
        answer = call("query", id=query.id)
        start, end = answer["span"]
        assert answer["chunk"][start:end].split() == query.evidence.split()
    with fails(UsageError, "query-missing", 999999):
        call("query", id=999999)


@pytest.mark.parametrize(
    ("evidence", "text", "span"),
    [
        ("b c", "a b c d", (2, 5)),
        ("b c", "a b\n  c d", (2, 7)),
        ("bc", "a b c d", (2, 5)),
        ("x", "abc", None),
        ("", "abc", None),
        (" \n", "abc", None),
        ("a", "", None),
        ("日本", "東京 日 本", (3, 6)),
    ],
)
def test_where_evidence_stands(
    evidence: str,
    text: str,
    span: tuple[int, int] | None,
) -> None:
    assert evidence_span(evidence, text) == span


def test_queries_whose_document_is_gone(project: ProjectFolder, call: Any) -> None:
    gone = queries_of(project)[0]
    store = project.store()
    with store.transaction():
        store.drop_document(gone.document_id)
    store.purge_dead()
    store.close()
    answer = call("query", id=gone.id)
    assert (answer["text"], answer["path"], answer["chunk"], answer["span"]) == (
        gone.text,
        "",
        "",
        None,
    )
    assert call("edit_query", id=gone.id, text="still mine")["text"] == "still mine"


def test_an_edit_makes_later_stages_stale_and_lasts(project: ProjectFolder, call: Any) -> None:
    first, second, third = queries_of(project)[:3]
    answer = call(
        "edit_query",
        id=first.id,
        text="asked in my own words",
    )
    assert (answer["id"], answer["text"], answer["chunk_id"]) == (
        first.id,
        "asked in my own words",
        first.chunk_id,
    )
    assert answer["chunk"]
    assert call("delete_queries", ids=[second.id, third.id, 999999]) == {"deleted": 2}
    assert call("query", id=first.id)["text"] == "asked in my own words"
    assert call("queries")["kept"] == call("status")["counts"]["queries"]
    assert (states(call)["generate"], states(call)["rank"]) == ("done", "stale")
    stage_here(project.path, "rank")
    assert states(call)["rank"] == "done"
    edited = [(query.text, query.chunk_id, query.split) for query in queries_of(project)]
    stage_here(project.path, "generate")
    assert [(query.text, query.chunk_id, query.split) for query in queries_of(project)] == edited
    assert second.text not in {text for text, _, _ in edited}
    assert states(call)["rank"] == "done"  # the same queries as were ranked
    edited_query = next(
        query for query in queries_of(project) if query.text == "asked in my own words"
    )
    call(
        "edit_query",
        id=edited_query.id,
        text=first.text,
    )
    stage_here(project.path, "generate")
    assert first.text in {query.text for query in queries_of(project)}


def test_an_edit_of_a_judged_text_is_refused(project: ProjectFolder, call: Any) -> None:
    store = project.store()
    store.put_judged([JudgedQuery("k", "What is measured?", ("x",))])
    store.close()
    first, second = queries_of(project)[:2]
    for text in ("what is MEASURED?", second.text.upper(), " "):
        with pytest.raises(UsageError):
            call(
                "edit_query",
                id=first.id,
                text=text,
            )
    assert queries_of(project)[0] == first


def test_nothing_is_changed_while_a_run_goes_on(project: ProjectFolder, call: Any) -> None:
    first = queries_of(project)[0]
    with project.locked():
        with pytest.raises(ProjectBusyError):
            call(
                "edit_query",
                id=first.id,
                text="new",
            )
        with pytest.raises(ProjectBusyError):
            call("delete_queries", ids=[first.id])
        assert call("query", id=first.id)["text"] == first.text


def test_queries_by_origin(project: ProjectFolder, monkeypatch: pytest.MonkeyPatch) -> None:
    store = project.store()
    generated = store.queries()
    held = document_queries(store)
    store.put_judged([JudgedQuery("k", "who pays", path="a.md"), JudgedQuery("l", "who does not")])
    store.close()
    opened = Project(project)
    read: list[int] = []
    every = Store.document_queries
    monkeypatch.setattr(
        Store, "document_queries", lambda instance: (read.append(1), every(instance))[1]
    )
    listing = opened.queries_by_origin()
    assert len(read) == 1, "what the documents hold is gathered once"
    headings = opened.queries_by_origin("heading")
    with fails(UsageError, "origin-unknown", "headings"):
        opened.queries_by_origin("headings")
    opened.close()
    expected = Counter(query.origin for query in held) | Counter(
        {"extractive": len(generated), "judged": 2}
    )
    assert (
        Counter(query.origin for query in listing.queries)
        == listing.counts
        == headings.counts
        == expected
    )
    assert expected["heading"] > 0
    assert listing.uses == headings.uses
    assert {name: sum(uses.values()) for name, uses in listing.uses.items()} == listing.counts
    assert {query.text for query in headings.queries} == {
        query.text for query in held if query.origin == "heading"
    }
    assert [(query.text, query.path) for query in listing.queries[-2:]] == [
        ("who pays", "a.md"),
        ("who does not", ""),
    ]
    learnt = {
        query.path
        for query in listing.queries
        if query.use in ("trained on", "stopping the training")
    }
    assert learnt
    assert not learnt & {
        query.path
        for query in listing.queries
        if query.use == "evidence" and query.origin != "judged"
    }
    first = headings.queries[0]
    assert (first.path, first.start >= 0, first.chunk_id is None) == (first.written_in, True, False)


@pytest.mark.parametrize(("least", "stopped"), [(2, True), (3, False)])
def test_validation_queries_stop_the_training_where_they_are_enough(
    project: ProjectFolder, monkeypatch: pytest.MonkeyPatch, least: int, stopped: bool
) -> None:
    monkeypatch.setattr(
        query_uses, "written_for_stopping", lambda _queries, written, *_: written[:2]
    )
    monkeypatch.setattr(query_uses, "MIN_TO_STOP", least)
    opened = Project(project)
    queries = opened.queries_by_origin().queries
    opened.close()
    assert any(query.use == "stopping the training" for query in queries) == stopped


def test_what_queries_are_used_for(project: ProjectFolder) -> None:
    splits = {query.text: query.split for query in queries_of(project)}
    learnt, aside = (
        next(text for text in splits if splits[text] == split) for split in ("train", "heldout")
    )
    store = project.store()
    path = store.documents()[0].path
    store.put_judged([JudgedQuery(text, text, path=path) for text in ("who pays", learnt, aside)])
    store.put_judged([JudgedQuery("who sings", "who sings", ("No document says this.",))])
    store.close()
    opened = Project(project)
    queries = opened.queries_by_origin().queries
    uses = {(query.origin, query.text): query.use for query in queries}
    expected = {
        "train": "trained on",
        "validation": "unused",
        "heldout": "measured only",
    }
    assert {text: uses["extractive", text] for text in splits} == {
        text: expected[split] for text, split in splits.items()
    }
    assert [uses["judged", text] for text in ("who pays", learnt, aside)] == [
        "evidence",
        "unused",
        "unused",
    ]
    assert all((query.use == "unused") == (query.reason is not None) for query in queries)
    reasons = {(query.origin, query.text): query.reason for query in queries}
    assert [reasons["judged", text] for text in (learnt, aside, "who sings")] == [
        "trained",
        "asked",
        "no-answer",
    ]
    trained = {
        query.path
        for query in queries
        if query.origin == "extractive" and splits[query.text] != "heldout"
    }
    written = [
        query for query in queries if query.origin in get_args(Origin) and query.use == "unused"
    ]
    assert written
    assert all((query.reason == "document-trained") == (query.path in trained) for query in written)
    file = project.path / "project.toml"
    file.write_text(change(file.read_text(), {"evaluation.use_judged": False})[1])
    counts = opened.queries_by_origin("judged").uses["judged"]
    opened.close()
    assert counts == {"measured only": 1, "unused": 3}


def test_a_share_leaves_queries_unused(project: ProjectFolder) -> None:
    splits = Counter(query.split for query in queries_of(project))
    project.change_settings({"training.query_share": 0.5})
    opened = Project(project)
    reasons = Counter(query.reason for query in opened.queries_by_origin("extractive").queries)
    opened.close()
    assert reasons["share"] == splits["train"] - round(splits["train"] / 2) > 0


def test_the_command_lists_queries_by_origin(project: ProjectFolder) -> None:
    every = json.loads(engine_here("queries", str(project.path), "--origin", "--json").stdout)
    some = json.loads(
        engine_here("queries", str(project.path), "--origin", "heading", "--json").stdout
    )
    assert some["counts"] == every["counts"]
    assert (
        some["queries"]
        == [query for query in every["queries"] if query["origin"] == "heading"]
        != []
    )
    completed = engine_here(
        "queries",
        str(project.path),
        "--origin",
        "heading",
    )
    why = [
        query["use"] + (f": {UNUSED[query['reason']]}" if query["reason"] else "")
        for query in some["queries"]
    ]
    assert [line.strip() for line in completed.stdout.splitlines()] == [
        line
        for use, query in zip(why, some["queries"], strict=True)
        for line in (f"heading ({use}): {query['text']}", query["path"])
    ]
    assert [line.split()[:2] for line in completed.stderr.splitlines()] == [
        [str(count), f"{origin}:"] for origin, count in every["counts"].items()
    ]
    assert (
        engine_here("queries", str(project.path), "--origin", "--rejected", check=False).returncode
        == 2
    )
    assert (
        engine_here("queries", str(project.path), "--origin", "headline", check=False).returncode
        == 2
    )


def test_before_anything_was_generated(tmp_path: Any) -> None:
    calls = methods(ProjectFolder.create(tmp_path / "new", {}))
    assert calls["queries"]()() == {
        "total": 0,
        "queries": [],
        "made": 0,
        "kept": 0,
        "rejected": {},
        "kinds": {},
        "splits": {},
    }
    with pytest.raises(NotBuiltError):
        calls["delete_queries"](ids=[1])()


@pytest.mark.parametrize(
    ("method", "params"),
    [
        ("queries", {"offset": -1}),
        ("queries", {"limit": 0}),
        ("queries", {"limit": True}),
        ("queries", {"text": 1}),
        ("queries", {"kind": []}),
        ("query", {"id": "1"}),
        ("query", {"id": 2**63}),
        ("query", {}),
        ("edit_query", {"id": 1}),
        ("edit_query", {"id": 1, "text": None}),
        ("delete_queries", {"ids": 1}),
        ("delete_queries", {"ids": [0]}),
    ],
)
def test_wrong_params(
    project: ProjectFolder,
    method: str,
    params: dict[str, Any],
) -> None:
    with pytest.raises(TypeError):
        methods(project)[method](**params)


def test_a_generated_query_that_was_judged_decides_nothing_when_it_is_gone(
    project: ProjectFolder, call: Any
) -> None:
    aside = next(query for query in queries_of(project) if query.split == "heldout")
    call(
        "judge",
        query=aside.text,
        chunk_id=aside.chunk_id,
        relevant=True,
    )
    call("delete_queries", ids=[aside.id])
    assert aside.text not in {query.text for query in queries_of(project)}
    opened = Project(project)

    def uses() -> dict[str, str]:
        return {query.text: query.use for query in opened.queries_by_origin("judged").queries}

    assert uses() == {aside.text: "measured only"}
    call(
        "judge",
        query="who pays",
        chunk_id=aside.chunk_id,
        relevant=True,
    )
    assert uses() == {aside.text: "unused", "who pays": "evidence"}
    opened.close()


def test_before_training_queries_are_made_no_document_was_trained_on(
    project: ProjectFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    artifact = Store.artifact
    monkeypatch.setattr(
        Store,
        "artifact",
        lambda instance, kind: None if kind is QueriesInfo else artifact(instance, kind),
    )
    opened = Project(project)
    reasons = {
        query.reason
        for query in opened.queries_by_origin().queries
        if query.origin in get_args(Origin)
    }
    opened.close()
    assert "document-to-train" in reasons
    assert "document-trained" not in reasons
