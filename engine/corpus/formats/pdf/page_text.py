"""The letters of a PDF page by piece, and which of them are superscripts.

PDFium counts letters by an index, among them blanks and line ends that it adds, but does not say
with which letter a piece begins. Long, because finding letters and changing them share what is
known of the page.
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right, insort
from collections.abc import Sequence
from ctypes import byref, c_double, c_ushort
from functools import cached_property
from itertools import islice, pairwise
from unicodedata import normalize

from engine.corpus.formats.pdf.calls import Box, TextPage
from engine.corpus.formats.pdf.layout import Piece, find_raised_pieces, turn_box, turn_pieces
from engine.corpus.formats.runs.superscripts import write_superscript
from engine.corpus.text.hyphens import LINE_END

# Lift of a superscript, as a share of the size of the adjacent letters.
_MIN_RAISED = 0.15
# Maximum size of a superscript, as a share of the size of the adjacent letters.
_MAX_SIZE = 0.92
# Maximum number of superscripts on a page.
_MAX_RAISED = 300
# Within how many letters, and at the beginning of how many words, a piece is looked for.
_MAX_LETTERS_AHEAD = 200
_MAX_WORDS_AHEAD = 8
# Number of letters before a superscript that decide how it is written.
_MAX_TEXT_BEFORE = 20
# A piece has so many letters, or more, for each time that it is as wide as high.
_MIN_LETTERS_OF_SQUARE = 0.7
_SAME_PLACE = 0.02  # points
# Number of letters that are compared at once.
_COMPARED_AT_ONCE = 16
# Maximum number of letters from the place where the end of a text object is expected.
_MAX_STEPS = 40
# Distance from the edge of a piece at which its first letter is, in points.
_INSIDE = 0.3
# Distance of two lines, as a share of the height of letters; superscripts are closer.
_MIN_PITCH = 0.75
# Size of the smaller of two pieces of a table, as a share of the other's; marks are smaller.
_MIN_SIZE = 0.8
# Overlap of two pieces of a line, as a share of the height of letters.
_MAX_OVERLAP = 0.2
# PDFium joins lines only of pieces that are at most so many times as wide as high.
_MAX_JOINED_WIDTH = 4
_WORD_BEGIN = re.compile(r"(?<=\s)\S")
_LETTER_OR_DIGIT = re.compile(r"[^\W_]")
_HYPHEN_CODES = (0xFFFE, 0x2D, 0xAD, 0x2010)
# What they are in the text of the page.
_HYPHENS = (LINE_END, "-")
# Accents that TeX draws over or below letters, and the marks that Unicode puts after these letters.
_MARKS = {
    "`": "\u0300",
    "\u00b4": "\u0301",
    "\u02c6": "\u0302",
    "\u02dc": "\u0303",
    "\u00af": "\u0304",
    "\u02d8": "\u0306",
    "\u02d9": "\u0307",
    "\u00a8": "\u0308",
    "\u02da": "\u030a",
    "\u02dd": "\u030b",
    "\u02c7": "\u030c",
    "\u00b8": "\u0327",
    "\u02db": "\u0328",
}
_ACCENT = re.compile(f"[{''.join(_MARKS)}]")
# The cedilla and the ogonek.
_BELOW_LETTERS = "\u00b8\u02db"
# Letters that are drawn without their dots below an accent.
_WITH_DOT = {"\u0131": "i", "\u0237": "j"}
_MAX_ACCENTS = 2000  # of a page
# Distance of a place within a letter from its accent, as a share of their size.
_TO_LETTER = 0.25
# The widest gap between two letters of a word, as a share of the height of the lower one.
_MAX_GAP_IN_WORD = 0.4


def has_accents(plain: str) -> bool:
    """Return whether a page has accents that may stand over letters."""
    # Many times faster than the pattern, and asked of every page.
    return any(accent in plain for accent in _MARKS)


class PageText:
    """The letters of a page by piece.

    `plain`: the page's text as PDFium gives it. `count`: how many letters PDFium counts. `pieces`:
    all pieces of the page, in the order of drawing. `quarters`: by how many quarter turns to the
    left the text is turned.

    `turned_pieces` are the pieces, turned so that the text runs to the right. The letters of a
    piece are found when they are first needed.
    """

    def __init__(
        self, page: TextPage, plain: str, count: int, pieces: Sequence[Piece], quarters: int
    ) -> None:
        from pypdfium2 import raw

        self.turned_pieces = turn_pieces(pieces, quarters) if quarters else pieces
        self._quarters = quarters
        self._raw = raw
        self._text_page = page
        self._page = page.page.raw
        self._pieces = pieces
        self._plain = plain
        self._count = count
        self._changed = False
        # The indexes of the first letters found so far, by the number of the piece.
        self._known_starts: dict[int, int] = {len(pieces): count}
        # The numbers of these pieces, ascending.
        self._known_numbers: list[int] = []

    @property
    def has_letters(self) -> bool:
        """Whether the letters of each piece are known."""
        return bool(self.letters)

    @cached_property
    def letters(self) -> list[str]:
        """The letters by PDFium's index, empty texts for those that `plain` lacks.

        The list is empty if the plain text cannot be assigned to the letters.
        """
        if len(self._plain) == self._count:
            return list(self._plain)
        buffer = (c_ushort * (self._count + 1))()
        written = self._raw.FPDFText_GetText(
            self._page,
            0,
            self._count,
            buffer,
        )
        if written == self._count + 1:
            return _align(buffer[: self._count], self._plain)
        # PDFium wrote another number of letters; asking for each takes longer.
        codes = [self._raw.FPDFText_GetUnicode(self._page, index) for index in range(self._count)]
        return _align(codes, self._plain)

    @cached_property
    def _text(self) -> str:
        """The letters by PDFium's index as a text, with a blank for each that `plain` lacks."""
        return "".join(letter or " " for letter in self.letters)

    def read_all(self) -> str:
        """Return all letters in order."""
        if self._changed:
            return "".join(self.letters)
        return self._plain

    def write_superscripts(self) -> None:
        """Replace the superscripts of the page by characters such as `²`."""
        pieces = self.turned_pieces
        candidates = dict.fromkeys(find_raised_pieces(pieces))
        for number in islice(candidates, _MAX_RAISED):
            if not self.has_letters:
                return
            start = self.find_start(number)
            end = self.find_start(number + 1)
            letters = "".join(self.letters[start:end])
            core = letters.strip()
            neighbour = self._find_neighbour(start, core)
            if not _LETTER_OR_DIGIT.search(core) or not self._is_raised(start, neighbour):
                continue
            before = "".join(self.letters[max(0, start - _MAX_TEXT_BEFORE) : start])
            superscript = write_superscript(core, before)
            if superscript == core:
                continue
            # PDFium may see a line end before and after a raised piece although the line goes on.
            if number + 1 < len(pieces) and _follows(pieces[number], pieces[number + 1]):
                letters = letters.rstrip("\r\n")
            written = letters.replace(core, superscript, 1)
            # The letters keep their indexes.
            self.letters[start:end] = [written, *[""] * (end - start - 1)]
            self._changed = True
            if number and _follows(pieces[number - 1], pieces[number]):
                self._drop_line_end(start)

    def compose_accents(self) -> None:
        """Compose letters with the accents that the file draws over or below them: `¨u` → `ü`."""
        if not has_accents(self._plain) or not self.has_letters:
            return
        for accent in islice(_ACCENT.finditer(self._text), _MAX_ACCENTS):
            index = accent.start()
            base = self._find_base(index)
            if base < 0:
                continue
            letter = self.letters[base]
            composed = normalize("NFC", _WITH_DOT.get(letter, letter) + _MARKS[accent[0]])
            if len(composed) == 1:
                self.letters[base] = composed
                self._drop_accent(index, base)

    def _find_base(self, accent: int) -> int:
        """Return the index of the letter over or below which an accent stands, -1 for none."""
        for base in (self._find_visible(accent, 1), self._find_visible(accent, -1)):
            if 0 <= base < self._count and self._stands_over(accent, base):
                return base
        if self._quarters:
            return -1
        # PDFium sorts the text objects of a line, so the letter may be far from its accent.
        left, bottom, right, top = self._text_page.read_box(accent)
        x = (left + right) / 2
        size = float(self._raw.FPDFText_GetFontSize(self._page, accent))
        y = bottom - _TO_LETTER * size
        if self.letters[accent] in _BELOW_LETTERS:
            y = top + _TO_LETTER * size
        base = int(self._raw.FPDFText_GetCharIndexAtPos(self._page, x, y, _INSIDE, _INSIDE))
        if base >= 0 and base != accent and self._stands_over(accent, base):
            return base
        return -1

    def _drop_accent(self, accent: int, base: int) -> None:
        """Remove an accent, and the blanks that PDFium sees between it and the rest of its word."""
        self.letters[accent] = ""
        self._changed = True
        before = self._find_visible(accent, -1)
        after = self._find_visible(accent, 1)
        is_within_word = before >= 0 and after < self._count and self._are_close(before, after)
        if is_within_word or base != after:
            self._drop_blanks(before, accent)
        if is_within_word or base == after:
            self._drop_blanks(accent, after)

    def _find_visible(self, index: int, step: int) -> int:
        """Return the index of the next letter after or before another that is not blank."""
        index += step
        while 0 <= index < self._count and not self.letters[index].strip():
            index += step
        return index

    def _drop_blanks(self, start: int, end: int) -> None:
        """Remove the blanks and line ends between two letters that PDFium added."""
        for index in range(start + 1, end):
            if not self._text_page.find_object(index):
                self.letters[index] = ""

    def _stands_over(self, accent: int, base: int) -> bool:
        """Return whether an accent is near a letter, at the side where its kind belongs.

        A sign such as ` in code may stand right below a letter of the line before.
        """
        left, bottom, right, top = self._read_turned_box(accent)
        base_left, base_bottom, base_right, base_top = self._read_turned_box(base)
        height = base_top - base_bottom
        middle = (base_bottom + base_top) / 2
        if self.letters[accent] in _BELOW_LETTERS:
            is_near = base_bottom - height < top < middle
        else:
            is_near = middle < bottom < base_top + height
        return is_near and base_left < (left + right) / 2 < base_right

    def _are_close(self, before: int, after: int) -> bool:
        """Return whether two letters stand in one line, as close as in a word."""
        _, bottom, right, top = self._read_turned_box(before)
        left, bottom_after, _, top_after = self._read_turned_box(after)
        height = min(top - bottom, top_after - bottom_after)
        is_same_line = bottom < top_after and bottom_after < top
        return is_same_line and abs(left - right) < _MAX_GAP_IN_WORD * height

    def _read_turned_box(self, index: int) -> Box:
        """Return the box of a letter, turned so that the text runs to the right."""
        return turn_box(self._text_page.read_box(index), self._quarters)

    def separate_lines(self) -> None:
        """Put a line end between pieces of different lines that PDFium joins, as in columns.

        Single letters may be a word that runs downwards, so they stay together.
        """
        starts: list[int] = []
        for before, piece in pairwise(self.turned_pieces):
            # Unpacked, as properties would be slow: this runs for each pair of pieces.
            _, left_before, bottom_before, right_before, top_before = before
            _, left, bottom, right, top = piece
            height = top - bottom
            height_before = top_before - bottom_before
            max_height = height if height > height_before else height_before
            # Twice the distance of their middles, which saves two divisions.
            distance = bottom_before + top_before - bottom - top
            is_same_line = -2 * _MIN_PITCH * max_height < distance < 2 * _MIN_PITCH * max_height
            if is_same_line:
                continue
            # PDFium joins short pieces alone.
            if max(right_before - left_before, right - left) > _MAX_JOINED_WIDTH * max_height:
                continue
            is_mark = min(height_before, height) < _MIN_SIZE * max_height
            if is_mark:
                continue
            is_below = left_before < right and left < right_before
            is_next_column = left >= right_before and bottom > top_before
            if not is_below and not is_next_column:
                continue
            # Asked here only, as finding the letters takes time that most pages do not need.
            if not self.has_letters:
                return
            if self._joins_words(before.number, piece.number):
                starts.append(self.find_start(piece.number))
        # Only now, so that the letters that were compared are PDFium's.
        for start in starts:
            self.letters[start] = f"\n{self.letters[start]}"
            self._changed = True

    def _joins_words(self, before: int, number: int) -> bool:
        """Return whether PDFium joins two pieces, by their numbers, that are not just letters."""
        start = self.find_start(number)
        end = self.find_start(number + 1)
        text_before = "".join(self.letters[self.find_start(before) : start])
        text = "".join(self.letters[start:end])
        at_joint = text_before[-1:] + text[:1]
        are_single = len(text_before) <= 1 and len(text) <= 1
        if are_single and at_joint.isalpha():
            return False
        return at_joint.isalnum()

    def _find_neighbour(self, start: int, core: str) -> int:
        """Return the index of the letter to which a piece that may be raised belongs.

        That is the letter before it, or if a blank precedes it, the letter after it. `start` is the
        index of its first letter, and `core` its text without blanks.
        """
        index = start - 1
        while index > 0 and self.letters[index] in ("\r", "\n", ""):
            index -= 1
        if index >= 0 and not self.letters[index].isspace():
            return index
        return start + len(core)

    def _drop_line_end(self, index: int) -> None:
        """Remove the line end that PDFium sees before the letter with this index."""
        while index and self.letters[index - 1] in ("\r", "\n", ""):
            index -= 1
            self.letters[index] = ""

    def _is_raised(self, index: int, neighbour: int) -> bool:
        """Return whether a letter is smaller and stands higher than another, both by index."""
        size = float(self._raw.FPDFText_GetFontSize(self._page, index))
        neighbour_size = float(self._raw.FPDFText_GetFontSize(self._page, neighbour))
        lift = self._read_base_line(index) - self._read_base_line(neighbour)
        if lift <= _MIN_RAISED * neighbour_size:
            return False
        return size / max(0.01, neighbour_size) < _MAX_SIZE

    def _read_base_line(self, index: int) -> float:
        """Return the height of the line on which a letter stands."""
        x = c_double()
        y = c_double()
        self._raw.FPDFText_GetCharOrigin(
            self._page,
            index,
            byref(x),
            byref(y),
        )
        _, height, _, _ = turn_box((x.value, y.value, x.value, y.value), self._quarters)
        return height

    def read(self, first: int, last: int) -> str:
        """Return the letters from one piece to another, by their numbers.

        Blanks that PDFium sees after them become a single one.
        """
        letters = self.letters[self.find_start(first) : self.find_start(last + 1)]
        text = "".join(letters).strip("\r\n")
        core = text.rstrip()
        return text if core == text else f"{core} "

    def find_start(self, number: int) -> int:
        """Return the index of the first letter of a piece by its number.

        After the last piece, this is the number of letters.
        """
        if number not in self._known_starts:
            self._known_starts[number] = self._search_start(number)
            insort(self._known_numbers, number)
        return self._known_starts[number]

    def _search_start(self, number: int) -> int:
        """Return the index of the letter where a piece begins, trying the fastest ways first.

        These are: the letter after the previous piece; the beginning of one of the next words; the
        letter that PDFium finds at that place of the page; the letter before which PDFium counts
        `number` pieces.
        """
        piece = self._pieces[number]
        # Search from the last known piece before it, and skip most of its letters.
        known_before = bisect_left(self._known_numbers, number)
        search_start = 0
        if known_before:
            before = self._pieces[self._known_numbers[known_before - 1]]
            letters = _MIN_LETTERS_OF_SQUARE * before.width / max(1.0, before.height)
            search_start = self._known_starts[before.number] + int(letters)
        elif self._begins_at(0, piece):
            return 0
        if number - 1 in self._known_starts:
            index = self._find_end(self._known_starts[number - 1], search_start)
            if index and self._begins_at(index, piece):
                return index
        words = _WORD_BEGIN.finditer(
            self._text,
            search_start,
            search_start + _MAX_LETTERS_AHEAD,
        )
        for word in islice(words, _MAX_WORDS_AHEAD):
            if self._begins_at(word.start(), piece):
                return word.start()
        x, y = self._choose_point(piece)
        index = self._raw.FPDFText_GetCharIndexAtPos(
            self._page,
            x,
            y,
            _INSIDE,
            _INSIDE,
        )
        count_objects = self._text_page.count_objects
        if index >= 0 and count_objects(index) == number and count_objects(index + 1) == number + 1:
            return int(index)
        indexes = range(self._count)
        return max(0, bisect_right(indexes, number, key=count_objects) - 1)

    def _find_end(self, start: int, expected: int) -> int:
        """Return the index of the first letter after the text object of the letter `start`.

        It is searched near the letter `expected`; 0 if it is not found there.
        """
        find_object = self._text_page.find_object
        text_object = find_object(start)
        index = min(max(expected, start + 1), self._count - 1)
        for _ in range(_MAX_STEPS):
            if find_object(index) != text_object:
                break
            index += 1
        while index > start + 1 and find_object(index - 1) != text_object:
            index -= 1
        while index < self._count and not find_object(index):
            # PDFium added a blank or a line end here.
            index += 1
        return index if index < self._count else 0

    def _choose_point(self, piece: Piece) -> tuple[float, float]:
        """Return a point within the first letter of a piece, whose edges are as on the page."""
        x = (piece.left + piece.right) / 2
        y = (piece.bottom + piece.top) / 2
        match self._quarters:
            case 0:
                return piece.left + _INSIDE, y
            case 1:
                return x, piece.bottom + _INSIDE
            case 2:
                return piece.right - _INSIDE, y
        return x, piece.top - _INSIDE

    def _begins_at(self, index: int, piece: Piece) -> bool:
        """Return whether a letter lies within a piece and begins at the same edge."""
        box = self._text_page.read_box(index)
        left, bottom, right, top = box
        # Text that is turned by 0, 1, 2 or 3 quarters begins at its left, bottom, right or top
        # edge, which is the order of the edges in a box. In a piece its number precedes them.
        first_edge = box[self._quarters]
        first_edge_of_piece = piece[1 + self._quarters]
        return (
            abs(first_edge - first_edge_of_piece) < _SAME_PLACE
            and left > piece.left - _SAME_PLACE
            and bottom > piece.bottom - _SAME_PLACE
            and top < piece.top + _SAME_PLACE
            and right < piece.right + _SAME_PLACE
        )


def _align(codes: Sequence[int], plain: str) -> list[str]:
    """Return, for each letter of a page, its character in the page's plain text.

    `codes` are the UTF-16 codes of the letters. A character is empty if PDFium leaves the letter
    out of the text: line ends before superscripts, letters beyond the page, and second halves of
    surrogate pairs. The list is empty if the plain text has characters that no letter stands for.
    """
    page_chars = "".join(map(chr, codes))
    letters: list[str] = []
    plain_index = 0
    index = 0
    while index < len(codes):
        next_chars = plain[plain_index : plain_index + _COMPARED_AT_ONCE]
        if next_chars and page_chars.startswith(next_chars, index):
            letters += next_chars
            plain_index += len(next_chars)
            index += len(next_chars)
            continue
        code = codes[index]
        index += 1
        char = plain[plain_index : plain_index + 1]
        is_first_half = 0xD800 <= code < 0xDC00 and char > "\uffff"
        is_hyphen = char in _HYPHENS and code in _HYPHEN_CODES
        if char and (ord(char) == code or is_first_half or is_hyphen):
            letters.append(char)
            plain_index += 1
        else:
            letters.append("")
    return letters if plain_index == len(plain) else []


def _follows(before: Piece, piece: Piece) -> bool:
    """Return whether a piece continues the line of the previous one, without a wide gap."""
    height = max(before.height, piece.height)
    gap = piece.left - before.right
    if not -_MAX_OVERLAP * height < gap < height:
        return False
    return piece.bottom < before.top and piece.top > before.bottom
