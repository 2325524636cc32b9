"""Files → text, title and headings."""

from __future__ import annotations

import tracemalloc
from pathlib import Path

import pytest
from fixtures.errors import unreadable
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from engine.core.records import Kind, ReadDocument
from engine.corpus.formats import UnreadableFileError, find_reader
from engine.corpus.formats.markdown import find_headings
from engine.corpus.formats.opening import read_everything
from engine.corpus.formats.plain.markup import find_headings as find_marked_headings


def read(
    tmp_path: Path,
    name: str,
    data: bytes | str,
) -> ReadDocument:
    path = tmp_path / name
    path.write_bytes(data.encode() if isinstance(data, str) else data)
    formats = {
        ".txt": "txt",
        ".md": "md",
        ".html": "html",
    }
    (document,) = find_reader(formats[path.suffix]).read(path)
    return document


RUSSIAN = (
    "Однажды, в студеную зимнюю пору, я из лесу вышел; был сильный мороз. Гляжу, поднимается"
    " медленно в гору."
)


@pytest.mark.parametrize(
    ("data", "text"),
    [
        (b"\xef\xbb\xbfcaf\xc3\xa9", "café"),
        ("café\r\nbar\rbaz".encode(), "café\nbar\nbaz"),
        ("naïve text".encode("utf-16"), "naïve text"),
        ("plain text".encode("utf-16-le"), "plain text"),
        ("plain text".encode("utf-16-be"), "plain text"),
        ("naïve text".encode("utf-32"), "naïve text"),
        (RUSSIAN.encode("cp1251"), RUSSIAN),
        (
            "Die Prüfung der Anlage fällt größer aus als gewöhnlich, sagte er.".encode("cp1252"),
            None,
        ),
    ],
)
def test_encodings(
    tmp_path: Path,
    data: bytes,
    text: str | None,
) -> None:
    found = read(tmp_path, "a.txt", data).text
    assert found == text if text else "Prüfung der Anlage fällt größer" in found


@pytest.mark.parametrize(
    ("data", "kind"),
    [
        (b"", "empty"),
        (b" \n\t ", "empty"),
        (b"\xef\xbb\xbf  ", "empty"),
        (b"%PDF\x00\x01\x02\x03 text \x00", "binary"),
        (bytes(range(1, 32)) * 10, "binary"),
        (b"\xff\xfea\x00b", "damaged"),
        (bytes(5000), "damaged"),
    ],
)
def test_unreadable_text(
    tmp_path: Path,
    data: bytes,
    kind: Kind,
) -> None:
    with unreadable(kind):
        read(tmp_path, "a.txt", data)


def test_where_nothing_was_written_at_the_end_of_a_file_nothing_is_read(tmp_path: Path) -> None:
    found = read(
        tmp_path,
        "a.txt",
        b"The heron." + bytes(9000),
    )
    assert (found.text, found.note) == ("The heron.", "")


@pytest.mark.parametrize("format", ["txt", "md", "html"])
def test_a_file_that_cannot_be_opened_is_distinguished_from_one_that_holds_no_text(
    tmp_path: Path, format: str
) -> None:
    with pytest.raises(FileNotFoundError):
        list(find_reader(format).read(tmp_path / "gone.txt"))


@pytest.mark.parametrize(
    ("name", "text", "title"),
    [
        ("a.txt", "\n  Pump manual  \nText.", "Pump manual"),
        ("a.txt", "\x0cPump\tmanual\x0cText.", "Pump manual"),
        ("my_long-report.txt", "x" * 150 + "\nshort", "My long report"),
        ("b.txt", "-----\nTitle", "B"),
        ("with_bo.txt", "12.03.31, 14:22 - Anna: Hello", "With bo"),
        ("_chat.txt", "[12.03.31, 14:22:31] Anna: Hello", "Chat"),
        ("a.txt", "10:30 Meeting with Bo", "10:30 Meeting with Bo"),
        ("a.txt", "12.03.2031 10:15 Board\n\nAda opens.", "12.03.2031 10:15 Board"),
        ("pumps.txt", "12.03.2031 10:15 Start\n12.03.2031 10:16 Stop", "Pumps"),
        ("c.md", "# The *first* [one](http://x)\n\ntext\n# Second", "The first one"),
        ("d.md", "## Only two\ntext", "D"),
        ("e.md", '---\ntitle: "Front: matter"\ntags: [a]\n---\n# Heading\n', "Front: matter"),
        ("g.html", "<title> Page\n title </title><h1>H</h1>text", "Page title"),
        ("h.html", "<body><h1>The <b>H</b></h1>text", "The H"),
        ("i_j.html", "<p>text</p>", "I j"),
    ],
)
def test_titles(
    tmp_path: Path,
    name: str,
    text: str,
    title: str,
) -> None:
    assert read(tmp_path, name, text).title == title


def test_front_matter_is_text_without_its_lines_and_gives_no_heading(tmp_path: Path) -> None:
    found = read(tmp_path, "a.md", "---\r\ntitle: T\r\ncustomer: Nordwind\r\n---\r\n# Body\n")
    assert (found.title, found.text) == ("T", "\ntitle: T\ncustomer: Nordwind\n\n# Body\n")
    assert [(one.start, one.title) for one in found.headings] == [(30, "Body")]
    assert (
        read(tmp_path, "a.md", "---\nsubject: Onlyfront\n---\n").text == "\nsubject: Onlyfront\n\n"
    )
    kept = "---\nJust prose here.\n---\nBody"
    assert read(tmp_path, "b.md", kept).text == kept
    with unreadable("empty"):
        read(tmp_path, "c.md", "---\ndraft: true\n---\n")


@pytest.mark.parametrize(
    ("written", "shown"),
    [
        ("inter**lock**ing", "interlocking"),
        ("**over**flow and un*glaub*lich", "overflow and unglaublich"),
        ("***A***utomobil", "Automobil"),
        ("PO\\_4711\\-A", "PO_4711-A"),
        ("Gr&uuml;n, 10&nbsp;kg, &#8364;", "Grün, 10\u00a0kg, €"),
        ("**bold** text, 2*3*4, \\*a\\*, a * b * c", "**bold** text, 2*3*4, \\*a\\*, a * b * c"),
        ("`a*b*c` and ``x\\_y``", "`a*b*c` and ``x\\_y``"),
        ("```\na*b*c &uuml;\n```\na*b*c", "```\na*b*c &uuml;\n```\nabc"),
        ("~~~ py\na*b*c", "~~~ py\na*b*c"),
        ("H<sub>2</sub>O, H~2~O, ~~gone~~, ~/a", "H2O, H2O, ~~gone~~, ~/a"),
        (
            "5 m<sup>2</sup>, surety<sup>1</sup>, x^2^, 2^8 and 2^9",
            "5 m², surety¹, x², 2^8 and 2^9",
        ),
        ("9~12~18 Uhr, 2^10^3, a~b~c, log~10~", "9~12~18 Uhr, 2^10^3, a~b~c, log10"),
        ("안녕하세요~반가워요~ 东京~大阪~京都", "안녕하세요~반가워요~ 东京~大阪~京都"),
        ("inter<b>lock</b>ing, a <b>b</b>, a<b and c>d", "interlocking, a <b>b</b>, a<b and c>d"),
        ("| one<br>two<br/>three |", "| one two three |"),
        ("pump<sub>in use</sub>, hall<sup>see map</sup>", "pump in use, hall see map"),
        ("`H<sub>2</sub>O`", "`H<sub>2</sub>O`"),
    ],
)
def test_marks_of_markdown_do_not_split_words(
    tmp_path: Path,
    written: str,
    shown: str,
) -> None:
    assert read(tmp_path, "a.md", written).text == shown


def test_headings_stand_where_their_text_does(tmp_path: Path) -> None:
    document = read(tmp_path, "a.md", "un*glaub*lich\n\n# Inter**lock**ing\n\nText\n")
    (heading,) = document.headings
    assert heading.title == "Interlocking"
    assert document.text[heading.start :].startswith("# Interlocking")


def test_markdown_headings() -> None:
    text = (
        "# One #\n\ntext\n\nTwo\nlines\n===\n\n```py\n# comment\n~~~\n```\n## Three `code`\n    #"
        " indented\n\nSub\n---\n- item\n---\n#no\n\n> quote\n---\n\n| a |\n---\n\n#######"
        " seven\n~~~\n# open fence"
    )
    found = [(h.level, h.title, text[h.start :].split("\n")[0]) for h in find_headings(text)]
    assert found == [
        (1, "One", "# One #"),
        (1, "Two lines", "Two"),
        (2, "Three code", "## Three `code`"),
        (2, "Sub", "Sub"),
    ]


@pytest.mark.parametrize(
    ("line", "title"),
    [
        ("# C#", "C#"),
        ("# One ## ", "One"),
        ("# One#two ##", "One#two"),
        ("#\tTab\t##", "Tab"),
        ("# a  b", "a b"),
    ],
)
def test_the_marks_that_close_a_heading(line: str, title: str) -> None:
    assert [heading.title for heading in find_headings(line)] == [title]


@pytest.mark.parametrize("line", ["#", "## ##", "##   ", "#no", "####### seven"])
def test_lines_that_give_no_heading(line: str) -> None:
    assert list(find_headings(line)) == []


@pytest.mark.parametrize("mark", ["`", "*", "[", "word ", "![", "<a "])
def test_the_title_of_a_long_heading_is_cut(mark: str) -> None:
    long = mark * 100_000
    for text in (f"# {long}", f"x{long}\n==="):
        (heading,) = find_headings(text)
        assert 0 < len(heading.title) <= 300


def test_html_is_what_a_reader_sees(tmp_path: Path) -> None:
    page = """<html><head><title>T</title><style>p{}</style></head><body><nav>menu</nav>
    <h1>Main</h1><p>One   two<br>three <b>bo</b>ld.</p><!-- no --><script>alert(1)</script><noscript>js</noscript>
    <template>tt</template><ul><li>first</li><li><p>second</p></li></ul><div>loose <div>inner</div> tail</div>
    <h2>Table</h2><table><caption>Cap</caption><tr><th>a</th><th>b</th></tr><tr><td>1<br>x</td><td>2</td><td></td></tr>
    </table>
    <pre>keep
  this</pre><p hidden>secret</p><footer>© foot</footer></body></html>"""  # noqa: E501
    document = read(tmp_path, "a.html", page)
    assert (
        document.text == "Main\n\nOne two\nthree bold.\n\n- first\n-"
        " second\n\nloose\n\ninner\n\ntail\n\nTable\n\n"
        "Cap\na | b\na: 1 x | b: 2\n\nkeep\n  this\n\n\u00a9 foot"
    )
    assert [(h.level, h.title) for h in document.headings] == [(1, "Main"), (2, "Table")]
    assert all(document.text[h.start :].startswith(h.title) for h in document.headings)


def test_tables_for_layout_are_read_as_blocks(tmp_path: Path) -> None:
    page = "<table><tr><td><p>left</p></td><td><table><tr><td>a</td><td>b</td></tr></table></td></tr></table>"  # noqa: E501
    assert read(tmp_path, "a.html", page).text == "left\n\na | b"


def test_html_charsets(tmp_path: Path) -> None:
    page = '<meta charset="{}"><p>Größe €</p>'
    assert read(tmp_path, "a.html", page.format("windows-1252").encode("cp1252")).text == "Größe €"
    assert read(tmp_path, "b.html", page.format("utf-8").encode()).text == "Größe €"
    assert read(tmp_path, "c.html", "<p>Größe</p>".encode("utf-16")).text == "Größe"
    with unreadable("binary"):
        read(tmp_path, "d.html", b"<p>\x00\x01")
    with unreadable("empty"):
        read(tmp_path, "e.html", b"<html><script>x</script></html>")


def test_deeply_nested_html(tmp_path: Path) -> None:
    assert (
        "deep"
        in read(tmp_path, "a.html", "<div>" * 20_000 + "deep" + "</div>" * 20_000).text + "deep"
    )
    assert read(tmp_path, "b.html", "<i>" * 150 + "deep").text == "deep"


@settings(max_examples=80, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.binary(max_size=120), st.sampled_from(["a.txt", "a.md", "a.html"]))
def test_any_bytes_give_clean_text_or_a_reason(
    tmp_path: Path,
    data: bytes,
    name: str,
) -> None:
    try:
        document = read(tmp_path, name, data)
    except UnreadableFileError as found:
        reason = found.why
        document = None
    if document is None:
        assert reason
        return
    assert document.text.strip()
    assert document.title
    assert "\0" not in document.text
    assert "\r" not in document.text
    (document.text + document.title).encode()
    assert all(0 <= h.start < len(document.text) for h in document.headings)


@pytest.mark.parametrize(
    ("name", "text", "title"),
    [
        ("pump.log", "2031-03-03 10:00:01 INFO Starting\n", "Pump"),
        ("pump.yaml", "# Settings\nname: x\n", "Pump"),
        ("pump.py", "import os\n", "Pump"),
        ("messages-20311130", "Nov 30 10:00:00 host kernel: x\n", "Messages 20311130"),
        ("README", "Pump manual\n", "Pump manual"),
        ("a.adoc", "// a comment\n= Pump manual\nAda\n\n== Care\n", "Pump manual"),
        ("a.org", "#+AUTHOR: Ada\n#+TITLE: Pump manual\n* Care\n", "Pump manual"),
        ("a.rst", ".. _pump:\n\nPump manual\n===========\n", "Pump manual"),
        ("a.rst", "===========\nPump manual\n===========\n\nCare\n----\n", "Pump manual"),
        (
            "a.tex",
            "\\documentclass{book}\n\\title{The \\emph{Pump}\\\\ manual}\n",
            "The Pump manual",
        ),
        ("a.tex", "\\documentclass{book}\n% \\title{Old}\n", "A"),
    ],
)
def test_titles_of_texts_that_are_marked_up(
    tmp_path: Path, name: str, text: str, title: str
) -> None:
    path = tmp_path / name
    path.write_text(text)
    (document,) = read_everything(path, "txt")
    assert isinstance(document, ReadDocument)
    assert document.title == title


@pytest.mark.parametrize(
    ("written", "shown"),
    [
        (r"M{\"u}ller, M\"uller, M\"{u}ller", "Müller, Müller, Müller"),
        (r"Stra{\ss}e, Stra\ss e, Stra\ss{}e", "Straße, Straße, Straße"),
        (
            r"Fran\c{c}ois, \v{S}koda, Lu{\'\i}s, Jos{\'e}, \o re",
            "François, Škoda, Luís, José, øre",
        ),
        (r"{\L}\'od\'z, \r{A}ngstr\"om, \AA ngstr\"om", "Łódź, Ångström, Ångström"),
        (r"Donau\-dampf\-schiff, user\_id, A \& B", "Donaudampfschiff, user_id, A & B"),
        (r"{P}r{\"u}fung der {DNA}, \textbf{inter}lock", r"Prüfung der {DNA}, \textbf{inter}lock"),
        (
            r'\cite{a}, \beta, \dots \\[1ex] "quoted" text',
            r'\cite{a}, \beta, \dots \\[1ex] "quoted" text',
        ),
        (
            r'\usepackage[english,ngerman]{babel} "Uber M"uller Stra"se Drucker"=Port',
            r"\usepackage[english,ngerman]{babel} Über Müller Straße Drucker-Port",
        ),
        ('langid = {ngerman}, title = "Optimal control"',) * 2,
        (r'\usepackage[ngerman,english]{babel} "Under load"',) * 2,
        (r"a \\-5 \\o b",) * 2,
        (r'The "self"-aware pump, x""y, 5"=five',) * 2,
        (
            "\\begin{lstlisting}\nx = 'it\\'s' + \"\\.txt\"\n\\end{lstlisting} \\'etude",
            "\\begin{lstlisting}\nx = 'it\\'s' + \"\\.txt\"\n\\end{lstlisting} étude",
        ),
        (
            r"\verb|\'a| \lstinline[a=C]!\"a! \'a",
            r"\verb|\'a| \lstinline[a=C]!\"a! á",
        ),
        ("\\begin{tabbing}\nName\\=Age \\' x\n\\end{tabbing}",) * 2,
    ],
)
def test_letters_that_latex_writes_as_commands_are_read(
    tmp_path: Path, written: str, shown: str
) -> None:
    for name, text in (("a.tex", shown), ("a.bib", shown), ("a.txt", written)):
        path = tmp_path / name
        path.write_text(written)
        (document,) = read_everything(path, "txt")
        assert isinstance(document, ReadDocument)
        assert document.text == text


@pytest.mark.parametrize(
    ("name", "text", "headings"),
    [
        (
            "a.adoc",
            "= Pump\n\n== Care\n\nx == y\n\n=== Oil\n====\n",
            [(1, "Pump"), (2, "Care"), (3, "Oil")],
        ),
        ("a.org", "#+TITLE: Pump\n* Care\n** Oil\n*bold*\n", [(1, "Care"), (2, "Oil")]),
        (
            "a.rst",
            "====\nPump\n====\n\nCare\n====\n\nOil\n---\n\nEnd\n====\n\n====\n\n- x\n\nwide\n...\n",
            [(1, "Pump"), (2, "Care"), (3, "Oil"), (2, "End")],
        ),
        (
            "a.tex",
            "\\chapter{Pump}\n  \\section*{The \\emph{oil}}\n\\subsection[O]{Old}\n\\sectionm{x}\n",
            [(2, "Pump"), (3, "The oil"), (4, "Old")],
        ),
        ("a.txt", "= Pump\n* Care\nOil\n===\n", []),
    ],
)
def test_headings_of_texts_that_are_marked_up(
    tmp_path: Path, name: str, text: str, headings: list[tuple[int, str]]
) -> None:
    path = tmp_path / name
    path.write_text(text)
    (document,) = read_everything(path, "txt")
    assert isinstance(document, ReadDocument)
    assert [(heading.level, heading.title) for heading in document.headings] == headings
    for heading in document.headings:
        line = document.text[heading.start :].partition("\n")[0]
        assert heading.title.split()[0] in line


def test_a_heading_without_an_end_takes_little_memory(tmp_path: Path) -> None:
    text = "\\section{" + "pelican " * 2**16
    tracemalloc.start()
    try:
        assert not list(find_marked_headings(text, tmp_path / "a.tex"))
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 10 * len(text)
