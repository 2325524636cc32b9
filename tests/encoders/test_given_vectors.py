"""Vectors of chunks in a file, sound and not."""

from __future__ import annotations

import json
import pickle
from collections.abc import Callable, Sequence
from hashlib import sha256
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import save_file

from engine.core.errors import EngineError
from engine.encoders.kinds.chosen import encoder_source
from engine.encoders.kinds.given_vectors import read_vectors, vectors_digest
from engine.settings.schema import EncoderSettings

IDS = [sha256(text.encode()).hexdigest() for text in ("wing", "contract", "heat")]
ROWS = np.array([[3, 4], [0, -2], [1, 0]], np.float32)


def npy(folder: Path, rows: np.ndarray = ROWS, ids: Sequence[str] | None = IDS) -> Path:
    np.save(folder / "given.npy", rows)
    if ids is not None:
        (folder / "given.ids.txt").write_text("\n".join(ids) + "\n")
    return folder / "given.npy"


def as_exported(folder: Path) -> Path:
    path = npy(folder, ROWS.astype(np.float64), None)
    lines = (json.dumps({"chunk_id": 7, "content_hash": name}) for name in IDS)
    (folder / "ids.jsonl").write_text("\n".join(lines))
    return path


def tensors(folder: Path) -> Path:
    save_file(
        {"vectors": ROWS.astype(np.float16)}, folder / "given.safetensors", {"ids": "\n".join(IDS)}
    )
    return folder / "given.safetensors"


def tensors_with_a_file_of_ids(folder: Path) -> Path:
    npy(folder)
    save_file({"vectors": ROWS}, folder / "given.safetensors")
    return folder / "given.safetensors"


@pytest.mark.parametrize("write", [npy, as_exported, tensors, tensors_with_a_file_of_ids])
def test_vectors_are_found_by_content_hash(tmp_path: Path, write: Callable[[Path], Path]) -> None:
    given = read_vectors(str(write(tmp_path)))
    places = given.find([IDS[2], "0" * 64, IDS[0]])
    np.testing.assert_array_equal(places, [2, -1, 0])
    np.testing.assert_allclose(given.read(places[[0, 2]]), [[1, 0], [0.6, 0.8]], atol=1e-3)
    assert given.rows.shape == (3, 2)


def test_a_text_that_was_embedded_twice_is_no_error(tmp_path: Path) -> None:
    rows = np.concatenate([ROWS, ROWS[:1] * 1.00001])
    np.testing.assert_array_equal(
        read_vectors(str(npy(tmp_path, rows, [*IDS, IDS[0]]))).find(IDS), [0, 1, 2]
    )


def test_the_digest_follows_vectors_and_ids(tmp_path: Path) -> None:
    first = vectors_digest(str(npy(tmp_path)))
    assert vectors_digest(str(npy(tmp_path, ROWS, IDS[::-1]))) != first
    assert vectors_digest(str(npy(tmp_path, ROWS[::-1], IDS))) != first


def pickled(folder: Path) -> Path:
    path = npy(folder)
    path.write_bytes(pickle.dumps(ROWS))
    return path


def objects(folder: Path) -> Path:
    path = npy(folder)
    np.save(path, np.array([[1, None]], object), allow_pickle=True)
    return path


def cut(path: Path) -> Path:
    path.write_bytes(path.read_bytes()[:-5])
    return path


def header_of(folder: Path, shape: tuple[int, ...]) -> Path:
    path = npy(folder)
    with path.open("wb") as file:
        np.lib.format.write_array_header_1_0(
            file, {"descr": "<f4", "fortran_order": False, "shape": shape}
        )
    return path


def of_another_name(folder: Path) -> Path:
    save_file({"weights": ROWS}, folder / "given.safetensors", {"ids": "\n".join(IDS)})
    return folder / "given.safetensors"


def of_type(folder: Path, dtype: str, size: int) -> Path:
    """Numbers that NumPy does not have."""
    npy(folder)
    header = json.dumps(
        {"vectors": {"dtype": dtype, "shape": [3, 2], "data_offsets": [0, 6 * size]}}
    ).encode()
    (folder / "given.safetensors").write_bytes(
        len(header).to_bytes(8, "little") + header + bytes(6 * size)
    )
    return folder / "given.safetensors"


def broken_ids(folder: Path, text: bytes) -> Path:
    path = npy(folder)
    (folder / "given.ids.txt").write_bytes(text)
    return path


@pytest.mark.parametrize(
    ("write", "code"),
    [
        (lambda folder: folder / "absent.npy", "vectors-unreadable"),
        (lambda folder: folder, "vectors-unreadable"),
        (pickled, "vectors-unreadable"),
        (objects, "vectors-unreadable"),
        (lambda folder: cut(npy(folder)), "vectors-unreadable"),
        (lambda folder: cut(tensors(folder)), "vectors-unreadable"),
        (lambda folder: header_of(folder, (3, 2**40)), "vectors-unreadable"),
        (of_another_name, "vectors-unreadable"),
        (lambda folder: broken_ids(folder, b"\xff\xfe\x00"), "vectors-unreadable"),
        (lambda folder: broken_ids(folder, b'{"content_hash"'), "vectors-unreadable"),
        (lambda folder: broken_ids(folder, b'{"id": 1}\n' * 3), "vectors-unreadable"),
        (lambda folder: broken_ids(folder, b"[" * 90_000), "vectors-ids-invalid"),
        (lambda folder: npy(folder, ROWS.ravel()), "vectors-invalid"),
        (lambda folder: npy(folder, ROWS[None]), "vectors-invalid"),
        (lambda folder: npy(folder, ROWS[:, :0]), "vectors-invalid"),
        (lambda folder: npy(folder, ROWS.astype(np.int64)), "vectors-invalid"),
        (lambda folder: npy(folder, ROWS, None), "vectors-ids-missing"),
        (lambda folder: npy(folder, ROWS, IDS[:2]), "vectors-ids-invalid"),
        (lambda folder: npy(folder, ROWS, [*IDS[:2], IDS[0]]), "vectors-ids-invalid"),
        (lambda folder: npy(folder, np.where(ROWS == 4, np.inf, ROWS)), "vectors-not-finite"),
        (lambda folder: npy(folder, ROWS * [[1], [0], [1]]), "vectors-not-finite"),
    ],
)
def test_what_cannot_be_used_is_refused(
    tmp_path: Path, write: Callable[[Path], Path], code: str
) -> None:
    with pytest.raises(EngineError) as refused:
        read_vectors(str(write(tmp_path)))
    assert refused.value.code == code


@pytest.mark.parametrize(("name", "size"), [("BF16", 2), ("F8_E4M3", 1)])
def test_numbers_that_numpy_knows_by_another_library_alone_are_refused(
    tmp_path: Path, name: str, size: int
) -> None:
    with pytest.raises(EngineError) as refused:
        read_vectors(str(of_type(tmp_path, name, size)))
    assert refused.value.code in (
        "vectors-unreadable",
        "vectors-invalid",
    )  # whether onnx, which brings it, is imported


def test_only_one_thing_stands_beside_an_encoder(tmp_path: Path, tiny_model: Path) -> None:
    both = EncoderSettings(
        model=str(tiny_model), small_model=str(tiny_model), vectors=str(npy(tmp_path))
    )
    with pytest.raises(EngineError) as refused:
        encoder_source(both)
    assert refused.value.code == "encoder-ambiguous"
    source = encoder_source(both.model_copy(update={"small_model": ""}))
    alone = encoder_source(both.model_copy(update={"small_model": "", "vectors": ""}))
    assert (source.trains, source.exports) == (True, False)
    assert source.vectors_fingerprint(64) == alone.vectors_fingerprint(64)
    assert source.fingerprint != alone.fingerprint
