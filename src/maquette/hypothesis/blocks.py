"""Blocks of columns: a partition of the schema in which every impossible combination lies within one block."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from maquette.errors import QueryError
from maquette.hypothesis.kernels import Values, positions_of
from maquette.schema import Schema

Columns = tuple[str, ...]


@dataclass(frozen=True)
class Block:
    """Columns that share a table, in schema order, and the place of its cells among those of all blocks."""

    columns: Columns
    positions: tuple[int, ...]
    shape: tuple[int, ...]
    place: slice

    @property
    def cells(self) -> int:
        """The number of cells."""
        return math.prod(self.shape)


def blocks_of(schema: Schema, joined: Iterable[Sequence[str]] = ()) -> list[Columns]:
    """The finest blocks that hold the columns of every impossible combination, and each set of `joined`, together.

    >>> from maquette import Boolean, Schema
    >>> schema = Schema([Boolean(name) for name in "abcd"], impossible=[{"a": "true", "c": "true"}])
    >>> blocks_of(schema), blocks_of(schema, [("c", "d")])
    ([('a', 'c'), ('b',), ('d',)], [('a', 'c', 'd'), ('b',)])
    """
    groups = [{position} for position in range(len(schema))]
    for columns in (*(names for names, _ in schema.zeros), *joined):
        together = set(positions_of(schema, columns))
        met = [group for group in groups if group & together]
        groups = [group for group in groups if not group & together] + [set().union(*met)]
    return [tuple(schema.names[position] for position in sorted(g)) for g in sorted(groups, key=min) if g]


def laid_out(schema: Schema, blocks: Iterable[Columns]) -> tuple[Block, ...]:
    """The blocks side by side, if they are a partition of the schema that holds every impossible combination."""
    found: list[Block] = []
    start = 0
    for columns in blocks:
        positions = tuple(positions_of(schema, columns))
        if not positions or positions != tuple(sorted(positions)):
            raise QueryError(
                f"a block has the columns {', '.join(columns) or 'none'}", expected="some columns, in schema order"
            )
        block = Block(columns, positions, schema.shape(columns), slice(start, start + schema.cells(columns)))
        start = block.place.stop
        found.append(block)
    named = sorted(position for block in found for position in block.positions)
    if named != list(range(len(schema))):
        wrong = [name for i, name in enumerate(schema.names) if named.count(i) != 1]
        raise QueryError(f"not in one block: {', '.join(wrong)}", expected="every column of the schema in one block")
    for columns, _ in schema.zeros:
        if not any(set(columns) <= set(block.columns) for block in found):
            raise QueryError(
                f"{', '.join(columns)} have impossible combinations and are not in one block",
                advice="take the blocks of blocks_of(schema)",
            )
    return tuple(found)


def check_zeros(schema: Schema, block: Block, tables: Values) -> None:
    """Refuse tables (one row each) that give an impossible cell any mass."""
    for columns, mask in schema.zeros:
        if set(columns) <= set(block.columns):
            shape = [size if name in columns else 1 for name, size in zip(block.columns, block.shape, strict=True)]
            impossible = np.broadcast_to(mask.reshape(shape), block.shape).reshape(-1)
            if tables[:, impossible].any():
                raise QueryError(
                    f"the block {', '.join(block.columns)} gives impossible combinations some mass",
                    expected="exactly zero there",
                )
