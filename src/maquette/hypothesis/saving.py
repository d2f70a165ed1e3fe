"""Checks with which models restore themselves from a saved file, made by anyone: numbers that fit, or DataError.

A model describes itself by its `kind`, by `facts` (small plain values, kept as JSON) and by `arrays`. `restore` must
not trust what the file says about them. `array` and `number` refuse what does not fit. Call them before anything is
built: then no file can make a model take more memory than its own arrays do.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from maquette.errors import DataError
from maquette.hypothesis.api import Arrays, Savable
from maquette.schema import Schema

ANY = -1  # in a shape: any length
LARGEST = 2.0**40  # bound on numbers that updates can lead to; their sums stay finite


def array(
    arrays: Arrays,
    name: str,
    shape: Sequence[int],
    dtype: type[np.generic] = np.float64,
    *,
    most: float = math.inf,
) -> NDArray[Any]:
    """The array of this name, if it has this shape and finite numbers of at most this size that `dtype` can hold."""
    found = arrays.get(name)
    if found is None:
        raise unfit(f"array {name!r} is missing")
    if len(found.shape) != len(shape) or any(n not in (ANY, m) for n, m in zip(shape, found.shape, strict=True)):
        implied = tuple("any" if n == ANY else n for n in shape)
        raise DataError(f"an array of a saved release has shape {found.shape}", advice=f"its schema implies {implied}")
    with np.errstate(all="ignore"):
        values = found.astype(dtype, copy=False)
    if not np.isfinite(found).all() or not np.array_equal(values, found) or not (np.abs(found) <= most).all():
        raise unfit(f"array {name!r} holds values that are not finite numbers of its kind")
    return values


def number(facts: Mapping[str, Any], name: str, *, most: float = sys.float_info.max) -> float:
    """The number of this name, if it is one of at most this size."""
    found = facts.get(name)
    if isinstance(found, bool) or not isinstance(found, int | float) or not -most <= found <= most:
        raise unfit(f"{name!r} is not a number")
    return float(found)


def optional(facts: Mapping[str, Any], name: str) -> float | None:
    """The finite number of this name, or None if the fact is None."""
    return None if facts.get(name) is None else number(facts, name)


def names(facts: Mapping[str, Any], name: str) -> tuple[str, ...]:
    """A list of strings."""
    found = facts.get(name)
    if not isinstance(found, list) or not all(isinstance(text, str) for text in found):
        raise unfit(f"{name!r} is not a list of names")
    return tuple(found)


def columns(schema: Schema, found: object) -> tuple[str, ...]:
    """Columns of the schema, each once and in its order."""
    listed = names({"columns": found}, "columns")
    places = [schema.position(name) for name in listed]
    if places != sorted(set(places)):
        raise unfit("columns are named twice or out of order")
    return listed


def described(thing: Savable) -> dict[str, Any]:
    """The facts of a part of a model, with its kind."""
    return {**thing.facts(), "kind": thing.kind}


def prefixed(prefix: str, arrays: Arrays) -> dict[str, NDArray[Any]]:
    """The arrays of a part, with `prefix` before their names."""
    return {f"{prefix}-{name}": values for name, values in arrays.items()}


def inside(prefix: str, arrays: Arrays) -> dict[str, NDArray[Any]]:
    """The arrays that `prefixed` renamed, under their original names."""
    return {n.removeprefix(f"{prefix}-"): values for n, values in arrays.items() if n.startswith(f"{prefix}-")}


def unfit(what: str) -> DataError:
    """The error for a file that does not fit."""
    return DataError(f"this is not a saved release as Maquette writes them: its {what}", advice="get the original file")
