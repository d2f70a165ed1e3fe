"""Files that are complete or not there."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from maquette.errors import DataError


@contextmanager
def whole(path: Path, advice: str | None = None) -> Iterator[Path]:
    """A file beside `path` that takes its place when complete, and is removed if that fails."""
    if path.exists() and not path.is_file():  # a pipe or a device is written itself
        unfinished = target = path
    else:
        target = path.resolve()
        unfinished = target.with_name(f".{target.name}.{os.getpid()}.part")
    try:
        yield unfinished
        if unfinished is not target:
            unfinished.replace(target)
    except OSError as error:
        raise DataError(f"{str(path)!r} could not be written ({error.strerror or error})", advice=advice) from None
    finally:
        if unfinished is not target:
            unfinished.unlink(missing_ok=True)
