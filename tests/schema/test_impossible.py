"""Impossible combinations: declared in any form, kept in one, and never everything."""

from __future__ import annotations

import hashlib
import itertools
import json
from typing import Any

import numpy as np
import pytest
from hypothesis import given, strategies as st

import maquette as mq
from maquette.errors import SchemaError
from maquette.schema import Boolean, Category, Column, Integer, Number, Schema, impossible_cells

AGE = Integer("age", 0, 39, width=10)
MARRIED = Boolean("married", nullable=True)
PLACE = Category("place of birth", ["n", 'e"', "s"], other="other")
PEOPLE = [AGE, MARRIED, PLACE]
CHILD = {"age": ["0-9"], "married": ["true"]}


@st.composite
def declared(draw: st.DrawFn, most: int = 4) -> tuple[list[Column], list[dict[str, list[str]]]]:
    """A few small columns, and entries over any two or more of them."""
    sizes = draw(st.lists(st.integers(1, 3), min_size=2, max_size=4))
    columns: list[Column] = [Integer(f"c {i}" if i % 2 else f"c{i}", 0, size - 1) for i, size in enumerate(sizes)]
    labels = {column.name: st.sets(st.sampled_from(column.labels), min_size=1) for column in columns}
    names = st.sets(st.sampled_from(sorted(labels)), min_size=2)
    entries = []
    for chosen in draw(st.lists(names, max_size=most)):
        order = draw(st.permutations(sorted(chosen)))
        entries.append({name: draw(st.permutations(sorted(draw(labels[name])))) for name in order})
    return columns, entries


def brute(columns: list[Column], entries: list[dict[str, list[str]]]) -> np.ndarray:
    """The impossible points, one after the other, by what the words say."""
    cells = np.zeros([column.size for column in columns], dtype=bool)
    for codes in itertools.product(*(range(column.size) for column in columns)):
        held = {column.name: column.labels[code] for column, code in zip(columns, codes, strict=True)}
        cells[codes] = any(all(held[name] in labels for name, labels in entry.items()) for entry in entries)
    return cells


@given(declared(most=8))
def test_exactly_the_declared_points_are_impossible_and_never_all(made: tuple[list[Column], Any]) -> None:
    columns, entries = made
    expected = brute(columns, entries)
    if expected.all():
        with pytest.raises(SchemaError, match="rule out every row"):
            Schema(columns, impossible=entries)
        return
    schema = Schema(columns, impossible=entries)
    cells = impossible_cells(schema)
    assert (cells is None) == (not entries)
    assert cells is None or (cells == expected).all()
    for names, table in schema.zeros:
        assert table.shape == schema.shape(names)
        assert table.any()
        assert not table.flags.writeable
    assert len({names for names, _ in schema.zeros}) == len(schema.zeros)


@given(declared(), st.randoms(use_true_random=False))
def test_order_and_repetition_do_not_matter_and_toml_keeps_all(made: tuple[list[Column], Any], random: Any) -> None:
    columns, entries = made
    if brute(columns, entries).all():
        return
    schema = Schema(columns, impossible=entries)
    shuffled = [*entries, *entries[:1]]
    random.shuffle(shuffled)
    for same in (Schema(columns, impossible=shuffled), Schema.loads(schema.dumps())):
        assert same == schema
        assert same.digest == schema.digest
        assert hash(same) == hash(schema)
        assert same.impossible == schema.impossible
    assert (Schema(columns) == schema) == (Schema(columns).digest == schema.digest) == (not entries)


def test_every_part_of_an_entry_changes_the_digest() -> None:
    entries: list[list[dict[str, Any]]] = [
        [],
        [CHILD],
        [{**CHILD, "age": ["10-19"]}],
        [{**CHILD, "married": ["true", "NULL"]}],
        [{**CHILD, "place of birth": "n"}],
        [CHILD, {"age": "0-9", "place of birth": "other"}],
    ]
    schemas = [Schema(PEOPLE, impossible=each) for each in entries]
    assert len({schema.digest for schema in schemas}) == len(schemas)
    assert all((a == b) == (a is b) for a in schemas for b in schemas)


def test_without_any_the_digest_is_that_of_the_columns() -> None:
    """Ledgers name their schema by it."""
    text = json.dumps([column.as_dict() for column in PEOPLE], default=str, sort_keys=True)
    assert Schema(PEOPLE).digest == Schema(PEOPLE, impossible=[]).digest == hashlib.sha256(text.encode()).hexdigest()
    fixed = "b86f85e46794ee8ac03355b55f1abd2c5cd1315df07f658fed2a1948f27aee7d"
    assert Schema([Integer("age", 0, 99, width=10), Boolean("smoker")]).digest == fixed


@pytest.mark.parametrize(
    "entry",
    [
        {"age": "0-9", "married": "true"},
        {"married": True, "age": ("0-9",)},
        {"age": iter(["0-9", "0-9"]), "married": {"true"}},
    ],
)
def test_a_label_may_stand_bare(entry: Any) -> None:
    assert Schema(PEOPLE, impossible=[entry]) == Schema(PEOPLE, impossible=[CHILD])


def test_a_file_as_people_write_it() -> None:
    text = Schema([Integer("children", 0, 3), Boolean("married"), PLACE]).dumps()
    schema = Schema.loads(text + '\n[[impossible]]\nchildren = 3\nmarried = false\n"place of birth" = ["e\\"", "n"]\n')
    assert schema.impossible == ({"children": ("3",), "married": ("false",), "place of birth": ("n", 'e"')},)
    assert repr(schema) == "Schema(3 columns, universe 32, 1 impossible combination: children, married, place of birth)"
    assert "32 points, 1 impossible combination<" in schema._repr_html_()


def test_a_label_that_several_bins_share_means_them_all() -> None:
    fine = Number("x", edges=[1.0, 1.0 + 1e-14, 1.0 + 2e-14, 2.0])
    assert fine.labels[0] == fine.labels[1] != fine.labels[2]
    schema = Schema([fine, Boolean("b")], impossible=[{"x": fine.labels[0], "b": "true"}])
    ((_, table),) = schema.zeros
    assert np.argwhere(table).tolist() == [[0, 1], [1, 1]]
    assert Schema.loads(schema.dumps()) == schema


def test_one_entry_need_not_stand_in_a_list() -> None:
    assert Schema(PEOPLE, impossible=CHILD) == Schema(PEOPLE, impossible=[CHILD])


MISTAKES: dict[str, tuple[Any, str]] = {
    "unknown column": (
        [{"agee": "0-9", "married": "true"}],
        "names 'agee', which is not a column of the schema; did you mean age?",
    ),
    "another column": ([{"zzz": "x", "age": "0-9"}], "columns are age, married, place of birth"),
    "unknown label": (
        [{"age": "0-8", "married": "true"}],
        "'age': '0-8' is not the label of a level; did you mean '0-9'",
    ),
    "another label": ([{"age": "0-9", "married": "perhaps"}], "labels are false, true, NULL"),
    "a value": ([{"age": 5, "married": True}], "'age': '5' is not the label of a level"),
    "one column": ([{"age": "0-9"}], "names 'age'; expected two or more columns; to rule out a single level"),
    "no column": ([{}], "names no column; expected two or more columns"),
    "no label": ([{"age": [], "married": "true"}], "'age': an impossible combination needs at least one of its labels"),
    "a number": ([{"age": 0.5, "married": "true"}], "'age': got 0.5; expected a label or a list of labels"),
    "nested": (
        [{"age": {"x": "0-9"}, "married": "true"}],
        "'age': got {'x': '0-9'}; expected a label or a list of labels",
    ),
    "text": ("age", "impossible is 'age'; expected a list of mappings"),
    "nothing": (None, "impossible is None; expected a list of mappings"),
    "names": (
        ["age", "married"],
        "is 'age'; expected a mapping from columns to labels, as in {'age': ['0-9'], 'married': ['false']}",
    ),
    "everything": ([{"age": AGE.labels, "married": MARRIED.labels}], "rule out every row"),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_mistakes_are_named(mistake: str) -> None:
    given_entries, message = MISTAKES[mistake]
    with pytest.raises(SchemaError) as refused:
        Schema(PEOPLE, impossible=given_entries)
    assert message in str(refused.value)


@pytest.mark.parametrize(
    ("block", "message"),
    [
        ('[impossible]\nage = "0-9"\nmarried = "true"', "double brackets"),
        ('[[impossible]]\nage = "0-9"', "two or more columns"),
        ('[[impossible]]\nplace.of.birth = "n"\nage = "0-9"', "names 'place', which is not a column of the schema"),
        ("impossible = 3", "double brackets"),
    ],
)
def test_mistakes_in_files_are_named(block: str, message: str) -> None:
    columns = Schema(PEOPLE).dumps()
    with pytest.raises(SchemaError) as refused:
        Schema.loads(f"{block}\n{columns}" if "=" in block.split("\n", maxsplit=1)[0] else f"{columns}\n{block}\n")
    assert message in str(refused.value)


def test_a_table_too_large_for_any_model_is_refused() -> None:
    wide = [Integer(f"c{i}", 0, 999) for i in range(3)]
    with pytest.raises(SchemaError, match="1,000,000,000 cells"):
        Schema(wide, impossible=[{column.name: "0" for column in wide}])


def test_many_entries_that_leave_one_point_are_told_from_those_that_leave_none() -> None:
    columns = [Integer("a", 0, 29), Integer("b", 0, 29), *(Boolean(f"x{i}") for i in range(20))]
    cells = [{"a": str(i), "b": str(j)} for i in range(30) for j in range(30)]
    free = [{f"x{i}": "true", f"x{i + 1}": "true"} for i in range(19)]
    assert len(Schema(columns, impossible=cells[1:] + free).impossible) == 899 + 19
    with pytest.raises(SchemaError, match="rule out every row"):
        Schema(columns, impossible=free + cells)


def test_rows_that_hold_an_impossible_combination_are_counted_as_they_are() -> None:
    schema = Schema(PEOPLE, impossible=[CHILD])
    rows = {"age": [3, 4, 33], "married": [True, False, True], "place of birth": ["n", "s", "x"]}
    assert schema.encode(rows).tolist() == Schema(PEOPLE).encode(rows).tolist()
    with mq.Curator(mq.open_table(rows, schema), mq.Budget(rho=5000.0, delta=1e-9)) as curator:
        assert curator.measure(["age", "married"], rho=5000.0).values[0, 1] == 1
