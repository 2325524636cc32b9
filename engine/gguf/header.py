"""The header of a GGUF file, read without any library and without loading the model."""

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
MAX_DEPTH = 4  # Lists within lists.
MAX_KEPT_LIST = 64  # Longer lists, such as a vocabulary, are skipped.
MAX_TEXT_LENGTH = 1 << 24  # Bytes; longer texts mean a corrupt file.
MAX_LIST_LENGTH = 1 << 28  # Bytes.
# The fewest bytes of a pair: length of its key, type and a byte of its value; and those of a
# tensor's entry: length of its name, number of dimensions, type and offset.
MIN_PAIR = 8 + 4 + 1
MIN_TENSOR = 8 + 4 + 4 + 8
MAX_DIMENSIONS = 8
DEFAULT_ALIGNMENT = 32  # Bytes.
# Type of a value → the form of its number for `struct`.
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
_ENCODERS = frozenset(
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
"""Architectures that read and write no text of their own."""
_NO_TEXT = frozenset({"clip", "wavtokenizer-dec", "whisper"})
"""Those of them that do not read text either."""

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
    """What a model's header says; 0 or empty if it does not."""

    architecture: str
    """Such as `llama` or `bert`."""
    name: str
    quantisation: str
    """Such as `Q4_K_M`."""
    parameters: int
    context: int
    """Number of tokens that the model was trained for."""
    chat_template: bool
    """Whether it has one."""
    writes: bool
    """Whether it is a language model."""
    cache_bytes: int
    """Memory of a token of context in 16 bits."""
    layers: int = 0
    dimension: int = 0
    """Width of its hidden states, and of an embedding model's vectors."""
    languages: tuple[str, ...] = ()
    """Codes of its languages."""

    @property
    def embeds(self) -> bool:
        """Whether it may be an embedding model, which reads texts and writes none."""
        if self.writes or self.architecture in _NO_TEXT:
            return False
        return self.parameters > 0 and self.dimension > 0


def read_header(path: Path) -> Header:
    """Return the header of a model; for a split one, of its first part with all parameters.

    Raises ModelError with the true reason for a file that is not GGUF, cut off, corrupt or of an
    unknown version.
    """
    first, *others = [_read(part) for part in parts_of(path)]
    parameters = first.parameters + sum(other.parameters for other in others)
    return replace(
        first,
        parameters=parameters,
        writes=first.writes and parameters > 0,
    )


def _read(path: Path) -> Header:
    """Return the header of one file. Raises ModelError."""
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
    """A file that is cut off or corrupt."""


class _Reader:
    """Reads the header from the position of a file."""

    def __init__(self, file: BinaryIO, size: int) -> None:
        self._file = file
        self._size = size

    def header(self) -> Header:
        """Read version, pairs of keys and values, and the entries of the tensors."""
        self._file.seek(4)  # after the letters GGUF
        version = self._read_number("<I")
        if version not in VERSIONS:
            raise _SpoiltError(f"Its version of GGUF is {version}; 2 and 3 are known.")
        tensors = self._read_number("<Q")
        pairs = self._read_number("<Q")
        facts: dict[str, Any] = {}
        self._check_count(pairs, MIN_PAIR)
        for _ in range(pairs):
            key = self._read_text()
            facts[key] = self._read_value(self._read_number("<I"))
        self._check_count(tensors, MIN_TENSOR)
        alignment = facts.get(_ALIGNMENT, DEFAULT_ALIGNMENT)
        if not isinstance(alignment, int) or alignment <= 0:
            alignment = DEFAULT_ALIGNMENT
        return _build_header(facts, self._read_tensors(tensors, alignment))

    def _read_tensors(self, count: int, alignment: int) -> Counter[str]:
        """Return how many numbers the tensors hold, by their type.

        `alignment`: where tensors may begin, in bytes. Raises _SpoiltError if the file is too short
        to hold them.
        """
        counts: Counter[str] = Counter()
        end = 0  # of the last tensor, from the beginning of the first
        for _ in range(count):
            name = self._read_text()
            dimensions = self._read_number("<I")
            if dimensions > MAX_DIMENSIONS:
                raise self._corrupt(f"the tensor '{name[:80]}' has {dimensions} dimensions")
            numbers = math.prod(self._read_number("<Q") for _ in range(dimensions))
            kind = self._read_number("<I")
            offset = self._read_number("<Q")
            if kind not in TENSOR_TYPES:
                raise self._corrupt(f"the tensor '{name[:80]}' is of the unknown type {kind}")
            type_name, block_numbers, block_size = TENSOR_TYPES[kind]
            counts[type_name] += numbers
            blocks = _divide_up(numbers, block_numbers)
            end = max(end, offset + blocks * block_size)
        start = _divide_up(self._file.tell(), alignment) * alignment
        needed = start + end
        if count and needed > self._size:
            raise _SpoiltError(
                f"It is cut off: its tensors end at byte {needed:,}, the file at {self._size:,}. A"
                " download may have broken off."
            )
        return counts

    def _read_value(self, kind: int, depth: int = 0) -> Any:
        """Read a value of a type. `depth`: in how many lists it lies."""
        if kind in _NUMBERS:
            return self._read_number(_NUMBERS[kind])
        if kind == _TEXT:
            return self._read_text()
        if kind != _ARRAY:
            raise self._corrupt(f"a value is of the unknown type {kind}")
        if depth == MAX_DEPTH:
            raise self._corrupt("a list in a list in a list")
        return self._read_list(depth)

    def _read_list(self, depth: int) -> list[Any] | None:
        """Read the items of a list; skip those of a long one and return None."""
        kind = self._read_number("<I")
        count = self._read_number("<Q")
        if kind in _NUMBERS:
            width = struct.calcsize(_NUMBERS[kind])
            self._check_count(count, width)
            if count > MAX_KEPT_LIST:
                self._file.seek(count * width, os.SEEK_CUR)
                return None
        elif kind in (_TEXT, _ARRAY):
            self._check_count(count, 8)
            if count > MAX_KEPT_LIST and kind == _TEXT:
                for _ in range(count):
                    self._file.seek(self._read_length(), os.SEEK_CUR)
                return None
        else:
            raise self._corrupt(f"a list is of the unknown type {kind}")
        return [self._read_value(kind, depth + 1) for _ in range(count)]

    def _read_text(self) -> str:
        """Read a text: its length, then its bytes."""
        return self._read_bytes(self._read_length()).decode("utf-8", "replace")

    def _read_length(self) -> int:
        """Read the length of a text in bytes."""
        length: int = self._read_number("<Q")
        if length > MAX_TEXT_LENGTH:
            raise self._corrupt(f"a text of {length:,} bytes")
        return length

    def _read_number(self, form: str) -> Any:
        """Read a number. `form`: its form for `struct`, such as `<I`."""
        return struct.unpack(form, self._read_bytes(struct.calcsize(form)))[0]

    def _read_bytes(self, count: int) -> bytes:
        """Read exactly `count` bytes. Raises _SpoiltError if the file ends before."""
        data = self._file.read(count)
        if len(data) < count:
            raise _SpoiltError("The file ends within its header. A download may have broken off.")
        return data

    def _check_count(self, count: int, item_bytes: int) -> None:
        """Raise _SpoiltError for more items, of at least `item_bytes`, than the file can hold."""
        if count * item_bytes > max(MAX_LIST_LENGTH, self._size):
            raise self._corrupt(f"a list of {count:,} entries")

    def _corrupt(self, what: str) -> _SpoiltError:
        """Return the error for `what` was just read, such as "a text of 9,000,000,000 bytes"."""
        return _SpoiltError(
            f"Its header is corrupt: before byte {self._file.tell():,} stands {what}."
        )


def _divide_up(number: int, divisor: int) -> int:
    """Return a quotient, rounded up."""
    return -(-number // divisor)


def _build_header(facts: dict[str, Any], counts: Counter[str]) -> Header:
    """Return what the pairs of a header say. `counts`: numbers in tensors, by their type."""
    architecture = str(facts.get("general.architecture", ""))

    def read_number(name: str) -> int:
        """Return a number of the architecture; the largest if layers differ, 0 if it is missing."""
        values = facts.get(f"{architecture}.{name}")
        if not isinstance(values, list):
            values = [values]
        return max((value for value in values if isinstance(value, int)), default=0)

    heads = max(1, read_number("attention.head_count"))
    key_value_heads = read_number("attention.head_count_kv") or heads
    head_width = read_number("embedding_length") // heads
    key_width = read_number("attention.key_length") or head_width
    value_width = read_number("attention.value_length") or head_width
    layers = read_number("block_count")
    quantisation = max(
        counts,
        key=counts.__getitem__,
        default="",
    )
    file_type = facts.get("general.file_type")
    if isinstance(file_type, int):
        quantisation = FILE_TYPES.get(file_type, quantisation)
    pools = read_number("pooling_type") != 0
    is_causal = facts.get(f"{architecture}.attention.causal") is not False
    is_decoder = bool(architecture) and architecture not in _ENCODERS
    languages = facts.get("general.languages")
    if not isinstance(languages, list):
        languages = []
    return Header(
        architecture=architecture,
        name=str(facts.get("general.name", "")),
        quantisation=quantisation,
        parameters=counts.total(),
        context=read_number("context_length"),
        chat_template=bool(facts.get("tokenizer.chat_template")),
        writes=is_decoder and is_causal and not pools,
        cache_bytes=layers * key_value_heads * (key_width + value_width) * 2,  # of 16 bits
        layers=layers,
        dimension=read_number("embedding_length"),
        languages=tuple(map(str, languages)),
    )


def not_a_writer(path: Path, header: Header) -> ModelError | None:
    """Return the error for a model that writes no text; None for a language model."""
    if header.writes:
        return None
    if header.architecture and not header.parameters:
        return unusable(
            path, "It contains a vocabulary but no weights.", code="language-model-unsupported"
        )
    why = "It names no architecture: it holds other tensors than a model's, or a part of one."
    if header.architecture:
        why = (
            f"Its architecture is '{header.architecture}', or it pools: it is an embedding or"
            " encoder model."
        )
    return unusable(path, why, code="language-model-unsupported")
