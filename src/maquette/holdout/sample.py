"""Sample: the rows of a holdout or training set, in their given form, protected from later changes."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from maquette.errors import DataError, EmptyTable, SchemaError, UnreadableSource
from maquette.schema import Schema, as_arrow

if TYPE_CHECKING:
    import pyarrow as pa

_KINDS = (
    "a numpy array (one row per row), a tuple of such arrays as in (X, y), a mapping of columns, an Arrow table, or a "
    "pandas or polars frame"
)


class Sample:
    """Rows drawn independently from the population; arrays are copied and read-only, frames are copied or immutable.

    These are the analyst's own rows, not a custodian's. What is limited is how much the answers reveal about them, so
    that the answers hold for the population too.
    """

    def __init__(self, data: Any, *, what: str = "data") -> None:
        self._rows, self.size = _kept(data, what)
        if self.size == 0:
            raise EmptyTable(f"{what} holds no rows", expected="at least one")
        self._records: tuple[Schema, NDArray[np.int32]] | None = None

    @property
    def rows(self) -> Any:
        """The rows as passed to a statistic."""
        # A shallow copy: a statistic that adds a column to a pandas frame changes only its own copy.
        return self._rows.copy(deep=False) if _is_pandas(self._rows) else self._rows

    @property
    def nothing(self) -> Any:
        """Zero rows in the form of these; None where the form itself may hold values, as for a frame."""
        if isinstance(self._rows, np.ndarray):
            return _emptied(self._rows)
        if isinstance(self._rows, tuple):
            return tuple(_emptied(part) for part in self._rows)
        if isinstance(self._rows, Mapping):
            return {name: _emptied(column) for name, column in self._rows.items()}
        return None

    def records(self, schema: Schema) -> NDArray[np.int32]:
        """The rows as codes of the schema, encoded once."""
        if self._records is None or self._records[0] != schema:
            if isinstance(self._rows, np.ndarray | tuple):
                raise SchemaError(
                    "a schema needs columns with names", advice="give a mapping of columns or a data frame"
                )
            self._records = schema, schema.encode(self._rows)
        return self._records[1]

    @cached_property
    def fingerprint(self) -> str:
        """A digest of every value, to detect that a saved state belongs to other rows. Never returned to an analyst."""
        digest = hashlib.sha256()
        for part in _parts(self._rows):
            digest.update(part)
        return digest.hexdigest()

    def __repr__(self) -> str:
        return f"Sample({self.size:,} rows)"


def _kept(data: Any, what: str) -> tuple[Any, int]:
    """A copy of the rows, or the rows themselves if they are immutable, and their number."""
    if isinstance(data, np.ndarray):
        return _array(data, what), len(data)
    if isinstance(data, tuple):
        arrays = tuple(_array(np.asarray(part), what) for part in data)
        return arrays, _common({f"part {i}": len(part) for i, part in enumerate(arrays)}, what)
    if isinstance(data, Mapping):
        columns = {str(name): _array(np.asarray(values), what) for name, values in data.items()}
        return columns, _common({name: len(values) for name, values in columns.items()}, what)
    if _is_pandas(data):
        return data.copy(), len(data)
    import narwhals as nw

    try:
        return data, len(nw.from_native(data, eager_only=True))
    except TypeError:
        raise UnreadableSource(f"cannot use {type(data).__name__} as {what}", expected=_KINDS) from None


def _array(array: NDArray[Any], what: str) -> NDArray[Any]:
    if array.ndim == 0:
        raise UnreadableSource(f"{what} holds a single number", expected=_KINDS)
    kept = array.copy()
    kept.setflags(write=False)
    return kept


def _emptied(array: NDArray[Any]) -> NDArray[Any]:
    # Not a slice, whose base would be the rows; and not the dtype of texts, whose width is that of the longest.
    return np.empty((0, *array.shape[1:]), dtype=array.dtype if array.dtype.kind in "biufcmM" else object)


def _common(sizes: Mapping[str, int], what: str) -> int:
    if len(set(sizes.values())) != 1:
        listed = ", ".join(f"{name} has {size:,}" for name, size in sizes.items()) or "it has none"
        raise DataError(f"the parts of {what} must have one row for each row: {listed}")
    return next(iter(sizes.values()))


def _is_pandas(data: Any) -> bool:
    return type(data).__module__.partition(".")[0] == "pandas" and hasattr(data, "columns")


def _parts(rows: Any) -> list[bytes]:
    if isinstance(rows, np.ndarray):
        return _array_parts(rows)
    if isinstance(rows, tuple):
        return [part for array in rows for part in _array_parts(array)]
    if isinstance(rows, Mapping):
        return [part for name, array in rows.items() for part in (name.encode(), *_array_parts(array))]
    return [_arrow_bytes(as_arrow(rows))]


def _array_parts(array: NDArray[Any]) -> list[bytes]:
    # The bytes of an array of objects would be addresses.
    content = repr(array.tolist()).encode() if array.dtype.hasobject else np.ascontiguousarray(array).tobytes()
    return [f"{array.dtype} {array.shape}".encode(), content]


def _arrow_bytes(table: pa.Table) -> bytes:
    import pyarrow as pa

    sink = pa.BufferOutputStream()
    plain = table.replace_schema_metadata(None).combine_chunks()
    with pa.ipc.new_stream(sink, plain.schema) as writer:
        writer.write_table(plain)
    return bytes(sink.getvalue())
