"""Synthetic rows in batches: any number of rows in bounded memory, to a Parquet or CSV file.

Up to one batch the rows are those of `Release.sample`, refined. A longer stream is a sequence of low-variance draws,
whose starts lie so that all full batches together are one such draw: what a model allocates first (cells of a dense
model, the first node of a tree, components of a mixture) has its share of the whole, rounded. What follows from it is
rounded in each batch. The error of as many rows is far below the model's own. The next batch is drawn while the last
one is written.

Privacy: post-processing of the release.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from maquette.errors import QueryError
from maquette.estimates import DenseModel
from maquette.releases.progress import Progress
from maquette.releases.whole import whole

if TYPE_CHECKING:
    import pyarrow as pa

    from maquette.releases.artifact import Release

Part = tuple[int, float | None]  # the rows of a batch, and where its systematic draw starts

FORMATS = (".parquet", ".csv")
LEAST = 2**16  # rows of a batch, where that is little memory: larger ones leave the processor's cache
MOST = 2**22  # values of a batch
PER_CELL = 8  # cells of the model for each row of a batch, at most: drawing a batch reads them all


def stream(release: Release, rows: int, rng: np.random.Generator, batch: int | None = None) -> Iterator[pa.Table]:
    """Synthetic rows in batches (Arrow tables)."""
    if rows < 0:
        raise QueryError(f"cannot sample {rows} rows", expected="a whole number, 0 or more")
    size = _batch(release) if batch is None else batch
    if size < 1:
        raise QueryError(f"batch is {size}", expected="at least one row")
    if rows <= size:
        yield release.sample(rows, rng=rng)
        return
    parts = iter(_parts(rows, size, rng))

    def made(part: Part) -> pa.Table:
        return release.schema.spread(_drawn(release.model, part, rng), rng)

    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(made, next(parts))
        for part in parts:
            ready, waiting = waiting.result(), pool.submit(made, part)
            yield ready
        yield waiting.result()


def _parts(rows: int, size: int, rng: np.random.Generator) -> list[Part]:
    """The rows and the start of each batch: the starts of full ones are evenly spaced, in random order."""
    full, rest = divmod(rows, size)
    starts = (rng.permutation(full) + rng.random()) / full
    return [(size, float(start)) for start in starts] + ([(rest, None)] if rest else [])


def _drawn(model: Any, part: Part, rng: np.random.Generator) -> NDArray[np.int32]:
    rows, start = part
    drawn: NDArray[np.int32] = model.draw(rows, rng, start) if hasattr(model, "draw") else model.sample(rows, rng)
    return drawn


def write(
    release: Release,
    path: Path,
    rows: int,
    *,
    rng: np.random.Generator,
    batch: int | None = None,
    progress: bool | None = None,
) -> None:
    """Write synthetic rows to a .parquet or .csv file, which appears when it is complete."""
    if path.suffix not in FORMATS:
        raise QueryError(f"{path} ends in {path.suffix!r}", expected=" or ".join(FORMATS))
    done = 0
    with Progress("synthetic rows", rows, progress) as bar, whole(path) as unfinished:
        tables = stream(release, rows, rng, batch)
        first = next(tables)
        with _writer(path.suffix)(unfinished, first.schema) as writer:
            for table in _chain(first, tables):
                for part in table.to_batches():
                    writer.write_batch(part)
                done += len(table)
                bar.update(done)


def _batch(release: Release) -> int:
    """The rows of a batch: few for many columns, more for a model of many cells."""
    model: Any = getattr(release.model, "model", release.model)  # of groups, where levels are merged
    cells = release.schema.size if isinstance(model, DenseModel) else int(getattr(model, "cells", 0))
    return max(1, min(MOST // len(release.schema), max(LEAST, cells // PER_CELL)))


def _chain(first: pa.Table, others: Iterator[pa.Table]) -> Iterator[pa.Table]:
    yield first
    yield from others


def _writer(suffix: str) -> Callable[..., Any]:
    from pyarrow import csv, parquet

    made: Callable[..., Any] = csv.CSVWriter if suffix == ".csv" else parquet.ParquetWriter
    return made
