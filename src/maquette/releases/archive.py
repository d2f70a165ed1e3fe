"""The file of a saved release: a zip of one JSON manifest and plain arrays, sealed, and bounded before it is unpacked.

The file ends with the SHA-256 of everything before it, so that damage is found at loading. An attacker can compute
that too, so nothing in the file is trusted: it is never executed, and before any memory is allocated the sizes it
claims are compared with the limits, and the header of an array with its length.
"""

from __future__ import annotations

import hashlib
import io
import json
import math
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.lib import format as npy
from numpy.typing import NDArray

from maquette.errors import DataError, UnreadableSource

MANIFEST = "manifest.json"
SEAL = 64  # bytes of a hexadecimal SHA-256
LARGEST = 2**34  # maximum bytes of a file
LEAST = 2**20  # bytes that any file may unpack to
LIMIT = 2**28  # bytes that a small file may unpack to
EXPANSION = 8  # a large file may unpack to this many times its size: noise does not compress
PLAIN = 16  # the manifest may take 1/PLAIN of the limit: its objects in memory are larger than its text
_CHUNK = 2**20
_DOTS = ".npy"

Arrays = dict[str, NDArray[Any]]


def pack(manifest: Mapping[str, Any], arrays: Arrays) -> bytes:
    """The whole file."""
    parts = {f"{name}{_DOTS}": _bytes(array) for name, array in arrays.items()}
    text = json.dumps(manifest, sort_keys=True, indent=1).encode()
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w") as file:
        file.comment = bytes(SEAL)  # a comment is the last thing in a zip file: it reserves the place of the seal
        for name, part in {MANIFEST: text, **parts}.items():
            file.writestr(zipfile.ZipInfo(name, (1980, 1, 1, 0, 0, 0)), part, zipfile.ZIP_DEFLATED)
    content = stream.getvalue()[:-SEAL]
    return content + digest_of(content).encode()


def unpack(path: Path, digest: str | None, limit: int) -> tuple[Any, Arrays]:
    """The manifest and the arrays of a file, of which at most `limit` bytes, or 8 times the file's size, are read."""
    size = path.stat().st_size
    if size > LARGEST:
        raise DataError(f"{str(path)!r} has {size:,} bytes", advice=f"a saved release has at most {LARGEST:,}")
    content = path.read_bytes()
    if digest is not None and digest_of(content) != digest:
        raise DataError(f"{str(path)!r} is not the release published under this digest", advice="get the original file")
    if not zipfile.is_zipfile(io.BytesIO(content)):
        raise UnreadableSource(f"{str(path)!r} is not a saved release", advice="make one with `maquette release`")
    if digest_of(content[:-SEAL]).encode() != content[-SEAL:]:
        raise DataError(
            f"{str(path)!r} was changed after it was saved, or is not a saved release", advice="get the original"
        )
    with zipfile.ZipFile(io.BytesIO(content)) as file:
        parts = _checked(path, file.infolist(), max(limit, LEAST, EXPANSION * size))
        if MANIFEST not in parts:
            raise DataError(f"{str(path)!r} has no manifest, so it is not a saved release", advice="get the original")
        manifest = json.loads(_text(file, parts.pop(MANIFEST)))
        return manifest, {name.removesuffix(_DOTS): _array(file, info) for name, info in parts.items()}


def digest_of(content: bytes) -> str:
    """What `sha256sum` prints."""
    return hashlib.sha256(content).hexdigest()


def _checked(path: Path, listed: list[zipfile.ZipInfo], most: int) -> dict[str, zipfile.ZipInfo]:
    """The parts by name, if they are what `pack` makes and not too large together. Nothing is unpacked yet."""
    parts = {info.filename: info for info in listed}
    plain = all(
        info.compress_type in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)
        and not info.flag_bits & 1  # encrypted
        and (info.filename == MANIFEST or info.filename.endswith(_DOTS))
        for info in listed
    )
    if len(parts) < len(listed) or not plain:
        raise DataError(f"{str(path)!r} holds parts that no saved release has", advice="get the original")
    total = sum(info.file_size for info in listed)
    text = parts[MANIFEST].file_size if MANIFEST in parts else 0
    if total > most or text > most // PLAIN:
        raise DataError(
            f"{str(path)!r} would unpack to {total:,} bytes, of which {text:,} are text",
            expected=f"at most {most:,}, and {most // PLAIN:,} of text",
            advice=f"If you trust whoever made it, load it with limit={max(total, PLAIN * text):_}",
        )
    return parts


def _bytes(array: NDArray[Any]) -> bytes:
    stream = io.BytesIO()
    npy.write_array(stream, np.asarray(array), allow_pickle=False)
    return stream.getvalue()


def _text(file: zipfile.ZipFile, info: zipfile.ZipInfo) -> bytes:
    """Read a part of exactly the size it claims; `ZipFile.read` would unpack all that is there before it counts."""
    with file.open(info) as stream:
        return stream.read(info.file_size)


def _array(file: zipfile.ZipFile, info: zipfile.ZipInfo) -> NDArray[Any]:
    with file.open(info) as stream:
        version = npy.read_magic(stream)
        if version not in ((1, 0), (2, 0)):
            raise ValueError(f"an array of version {version}")
        header = npy.read_array_header_1_0 if version == (1, 0) else npy.read_array_header_2_0
        shape, columns_first, dtype = header(stream)
        if dtype.kind not in "biuf" or min(shape, default=1) < 0:
            raise ValueError(f"an array of {dtype} and shape {shape}")
        if math.prod(shape) * dtype.itemsize != info.file_size - stream.tell():
            raise ValueError("an array whose header does not fit its length")
        flat = np.empty(math.prod(shape), dtype=dtype)
        _fill(stream, flat.view(np.uint8))
    return flat.reshape(shape[::-1]).T if columns_first else flat.reshape(shape)


def _fill(stream: IO[bytes], room: NDArray[np.uint8]) -> None:
    filled = 0
    while filled < len(room):
        chunk = stream.read(min(_CHUNK, len(room) - filled))
        if not chunk:
            raise ValueError("an array that ends early")
        room[filled : filled + len(chunk)] = np.frombuffer(chunk, dtype=np.uint8)
        filled += len(chunk)
    if stream.read(1):
        raise ValueError("an array that goes on")
