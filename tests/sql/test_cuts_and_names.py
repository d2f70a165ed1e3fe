"""Comparisons that cut through a bin, names of tables, public tables at every door, and displays."""

from __future__ import annotations

import datetime as dt
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from typer.testing import CliRunner

import maquette as mq
from maquette.cli import app
from maquette.errors import QueryError
from maquette.query import Context, LinearQuery, Program, PublicTable, col, named_table, parse, question
from maquette.query.between import bracketed
from maquette.query.expression import Expression
from sql_checks import columns, report_of

SCHEMA = mq.Schema(
    [
        mq.Integer("age", 0, 99, width=10, nullable=True),
        mq.Number("bmi", edges=[10, 18.5, 25, 60]),
        mq.Date("seen", "2024-01-01", "2024-12-31", unit="month"),
        mq.Boolean("smoker"),
    ]
)
ROWS = 400


def rows() -> dict[str, list[Any]]:
    rng = np.random.default_rng(4)
    return {
        "age": [None if a > 95 else int(a) for a in rng.integers(0, 100, ROWS)],
        "bmi": rng.uniform(10, 60, ROWS).round(2).tolist(),
        "seen": [dt.date(2024, 1, 1) + dt.timedelta(days=int(d)) for d in rng.integers(0, 366, ROWS)],
        "smoker": (rng.random(ROWS) < 0.4).tolist(),
    }


DATA = rows()
RECORDS = SCHEMA.encode(DATA)
TRUTH = {"<": "__lt__", "<=": "__le__", ">": "__gt__", ">=": "__ge__", "=": "__eq__", "<>": "__ne__"}


def atoms() -> st.SearchStrategy[tuple[Expression, Any]]:
    """A comparison, and what it means for every row (None: unknown)."""
    ages = st.tuples(st.just("age"), st.sampled_from(sorted(TRUTH)), st.integers(0, 99))
    bmis = st.tuples(
        st.just("bmi"), st.sampled_from(["<", "<=", ">", ">="]), st.floats(10, 60).map(lambda x: round(x, 1))
    )
    days = st.dates(dt.date(2024, 1, 1), dt.date(2024, 12, 31))
    dates = st.tuples(st.just("seen"), st.sampled_from(["<", "<=", ">", ">="]), days)

    def made(atom: tuple[str, str, Any]) -> tuple[Expression, Any]:
        name, comparison, literal = atom
        method = TRUTH[comparison]
        truth = [None if value is None else bool(getattr(value, method)(literal)) for value in DATA[name]]
        return getattr(col(name), method)(literal), np.array(truth, dtype=object)

    return st.one_of(ages, bmis, dates).map(made)


def combined(inner: Any) -> Any:
    def negated(one: tuple[Expression, Any]) -> tuple[Expression, Any]:
        return ~one[0], np.array([None if t is None else not t for t in one[1]], dtype=object)

    def both(pair: tuple[tuple[Expression, Any], tuple[Expression, Any]]) -> tuple[Expression, Any]:
        (one, first), (two, second) = pair
        truth = [
            False if a is False or b is False else None if a is None or b is None else True
            for a, b in zip(first, second, strict=True)
        ]
        return one & two, np.array(truth, dtype=object)

    return st.one_of(inner.map(negated), st.tuples(inner, inner).map(both))


@settings(max_examples=60, deadline=None)
@given(st.recursive(atoms(), combined, max_leaves=4))
def test_a_condition_lies_between_its_two_cuts(case: tuple[Expression, Any]) -> None:
    condition, truth = case
    try:
        inner, outer = bracketed(SCHEMA, condition)
    except QueryError:
        return  # out of range
    holds = truth == True  # noqa: E712
    sure = inner.evaluate(RECORDS) > 0.5
    assert not (sure & ~holds).any(), "a row that surely counts does not"
    maybe = sure if outer is None else outer.evaluate(RECORDS) > 0.5
    assert not (holds & ~maybe).any(), "a row that counts is outside"


@pytest.mark.parametrize(
    "text",
    [
        "SELECT count(*) FROM t WHERE age >= 65",
        "SELECT smoker, count(*) AS n FROM t WHERE NOT age < 65 GROUP BY smoker",
        "SELECT count(*) FILTER (WHERE seen >= '2024-03-15') AS n FROM t",
        "SELECT countif(bmi > 30) AS n FROM t",
        "SELECT count(*) FROM t WHERE day(seen) = 15",
        "SELECT count(*) FROM t WHERE age IN (33, 44)",
        "age BETWEEN 25 AND 42",
    ],
)
def test_a_cut_is_refused_or_answered_between(text: str) -> None:
    with pytest.raises(QueryError, match=r"cuts through|bins of real|out of its bin"):
        question(SCHEMA, text)
    found = question(SCHEMA, text, Context(cuts="between"))
    assert isinstance(found, Program)
    answer = report_of(found, lambda one: columns(one, RECORDS))
    for number in answer.numbers:
        assert number.low < number.value < number.high


def test_what_does_not_lie_between_stays_refused() -> None:
    for text in ("SELECT avg(age) FROM t WHERE bmi > 30", "SELECT sum(CASE WHEN bmi > 30 THEN 1 ELSE 0 END) FROM t"):
        with pytest.raises(QueryError):
            parse(SCHEMA, text, context=Context(cuts="between"))
    with pytest.raises(QueryError, match="out of range"):
        parse(SCHEMA, "SELECT count(*) FROM t WHERE age > 200", context=Context(cuts="between"))
    assert isinstance(question(SCHEMA, "age >= 60", Context(cuts="between")), LinearQuery)


def written(folder: Path) -> tuple[Path, Path]:
    source, schema = folder / "people.csv", folder / "people.schema.toml"
    lines = [f"{a},{s}" for a, s in zip([1, 12, 25, 33, 47] * 40, ["n", "s"] * 100, strict=True)]
    source.write_text("age,region\n" + "\n".join(lines) + "\n")
    mq.Schema([mq.Integer("age", 0, 49, width=10), mq.Category("region", ["n", "s"])]).save(schema)
    (folder / "regions.csv").write_text("code,name,weight\nn,North,1\ns,South,9\n")
    return source, schema


def test_a_table_is_called_what_its_file_is_called(tmp_path: Path) -> None:
    source, schema = written(tmp_path)
    table = mq.open_table(source, mq.Schema.load(schema))
    curator = mq.Curator(table, mq.Budget(epsilon=50.0))
    assert curator.table_name == "people"
    for name in ("people", "People", "t"):
        assert mq.answer(curator, f"SELECT count(*) FROM {name}", epsilon=1.0).count is not None
    session = mq.online(curator, alpha=0.2, rows=200)
    before = curator.spent.units
    for ask in (lambda text: mq.answer(curator, text, epsilon=1.0), session.ask, session.explain, session.peek):
        with pytest.raises(QueryError, match="did you mean people"):
            ask("SELECT count(*) FROM peple")
    assert curator.spent.units == before
    named = mq.online(curator, alpha=0.2, rows=200, table="survey", name="other")
    assert named.ask("SELECT count(*) FROM survey").guarantee
    with pytest.raises(QueryError, match="no table 'people'"):
        named.ask("SELECT count(*) FROM people")


def test_the_prompt_knows_names_lookups_settings_and_help(tmp_path: Path) -> None:
    source, schema = written(tmp_path)
    asked = [
        "SELECT count(*) FROM peple",
        "SELECT r.name, count(*) AS n FROM people LEFT JOIN regions r ON people.region = r.code GROUP BY 1",
        "SELECT sum(r.weight) AS w FROM people LEFT JOIN regions r ON people.region = r.code",
        "SET alpha = 0.4",
        ".set confidence 0.99",
        "SELECT count(*) FROM people WHERE age > 33",
        ".set alfa 3",
        ".set alpha default",
        "\\help select",
        ".help",
    ]
    command = ["online", str(source), "-s", str(schema), "--epsilon", "500", "--alpha", "0.3", "--rows", "200"]
    lookups = ["--public", f"regions={tmp_path / 'regions.csv'}:code,weight:0..2", "--cuts", "between"]
    told = CliRunner().invoke(app, [*command, *lookups], input="\n".join(asked))
    assert "did you mean people" in told.output
    assert "North" in told.output
    assert "alpha = 0.4" in told.output
    assert "alpha = 0.4, confidence = 0.99" in told.output
    assert "did you mean alpha" in told.output
    assert "\n   confidence = 0.99" in told.output
    assert "Counts, sums and averages" in told.output
    assert ".help select" in told.output


def test_a_public_table_is_named_on_the_command_line(tmp_path: Path) -> None:
    written(tmp_path)
    name, table = named_table(f"regions={tmp_path / 'regions.csv'}:code,weight:0..2")
    assert (name, table.key, table.column("weight")) == ("regions", "code", (1.0, 2.0))
    for wrong in ("regions", "regions=x.csv", "=x.csv:code", "r=x.csv:code,weight:1"):
        with pytest.raises(QueryError, match="cannot be read"):
            named_table(wrong)


def test_a_session_joins_public_tables() -> None:
    schema = mq.Schema([mq.Category("region", ["n", "s"]), mq.Boolean("a")])
    lookup = PublicTable({"code": ["n", "s"], "name": ["North", "South"]}, key="code")
    curator = mq.Curator(
        mq.open_table({"region": ["n", "s"] * 500, "a": [True] * 1_000}, schema), mq.Budget(epsilon=50.0)
    )
    session = mq.online(curator, alpha=0.2, rows=1_000, public={"regions": lookup})
    answer = session.ask("SELECT r.name, count(*) AS n FROM t LEFT JOIN regions r ON t.region = r.code GROUP BY 1")
    assert [row.groups[0] for row in answer.rows] == ["North", "South"]
    assert session.ask("SELECT count(*) FROM t JOIN regions r ON t.region = r.code").value == pytest.approx(
        1_000, abs=200
    )
    with pytest.raises(QueryError, match="LEFT JOIN"):
        session.ask("SELECT count(*) FROM t FULL JOIN regions r ON t.region = r.code")


def test_displays_show_public_facts_alone() -> None:
    schema = mq.Schema([mq.Category("<b>", ["x", "y"])])
    curator = mq.Curator(mq.open_table({"<b>": ["x"] * 431}, schema), mq.Budget(epsilon=5.0))
    release = mq.release(curator, mq.marginals(schema, 1), epsilon=1.0)
    for shown in (curator._repr_html_(), release.certificate._repr_html_()):
        assert "<table>" in shown
        assert "431" not in shown
        assert "<b>" not in shown


def test_text_pandas_and_json_carry_the_standing_of_every_number() -> None:
    schema = mq.Schema([mq.Category("g", ["x", "y"]), mq.Boolean("a")])
    rows_ = {"g": ["x", "y"] * 500, "a": [True, False] * 500}
    curator = mq.Curator(mq.open_table(rows_, schema), mq.Budget(epsilon=0.3))
    session = mq.online(curator, alpha=0.2, rows=1_000)
    answers = [session.ask("SELECT g, count(*) AS n FROM t GROUP BY g") for _ in range(2)]
    wider = session.ask("SELECT g, count(*) AS n FROM t GROUP BY g", alpha=0.001)  # measured before, less precisely
    for answer, standing in zip([*answers, wider], ["promised", "cached", "wider"], strict=True):
        assert set(answer.to_pandas()["n_standing"]) == {standing}
        assert {row["n"]["standing"] for row in answer.as_dict()["rows"]} == {standing}
        assert f"({standing}" in str(answer)
