"""What a GGUF file says of itself, read from its header: nothing is loaded, and no library is
needed.
"""

from __future__ import annotations

import math
import os
import struct
from collections import Counter
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, BinaryIO

from engine.core.errors import ModelError
from engine.gguf.file import check_gguf, parts_of, unusable

VERSIONS = (2, 3)
MAX_DEPTH = 4  # lists within lists
MAX_KEPT_LIST = 64  # of longer lists, such as a vocabulary, only the length is kept
MAX_TEXT_LENGTH = 1 << 24  # bytes: more is not cut off but corrupt
MAX_LIST_LENGTH = 1 << 28
_NUMBERS = {
    0: "<B",
    1: "<b",
    2: "<H",
    3: "<h",
    4: "<I",
    5: "<i",
    6: "<f",
    7: "<?",
    10: "<Q",
    11: "<q",
    12: "<d",
}
_TEXT = 8
_ARRAY = 9
_ALIGNMENT = "general.alignment"
_ONE_WAY_OUT = frozenset(
    {
        "bert",
        "modern-bert",
        "nomic-bert",
        "nomic-bert-moe",
        "neo-bert",
        "jina-bert-v2",
        "jina-bert-v3",
        "eurobert",
        "gemma-embedding",
        "t5encoder",
        "clip",
        "wavtokenizer-dec",
        "whisper",
    }
)
_NO_TEXT = frozenset({"clip", "wavtokenizer-dec", "whisper"})

# Type of a tensor → its name, numbers in a block, bytes of a block (ggml.h).
TENSOR_TYPES = {
    0: ("F32", 1, 4),
    1: ("F16", 1, 2),
    2: ("Q4_0", 32, 18),
    3: ("Q4_1", 32, 20),
    6: ("Q5_0", 32, 22),
    7: ("Q5_1", 32, 24),
    8: ("Q8_0", 32, 34),
    9: ("Q8_1", 32, 40),
    10: ("Q2_K", 256, 84),
    11: ("Q3_K", 256, 110),
    12: ("Q4_K", 256, 144),
    13: ("Q5_K", 256, 176),
    14: ("Q6_K", 256, 210),
    15: ("Q8_K", 256, 292),
    16: ("IQ2_XXS", 256, 66),
    17: ("IQ2_XS", 256, 74),
    18: ("IQ3_XXS", 256, 98),
    19: ("IQ1_S", 256, 50),
    20: ("IQ4_NL", 32, 18),
    21: ("IQ3_S", 256, 110),
    22: ("IQ2_S", 256, 82),
    23: ("IQ4_XS", 256, 136),
    24: ("I8", 1, 1),
    25: ("I16", 1, 2),
    26: ("I32", 1, 4),
    27: ("I64", 1, 8),
    28: ("F64", 1, 8),
    29: ("IQ1_M", 256, 56),
    30: ("BF16", 1, 2),
    34: ("TQ1_0", 256, 54),
    35: ("TQ2_0", 256, 66),
    39: ("MXFP4", 32, 17),
    40: ("NVFP4", 64, 36),
    41: ("Q1_0", 128, 18),
}
# general.file_type → its name (llama.h).
FILE_TYPES = {
    0: "F32",
    1: "F16",
    2: "Q4_0",
    3: "Q4_1",
    7: "Q8_0",
    8: "Q5_0",
    9: "Q5_1",
    10: "Q2_K",
    11: "Q3_K_S",
    12: "Q3_K_M",
    13: "Q3_K_L",
    14: "Q4_K_S",
    15: "Q4_K_M",
    16: "Q5_K_S",
    17: "Q5_K_M",
    18: "Q6_K",
    19: "IQ2_XXS",
    20: "IQ2_XS",
    21: "Q2_K_S",
    22: "IQ3_XS",
    23: "IQ3_XXS",
    24: "IQ1_S",
    25: "IQ4_NL",
    26: "IQ3_S",
    27: "IQ3_M",
    28: "IQ2_S",
    29: "IQ2_M",
    30: "IQ4_XS",
    31: "IQ1_M",
    32: "BF16",
    36: "TQ1_0",
    37: "TQ2_0",
    38: "MXFP4",
    39: "NVFP4",
    40: "Q1_0",
}


@dataclass(frozen=True, slots=True)
class Header:
    """`context`: tokens it was trained for.

    `writes`: whether it is a language model. `cache_bytes`: memory that a token of context takes in
    16 bits; 0 where the header does not say. `dimension`: of its vectors; `languages`: codes that
    it names.
    """

    architecture: str
    name: str
    quantisation: str
    parameters: int
    context: int
    chat_template: bool
    writes: bool
    cache_bytes: int
    layers: int = 0
    dimension: int = 0
    languages: tuple[str, ...] = ()

    @property
    def embeds(self) -> bool:
        """Whether it may be an embedding model: one that reads texts and writes none."""
        return (
            not self.writes
            and bool(self.parameters and self.dimension)
            and self.architecture not in _NO_TEXT
        )


def read_header(path: Path) -> Header:
    """The header of a model; of one in several files its first is named, and all are looked at.

    Raises ModelError with the true reason where a file is none, cut off, corrupt or of an unknown
    version.
    """
    first, *others = [_read(part) for part in parts_of(path)]
    parameters = first.parameters + sum(other.parameters for other in others)
    return replace(first, parameters=parameters, writes=first.writes and parameters > 0)


def _read(path: Path) -> Header:
    check_gguf(path)
    try:
        with path.open("rb") as file:
            size = os.fstat(file.fileno()).st_size
            return _Reader(file, size).header()
    except _SpoiltError as error:
        raise unusable(path, str(error)) from None
    except OSError as error:
        raise unusable(path, f"{error.strerror or error}.") from None


class _SpoiltError(Exception):
    pass


class _Reader:
    def __init__(self, file: BinaryIO, size: int) -> None:
        self._file = file
        self._size = size

    def header(self) -> Header:
        self._file.seek(4)
        version = self._number("<I")
        if version not in VERSIONS:
            raise _SpoiltError(f"Its version of GGUF is {version}; 2 and 3 are known.")
        tensors = self._number("<Q")
        pairs = self._number("<Q")
        facts: dict[str, Any] = {}
        for _ in range(self._possible(pairs, 13)):
            key = self._text()
            facts[key] = self._value(self._number("<I"))
        counts, parameters = self._tensors(self._possible(tensors, 24), facts)
        return _header(facts, counts, parameters)

    def _tensors(self, count: int, facts: dict[str, Any]) -> tuple[Counter[str], int]:
        """Numbers by type, and in all. Raises where the file is too short to hold them."""
        held: Counter[str] = Counter()
        end = 0
        for _ in range(count):
            name = self._text()
            sides = self._number("<I")
            if sides > 8:
                raise self._corrupt(f"the tensor '{name[:80]}' has {sides} dimensions")
            numbers = math.prod(self._number("<Q") for _ in range(sides))
            kind = self._number("<I")
            offset = self._number("<Q")
            if kind not in TENSOR_TYPES:
                raise self._corrupt(f"the tensor '{name[:80]}' is of the unknown type {kind}")
            called, block, size = TENSOR_TYPES[kind]
            held[called] += numbers
            end = max(end, offset + -(-numbers // block) * size)
        step = facts.get(_ALIGNMENT, 32)
        step = step if isinstance(step, int) and step > 0 else 32
        needed = -(-self._file.tell() // step) * step + end
        if count and needed > self._size:
            raise _SpoiltError(
                f"It is cut off: its tensors end at byte {needed:,}, the file at {self._size:,}. A"
                " download may have broken off."
            )
        return held, held.total()

    def _value(self, kind: int, depth: int = 0) -> Any:
        if kind in _NUMBERS:
            return self._number(_NUMBERS[kind])
        if kind == _TEXT:
            return self._text()
        if kind != _ARRAY or depth == MAX_DEPTH:
            raise self._corrupt(
                f"a value is of the unknown type {kind}"
                if kind != _ARRAY
                else "a list in a list in a list"
            )
        inner = self._number("<I")
        count = self._number("<Q")
        if inner in _NUMBERS:
            width = struct.calcsize(_NUMBERS[inner])
            if self._possible(count, width) > MAX_KEPT_LIST:
                self._file.seek(count * width, os.SEEK_CUR)
                return None
        elif inner not in (_TEXT, _ARRAY):
            raise self._corrupt(f"a list is of the unknown type {inner}")
        elif self._possible(count, 8) > MAX_KEPT_LIST and inner == _TEXT:
            for _ in range(count):
                self._file.seek(self._length(), os.SEEK_CUR)
            return None
        return [self._value(inner, depth + 1) for _ in range(count)]

    def _text(self) -> str:
        return self._bytes(self._length()).decode("utf-8", "replace")

    def _length(self) -> int:
        length: int = self._number("<Q")
        if length > MAX_TEXT_LENGTH:
            raise self._corrupt(f"a text of {length:,} bytes")
        return length

    def _number(self, form: str) -> Any:
        return struct.unpack(form, self._bytes(struct.calcsize(form)))[0]

    def _bytes(self, count: int) -> bytes:
        data = self._file.read(count)
        if len(data) < count:
            raise _SpoiltError("The file ends within its header. A download may have broken off.")
        return data

    def _possible(self, count: int, least: int) -> int:
        if count * least > max(MAX_LIST_LENGTH, self._size):
            raise self._corrupt(f"a list of {count:,} entries")
        return count

    def _corrupt(self, what: str) -> _SpoiltError:
        return _SpoiltError(
            f"Its header is corrupt: before byte {self._file.tell():,} stands {what}."
        )


def _header(facts: dict[str, Any], held: Counter[str], parameters: int) -> Header:
    kind = str(facts.get("general.architecture", ""))

    def number(name: str) -> int:
        """The largest where the layers differ."""
        found = facts.get(f"{kind}.{name}")
        return max(
            (
                one
                for one in (found if isinstance(found, list) else [found])
                if isinstance(one, int)
            ),
            default=0,
        )

    heads = max(1, number("attention.head_count"))
    width = number("embedding_length") // heads
    lengths = (number("attention.key_length") or width) + (
        number("attention.value_length") or width
    )
    cache = number("block_count") * (number("attention.head_count_kv") or heads) * lengths * 2
    pooled = number("pooling_type") != 0
    one_way = facts.get(f"{kind}.attention.causal") is not False
    if held:
        most = held.most_common(1)[0][0]
    else:
        most = ""
    known = facts.get("general.file_type")
    languages = facts.get("general.languages")
    return Header(
        architecture=kind,
        name=str(facts.get("general.name", "")),
        quantisation=FILE_TYPES.get(known, most) if isinstance(known, int) else most,
        parameters=parameters,
        context=number("context_length"),
        chat_template=bool(facts.get("tokenizer.chat_template")),
        writes=bool(kind) and not pooled and one_way and kind not in _ONE_WAY_OUT,
        cache_bytes=cache,
        layers=number("block_count"),
        dimension=number("embedding_length"),
        languages=tuple(map(str, languages)) if isinstance(languages, list) else (),
    )


def not_a_writer(path: Path, header: Header) -> ModelError | None:
    """The error of a model that does not write text; None for one that does."""
    if header.writes:
        return None
    if header.architecture and not header.parameters:
        return unusable(
            path, "It contains a vocabulary but no weights.", code="language-model-unsupported"
        )
    if header.architecture:
        why = (
            f"Its architecture is '{header.architecture}', or it pools: it is an embedding or"
            " encoder model."
        )
    else:
        why = "It names no architecture: it holds other tensors than a model's, or a part of one."
    return unusable(path, why, code="language-model-unsupported")
