"""Counting kernels: exact histograms of several column sets over compact codes.

A table is stored as *planes*: one row of bytes per column, two or more for a column of over 256 levels (low byte
first). Every plane is unsigned bytes, so one compiled function serves all tables. The flat cell of a record is the sum
over planes of stride times byte, computed a block at a time in vector registers; only the increment is scalar.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import cache, partial
from itertools import pairwise
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

Planes = NDArray[np.uint8]
_Counted = list[NDArray[np.signedinteger[Any]]]
_BLOCK = 2048  # records whose cells are computed together, to stay in the first-level cache
_WIDENED = 2**18  # records whose bytes are widened together when numpy counts
_LOADING = 2**27  # records times sets that numpy counts in the time that loading the compiled kernel takes: a second
_READ = 2**18  # records of stored planes that are read together: they stay in the second-level cache
_FEW = 2**17  # below this number of records, several threads are not worth it
_SPLIT = 2**20  # up to this number of cells, each thread gets its own histogram


class Stored(Protocol):
    """Planes that are not in memory: those which layouts name are read when they are counted."""

    @property
    def shape(self) -> tuple[int, ...]:
        """The number of planes, and of records."""

    def load(self, planes: Sequence[int], first: int, last: int) -> Planes:
        """Records first <= i < last of some planes."""


Chunk = Planes | Stored
Piece = tuple[Chunk, int, int]


@dataclass(frozen=True)
class Layout:
    """The planes of a set of columns, and the size of its histogram."""

    planes: tuple[int, ...]
    strides: tuple[int, ...]
    cells: int


def histograms(
    chunks: Sequence[Chunk], layouts: Sequence[Layout], threads: int | None = None
) -> list[NDArray[np.int64]]:
    """The flat histogram of every layout over all chunks; exact.

    Memory: four bytes per cell of all layouts (eight from 2^31 records), times the threads for few small layouts.
    """
    rows = sum(chunk.shape[1] for chunk in chunks)
    if not _compiled_pays(rows * len(layouts)):
        return _plain_counts(chunks, layouts)
    dtype = np.int32 if rows < 2**31 else np.int64
    threads = threads or os.cpu_count() or 1
    whole = list(_pieces(chunks, 0, rows))
    if len(layouts) >= 2 * threads or sum(layout.cells for layout in layouts) > _SPLIT or rows < _FEW:
        shares = [layouts[i::threads] for i in range(min(threads, len(layouts)))]
        counted = _run(threads, [partial(_compiled_counts, whole, share, dtype) for share in shares])
        return [counted[i % threads][i // threads].astype(np.int64) for i in range(len(layouts))]
    cuts = [i * rows // threads for i in range(threads + 1)]
    parts = [list(_pieces(chunks, first, last)) for first, last in pairwise(cuts)]
    counted = _run(threads, [partial(_compiled_counts, part, layouts, dtype) for part in parts])
    return [np.sum(histogram, axis=0, dtype=np.int64) for histogram in zip(*counted, strict=True)]


_counted_plainly = [0]


def _compiled_pays(work: int) -> bool:
    """Whether to load the compiled kernel: once counting without it took as long as loading. At most twice optimal."""
    _counted_plainly[0] += work
    return _counted_plainly[0] >= _LOADING or _kernel.cache_info().currsize > 0


def load() -> None:
    """Load the compiled kernel now instead of after some counting: about a second, once per process."""
    if not _kernel.cache_info().currsize:
        _compiled_counts([(np.zeros((1, 1), dtype=np.uint8), 0, 1)], [Layout((0,), (1,), 1)], np.int32)


def _run(threads: int, jobs: Sequence[Callable[[], _Counted]]) -> list[_Counted]:
    if len(jobs) == 1:
        return [jobs[0]()]
    with ThreadPoolExecutor(threads) as pool:
        return [future.result() for future in [pool.submit(job) for job in jobs]]


def _pieces(chunks: Sequence[Chunk], first: int, last: int) -> Iterator[Piece]:
    """Records first <= i < last of the concatenated chunks, in pieces that are small enough to read at once."""
    start = 0
    for chunk in chunks:
        low, high = max(first - start, 0), min(last - start, chunk.shape[1])
        step = high - low if isinstance(chunk, np.ndarray) else _READ
        for begin in range(low, high, max(step, 1)):
            yield chunk, begin, min(begin + step, high)
        start += chunk.shape[1]


def _loaded(piece: Piece, needed: Sequence[int]) -> tuple[Planes, int, int]:
    """A piece in memory; of a stored one only the needed planes, at the places that `_numbered` gives them."""
    chunk, first, last = piece
    if isinstance(chunk, np.ndarray):
        return chunk, first, last
    return chunk.load(needed, first, last), 0, last - first


def _numbered(chunks: Sequence[Chunk], layouts: Sequence[Layout]) -> tuple[Sequence[int], Sequence[Layout]]:
    """The planes that layouts need, and the layouts by places among these if the chunks are stored."""
    needed = sorted({plane for layout in layouts for plane in layout.planes})
    if all(isinstance(chunk, np.ndarray) for chunk in chunks):
        return needed, layouts
    place = {plane: i for i, plane in enumerate(needed)}
    return needed, [replace(layout, planes=tuple(place[plane] for plane in layout.planes)) for layout in layouts]


def _plain_counts(chunks: Sequence[Chunk], layouts: Sequence[Layout]) -> list[NDArray[np.int64]]:
    totals = [np.zeros(layout.cells, dtype=np.int64) for layout in layouts]
    needed, layouts = _numbered(chunks, layouts)
    used = sorted({plane for layout in layouts for plane in layout.planes})
    for piece in _pieces(chunks, 0, sum(chunk.shape[1] for chunk in chunks)):
        planes, first, last = _loaded(piece, needed)
        for start in range(first, last, _WIDENED):
            stop = min(start + _WIDENED, last)
            wide = {plane: planes[plane, start:stop].astype(np.int32) for plane in used}
            index, part = np.empty((2, stop - start), dtype=np.int32)
            for total, layout in zip(totals, layouts, strict=True):
                index[:] = 0
                for plane, stride in zip(layout.planes, layout.strides, strict=True):
                    np.multiply(wide[plane], stride, out=part)
                    np.add(index, part, out=index)
                np.add(total, np.bincount(index, minlength=layout.cells), out=total)
    return totals


def _compiled_counts(
    pieces: Sequence[Piece], layouts: Sequence[Layout], dtype: type[np.signedinteger[Any]]
) -> _Counted:
    kernel = _kernel()
    needed, layouts = _numbered([chunk for chunk, _, _ in pieces], layouts)
    starts = np.cumsum([0, *(len(layout.planes) for layout in layouts)])
    offsets = np.cumsum([0, *(layout.cells for layout in layouts)])
    planes = np.array([p for layout in layouts for p in layout.planes], dtype=np.int64)
    strides = np.array([s for layout in layouts for s in layout.strides], dtype=np.uint32)
    totals = np.zeros(offsets[-1], dtype=dtype)
    for piece in pieces:
        chunk, first, last = _loaded(piece, needed)
        kernel(chunk, first, last, starts, planes, strides, offsets, totals)
    return [totals[a:b] for a, b in pairwise(offsets)]


@cache
def _kernel() -> Callable[..., None]:
    """The compiled kernel: loaded on first use, from numba's disk cache where one can be written."""
    import numba

    try:
        compiled = numba.njit(nogil=True, cache=True)(_count)
    except RuntimeError:  # no writable directory for the cache
        compiled = numba.njit(nogil=True)(_count)
    return compiled  # type: ignore[no-any-return]


def _count(  # noqa: PLR0917 -- numba takes positional arguments only
    chunk: Any, first: Any, last: Any, starts: Any, planes: Any, strides: Any, offsets: Any, totals: Any
) -> None:
    """Add records first <= i < last to every histogram; layout j has planes starts[j] to starts[j + 1]."""
    index = np.empty(_BLOCK, dtype=np.uint32)
    for layout in range(len(starts) - 1):
        histogram = totals[offsets[layout] : offsets[layout + 1]]
        largest = np.uint32(len(histogram) - 1)
        for start in range(first, last, _BLOCK):
            size = min(_BLOCK, last - start)
            index[:size] = 0
            for k in range(starts[layout], starts[layout + 1]):
                codes = chunk[planes[k], start : start + size]
                stride = strides[k]
                for i in range(size):
                    index[i] += stride * np.uint32(codes[i])
            for i in range(size):
                histogram[min(index[i], largest)] += 1  # codes of an altered source must not write elsewhere
