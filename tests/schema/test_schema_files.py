"""Schemas as files: TOML round trips, digests, exact sizes, drafts and imports from neighbouring systems."""

from __future__ import annotations

import csv
import datetime as dt
import itertools
import json
import random
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given, settings, strategies as st

from maquette.errors import OutOfDomain, PrivacyWarning, QueryError, SchemaError
from maquette.schema import Boolean, Category, Column, Date, Integer, Number, Schema

awkward = st.sampled_from(
    ["'", '"', '"""', "a b", ">50K", "-", "capital-gain", "é", "名", "\\", "\n", "#", "[x]", "=", "\x7f"]
)
names = st.one_of(awkward, st.text(st.characters(codec="utf-8", exclude_characters="\x00"), min_size=1, max_size=8))
levels = st.lists(
    names.map(str.strip).filter(lambda name: name not in ("", "NULL")), min_size=1, max_size=5, unique=True
)
columns = st.one_of(
    st.builds(Boolean, names, nullable=st.booleans()),
    st.builds(Category, names, levels, nullable=st.booleans()),
    st.builds(
        lambda name, low, n, w: Integer(name, low, low + n, width=w),
        names,
        st.integers(-9, 9),
        *2 * [st.integers(1, 9)],
    ),
    st.builds(
        lambda name, edges: Number(name, edges=sorted(edges)), names, st.sets(st.floats(-9, 9), min_size=2, max_size=4)
    ),
    st.builds(
        lambda name, low, n: Number(name, low=low, high=low + n, bins=n), names, st.integers(-9, 9), st.integers(1, 9)
    ),
    st.builds(
        lambda name, low, n, unit: Date(name, low, low + dt.timedelta(n), unit=unit),
        names,
        st.dates(dt.date(1900, 1, 1), dt.date(2100, 1, 1)),
        st.integers(0, 99),
        st.sampled_from(["day", "week", "month", "quarter", "year"]),
    ),
)
schemas = st.lists(columns, min_size=1, max_size=5, unique_by=lambda column: column.name).map(Schema)


@given(schemas, st.booleans())
def test_toml_round_trip(schema: Schema, guessed: bool) -> None:
    again = Schema.loads(Schema(schema.columns, guessed=guessed).dumps())
    assert again == schema
    assert again.digest == schema.digest
    assert again.guessed == guessed
    assert [c.labels for c in again] == [c.labels for c in schema]


@given(schemas, schemas)
def test_digests_are_equal_exactly_when_schemas_are(a: Schema, b: Schema) -> None:
    assert (a.digest == b.digest) == (a == b)


def test_every_setting_changes_the_digest() -> None:
    variants: list[Column] = [
        Integer("a", 0, 9),
        Integer("b", 0, 9),
        Integer("a", 1, 9),
        Integer("a", 0, 8),
        Integer("a", 0, 9, width=2),
        Integer("a", 0, 9, nullable=True),
        Number("a", low=0, high=9, bins=10),
        Number("a", edges=[0, 9]),
        Category("a", ["x", "y"]),
        Category("a", ["y", "x"]),
        Category("a", ["x"], other="y"),
        Boolean("a"),
        Date("a", "2024-01-01", "2024-12-31"),
        Date("a", "2024-01-01", "2024-12-31", unit="week"),
    ]
    for a, b in itertools.combinations(variants, 2):
        assert Schema([a]).digest != Schema([b]).digest


def test_the_same_number_written_differently_is_the_same_schema() -> None:
    a, b = Number("x", low=0, high=2, bins=2), Number("x", low=-0.0, high=2.0, bins=2)
    assert a == b
    assert Schema([a]).digest == Schema([b]).digest


def test_the_universe_is_counted_exactly() -> None:
    schema = Schema([Boolean(f"b{i}") for i in range(200)])
    assert schema.size == 2**200
    assert schema.cells(schema.names[:65]) == 2**65
    assert "10^60.2" in repr(schema)


@given(schemas.filter(lambda s: s.size < 10**6), st.randoms(use_true_random=False))
@settings(max_examples=25)
def test_records_decode_and_encode_back(schema: Schema, rng: random.Random) -> None:
    import numpy as np

    records = np.array([[rng.randrange(c.size) for c in schema] for _ in range(20)], dtype=np.int32)
    assert np.array_equal(schema.encode(schema.decode(records)), records)


def test_public_rows_outside_the_universe_are_counted_per_column() -> None:
    schema = Schema([Category("a", ["x"]), Integer("b", 0, 1), Boolean("c")])
    with pytest.raises(OutOfDomain, match="a: 2, b: 1") as caught:
        schema.encode({"a": ["x", "y", "z"], "b": ["0", "many", "1"], "c": [1, 0, True]})
    assert caught.value.counts == {"a": 2, "b": 1}


def test_mixed_types_in_one_column_are_compared_as_text() -> None:
    schema = Schema([Category("a", ["x", "1"], nullable=True)])
    assert schema.encode({"a": ["x", 1, None, float("nan")]}).ravel().tolist() == [0, 1, 2, 2]


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("nonsense", "not valid TOML"),
        ("", "the schema is empty"),
        ("[[columns]]\nname='a'", "columns"),
        ("[[column]]\nname='a'\nkind='integr'", "kind is 'integr'; expected one of"),
        ("[[column]]\nname='a'\nkind='integer'\nlow=0", "high"),
        ("[[column]]\nname='a'\nkind='integer'\nlow=0\nhigh=1\nwdth=2", "wdth"),
        ("[[column]]\nname='a'\nkind='boolean'\n[[column]]\nname='a'\nkind='boolean'", "repeated column names: a"),
    ],
)
def test_a_wrong_file_says_what_is_wrong(text: str, complaint: str) -> None:
    with pytest.raises(SchemaError, match=complaint):
        Schema.loads(text)


def test_an_unknown_column_is_answered_with_the_nearest() -> None:
    with pytest.raises(QueryError, match="did you mean age"):
        Schema([Integer("age", 0, 9)])["aeg"]


@pytest.mark.thorough
def test_a_draft_of_census_like_text(tmp_path: Path) -> None:
    rng = random.Random(1)
    header = ["age", "workclass", "fnlwgt", "hours-per-week", "income>50K", "joined", "score", "note"]
    rows = [
        [
            rng.randint(17, 90),
            rng.choice(["Private", "State-gov", "Self-emp-not-inc"]),
            rng.randint(12_000, 1_400_000),
            rng.randint(1, 99),
            rng.choice(["true", "false"]),
            f"{rng.randint(2001, 2009)}-{rng.randint(1, 12):02}-15",
            round(rng.uniform(0, 7), 3),
            f"free text {rng.random()}",
        ]
        for _ in range(500)
    ]
    path = tmp_path / "people.csv"
    with path.open("w", newline="") as file:
        csv.writer(file).writerows([header, *rows])
    with pytest.warns(PrivacyWarning, match="read the data"):
        schema = Schema.guess(path)
    assert schema.guessed
    assert [(c.name, c.kind) for c in schema] == [
        ("age", "integer"),
        ("workclass", "category"),
        ("fnlwgt", "integer"),
        ("hours-per-week", "integer"),
        ("income>50K", "boolean"),
        ("joined", "date"),
        ("score", "number"),
    ]
    assert schema["workclass"].labels == ("Private", "Self-emp-not-inc", "State-gov", "other")
    assert [line.partition(" ")[0] for line in schema.skipped] == ["note"]
    assert Schema.loads(schema.dumps()) == schema
    table = {name: [str(row[i]) for row in rows] for i, name in enumerate(header)}
    assert schema.encode(table).shape == (500, 7)  # every value it was drafted from fits


def test_a_draft_of_free_text_only_is_refused() -> None:
    with pytest.warns(PrivacyWarning), pytest.raises(SchemaError, match="by hand"):
        Schema.guess({"note": [f"text {i}" for i in range(100)]})


def test_mbi_domain(tmp_path: Path) -> None:
    path = tmp_path / "domain.json"
    path.write_text(json.dumps({"age": 32, "income>50K": 2}))
    assert Schema.load(path) == Schema([Integer("age", 0, 31), Integer("income>50K", 0, 1)])
    path.write_text('{"age": 0}')
    with pytest.raises(SchemaError, match="positive sizes"):
        Schema.load(path)


def test_smartnoise_metadata(tmp_path: Path) -> None:
    path = tmp_path / "meta.yaml"
    path.write_text(
        """
        "":
          PUMS:
            PUMS:
              row_privacy: false
              rows: 1000
              pid: {type: int, private_id: true}
              age: {type: int, lower: 0, upper: 100, nullable: false}
              income: {type: float, lower: 0.0, upper: 500000.0}
              married: {type: boolean}
              seen: {type: datetime, lower: "2020-01-01", upper: "2020-12-31"}
              sex: {type: string, levels: [f, m]}
        """
    )
    schema = Schema.load(path)
    assert schema == Schema(
        [
            Integer("age", 0, 100),
            Number("income", low=0, high=500_000, bins=32, nullable=True),
            Boolean("married", nullable=True),
            Date("seen", "2020-01-01", "2020-12-31", nullable=True),
            Category("sex", ["f", "m"], other="other", nullable=True),
        ]
    )
    path.write_text('"": {S: {T: {age: {type: int}}}}')
    with pytest.raises(SchemaError, match="needs lower and upper"):
        Schema.load(path)


def test_zoned_times_do_not_depend_on_the_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    import time

    instant = pa.array([dt.datetime(2024, 1, 2, 1, tzinfo=dt.UTC)])
    for zone in ("America/New_York", "Asia/Tokyo"):
        monkeypatch.setenv("TZ", zone)
        time.tzset()
        assert Date("d", "2024-01-01", "2024-01-03").encode(instant).tolist() == [1]
    monkeypatch.undo()
    time.tzset()


def test_a_name_in_a_remark_of_a_draft_stays_in_its_line() -> None:
    """A column that looks like a key is left out with advice that holds its name; whoever made the file chose that."""
    name = 'id\nguessed = false\n[[column]]\nname = "x"\nkind = "boolean"\n# \x01'
    with pytest.warns(PrivacyWarning):
        drafted = Schema.guess({name: list(range(2_000)), "age": [i % 50 for i in range(2_000)]})
    assert [left.partition(" (")[0] for left in drafted.skipped] == [repr(name)]
    again = Schema.loads(drafted.dumps())
    assert again.guessed
    assert again.names == ("age",)
    assert len(again.skipped) == 1
