"""An attack review of the doors: what a caller's numbers, texts and arrays say or do never reaches prices or rows.

Every test here released more than was charged, or told a caller's object about rows, before `maquette.curator.plain`.
"""

from __future__ import annotations

import dataclasses
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

import maquette as mq
from gate_tools import Rows, compiled
from maquette.audit.reference import ScriptedNoise
from maquette.curator import Curator
from maquette.curator.compiled import tally
from maquette.curator.engines.encoding import layout_of
from maquette.curator.plain import array
from maquette.errors import QueryError
from maquette.query import LinearQuery, forms
from maquette.schema import Boolean, Integer, Schema

SCHEMA = Schema([Integer("x", 0, 3), Boolean("b")])
FIRST = mq.where(SCHEMA, "x = 0")
EVERYONE = forms.Products([(1.0, {})])


class Asked:
    """A third party's question."""

    def __init__(self, form: forms.Form) -> None:
        self.form = form


class Keeps:
    """An array-like that is asked for a copy and gives what it keeps."""

    def __init__(self, kept: Any) -> None:
        self.kept = kept

    def __array__(self, dtype: Any = None, copy: Any = None) -> Any:
        return self.kept


class Choices(ScriptedNoise):
    """Zero noise that remembers which scores were seen at which scale, by which mechanism."""

    def __init__(self) -> None:
        super().__init__([0] * 1000)
        self.seen: list[tuple[str, list[int], Fraction]] = []

    def exponential(self, scores: Any, scale: Fraction) -> int:
        self.seen.append(("exponential", scores.tolist(), scale))
        return 0

    def permute_and_flip(self, scores: Any, scale: Fraction) -> int:
        self.seen.append(("permute-and-flip", scores.tolist(), scale))
        return 0


def curator(*, budget: mq.Budget | None = None, schema: Schema = SCHEMA, **options: Any) -> Curator:
    rows: dict[str, Any] = {"x": [0] * 7 + [1] * 3, "b": [True] * 10}
    table = mq.open_table({name: rows.get(name, [0] * 10) for name in schema.names}, schema)
    return Curator(table, budget or mq.Budget(epsilon=1.0), **options)


def test_a_cap_is_never_called_back_with_a_sum_over_exact_scores() -> None:
    told: list[float] = []

    class Cap(float):
        def __rtruediv__(self, total: float) -> float:
            told.append(total)
            return total

    lottery = curator().lottery([FIRST])
    with pytest.raises(QueryError, match="cap is"):
        lottery.draw([0.0], draws=1, epsilon=1e-3, cap=Cap(1))  # type: ignore[arg-type]
    assert not told


def test_draws_are_charged_whatever_their_number_says_of_lists() -> None:
    class Free(int):
        def __rmul__(self, _: object) -> Any:
            return []

        def __rfloordiv__(self, units: int) -> int:
            return units

    asked = curator()
    asked.lottery([FIRST]).draw([0.0], draws=Free(20), epsilon=0.5)
    assert asked.spent.epsilon == pytest.approx(0.5)


def test_a_threshold_hears_neither_its_noise_nor_what_is_compared_with_it() -> None:
    told: list[int] = []

    class Listener:
        def __ceil__(self) -> Any:
            return self

        def __add__(self, noise: int) -> Any:
            told.append(noise)
            return self

        def __gt__(self, noisy: int) -> bool:
            told.append(noisy)
            return True

    class Threshold(float):
        def __mul__(self, _: object) -> Any:
            return Listener()

    guard = curator(noise=ScriptedNoise([0] * 9)).guard(Threshold(50.0), epsilon=1e-3)
    assert not guard.test(FIRST, 0.0).above
    assert not told


def test_permute_and_flip_is_never_priced_as_a_selection_by_a_changing_mind() -> None:
    class Changes(int):
        asked = 0

        def __bool__(self) -> bool:
            Changes.asked += 1
            return Changes.asked > 2

    class Mechanism(str):
        __slots__ = ()
        __hash__ = str.__hash__

        def __eq__(self, other: object) -> Any:
            return Changes(0) if other == "permute-and-flip" else str.__eq__(self, other)

    noise = Choices()
    asked = curator(budget=mq.Budget(epsilon=1.0, delta=1e-9), noise=noise)
    asked.select_worst([["x"]], [np.zeros(4)], rho=0.01, mechanism=Mechanism("exponential"))  # type: ignore[arg-type]
    assert [kind for kind, *_ in noise.seen] == ["exponential"]


def test_scores_are_those_that_were_priced_whatever_over_says_later() -> None:
    class Over(str):
        __slots__ = ()
        __hash__ = str.__hash__

        def __eq__(self, other: object) -> bool:
            return True

    noise = Choices()
    form = forms.Combined(forms.Cells(["x"], EVERYONE), [np.ones((50, 4), dtype=np.int64)])
    asked = curator(noise=noise)
    asked.select_worst([Asked(form)], [np.zeros(50)], epsilon=0.1, over=Over("cells"))  # type: ignore[arg-type]
    assert [scores for _, scores, _ in noise.seen] == [[10] * 50]  # and not [500] at the sensitivity of one cell


class Pretends(int):
    """A number that keeps its type through arithmetic, and a price of nearly nothing."""

    @property
    def numerator(self) -> Any:
        return self

    def __mul__(self, other: object) -> Any:
        return self

    __rmul__ = __floordiv__ = __neg__ = __mul__  # type: ignore[assignment]


class Cheap(Pretends):
    """The numerator of a scale: 1 to the noise, enormous to the price."""

    def __mul__(self, other: object) -> Any:
        return 10**40

    __rmul__ = __mul__


class Scale(Fraction):
    """What a charge is divided into."""

    @property
    def numerator(self) -> Any:
        return Cheap(1)

    denominator = 1


class Units(Pretends):
    """Units of a charge whose noise is `Scale`."""

    def __rfloordiv__(self, other: object) -> Any:
        return Quotient()


class Quotient:
    def __neg__(self) -> Any:
        return self

    def __mul__(self, step: object) -> Any:
        return Scale(1)


class Epsilon(Fraction):
    """An epsilon of one millionth whose units are `Units`."""

    def __mul__(self, _: object) -> Any:
        return self

    def __floor__(self) -> Any:
        return Units(10**9 + 7)

    def __lt__(self, other: object) -> bool:
        return other == np.inf


def test_an_epsilon_says_the_same_to_the_price_and_to_the_noise() -> None:
    noise = ScriptedNoise([0])
    asked = curator(noise=noise)
    asked.measure_error([FIRST], [0.0], epsilon=Epsilon(1, 10**6))  # type: ignore[arg-type]
    assert asked.spent.epsilon == pytest.approx(1e-6)
    assert float(noise.calls[0].scale) >= 10**6


def test_the_level_of_parities_is_not_asked_for_every_block_of_rows() -> None:
    told: list[object] = []

    class Level(int):
        def __sub__(self, other: Any) -> int:
            told.append(other)
            return int(self) - int(other)

    bits = Schema([Boolean(f"b{i}") for i in range(24)])
    asked = curator(schema=bits, noise=ScriptedNoise([0] * 276))
    asked.measure(Asked(forms.ParitySums(bits.names, Level(2))), epsilon=0.5)
    assert not told


def test_an_array_like_that_gives_what_it_keeps_is_copied() -> None:
    for dtype in (np.float64, np.int64):
        kept = np.ones((3, 2), dtype=dtype)
        for wanted in (dtype, None):
            assert not np.shares_memory(array(Keeps(kept), wanted), kept)
            assert not np.shares_memory(array(kept, wanted), kept)
            assert not np.shares_memory(array([Keeps(kept)], wanted), kept)


def test_a_question_is_not_changed_through_an_array_that_was_kept() -> None:
    """Weights of a question over too many cells to list are looked up in the wall's own copies."""
    wide = Schema([Integer(name, 0, 999) for name in ("x", "y", "z")])
    kept = np.full(1000, 0.25)
    kept[0] = 0.5
    half = np.where(np.arange(1000) < 500, 1.0, 0.5)
    factors: dict[str, Any] = {"x": Keeps(kept), "y": half, "z": half}
    noise = Choices()
    lottery = curator(schema=wide, noise=noise).lottery([Asked(forms.Cells([], forms.Products([(1.0, factors)])))])
    kept[:] = [0.25, *([0.5] * 999)]
    lottery.draw([0.0], draws=1, epsilon=0.1)
    ((_, scores, _),) = noise.seen
    assert scores[0] == 7 * 2**19 + 3 * 2**18


class Name(str):
    """A column's name that becomes another's when it is told to."""

    __slots__ = ()
    armed = False

    def __hash__(self) -> int:
        return hash("one") if Name.armed else str.__hash__(self)

    def __eq__(self, other: object) -> bool:
        return other == "one" if Name.armed else str.__eq__(self, other)


class Note(dict[str, int]):
    """A note whose JSON is made when a question was compiled and before it is charged."""

    def items(self) -> Any:
        Name.armed = True
        return dict.items(self)


def test_a_diagram_drawn_for_a_twin_of_the_schema_does_not_bring_its_names() -> None:
    """With its names, counts of the column of one level were spread over all weights: 3750 for a weight of 5."""
    schema, twin = (Schema([Integer(name, 0, 999), Integer("one", 0, 0)]) for name in ("x", Name("x")))
    factor = np.where(np.arange(1000) < 500, 0.5, 0.25)
    LinearQuery.product(twin, {"x": factor}).key.encode()
    asked = curator(schema=schema, noise=ScriptedNoise([0]))
    try:
        measured = asked.measure(LinearQuery.product(schema, {"x": factor}), epsilon=0.01, note=Note(a=1))
    finally:
        Name.armed = False
    assert measured.values == 5.0


def test_a_twin_of_the_schema_does_not_say_where_columns_are_kept() -> None:
    class Wide(Integer):
        @property
        def size(self) -> int:
            return 2**20

        def __eq__(self, other: object) -> bool:
            return True

        def __hash__(self) -> int:
            return 0

    schema, twin = Schema([Integer("x", 0, 3), Boolean("b")]), Schema([Wide("x", 0, 3), Boolean("b")])
    twin.__dict__["digest"] = schema.digest
    assert twin == schema
    assert hash(twin) == hash(schema)
    assert layout_of(twin, [1]).planes == (3,)
    assert layout_of(schema, [1]).planes == (1,)


def test_no_floating_point_setting_of_the_caller_lets_rows_decide_on_an_error() -> None:
    """At this scale exp(-10 / scale) underflows; as an error it would tell that some count differs by so much."""
    asked = curator(budget=mq.Budget(epsilon=9000.0))
    with np.errstate(all="raise"):
        assert asked.select_worst([["x"]], [np.zeros(4)], epsilon=2000.0).cell == (0,)


def test_names_are_plain_texts_in_the_ledger() -> None:
    class Name(str):
        __slots__ = ()
        __hash__ = str.__hash__

        def __conform__(self, _: object) -> str:
            return "another"

        def __str__(self) -> str:
            return "another"

        def __format__(self, _: str) -> str:
            return "another"

    asked = curator()
    asked.measure(FIRST, epsilon=0.1, request=Name("one"), analyst=Name("me"))
    (charge,) = asked.ledger.charges()
    assert (charge.id, charge.analyst) == ("one", "me")
    assert asked.ledger.spent("me") == 10**14
    assert asked.recall("one") is not None


@pytest.mark.parametrize("name", ["relation", "schema", "budget", "private"])
def test_what_doors_are_priced_by_cannot_be_set(name: str) -> None:
    asked = curator(relation="replace")
    with pytest.raises(AttributeError):
        setattr(asked, name, None)


def test_weights_for_other_columns_than_are_counted_add_nothing_up() -> None:
    """The kernel itself refuses to spread the rows of one cell over many weights."""
    schema = Schema([Integer("x", 0, 9), Integer("one", 0, 0)])
    made = compiled(LinearQuery.product(schema, {"x": np.linspace(0, 1, 10)}))
    wrong = dataclasses.replace(made, columns=("one",))
    with pytest.raises(AssertionError, match="another table"):
        tally(Rows(schema, [[3, 0]] * 5), wrong)
