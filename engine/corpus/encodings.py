"""Which encoding bytes are in that do not say so: by the letters of the languages that are written in each.

charset_normalizer, made for whole pages, takes a sentence in KOI8-R for Japanese and one in ISO 8859-7 for Russian; it is asked
only where nothing here fits.
"""

from __future__ import annotations

import re
import unicodedata
from codecs import getincrementaldecoder
from collections import Counter
from collections.abc import Iterator
from functools import cache

# The letters beyond ASCII of each language, the most frequent first where the script is not Latin.
_WEST = (
    "äöüß", "éèàêçùâîôûëïœæ", "áéíóúñü", "ãõáéíóúâêôàç", "àèéìòù", "åäöæøé", "ëéïüóèöá", "áéíóúýþæöð",
)  # fmt: skip
_CENTRAL = ("ąćęłńóśźż", "áčďéěíňóřšťúůýž", "áäčďéíĺľňóôŕšťúýž", "áéíóöőúüű", "čćđšž", "ăâîşţ", "äöüß")
_TURKISH = ("çğıöşüâi\u0307",)
_BALTIC = ("ąčęėįšųūž", "āčēģīķļņšūž", "äõöüšž")
_RUSSIAN = ("оеаинтсрвлкмдпуяыьгзбчйхжшюцщэфъё",)
_CYRILLIC = (
    *_RUSSIAN,
    "оанівитерсклудпмязьбгйчхцїєжшющфґ",
    "аоеитнрсвдлпкзмугбъяйжхчшцющфь",
    "аоиенрстјувкпмдлзгбчшцжњћљхђфџ",
)
_GREEK = ("αοιετσνηυρπκμλςωίόάέθδγχήύφώβξζψϊϋΐΰ",)
_HEBREW = ("יוהלאתרמבשנםדחקעכפגטסןצזךףץ",)
_ARABIC = ("اليمنترويبعدهسفكقحجشصطخذضثزظغةءأإىئؤآپچژگ",)
_THAI = ("านรกอเงมลยวตสทดปคบจหพขไใแโชณธศผถซภฟญษฐฉุิีัื่้ะูำ็ึ์ๆ",)
_CANDIDATES: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("cp1252", _WEST), ("cp1250", _CENTRAL), ("iso8859-2", _CENTRAL), ("cp1254", _TURKISH), ("cp1257", _BALTIC),
    ("cp1251", _CYRILLIC), ("koi8-r", _RUSSIAN), ("koi8-u", _CYRILLIC[1:2]), ("cp866", _CYRILLIC[:3]), ("iso8859-5", _CYRILLIC),
    ("mac_cyrillic", _CYRILLIC), ("cp1253", _GREEK), ("iso8859-7", _GREEK), ("cp1255", _HEBREW), ("cp1256", _ARABIC),
    ("cp874", _THAI), ("mac_roman", _WEST), ("cp850", _WEST), ("cp437", _WEST), ("cp852", _CENTRAL), ("cp932", ()), ("euc_jp", ()),
    ("cp949", ()), ("gb18030", ()), ("big5", ()),
)  # fmt: skip
_OF_NAMES: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("cp437", _WEST), ("cp850", _WEST), ("cp852", _CENTRAL), ("cp1252", _WEST), ("cp1250", _CENTRAL), ("cp866", _CYRILLIC),
    ("cp1251", _CYRILLIC), ("cp857", _TURKISH), ("cp1254", _TURKISH), ("cp862", _HEBREW), ("cp737", _GREEK), ("cp1253", _GREEK),
    ("cp932", ()), ("gb18030", ()), ("big5", ()), ("cp949", ()),
)  # fmt: skip
_OF_KANJI = 4  # Japanese without kana is taken for that where four times as much speaks for it
_MIN_OF_NAMES = 0.7
_GOOD_AS_IT_IS, _LITTLE_BETTER = 0.45, 0.8
_FREQUENT_HANGUL = frozenset(
    "이다의가는에을기지고사하대시인자서정로수도한리나아일스상장제구전주보부공해조원어동성유비용안과여회신문경연마라소진계무물국방학미선출교관치"
    "발화분요통개내생실영모급입새폴더텍트록획료명단"
)
_SAMPLE = 4000  # bytes beyond ASCII are enough
_MAX_SAMPLE_LENGTH = 64 * 1024
_AROUND = 200
_HIGH = re.compile(rb"[\x80-\xff]")
_NOT_ASCII = re.compile("[^\x00-\x7f]")
_LATIN_WORD = re.compile("[A-Za-z]")
_INSIDE_WORDS = "’\u00ad·'"
_MIN_SCORE = 0.25
_EBCDIC_BLANK = b"\x40"
_LABELS = {
    "iso-8859-1": "cp1252", "latin-1": "cp1252", "latin1": "cp1252", "iso-8859-9": "cp1254", "iso-8859-11": "cp874",
    "tis-620": "cp874", "gb2312": "gb18030", "gbk": "gb18030", "shift_jis": "cp932",
    "shift-jis": "cp932", "x-sjis": "cp932", "ks_c_5601-1987": "cp949", "euc-kr": "cp949", "iso-2022-jp": "iso2022_jp_ext",
    "iso-8859-8-i": "iso8859-8", "unicode": "utf-16", "x-user-defined": "cp1252", "x-gbk": "gb18030",
}  # fmt: skip


def codec_of(label: str) -> str:
    """The codec for an encoding as mails and pages call it: where these mean more than the label says, that one."""
    label = label.strip().strip("\"'").lower()
    return _LABELS.get(label, label)


def guess_encoding(data: bytes) -> str:
    """The encoding that some bytes are most likely in, which are neither UTF-8 nor UTF-16; empty where none fits.

    Every candidate is measured by what it makes of the bytes beyond ASCII: letters of one language count for it, signs within
    words, capitals after small letters and mixed scripts against it.
    """
    if data.count(_EBCDIC_BLANK) > max(len(data) // 20, 10 * data.count(b" ")):
        return _by_library(data)
    sample = informative_sample(data)
    high = len(_HIGH.findall(sample))
    scores = [(_score(sample, encoding, languages) / max(1, high), encoding) for encoding, languages in _CANDIDATES]
    best, encoding = max(scores, key=lambda scored: scored[0])
    return encoding if best >= _MIN_SCORE else _by_library(data)


def guess_encoding_of_names(names: bytes) -> str:
    """The code page of Windows that names in an archive are most likely in, a line each; empty where they are best read in cp437,
    as the format has it.

    Names are short: what is written in one place alone counts, two languages of the same letters by their frequent ones.
    """
    sample = names[:_MAX_SAMPLE_LENGTH]
    high = max(1, len(_HIGH.findall(sample)))
    scores = {encoding: _score(sample, encoding, languages) / high for encoding, languages in _OF_NAMES}
    best = max(scores, key=lambda encoding: scores[encoding])
    if scores["cp437"] >= max(_GOOD_AS_IT_IS, scores[best] - _LITTLE_BETTER):
        return ""
    if scores[best] < _MIN_OF_NAMES:  # Japanese without kana, for which more was asked
        return "cp932" if _OF_KANJI * scores["cp932"] >= _MIN_OF_NAMES else ""
    if best in ("gb18030", "cp949") and scores["gb18030"] == scores["cp949"]:
        signs = [char for char in sample.decode("cp949", "replace") if char > "\x7f"]
        return "cp949" if 2 * len(_FREQUENT_HANGUL.intersection(signs)) >= len(set(signs)) else "gb18030"
    return best


def _by_library(data: bytes) -> str:
    from charset_normalizer import from_bytes

    best = from_bytes(data[: 128 * 1024]).best()
    return best.encoding if best is not None and not best.encoding.startswith(("utf_16", "utf_32")) else ""


def informative_sample(data: bytes) -> bytes:
    """The lines that hold bytes beyond ASCII, as many as are enough; of long ones what is near to such bytes."""
    pieces: list[bytes] = []
    high = end = length = 0
    while high < _SAMPLE and length < _MAX_SAMPLE_LENGTH and (found := _HIGH.search(data, end)):
        at = found.start()
        start = max(end, at - _AROUND, data.rfind(b"\n", max(0, at - _AROUND), at) + 1)
        line = data.find(b"\n", at, at + 10 * _AROUND)
        end = line if line >= 0 else min(len(data), at + 10 * _AROUND)
        pieces.append(data[start:end])
        high += len(_HIGH.findall(pieces[-1]))
        length += len(pieces[-1])
    return b"\n".join(pieces)


def _neighbours(text: str) -> Iterator[tuple[str, str, str]]:
    """Every character beyond ASCII with the one before and the one after it."""
    around = f" {text} "
    places = map(re.Match.start, _NOT_ASCII.finditer(around))
    return ((around[at - 1], around[at], around[at + 1]) for at in places)


def _score(sample: bytes, encoding: str, languages: tuple[str, ...]) -> float:
    text = getincrementaldecoder(encoding)("replace").decode(sample)
    if not languages:
        return _score_east(text, encoding)
    letters: Counter[str] = Counter()
    score = 0.0
    for before, char, after in _neighbours(text):
        if char.isalpha() or unicodedata.category(char) == "Mn":
            letters[char.lower()] += 1
            score -= (
                3 * (char.isupper() and before.islower()) + 2 * _is_mixed(before, char) + 2 * _is_mixed(after, char)
            )
        else:
            score += _sign(before, char, after)
    return score + max(_spoken(letters, language) for language in languages)


def _sign(before: str, char: str, after: str) -> float:
    """How much a character that is no letter counts."""
    kind = unicodedata.category(char)
    if kind in ("Cc", "Cn", "Co", "Cs") or char == "\ufffd":
        return -5
    inside = before.isalpha() and after.isalpha()
    if char in _INSIDE_WORDS or kind == "Zs" or (not inside and (kind[0] == "P" or char in "§°€£©®№²³½")):
        return 0.5
    return -2 if inside or kind[0] == "S" else -1


def _is_mixed(other: str, char: str) -> bool:
    return other.isalpha() and _script(other) != _script(char)


@cache
def _script(char: str) -> str:
    return unicodedata.name(char, "").partition(" ")[0]


def _spoken(letters: Counter[str], language: str) -> float:
    """How well letters fit a language: those that it has count for it; in other scripts than Latin the frequent ones more."""
    latin = bool(_LATIN_WORD.match(unicodedata.normalize("NFD", language[0]))) or language[0] in "øæß"
    score = 0.0
    for letter, count in letters.items():
        rank = language.find(letter)
        worth = -1.0 if rank < 0 else 1.0 if latin else 1.4 - 1.2 * rank / len(language)
        score += worth * count
    return score


def _score_east(text: str, encoding: str) -> float:
    """For the encodings of two bytes a character: kana, Hangul and the characters of everyday use count for it."""
    score, kana, all_of_them = 0.0, 0, 0
    for before, char, after in _neighbours(text):
        all_of_them += 1
        kana += "\u3041" <= char <= "\u30fc"
        if _is_lone(before, after) and char.isalpha():
            score -= 4
        elif "\u3041" <= char <= "\u30fc":
            score += 2 if encoding in ("cp932", "euc_jp") else 1
        elif "\u3000" <= char <= "\u3020" or "\uff01" <= char <= "\uff5e":
            score += 1
        elif _is_everyday(char, encoding):
            score += 1.6
        else:
            score -= 2 if char.isalpha() and not "\uff61" <= char <= "\uff9f" else 4
    japanese_without_kana = encoding in ("cp932", "euc_jp") and kana * 10 < all_of_them
    return score / _OF_KANJI if japanese_without_kana and score > 0 else score


def _is_lone(before: str, after: str) -> bool:
    """Whether a character of the East stands within a Latin word: then it is an accented letter, misread."""
    return bool(_LATIN_WORD.match(before) and not (after.isalpha() and not after.isascii())) or (
        bool(_LATIN_WORD.match(after)) and not (before.isalpha() and not before.isascii())
    )


@cache
def _is_everyday(char: str, encoding: str) -> bool:
    """Whether a character belongs to the first part of its national set, that of everyday use."""
    lead = {"gb18030": ("gb2312", 0xB0, 0xD7), "big5": ("big5", 0xA4, 0xC6), "cp949": ("euc_kr", 0xB0, 0xC8)}
    codec, first, last = lead.get(encoding, ("euc_jp", 0xB0, 0xCF))
    try:
        return first <= char.encode(codec)[0] <= last
    except UnicodeEncodeError:
        return False
