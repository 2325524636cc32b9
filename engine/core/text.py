"""Text for people: control characters made harmless or visible, lengths of time, names of
metrics, sizes.
"""

from __future__ import annotations

import math
import unicodedata
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path

BIDI_CONTROLS = frozenset(map(chr, (*range(0x202A, 0x202F), *range(0x2066, 0x206A))))
_METRICS = (
    ("hit", "Hit"),
    ("mrr", "MRR"),
    ("ndcg_exp", "nDCG-exp"),
    ("ndcg", "nDCG"),
    ("map", "MAP"),
    ("recall", "Recall"),
    ("multihop", "several passages"),
)


def day(seconds: float | None) -> str:
    """The day of a date that a document gives itself, where the user lives; empty for none."""
    from datetime import UTC, datetime

    if seconds is None:
        return ""
    try:
        return f"{datetime.fromtimestamp(seconds, UTC).astimezone():%Y-%m-%d}"
    except (ValueError, OverflowError, OSError):
        return ""


def duration(seconds: float) -> str:
    """`12 ms`, `0.4 s`, `42 s`, `4 min 10 s`, `12 min`, `3 h 05 min`; `?` where it is not known."""
    if not math.isfinite(seconds) or seconds < 0:
        return "?"
    if seconds < 0.0995:
        return f"{1000 * seconds:.0f} ms"
    if seconds < 9.95:
        return f"{seconds:.1f} s"
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        if whole < 600:
            return f"{whole // 60} min {whole % 60:02d} s"
        return f"{whole // 60} min"
    return f"{whole // 3600} h {whole % 3600 // 60:02d} min"


LANGUAGES = {
    "af": "Afrikaans",
    "am": "Amharic",
    "an": "Aragonese",
    "ar": "Arabic",
    "as": "Assamese",
    "az": "Azerbaijani",
    "ba": "Bashkir",
    "be": "Belarusian",
    "bg": "Bulgarian",
    "bn": "Bengali",
    "br": "Breton",
    "bs": "Bosnian",
    "ca": "Catalan",
    "cs": "Czech",
    "cy": "Welsh",
    "da": "Danish",
    "de": "German",
    "dz": "Dzongkha",
    "el": "Greek",
    "en": "English",
    "eo": "Esperanto",
    "es": "Spanish",
    "et": "Estonian",
    "eu": "Basque",
    "fa": "Persian",
    "fi": "Finnish",
    "fo": "Faroese",
    "fr": "French",
    "fy": "West Frisian",
    "ga": "Irish",
    "gd": "Scottish Gaelic",
    "gl": "Galician",
    "gu": "Gujarati",
    "ha": "Hausa",
    "he": "Hebrew",
    "hi": "Hindi",
    "hr": "Croatian",
    "ht": "Haitian Creole",
    "hu": "Hungarian",
    "hy": "Armenian",
    "id": "Indonesian",
    "ig": "Igbo",
    "is": "Icelandic",
    "it": "Italian",
    "ja": "Japanese",
    "jv": "Javanese",
    "ka": "Georgian",
    "kk": "Kazakh",
    "km": "Khmer",
    "kn": "Kannada",
    "ko": "Korean",
    "ku": "Kurdish",
    "ky": "Kyrgyz",
    "la": "Latin",
    "lb": "Luxembourgish",
    "lg": "Ganda",
    "ln": "Lingala",
    "lo": "Lao",
    "lt": "Lithuanian",
    "lv": "Latvian",
    "mg": "Malagasy",
    "mk": "Macedonian",
    "ml": "Malayalam",
    "mn": "Mongolian",
    "mr": "Marathi",
    "ms": "Malay",
    "mt": "Maltese",
    "my": "Burmese",
    "ne": "Nepali",
    "nl": "Dutch",
    "no": "Norwegian",
    "oc": "Occitan",
    "om": "Oromo",
    "or": "Odia",
    "pa": "Punjabi",
    "pl": "Polish",
    "ps": "Pashto",
    "pt": "Portuguese",
    "qu": "Quechua",
    "ro": "Romanian",
    "ru": "Russian",
    "rw": "Kinyarwanda",
    "sa": "Sanskrit",
    "se": "Northern Sami",
    "si": "Sinhala",
    "sk": "Slovak",
    "sl": "Slovenian",
    "sn": "Shona",
    "so": "Somali",
    "sq": "Albanian",
    "sr": "Serbian",
    "st": "Sotho",
    "sv": "Swedish",
    "sw": "Swahili",
    "ta": "Tamil",
    "te": "Telugu",
    "tg": "Tajik",
    "th": "Thai",
    "tk": "Turkmen",
    "tl": "Tagalog",
    "tr": "Turkish",
    "tt": "Tatar",
    "ug": "Uyghur",
    "uk": "Ukrainian",
    "ur": "Urdu",
    "uz": "Uzbek",
    "vi": "Vietnamese",
    "vo": "Volapük",
    "wa": "Walloon",
    "xh": "Xhosa",
    "yo": "Yoruba",
    "zh": "Chinese",
    "zu": "Zulu",
    "none": "none",
    "und": "unknown",
}


def language_name(code: str) -> str:
    """`en` → `English`; the code where it is none that is detected."""
    return LANGUAGES.get(code, code)


_MINUTES = (1, 2, 3, 4, 5, 6, 8, 10, 12, 15, 20, 30, 45)


def about(seconds: float, nearly: str = "about") -> str:
    """`less than a minute`, `about 10 minutes`, `about 2 hours`: a length of time that is
    guessed; `?` for none.
    """
    if not math.isfinite(seconds):
        return "?"
    if seconds < 45:
        return "less than a minute"
    if seconds >= 52 * 60:
        hours = round(seconds / 3600)
        return f"{nearly} {hours} hour{'s' if hours > 1 else ''}"
    minutes = min(_MINUTES, key=lambda one: abs(math.log(60 * one / seconds)))
    return f"{nearly} {minutes} minute{'s' if minutes > 1 else ''}"


def about_count(count: int) -> str:
    """An estimated number of queries, upwards to two digits: `220` of 219."""
    unit: int = 10 ** max(0, len(str(count)) - 2)
    return f"{-(-count // unit) * unit:,}"


def estimate_line(seconds: Mapping[str, float], unknown: Sequence[str], rough: bool = False) -> str:
    """`about 8 minutes on this machine: train 5 min, evaluate 3 min; not known: generate`.

    By stage where several take a minute.

    `rough`: the machine was busy when its speed was measured.
    """
    parts = [
        f"{stage} {round(one / 60)} min" for stage, one in seconds.items() if 45 <= one < math.inf
    ]
    shown = ""
    nearly = "roughly" if rough else "about"
    whole = sum(seconds.values())
    known = f"{about(whole, nearly)} on this machine"
    if len(parts) > 1:
        shown = ": " + ", ".join(parts)
        if whole < 3600:
            known = f"{nearly} {round(whole / 60)} minutes on this machine"
        else:
            known = known
    known += f"{', which is busy now' if rough else ''}{shown}"
    missing = f"not known: {', '.join(unknown)}"
    if not seconds:
        return missing
    return f"{known}; {missing}" if unknown else known


def metric_name(metric: str) -> str:
    """As people write it."""
    for plain, written in _METRICS:
        metric = metric.replace(plain, written)
    return metric


def short_names(folders: Collection[Path]) -> dict[Path, str]:
    """By folder its name, with as many of the folders that it lies in as tell it from the
    others: `a/sample`, `b/sample`.
    """
    names: dict[Path, str] = {}
    for folder in folders:
        others = [one.parts for one in folders if one != folder]
        parts = folder.parts
        count = next(
            (n for n in range(1, len(parts)) if all(parts[-n:] != one[-n:] for one in others)),
            len(parts),
        )
        names[folder] = str(Path(*parts[-count:]))
    return names


def harmless(text: str) -> str:
    """One character for one, without those that steer a terminal: documents and file names are
    not trusted.

    Joiners, soft hyphens and the like stay, as scripts need them; what turns the direction of
    writing round does not.
    """
    return "".join(map(_harmless_character, text))


def _harmless_character(char: str) -> str:
    if char.isprintable():
        return char
    if char.isspace():
        return " "
    if unicodedata.category(char) == "Cf" and char not in BIDI_CONTROLS:
        return char
    return "�"


def visible(text: str, *, lines: bool = False) -> str:
    """As `harmless`, one character for one, but control characters are shown by their pictures.

    Line ends and tabs stay where `lines` is set.
    """
    if text.isascii() and text.isprintable():
        return text
    return "".join(_visible_character(char, lines) for char in text)


def _visible_character(char: str, lines: bool) -> str:
    if lines and char in "\n\t\u2028\u2029":
        return "\t" if char == "\t" else "\n"
    if char < " " and not char.isspace():
        return chr(0x2400 + ord(char))
    if char == "\x7f":
        return "\u2421"
    return _harmless_character(char)


def size_text(size: float) -> str:
    """Bytes in words: `980 B`, `12.3 kB`, `4.0 MB` (powers of 1,000)."""
    for unit in ("B", "kB", "MB", "GB"):
        if size < 1000 or unit == "GB":
            break
        size /= 1000
    if unit == "B":
        return f"{size:,.0f} B"
    return f"{size:,.1f} {unit}"


def amount(files: int, size: float) -> str:
    """`1 file, 0.2 MB`; `size`: bytes of all."""
    return f"{files:,} file{'' if files == 1 else 's'}, {size_text(size)}"
