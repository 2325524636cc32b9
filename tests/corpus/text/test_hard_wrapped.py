"""Words that the line ends of plain text part, and line ends that part none."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.core.records import ReadDocument
from engine.corpus.formats import reader_for
from engine.corpus.text.hyphens import with_whole_words

WRAPPED = """\
The pumps of the northern pier need mainten-
ance before the winter, and the crews of the
harbour should see to it in good time.

    The lease says that the roof has to be re-
    paired by the owner; so it is done every
    spring, and after each of the great storms.
"""
WHOLE = """\
The pumps of the northern pier need maintenance
before the winter, and the crews of the
harbour should see to it in good time.

    The lease says that the roof has to be repaired
    by the owner; so it is done every
    spring, and after each of the great storms.
"""


def test_words_of_full_lines_are_put_together() -> None:
    assert with_whole_words(WRAPPED) == WHOLE
    assert with_whole_words(WHOLE) == WHOLE


@pytest.mark.parametrize(
    ("text", "whole"),
    [
        (
            "A long-term lease is kept here, with a long-\nterm loan for the owner of the pier.",
            "A long-term lease is kept here, with a long-term\nloan for the owner of the pier.",
        ),
        (
            "The crews of the harbour pier are well-\nknown to all of the owners of boats.",
            "The crews of the harbour pier are well-known\nto all of the owners of boats.",
        ),
        (
            "The port must see to the north pier-\nand south piers, as was said before.",
            "The port must see to the north pier- and\nsouth piers, as was said before.",
        ),
        (
            "Die Pumpen am Nordkai brauchen eine War-\ntung\u00bb, sagte der Meister im Hafen.\n- eins\n- zwei\n- drei",
            "Die Pumpen am Nordkai brauchen eine Wartung\u00bb,\nsagte der Meister im Hafen.\n- eins\n- zwei\n- drei",
        ),
        (  # broken by a program that knows of no syllables
            "The fast boats of the northern pier go fast-\nforwarding, and the cost has to be cost-\neffective for the owners.",
            "The fast boats of the northern pier go fast-forwarding,\nand the cost has to be cost-effective\nfor the owners.",
        ),
        (  # broken by one that does
            "The fast boats of the northern pier do fast-\nen, and the owners need the main-\ntenance of all their harbour boats.",
            "The fast boats of the northern pier do fasten,\nand the owners need the maintenance\nof all their harbour boats.",
        ),
        (
            "Dealings of the pier: any other deal is deal-\nings, as all the owners of boats know.",
            "Dealings of the pier: any other deal is dealings,\nas all the owners of boats know.",
        ),
        ("The pumps of the northern pier need mainten-\nance", "The pumps of the northern pier need maintenance"),
        ("The pumps of the northern pier need mainten-  \n  ance", "The pumps of the northern pier need maintenance"),
    ],
)
def test_hyphens_that_belong_to_a_word_stay(text: str, whole: str) -> None:
    assert with_whole_words(text) == whole


@pytest.mark.parametrize(
    "text",
    [
        "The port lists these parts of words: pre-\nsub-\nanti-\nself-\nco-\n",  # each ends for itself
        "int total_of_all_the_berths = count_of_pier-\noffset_of_the_first_berth;",  # code
        "make the harbour with all of its parts --no-\nverify and see what comes of it",  # an option
        "see https://example.org/of-the-harbour/and-\nthe-rest for what there is to know of it",  # an address
        "Berth one      of the northern pier main-\nBerth two      of the southern pier all",
        "north | the pumps of the pier mainten-\nsouth | the pumps of the pier",
        "north | the pumps of all the piers mainten-\nance of the pumps | of the pier",
        "2031-04-28 10:15:00 the pump of the pier re-\n2031-04-28 10:15:01 started without a fault",
        "The pumps of the northern pier need mainten-\n\nance in another paragraph of the same text.",
        "The pumps of the northern pier need Mainten-\nAnce where a name goes on with a capital one.",
        "Short re-\nmarks stand here, in a paragraph whose other lines are much longer than that.",
        "see pre-\nwar things",  # too narrow to decide
        "# The pumps of the northern pier: mainten-\nance of all of them",
        "The sum of the berths is the number of a-\n",
        "x" * 250 + " of the pier mainten-\nance of all of them",
    ],
)
def test_other_line_ends_stay(text: str) -> None:
    assert with_whole_words(text) == text


def test_markdown_leaves_code_as_it_is() -> None:
    line = "The pumps of the northern pier need mainten-\nance before the winter comes to the pier."
    whole = "The pumps of the northern pier need maintenance\nbefore the winter comes to the pier."
    code = "The crews of the southern pier keep con-\ntrol of all that is done in the harbour."
    set_in = "\n".join(f"    {one}" for one in code.split("\n"))
    kept = f"```text\n{code}\n\n{code}\n```\n\n{set_in}\n\n~~~~\n```\n{code}\n~~~\n~~~~"
    assert with_whole_words(f"{line}\n\n{kept}\n{line}", markdown=True) == f"{whole}\n\n{kept}\n{whole}"
    assert "keep control\nof" in with_whole_words(code, markdown=True)


@given(st.text(st.sampled_from("abA -\n\t|#`\u2010\ufdd2"), max_size=200))
def test_no_letter_is_lost(text: str) -> None:
    for markdown in (False, True):
        found = with_whole_words(f"{text}\n\n{WRAPPED}", markdown=markdown)
        letters = [char for char in text + WRAPPED if char.isalpha()]
        assert [char for char in found if char.isalpha()] == letters


@pytest.mark.parametrize(
    "piece", ["a b mainten-\n", "a-\nb ", "a-" + " " * 50, "a b c-\n\n", "- a b c-\nd\n", "''''a-\nb"]
)
def test_a_hostile_text_takes_no_time(piece: str) -> None:
    started = time.process_time()
    with_whole_words(piece * (2**19 // len(piece)), markdown=True)
    assert time.process_time() - started < 5


@pytest.mark.parametrize("format", ["txt", "md"])
def test_readers_put_words_together(tmp_path: Path, format: str) -> None:
    (tmp_path / f"a.{format}").write_text(f"Title\n\n{WRAPPED.split('    ')[0]}\n\n## Head\n")
    (found,) = reader_for(format).read(tmp_path / f"a.{format}")
    assert isinstance(found, ReadDocument)
    assert "need maintenance\nbefore" in found.text
    assert [found.text[heading.start :] for heading in found.headings] == ["## Head\n"] * (format == "md")
