"""Documents → chunks: the invariants, on hand-made and on random documents."""

from __future__ import annotations

import hashlib
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from fixtures.errors import fails
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.core.errors import ModelError, UsageError
from engine.core.records import Chunk, Heading, ReadDocument
from engine.corpus.chunking import tokens
from engine.corpus.chunking.chunking import Chunker, Context
from engine.corpus.chunking.headings import HeadingPaths
from engine.corpus.chunking.tokens import TokenCounter
from engine.corpus.formats.markdown import find_headings


@pytest.fixture(scope="module")
def tokenizer_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A byte-level BPE without merges: one token per UTF-8 byte; with truncation and padding on,
    as models ship it.
    """
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers

    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    tokenizer = Tokenizer(models.BPE(vocab={char: n for n, char in enumerate(alphabet)}, merges=[]))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.enable_truncation(16)
    tokenizer.enable_padding(length=16)
    path = tmp_path_factory.mktemp("tokenizer") / "tokenizer.json"
    tokenizer.save(str(path))
    return path


@pytest.fixture(scope="module")
def word_tokenizer_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One token per word or punctuation mark, whatever its length."""
    from tokenizers import Tokenizer, models, pre_tokenizers

    tokenizer = Tokenizer(models.WordLevel(vocab={"[UNK]": 0}, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    path = tmp_path_factory.mktemp("tokenizer") / "words.json"
    tokenizer.save(str(path))
    return path


@cache
def chunker(
    path: Path, tokens: int = 256, overlap: int = 1, context: Context = "none", special: int = 2
) -> Chunker:
    return Chunker(
        path,
        tokens,
        overlap,
        context,
        special,
    )


def markdown(text: str, title: str = "") -> ReadDocument:
    return ReadDocument(
        title,
        text,
        tuple(find_headings(text)),
        format="md",
    )


def path_at(headings: tuple[Heading, ...], position: int) -> tuple[str, ...]:
    path: list[Heading] = []
    for heading in headings:
        if heading.start <= position:
            path = [*(above for above in path if above.level < heading.level), heading]
    return tuple(heading.title for heading in path)


def check(
    document: ReadDocument,
    chunks: list[Chunk],
    budget: int,
    special: int = 2,
) -> None:
    covered = [False] * len(document.text)
    for ordinal, chunk in enumerate(chunks):
        assert chunk.ordinal == ordinal
        assert document.text[chunk.start : chunk.end] == chunk.text == chunk.text.strip()
        assert chunk.embedded_text.endswith(chunk.text)
        assert chunk.tokens <= budget
        assert chunk.content_hash == hashlib.sha256(chunk.embedded_text.encode()).hexdigest()
        assert chunk.headings == path_at(document.headings, chunk.start)
        covered[chunk.start : chunk.end] = [True] * (chunk.end - chunk.start)
    assert all(
        inside or char.isspace() for inside, char in zip(covered, document.text, strict=True)
    )
    for before, after in pairwise(chunks):
        assert before.start < after.start
        assert before.end < after.end


LINES = st.one_of(
    st.sampled_from(
        [
            "# One",
            "## Two words",
            "### Three",
            "",
            "",
            "```",
            "- item one. And two.",
            "| a | b |",
            "Setext",
            "===",
        ]
    ),
    st.text(alphabet="abc .!?\u3002\u00e9\U0001f600\n\t", max_size=60),
    st.text(max_size=30),
)


@settings(max_examples=120)
@given(
    st.lists(LINES, max_size=25).map("\n".join),
    st.sampled_from(["txt", "md"]),
    st.sampled_from(["none", "headings", "title"]),
    st.integers(0, 3),
    st.sampled_from([24, 40, 120]),
    st.text(max_size=50),
)
def test_invariants_hold_for_any_document(
    tokenizer_file: Path,
    text: str,
    format: str,
    context: Context,
    overlap: int,
    budget: int,
    title: str,
) -> None:
    if format == "md":
        headings = tuple(find_headings(text))
    else:
        headings = ()
    document = ReadDocument(
        title,
        text,
        headings,
        format=format,
    )
    cutter = chunker(
        tokenizer_file,
        budget,
        overlap,
        context,
    )
    chunks = cutter.chunk(document)
    check(document, chunks, budget)
    assert all(chunk.tokens == len(chunk.embedded_text.encode()) + 2 for chunk in chunks)
    assert bool(chunks) == bool(text.strip())
    if context == "none" and len(text.strip().encode()) + 2 <= budget:
        assert len(chunks) <= 1
    (many,) = cutter.chunk_many([document])
    assert [(c.start, c.end, c.embedded_text) for c in many] == [
        (c.start, c.end, c.embedded_text) for c in chunks
    ]


def test_the_path_to_a_place_takes_no_look_at_all_headings() -> None:
    headings = [Heading(10 * number, number % 6 + 1, f"H{number}") for number in range(100_000)]
    paths = HeadingPaths(headings)
    found = [
        paths.at(position) for position in range(0, 1_000_000, 100)
    ]  # to look at all of them would take minutes
    assert found[2] == ("H18", "H19", "H20")
    assert paths.at(-1) == ()
    assert paths.at(59) == ("H0", "H1", "H2", "H3", "H4", "H5")
    assert paths.at(60) == ("H6",)


def test_a_document_that_fits_is_one_chunk(tokenizer_file: Path) -> None:
    text = "  # A\n\nOne.\n\n# B\n\nTwo.  "
    (chunk,) = chunker(tokenizer_file, len(text.strip()) + 2).chunk(markdown(text))
    assert (chunk.text, chunk.start, chunk.headings) == (text.strip(), 2, ("A",))
    assert chunk.tokens == len(text.strip()) + 2
    assert len(chunker(tokenizer_file, len(text.strip()) + 1).chunk(markdown(text))) == 2


def test_overlap_is_the_last_sentence_and_never_crosses_a_heading(tokenizer_file: Path) -> None:
    body = " ".join(f"Sentence number {n:02d} here." for n in range(12))
    text = f"# A\n\n{body}\n\n# B\n\n{body}"
    chunks = chunker(tokenizer_file, 122, 1).chunk(markdown(text))
    check(
        markdown(text),
        chunks,
        122,
    )
    overlaps = [
        before.end - after.start for before, after in pairwise(chunks) if after.start < before.end
    ]
    assert len(overlaps) >= 4
    for before, after in pairwise(chunks):
        if after.start < before.end:
            shared = text[after.start : before.end]
            assert shared.startswith("Sentence number")
            assert shared.count(".") == 1
            assert before.headings == after.headings
    first_of_b = next(chunk for chunk in chunks if chunk.headings == ("B",))
    assert first_of_b.text.startswith("# B")
    assert all(
        a.end <= b.start for a, b in pairwise(chunker(tokenizer_file, 122, 0).chunk(markdown(text)))
    )


def test_long_sentences_do_not_overlap(tokenizer_file: Path) -> None:
    text = " ".join("word" * 20 + "." for _ in range(6))
    chunks = chunker(tokenizer_file, 100, 1).chunk(ReadDocument("", text))
    assert len(chunks) == 6
    assert all(before.end <= after.start for before, after in pairwise(chunks))


def test_neighbouring_sections_share_a_chunk_but_not_below_a_higher_heading(
    tokenizer_file: Path,
) -> None:
    text = "# A\n\n## A1\n\none\n\n## A2\n\ntwo\n\n# B\n\n## B1\n\n" + "three " * 12
    chunks = chunker(tokenizer_file, 100).chunk(markdown(text))
    assert [chunk.headings for chunk in chunks] == [("A",), ("B",)]
    assert chunks[0].text == "# A\n\n## A1\n\none\n\n## A2\n\ntwo"


@pytest.mark.parametrize(
    ("context", "prefix"),
    [("none", ""), ("headings", "Manual > Engine\n"), ("title", "Handbook of pumps\n")],
)
def test_context_lines_count_against_the_budget(
    tokenizer_file: Path, context: Context, prefix: str
) -> None:
    text = "# Manual\n\n## Engine\n\n" + "Check the oil level now. " * 20
    document = markdown(text, "Handbook  of\npumps")
    chunks = chunker(tokenizer_file, 90, 1, context).chunk(document)
    check(document, chunks, 90)
    assert chunks[-1].embedded_text == prefix + chunks[-1].text
    assert chunks[-1].headings == ("Manual", "Engine")
    assert len(chunks) > 5


def test_a_context_line_too_long_is_shortened(tokenizer_file: Path) -> None:
    document = ReadDocument(
        "T" * 500, "some text " * 30, (Heading(0, 1, "Outer " * 20), Heading(5, 2, "Inner"))
    )
    for context, start in (("title", "T" * 19 + "\n"), ("headings", "Inner\n")):
        chunks = chunker(tokenizer_file, 40, 1, context).chunk(document)
        check(document, chunks, 40)
        assert chunks[-1].embedded_text.startswith(start)


def test_no_tiny_last_chunk(tokenizer_file: Path) -> None:
    text = " ".join(["Twelve chars."] * 14) + " End."
    sizes = [
        len(chunk.text) for chunk in chunker(tokenizer_file, 102, 0).chunk(ReadDocument("", text))
    ]
    assert sum(sizes) >= 190
    assert min(sizes) > 12


def test_one_token_of_any_length_does_not_make_an_endless_chunk(word_tokenizer_file: Path) -> None:
    document = ReadDocument("", "x" * 5000 + " end")
    chunks = chunker(word_tokenizer_file, 32).chunk(document)
    check(document, chunks, 32)
    assert max(len(chunk.text) for chunk in chunks) <= 32 * 32


def test_many_documents_keep_their_order(tokenizer_file: Path) -> None:
    documents = [ReadDocument("", f"document {n} " + "word " * (n % 40)) for n in range(700)] + [
        ReadDocument("", " \n")
    ]
    cutter = chunker(tokenizer_file, 100)
    assert [[c.text for c in chunks] for chunks in cutter.chunk_many(documents)] == [
        [c.text for c in cutter.chunk(document)] for document in documents
    ]


def test_wrong_tokenizer_and_wrong_budget(tmp_path: Path, tokenizer_file: Path) -> None:
    with pytest.raises(ModelError):
        Chunker(tmp_path / "none.json")
    (tmp_path / "bad.json").write_text("{}")
    with pytest.raises(ModelError):
        Chunker(tmp_path / "bad.json")
    with fails(UsageError, "chunk-tokens-too-small"):
        Chunker(tokenizer_file, chunk_tokens=10)


def prose(sentences: int) -> str:
    words = [
        "valve",
        "pump",
        "the",
        "seal",
        "of",
        "AX-400",
        "was",
        "checked",
        "before",
        "pressure",
    ]
    lines = (
        " ".join(words[(n * 7 + k * k) % 10] for k in range(4 + n % 9)) + "."
        for n in range(sentences)
    )
    return "".join(
        line + ("\n\n" if number % 6 == 5 else " ") for number, line in enumerate(lines)
    ).strip()


def whole(
    monkeypatch: pytest.MonkeyPatch, counter: TokenCounter, *asked: Any
) -> list[tuple[int, int]]:
    with monkeypatch.context() as patch:
        patch.setattr(
            tokens,
            "WINDOW",
            10**9,
        )
        return counter.split(*asked)


@pytest.mark.parametrize("markdown", [False, True])
def test_a_long_text_is_cut_by_windows_as_it_is_at_once(
    word_tokenizer_file: Path, monkeypatch: pytest.MonkeyPatch, markdown: bool
) -> None:
    counter = TokenCounter(word_tokenizer_file)
    text = prose(2400)
    assert len(text) > 5 * tokens.WINDOW
    pieces = counter.split(text, 100, markdown)
    assert pieces == whole(monkeypatch, counter, text, 100, markdown)
    assert len(pieces) > 100


@settings(max_examples=60)
@given(
    st.lists(
        st.one_of(LINES, st.sampled_from(["検" * 90, " " * 200, "x" * 150, ">" * 70])), max_size=25
    ).map("\n".join),
    st.sampled_from(["txt", "md"]),
    st.sampled_from([24, 40]),
)
def test_invariants_hold_where_windows_are_small(
    tokenizer_file: Path, text: str, format: str, budget: int
) -> None:
    document = ReadDocument(
        "", text, tuple(find_headings(text)) if format == "md" else (), format=format
    )
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tokens, "WINDOW", 64)
        patch.setattr(tokens, "WINDOW_PER_TOKEN", 1)
        check(
            document,
            chunker(tokenizer_file, budget).chunk(document),
            budget,
        )


@pytest.mark.parametrize(
    "text", [">" * 70_000, "_a__b" * 14_000, "検索" * 35_000, "a\n\n" * 24_000, "\n" * 70_000 + "a"]
)
@pytest.mark.parametrize("markdown", [False, True])
def test_a_splitter_is_never_given_more_than_a_window(
    word_tokenizer_file: Path, text: str, markdown: bool
) -> None:
    """It takes time by the square of what it is given, where that has no good places to cut."""
    counter = TokenCounter(word_tokenizer_file)
    given_to_it = list[int]()
    splitter = counter.splitter(100, markdown)

    class Recorder:
        def chunk_indices(self, piece: str) -> list[tuple[int, str]]:
            given_to_it.append(len(piece))
            return splitter.chunk_indices(piece)

    counter.splitter = lambda capacity, markdown: Recorder()  # type: ignore[assignment, return-value]
    pieces = counter.split(text, 100, markdown)
    assert max(given_to_it) <= tokens.WINDOW
    assert sum(given_to_it) <= 2 * len(text)
    assert "".join(text[start:end] for start, end in pieces).replace("\n", "") == text.replace(
        "\n", ""
    )


def test_a_wish_to_stop_is_heard_while_one_document_is_cut(tokenizer_file: Path) -> None:
    asked: list[int] = []

    def stop_at_the_third() -> None:
        asked.append(1)
        if len(asked) == 3:
            raise InterruptedError

    cutter = Chunker(
        tokenizer_file,
        128,
        check=stop_at_the_third,
    )
    with pytest.raises(InterruptedError):
        list(cutter.chunk_many([ReadDocument("", "word " * 40_000, (), format="txt")]))
    assert len(asked) == 3


def test_tokens_of_a_long_text_are_counted_a_piece_at_a_time(
    tokenizer_file: Path, word_tokenizer_file: Path
) -> None:
    words = TokenCounter(word_tokenizer_file)
    assert TokenCounter(tokenizer_file).count_long("é" * 25, piece=10) == 50
    assert words.count_long("word " * 8, piece=10) == 8
    assert words.count_long("twelve chars", piece=10) == 3  # "chars" is parted
    asked: list[int] = []
    words.count_long(
        "a" * 25,
        lambda: asked.append(1),
        piece=10,
    )
    assert len(asked) == 3
