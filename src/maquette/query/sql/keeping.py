"""Keeping: the rows that a condition keeps; where it cuts through a bin, those kept for sure and those perhaps kept."""

from __future__ import annotations

from dataclasses import dataclass

from maquette.query.between import bracketed
from maquette.query.expression import Expression, where
from maquette.query.linear import LinearQuery
from maquette.query.sql.parser import Reader
from maquette.schema import Schema


@dataclass(frozen=True)
class Kept:
    """The rows kept; with `outer`, `inner` are those kept for sure and `outer` all that may be."""

    inner: LinearQuery
    outer: LinearQuery | None = None

    def __and__(self, other: Kept | LinearQuery) -> Kept:
        """The rows that both keep."""
        other = other if isinstance(other, Kept) else Kept(other)
        inner = self.inner & other.inner
        if self.outer is None and other.outer is None:
            return Kept(inner)
        return Kept(inner, (self.outer or self.inner) & (other.outer or other.inner))


def kept_by(schema: Schema, reader: Reader, condition: Expression) -> Kept:
    """The rows that a condition keeps."""
    if not reader.between:
        return Kept(where(schema, condition))
    return Kept(*bracketed(schema, condition))
