"""What mutation testing once left alive (docs/theory/survivors.md): a quick test for each."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import numpy as np
import pytest

from maquette.errors import BudgetError
from maquette.privacy import Relation
from maquette.query.moves import LARGEST, Moves

NUMBERS = (-2, -1, 0, 1, 3)
CONTRASTS = np.array([[1, -1], [2, 1], [0, 3]])  # three combinations of two cells
GAINS = (3, 5, 11)  # the largest entry, and the largest L1 and squared L2 norm of a column


class Asked:
    """A question of which nothing but its moves is known."""

    def __init__(self, moves: Moves) -> None:
        self.moves = moves


def _tables(moves: Moves, rows: int) -> Iterator[np.ndarray]:
    """What exactly this many rows can add: for every choice of numbers and cells."""
    numbers = [n for n in NUMBERS if moves.low <= n <= moves.high]
    row = [number * np.eye(moves.cells, dtype=int)[cell] for number in numbers for cell in range(moves.cells)]
    if not moves.everywhere:
        row.append(np.zeros(moves.cells, dtype=int))
    for chosen in itertools.combinations_with_replacement(row, rows):
        yield np.sum([np.zeros(moves.cells, dtype=int), *chosen], axis=0)


def _differences(relation: Relation, moves: Moves) -> Iterator[np.ndarray]:
    """How neighbours differ, by the definition of the relation: a unit has up to m rows, or one row for one row."""
    most = relation.max_contributions
    counts = [most] if relation.rows_are_public else range(most + 1)
    tables = [table for count in counts for table in _tables(moves, count)]
    if relation.kind == "add-remove":
        yield from tables
    else:
        yield from (one - other for one, other in itertools.product(tables, repeat=2))


@pytest.mark.parametrize("kind", ["add-remove", "replace"])
@pytest.mark.parametrize("rows", [1, 2])
@pytest.mark.parametrize("cells", [1, 2])
@pytest.mark.parametrize("everywhere", [True, False])
def test_sensitivities_cover_every_neighbour_of_a_small_question(
    kind: str, rows: int, cells: int, everywhere: bool
) -> None:
    relation = Relation(kind, rows)  # type: ignore[arg-type]
    for low, high in itertools.combinations_with_replacement(NUMBERS, 2):
        moves = Moves(low, high, cells, everywhere)
        moved = np.array(list(_differences(relation, moves)))
        asked = Asked(moves)
        assert relation.one_cell(asked) >= np.abs(moved).max()
        assert relation.l1(asked) >= np.abs(moved).sum(axis=1).max()
        assert relation.l2_squared(asked) >= (moved**2).sum(axis=1).max()
        if cells == 2:
            seen, through = moved @ CONTRASTS.T, Asked(Moves(low, high, 3, everywhere, GAINS))
            assert relation.one_cell(through) >= np.abs(seen).max()
            assert relation.l1(through) >= np.abs(seen).sum(axis=1).max()
            assert relation.l2_squared(through) >= (seen**2).sum(axis=1).max()


# By hand: (kind, rows, moves) and what the three sensitivities are; no more than that is charged either.
EXACT = [
    ("add-remove", 1, Moves(1, 1, 5), (1, 1, 1)),
    ("add-remove", 3, Moves(1, 1, 5), (3, 3, 9)),
    ("replace", 1, Moves(1, 1, 5), (1, 2, 2)),
    ("replace", 3, Moves(1, 1, 5), (3, 6, 18)),
    ("add-remove", 2, Moves(-4, 3, 1), (8, 8, 64)),
    ("replace", 2, Moves(-4, 3, 1), (14, 14, 196)),
    ("replace", 1, Moves(2, 7, 1), (7, 5, 25)),
    ("replace", 1, Moves(2, 7, 1, everywhere=False), (7, 7, 49)),
    ("replace", 2, Moves(2, 7, 1), (14, 14, 196)),
    ("replace", 1, Moves(-7, -2, 1), (7, 5, 25)),
    ("replace", 2, Moves(-4, 3, 2), (14, 16, 196)),
    ("replace", 1, Moves(4, 4, 1), (4, 1, 1)),
    ("add-remove", 1, Moves(0, 0, 1), (1, 1, 1)),
    ("replace", 1, Moves(0, 0, 2), (1, 2, 2)),
    ("add-remove", 2, Moves(0, 3, 2, gains=(2, 5, 9)), (12, 30, 324)),
    ("replace", 2, Moves(0, 3, 2, gains=(2, 5, 9)), (24, 60, 1296)),
    ("replace", 2, Moves(0, 3, 1, gains=(2, 5, 9)), (24, 60, 1296)),
]


@pytest.mark.parametrize(("kind", "rows", "moves", "told"), EXACT)
def test_moves_and_relation_by_hand(kind: str, rows: int, moves: Moves, told: tuple[int, int, int]) -> None:
    relation, asked = Relation(kind, rows), Asked(moves)  # type: ignore[arg-type]
    assert (relation.one_cell(asked), relation.l1(asked), relation.l2_squared(asked)) == told


def test_what_a_row_may_add_fits_into_64_bits_for_every_table_and_contrast() -> None:
    assert LARGEST == 268_435_456  # times 2^32 rows, it stays below the 2^62 that `curator.scores` allows
    assert Moves(0, 1, 1).everywhere


def test_the_relation_says_whether_the_number_of_rows_is_public() -> None:
    told = {(kind, m): Relation(kind, m).rows_are_public for kind in ("add-remove", "replace") for m in (1, 2)}  # type: ignore[arg-type]
    assert [key for key, public in told.items() if public] == [("replace", 1)]
    assert (Relation().kind, Relation().max_contributions) == ("add-remove", 1)
    for kind, rows in (("add-remove", 0), ("replace", -1), ("removed", 1), ("swap", 1)):
        with pytest.raises(BudgetError):
            Relation(kind, rows)  # type: ignore[arg-type]
