"""Bundles with a password, in age's format.

The password opens `key.age`, which holds the key of `project.zip.age`.
"""

from __future__ import annotations

from pathlib import Path
from typing import IO
from zipfile import ZIP_STORED, ZipFile, ZipInfo

from engine.core.disk import check_room
from engine.core.errors import UsageError
from engine.core.extras import check_extra
from engine.export.bundle.archive import (
    damaged_error,
    malformed_as_damaged,
    new_archive,
    unsafe_error,
)

KEY = "key.age"
BODY = "project.zip.age"
_MAX_KEY = 4096  # Bytes.
_OVERHEAD = 1 << 16  # Bytes that encryption and the archive add.


def check_password(password: str) -> None:
    """Raise UsageError for an empty password, or if the library is missing."""
    check_extra(
        "age",
        "Bundles with a password cannot be used",
        "It is optional: other bundles do not need it.",
    )
    if not password:
        raise UsageError(
            "The password is empty.",
            "",
            "Give one.",
            code="bundle-password",
        )


def encrypt(
    plain: Path,
    target: Path,
    password: str,
) -> None:
    """Write a bundle that holds the one in `plain`.

    Raises ResourceError, OSError.
    """
    import pyrage

    check_room(target.parent, plain.stat().st_size + _OVERHEAD)
    key = pyrage.x25519.Identity.generate()
    with new_archive(target) as archive, plain.open("rb") as source:
        archive.compression = ZIP_STORED
        archive.writestr(KEY, pyrage.passphrase.encrypt(str(key).encode(), password))
        with archive.open(BODY, "w", force_zip64=True) as file:
            try:
                pyrage.encrypt_io(
                    source,
                    file,
                    [key.to_public()],
                )
            except pyrage.EncryptError as error:
                # Only the text of a disk error is left.
                raise OSError(str(error)) from error


def is_encrypted(infos: dict[str, ZipInfo]) -> bool:
    """Return whether an archive with these entries is a bundle with a password.

    Raises InputError for entries that no bundle has.
    """
    if KEY not in infos:
        return False
    is_compressed = any(info.compress_type for info in infos.values())
    if infos.keys() != {KEY, BODY} or infos[KEY].file_size > _MAX_KEY or is_compressed:
        raise unsafe_error(f"It holds {KEY} and files that no bundle has")
    return True


def decrypt(
    archive: ZipFile,
    password: str,
    target: IO[bytes],
) -> None:
    """Write the bundle inside an encrypted one to `target`.

    Raises UsageError for a wrong password, DamagedError, OSError.
    """
    import pyrage

    with malformed_as_damaged():
        locked = archive.read(KEY)
        source = archive.open(BODY)
    try:
        key = pyrage.x25519.Identity.from_str(pyrage.passphrase.decrypt(locked, password).decode())
    except (pyrage.DecryptError, pyrage.IdentityError, ValueError) as error:
        raise UsageError(
            "The password does not open the bundle.",
            f"{error}.",
            "Check it; capital letters matter.",
            code="bundle-password",
        ) from None
    try:
        with source:
            pyrage.decrypt_io(
                source,
                target,
                [key],
            )
    except (pyrage.DecryptError, OSError) as error:
        if isinstance(error, OSError) and error.errno is not None:
            raise
        raise damaged_error(str(error)) from error
