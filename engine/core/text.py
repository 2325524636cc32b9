"""Text for people: safe display of control characters, durations, names of metrics, sizes."""

from __future__ import annotations

import math
import unicodedata
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path

BIDI_CONTROLS = frozenset(map(chr, (*range(0x202A, 0x202F), *range(0x2066, 0x206A))))
"""Characters that change the direction of the text after them."""
# Part of a metric's name and how people write it. `ndcg_exp` comes before its part `ndcg`.
_METRICS = (
    ("hit", "Hit"),
    ("mrr", "MRR"),
    ("ndcg_exp", "nDCG-exp"),
    ("ndcg", "nDCG"),
    ("map", "MAP"),
    ("recall", "Recall"),
    ("multihop", "several passages"),
)


def duration(seconds: float) -> str:
    """Return `12 ms`, `0.4 s`, `42 s`, `4 min 10 s`, `12 min` or `3 h 05 min`; `?` if unknown."""
    if not math.isfinite(seconds) or seconds < 0:
        return "?"
    # Each limit is where rounding would reach the next form: 0.0995 s would be `100 ms`.
    if seconds < 0.0995:
        return f"{1000 * seconds:.0f} ms"
    if seconds < 9.95:
        return f"{seconds:.1f} s"
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 600:
        return f"{whole // 60} min {whole % 60:02d} s"
    if whole < 3600:
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
    """Return the English name of a language code; the code itself if unknown."""
    return LANGUAGES.get(code, code)


_ROUND_MINUTES = (
    1,
    2,
    3,
    4,
    5,
    6,
    8,
    10,
    12,
    15,
    20,
    30,
    45,
)


def approximate_duration(seconds: float) -> str:
    """Return an estimated duration: `less than a minute`, `about 10 minutes`, `about 2 hours`.

    Returns `?` for an infinite one.
    """
    if not math.isfinite(seconds):
        return "?"
    if seconds < 45:
        return "less than a minute"
    if seconds >= 52 * 60:
        hours = round(seconds / 3600)
        return f"about {hours} hour{'s' if hours > 1 else ''}"
    minutes = min(_ROUND_MINUTES, key=lambda rounded: abs(math.log(60 * rounded / seconds)))
    return f"about {format_count(minutes, 'minute')}"


def format_count(
    count: int,
    singular: str,
    plural: str = "",
) -> str:
    """Return a count and its noun: `1 query`, `1,200 queries`.

    `plural`: by default the singular with an s.
    """
    if count == 1:
        return f"1 {singular}"
    return f"{count:,} {plural or singular + 's'}"


def about_count(count: int) -> str:
    """Return an estimated number of queries, rounded up to two digits: `220` for 219."""
    unit: int = 10 ** max(0, len(str(count)) - 2)
    rounded_up = -(-count // unit) * unit
    return f"{rounded_up:,}"


def estimate_line(seconds: Mapping[str, float], unknown: Sequence[str]) -> str:
    """Return `about 8 minutes on this machine: train 5 min, evaluate 3 min; not known: generate`.

    `seconds`: of the stages whose time is known. They are listed if several take a minute.
    `unknown`: the other stages.
    """
    unknown_text = f"not known: {', '.join(unknown)}"
    if not seconds:
        return unknown_text
    stages = [
        f"{stage} {round(taken / 60)} min"
        for stage, taken in seconds.items()
        if 45 <= taken < math.inf
    ]
    total = sum(seconds.values())
    if len(stages) > 1 and total < 3600:
        known_text = f"about {round(total / 60)} minutes on this machine"
    else:
        known_text = f"{approximate_duration(total)} on this machine"
    if len(stages) > 1:
        known_text += ": " + ", ".join(stages)
    return f"{known_text}; {unknown_text}" if unknown else known_text


def metric_name(metric: str) -> str:
    """Return a metric's name as people write it, such as `nDCG@10` for `ndcg@10`."""
    for plain, written in _METRICS:
        metric = metric.replace(plain, written)
    return metric


def short_names(folders: Collection[Path]) -> dict[Path, str]:
    """Return each folder's name, with as many parent folders as make it unique: `a/sample`."""
    names = {}
    for folder in folders:
        others = [other.parts for other in folders if other != folder]
        parts = folder.parts
        part_count = 1
        while part_count < len(parts) and any(
            other[-part_count:] == parts[-part_count:] for other in others
        ):
            part_count += 1
        names[folder] = str(Path(*parts[-part_count:]))
    return names


def harmless(text: str) -> str:
    """Replace characters that control a terminal, one for one, in untrusted text.

    Joiners, soft hyphens and the like stay, as scripts need them; controls of the writing direction
    do not.
    """
    return "".join(map(_harmless_character, text))


def _harmless_character(char: str) -> str:
    """Return a character, or a blank or `�` in its place; see `harmless`."""
    if char.isprintable():
        return char
    if char.isspace():
        return " "
    # Joiners, soft hyphens and the like.
    if unicodedata.category(char) == "Cf" and char not in BIDI_CONTROLS:
        return char
    return "�"


def visible(text: str, *, lines: bool = False) -> str:
    """Return text as `harmless` does, but with pictures of control characters, such as `␀`.

    `lines`: keep line ends and tabs.
    """
    if text.isascii() and text.isprintable():
        return text
    return "".join(_visible_character(char, lines) for char in text)


def _visible_character(char: str, lines: bool) -> str:
    """Return a character, or its picture if it is a control character; see `visible`."""
    if lines and char in "\n\t\u2028\u2029":
        return "\t" if char == "\t" else "\n"
    if char < " " and not char.isspace():
        # The pictures of the control characters lie in the same order.
        return chr(0x2400 + ord(char))
    if char == "\x7f":
        return "\u2421"
    return _harmless_character(char)


def size_text(size: float) -> str:
    """Return bytes in words: `980 B`, `12.3 kB`, `4.0 MB` (powers of 1,000)."""
    for unit in ("B", "kB", "MB", "GB"):
        if size < 1000 or unit == "GB":
            break
        size /= 1000
    if unit == "B":
        return f"{size:,.0f} B"
    return f"{size:,.1f} {unit}"


def format_files_and_size(files: int, size: float) -> str:
    """Return `1 file, 0.2 MB`; `size`: bytes of all files."""
    return f"{format_count(files, 'file')}, {size_text(size)}"
