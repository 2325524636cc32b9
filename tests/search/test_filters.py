from __future__ import annotations

import contextlib
import re
from dataclasses import replace

import pytest
from fixtures.errors import fails
from fixtures.records import build_document
from hypothesis import given
from hypothesis import strategies as st

from engine.core.errors import UsageError
from engine.core.records import Document
from engine.search.filters import (
    SearchFilter,
    facets,
    find_unmet,
    unknown_format,
    unknown_formats,
)


def document(
    number: int,
    path: str,
    modified: float = 0.0,
) -> Document:
    return build_document(
        path,
        modified=modified,
        id=number,
    )


DOCUMENTS = [
    document(1, "contracts/lease.md", 10.0),
    document(2, "contracts/old/loan.html", 20.0),
    document(3, "reports/wing.md", 30.0),
    document(4, "corpus.jsonl#doc-7", 40.0),
]


@pytest.mark.parametrize(
    ("paths", "wanted"),
    [
        (["contracts/**"], {1, 2}),
        (["contracts/*"], {1, 2}),
        (["contracts"], {1, 2}),
        (["*.md"], {1, 3}),
        (["**/*.html"], {2}),
        (["/reports/*.md"], {3}),
        (["*.html", "reports/"], {2, 3}),
        (["corpus.jsonl#*"], {4}),
        (["*.pdf"], set()),
        (["contracts/./"], {1}),
        (["/contracts/."], {1}),
        (["contr?cts/./"], {1}),
        (["contracts/old/./", "/./"], {2, 4}),
        (["."], {4}),
        (["old/./"], set()),
        ([], {1, 2, 3, 4}),
    ],
)
def test_globs(paths: list[str], wanted: set[int]) -> None:
    assert SearchFilter(paths=tuple(paths)).allowed(DOCUMENTS) == wanted


@pytest.mark.parametrize(
    ("formats", "wanted"),
    [(("md",), {1, 3}), ((".MD", "html"), {1, 2, 3}), (("jsonl",), {4}), (("pdf",), set())],
)
def test_formats(formats: tuple[str, ...], wanted: set[int]) -> None:
    assert SearchFilter(formats=formats).allowed(DOCUMENTS) == wanted


@pytest.mark.parametrize(
    ("after", "before", "wanted"),
    [
        (20.0, None, {2, 3, 4}),
        (None, 20.0, {1}),
        (20.0, 30.0, {2}),
        (30.0, 20.0, set()),
        (0.0, None, {1, 2, 3, 4}),
    ],
)
def test_dates_include_the_first_and_exclude_the_last(
    after: float | None, before: float | None, wanted: set[int]
) -> None:
    assert SearchFilter(after=after, before=before).allowed(DOCUMENTS) == wanted


def test_everything_must_hold_at_once() -> None:
    assert SearchFilter(("contracts/**",), ("md", "html"), after=15.0).allowed(DOCUMENTS) == {2}


def test_facets_count_folders_where_they_begin_to_differ() -> None:
    assert facets(DOCUMENTS)["folder"] == {"contracts": 2, "reports": 1, ".": 1}
    deeper = [
        document(n, path)
        for n, path in enumerate(("a/b/c/1.md", "a/b/d/e/2.md", "a/b/d/3.md", "a/b/4.md"))
    ]
    assert facets(deeper)["folder"] == {"a/b/d": 2, "a/b/c": 1, "a/b/.": 1}
    assert facets(deeper[1:3])["folder"] == {"a/b/d/e": 1, "a/b/d/.": 1}
    assert facets(deeper[:1])["folder"] == {"a/b/c": 1}
    assert facets([document(1, "1.md")])["folder"] == {}
    assert facets([])["folder"] == {}


def test_empty() -> None:
    assert SearchFilter().empty
    assert not SearchFilter(after=0.0).empty
    assert not SearchFilter(formats=("md",)).empty


def test_what_means_something_in_a_gitignore_alone_means_itself() -> None:
    named = [
        document(1, "#1 plans/a.md"),
        document(2, "!urgent/b.md"),
        document(3, "Offers [2029]/c.md"),
        document(4, "Offers 2/d.md"),
    ]
    for glob, wanted in (
        ("#1 plans/**", {1}),
        ("!urgent/**", {2}),
        ("Offers [2029]/**", {3, 4}),
        ("Offers \\[2029\\]/**", {3}),
    ):
        assert SearchFilter(paths=(glob,)).allowed(named) == wanted


def test_endings_mean_their_format_and_archives_what_lies_in_them() -> None:
    inside = replace(document(5, "mails.mbox/0001/plan.pdf"), format="pdf")
    zipped = replace(document(6, "old.zip/deep/mails.mbox/0002"), format="eml")
    named = [*DOCUMENTS, inside, zipped]
    containers = {("/docs", "mails.mbox"), ("/docs", "old.zip")}
    for name, wanted in (
        ("htm", {2}),
        (".HTM", {2}),
        ("markdown", {1, 3}),
        ("mbox", {5, 6}),
        ("pdf", {5}),
        ("zip", {6}),
    ):
        assert SearchFilter(formats=(name,)).allowed(named, lambda: containers) == wanted
    assert unknown_formats(("md", "indd", "jsonl", "HTM"), named) == ["indd"]
    problem = unknown_format(("indd",), named)
    assert problem is not None
    assert {document.format for document in named} <= set(re.findall(r"\w+", problem.why))
    assert "tsv" not in problem.why


@pytest.mark.parametrize(
    ("wanted", "meant"), [("docs", "doc"), ("pfd", "pdf"), ("word", None), ("excel", None)]
)
def test_an_unknown_type_is_compared_with_those_that_can_be_read(
    wanted: str, meant: str | None
) -> None:
    problem = unknown_format((wanted,), DOCUMENTS)
    assert problem is not None
    assert re.findall(r"'(\w+)'", problem.to_do) == ([meant] if meant else [])


def test_folders_named_like_archives_are_not_archives() -> None:
    named = [
        document(1, "reports.zip/wing.md"),
        document(2, "reports.zip/all.zip/wing.md"),
        replace(document(3, "all.mbox/wing.md"), source="/other"),
        document(4, "all.mbox/wing.md"),
    ]
    containers = {("/docs", "reports.zip/all.zip"), ("/docs", "all.mbox")}
    assert SearchFilter(formats=("zip",)).allowed(named, lambda: containers) == {2}
    assert SearchFilter(formats=("mbox",)).allowed(named, lambda: containers) == {4}


def test_an_author_in_quotes_is_the_whole_name() -> None:
    people = [
        replace(document(n, "a.md"), author=name)
        for n, name in enumerate(("Ann", "Joanna", "Ann, Bo"))
    ]
    assert SearchFilter(authors=("ann",)).allowed(people) == {0, 1, 2}
    assert SearchFilter(authors=('"Ann"',)).allowed(people) == {0}
    assert SearchFilter(authors=('"ann, bo"', "joa")).allowed(people) == {1, 2}


def test_a_tag_is_met_whole_or_as_the_beginning_of_a_path_of_tags() -> None:
    tagged = [
        replace(document(1, "a.md"), tags="Travel, project/alpha"),
        replace(document(2, "b.md"), tags="travelling"),
        replace(document(3, "c.md"), tags="project"),
        document(4, "d.md"),
    ]

    def find(*tags: str) -> set[int]:
        return SearchFilter(tags=tags).allowed(tagged)

    assert find("travel") == find("#TRAVEL") == {1}
    assert find("project") == {1, 3}
    assert find("project/alpha") == {1}
    assert find("alpha") == find("") == set()
    assert find("travel", "travelling") == {1, 2}
    assert facets(tagged)["tag"] == {"Travel": 1, "project/alpha": 1, "travelling": 1, "project": 1}
    assert len(find_unmet(SearchFilter(tags=("harbour",)), tagged)) == 1
    assert find_unmet(SearchFilter(tags=("Travel",)), tagged) == []


def test_letters_written_apart_from_their_marks_are_the_same() -> None:
    """macOS writes names of files so; keyboards write them together."""
    together = ("B\u00fcro", "M\u00fcller")
    apart = ("Bu\u0308ro", "Mu\u0308ller")
    named = [
        replace(document(n, f"{path}/a.md"), author=author)
        for n, (path, author) in enumerate((together, apart), 1)
    ]
    for folder, author in (together, apart):
        assert SearchFilter(paths=(f"{folder}/**",)).allowed(named) == {1, 2}
        assert SearchFilter(authors=(author[:4],)).allowed(named) == {1, 2}
        assert SearchFilter(authors=(f'"{author}"',)).allowed(named) == {1, 2}
    other = document(3, "other/a.md")
    assert facets(named)["author"] == {"M\u00fcller": 2}
    assert facets([*named, other])["folder"] == {"B\u00fcro": 2, "other": 1}


def test_what_is_in_no_language_that_is_known_is_called_so_and_found_by_that() -> None:
    known = [
        replace(document(n, "a.md"), language=code)
        for n, code in enumerate(("en", "und", "zxx", ""))
    ]
    assert facets(known)["language"] == {"unknown": 2, "en": 1}
    for text in ("unknown", "Unknown", "und", "zxx"):
        assert SearchFilter(languages=(text,)).allowed(known) == {1, 2}
    (note,) = find_unmet(SearchFilter(languages=("unknown", "fr")), known)
    assert "'fr'" in note


def test_languages_by_code_or_name() -> None:
    known = [
        replace(document(n, "a.md"), language=code)
        for n, code in enumerate(("en", "de", "no", "zh", "und"))
    ]
    for text, wanted in (
        ("EN-gb", {0}),
        ("German", {1}),
        ("nb", {2}),
        ("zh_TW", {3}),
        ("fr", set()),
        ("und", {4}),
    ):
        assert SearchFilter(languages=(text,)).allowed(known) == wanted
    unmet = find_unmet(SearchFilter(languages=("en", "fr", "Deutsch", "nn")), known)
    for note, language in zip(unmet, ("'fr'", "'Deutsch'"), strict=True):
        assert language in note


def test_what_no_document_meets_is_noted() -> None:
    known = [replace(document(1, "a/b.md"), language="en", author="Ada Quay"), document(2, "c.md")]
    where = SearchFilter(
        ("a/**", "b/**"), ("md", "pages", "pdf"), authors=("ada", "Bob"), languages=("en", "fr")
    )
    for note, value in zip(
        find_unmet(where, known), ("'pages'", "'pdf'", "'fr'", "'Bob'", "'b/**'"), strict=True
    ):
        assert value in note
        assert (" en, unknown" in note) == (value == "'fr'")
    assert find_unmet(SearchFilter(("*.md",), ("md",), 0.0, 2.0, ("quay",), ("en",)), known) == []
    assert [
        len(find_unmet(SearchFilter(after=after, before=before), known))
        for after, before in ((1.0, 0.0), (1.0, 2.0))
    ] == [2, 1]


def test_an_archive_with_documents_meets_its_file_type() -> None:
    inside = [document(1, "old.zip/wing.md")]
    where = SearchFilter(formats=("zip", "mbox"))
    (note,) = find_unmet(
        where,
        inside,
        lambda: {("/docs", "old.zip")},
    )
    assert "'mbox'" in note


@pytest.mark.parametrize("glob", ["\\", "[z-a]"])
def test_malformed_globs(glob: str) -> None:
    with fails(UsageError, "pattern-invalid"):
        SearchFilter(paths=(glob,)).allowed(DOCUMENTS)


@pytest.mark.filterwarnings("ignore:Possible nested set")
@given(
    globs=st.lists(
        st.text(alphabet="ab/*?[]!-\\#{} ^", max_size=8) | st.text(max_size=6), max_size=3
    )
)
def test_any_glob_works_or_is_an_error(globs: list[str]) -> None:
    with contextlib.suppress(UsageError):
        assert SearchFilter(paths=tuple(globs)).allowed(DOCUMENTS) <= {1, 2, 3, 4}
