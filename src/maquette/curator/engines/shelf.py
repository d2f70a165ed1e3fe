"""Shelf: a directory that the custodian names, in which code planes are written, and kept if the custodian says so.

Planes are private: they hold every record. Directory and files can be read by their owner only (modes 0700, 0600).

* Planes that are not kept have no name: the file is deleted as soon as it is open, so nothing is left behind, not even
  after a crash.
* Kept planes are trusted only through their manifest, which is written last, after the planes are durable. It holds
  the digest of the planes, of what was declared (schema, privacy unit, ...), and of the source's content. Planes that
  do not match their digest, and planes of another table, are refused; planes without a manifest are written anew.

The digests detect accidents, not a person who can write to the directory: that person can write to the source as well.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from maquette.curator.engines.kernels import Planes
from maquette.curator.engines.planes import PlanesEngine, altered
from maquette.curator.engines.values import Values
from maquette.errors import DataError, UnreadableSource
from maquette.schema import Schema

MANIFEST = "planes.json"
_FORMAT = 1
_PREFIX = "planes-"


class Shelf:
    """Where planes are written; `facts` are the declared facts to which kept planes are bound."""

    def __init__(self, directory: str | Path, *, keep: bool, facts: Mapping[str, object]) -> None:
        self.directory, self.keep = Path(directory), keep
        self._facts = {"format": _FORMAT, **facts}
        with _writing(self.directory):
            self.directory.mkdir(mode=0o700, parents=True, exist_ok=True)
            if self.directory.stat().st_mode & 0o077:
                raise DataError(
                    f"other users may read the directory {str(self.directory)!r}",
                    expected="a directory of mode 0700, because planes hold every record",
                    advice=f"chmod 700 {self.directory}",
                )

    def kept(self, schema: Schema, content: str | None) -> PlanesEngine | None:
        """The planes that an earlier opening kept, if there are any and the source's content is known to be theirs."""
        manifest = self.manifest()
        if manifest is None or content is None:
            return None
        if manifest["content"] != content:
            raise changed_since(self.directory)
        return opened(self.directory, schema, manifest)

    def manifest(self) -> dict[str, Any] | None:
        """What the kept planes say about themselves; None if there are none, refused if they are of another table."""
        manifest = manifest_of(self.directory)
        if manifest is None or not self.keep:
            return None
        differ = [name for name, fact in self._facts.items() if manifest["facts"].get(name) != fact]
        if differ:
            raise _other(self.directory, f"they were written with another {differ[0]}")
        return manifest

    def writer(self) -> PlaneWriter:
        """A new file of planes."""
        return PlaneWriter(self)

    def publish(self, manifest: dict[str, Any]) -> None:
        """Write the manifest: from now on the planes are trusted."""
        manifest = {"facts": self._facts, **manifest}
        text = json.dumps({**manifest, "digest": _digest_of(manifest)}, indent=1)
        handle, name = tempfile.mkstemp(dir=self.directory, prefix=_PREFIX)
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        os.replace(name, self.directory / MANIFEST)
        _sync_directory(self.directory)
        for old in self.directory.glob(_PREFIX + "*"):  # of earlier openings, and of those that did not finish
            if old.name != manifest["planes"]:
                old.unlink(missing_ok=True)


class PlaneWriter:
    """Appends chunks to a file that nobody trusts until it is finished; `discard` leaves nothing behind."""

    def __init__(self, shelf: Shelf) -> None:
        self._shelf = shelf
        self._sizes: list[int] = []
        self._hash = hashlib.sha256()
        with _writing(shelf.directory):
            self._file, name = tempfile.mkstemp(dir=shelf.directory, prefix=_PREFIX)  # mode 0600
            self._path: Path | None = Path(name)
            if not shelf.keep:
                self._path.unlink()
                self._path = None

    def add(self, planes: Planes, values: Values) -> None:
        """Append a chunk."""
        with _writing(self._shelf.directory):
            for array in (planes, values):
                view = memoryview(array.tobytes())
                if self._shelf.keep:
                    self._hash.update(view)
                while view:
                    view = view[os.write(self._file, view) :]
        self._sizes.append(planes.shape[1])

    def finish(self, schema: Schema, rows: int, fingerprint: str, content: str | None) -> PlanesEngine:
        """The engine over the written planes; kept planes are made durable first."""
        if self._path is not None:
            with _writing(self._shelf.directory):
                os.fsync(self._file)
                self._shelf.publish({
                    "planes": self._path.name,
                    "sha256": self._hash.hexdigest(),
                    "sizes": self._sizes,
                    "rows": rows,
                    "fingerprint": fingerprint,
                    "content": content,
                })  # fmt: skip
        file, self._file = self._file, -1
        return PlanesEngine(schema, rows, fingerprint, file, self._sizes)

    def discard(self) -> None:
        """Delete what was written, unless it is finished."""
        if self._file >= 0:
            os.close(self._file)
            self._file = -1
            if self._path is not None:
                self._path.unlink(missing_ok=True)


def manifest_of(directory: Path) -> dict[str, Any] | None:
    """The manifest of kept planes, checked against its own digest; None if there is none."""
    path = directory / MANIFEST
    if not path.is_file():
        return None
    with contextlib.suppress(OSError, ValueError, AttributeError, KeyError):
        manifest = json.loads(path.read_text(encoding="utf-8"))
        if manifest.pop("digest") == _digest_of(manifest) and manifest["facts"]["format"] == _FORMAT:
            return dict(manifest)
    raise altered()


def opened(directory: Path, schema: Schema, manifest: Mapping[str, Any]) -> PlanesEngine:
    """The engine over kept planes, once every byte of them was checked."""
    try:
        file = os.open(directory / str(manifest["planes"]), os.O_RDONLY)
    except OSError:
        raise altered() from None
    engine = PlanesEngine(schema, int(manifest["rows"]), str(manifest["fingerprint"]), file, manifest["sizes"])
    with os.fdopen(os.dup(file), "rb") as stream:
        if hashlib.file_digest(stream, "sha256").hexdigest() != manifest["sha256"]:
            raise altered()
    return engine


def changed_since(directory: Path) -> UnreadableSource:
    """The refusal of kept planes whose source has changed."""
    return _other(directory, "the source's content changed since they were written")


def _other(directory: Path, why: str) -> UnreadableSource:
    return UnreadableSource(
        f"the planes in {str(directory)!r} belong to another table: {why}",
        advice="Delete that directory, or name another one",
    )


def _digest_of(manifest: Mapping[str, Any]) -> str:
    return hashlib.sha256(json.dumps(manifest, sort_keys=True).encode()).hexdigest()


def _sync_directory(directory: Path) -> None:
    handle = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


@contextlib.contextmanager
def _writing(directory: Path) -> Iterator[None]:
    """A failure to write is not a failure to read: it is about the directory, and says so."""
    try:
        yield
        return
    except OSError as error:
        why = os.strerror(error.errno) if error.errno else "the system refused"
    raise DataError(
        f"cannot write code planes to {str(directory)!r}: {why.lower()}",
        advice="Free space there, or name another directory; the unfinished planes were removed",
    )
