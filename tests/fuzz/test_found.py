"""What the fuzzers found once, each as a test of its own."""

from __future__ import annotations

import json
import time
import tracemalloc
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from fuzz_maq import sealed, seeds

import maquette as mq
from maquette.answers import rehearse
from maquette.errors import DataError, QueryError, SchemaError
from maquette.query import Program, question, where
from maquette.query.expression import Between, Compare, In, IsNull
from maquette.releases.archive import MANIFEST
from maquette.schema import Boolean, Category, Date, Integer, Number, Schema
from maquette.schema.importers import from_mbi, from_smartnoise
from maquette.service.pgwire.script import pieces
from maquette.service.pgwire.sqlstate import Problem

SCHEMA = Schema([Integer("age", 0, 99), Boolean("smoker"), Number("bmi", edges=[10, 18.5, 25])])


@pytest.mark.parametrize("comparison", ["~", None, "==", "LIKE"])
def test_an_unknown_comparison_is_refused_and_not_read_as_another(comparison: Any) -> None:
    with pytest.raises(QueryError, match="is no comparison; expected one of =, <>, <"):
        where(SCHEMA, Compare("age", comparison, 5))


def test_literals_of_expressions_built_by_hand_are_checked() -> None:
    odd: list[Any] = [10**5000, 2**63, float("nan"), None, [1], {}, np.array([1]), b"x", 1j, "\ud800", "x\x00"]
    for literal in odd:
        for condition in (Compare("age", "=", literal), In("age", (literal,)), Between("age", 0, literal)):
            with pytest.raises(QueryError) as refused:
                where(SCHEMA, condition)
            str(refused.value).encode()


@pytest.mark.parametrize("name", [5, None, ["age"], {}])
def test_a_column_is_named_by_a_text(name: Any) -> None:
    with pytest.raises(QueryError, match=r"a column name is of type .*; expected text; columns are"):
        where(SCHEMA, IsNull(name))


@pytest.mark.parametrize("text", ["sum\ud800(age) = 1", "age = 1 -- \udfff", "age\x00 = 1"], ids=range(3))
def test_half_a_surrogate_pair_in_a_text_can_still_be_refused_in_print(text: str) -> None:
    with pytest.raises(QueryError, match="surrogate pair") as refused:
        where(SCHEMA, text)
    str(refused.value).encode()


def test_bins_at_the_end_of_the_exact_integers() -> None:
    column = Integer("x", -(2**53), 2**53, width=2**50)
    schema = Schema([column])
    assert column.compare(">=", 2**53).nonzero()[0].tolist() == [16]
    assert where(schema, "x < 9007199254740992") == ~where(schema, "x >= 9007199254740992")
    assert column.compare("=", 2**53).nonzero()[0].tolist() == [16]  # the last bin holds this number alone
    with pytest.raises(QueryError, match="cuts through the bin"):
        column.compare("<", 2**53 - 1)


def test_a_condition_on_a_column_of_billions_of_levels_is_refused_at_once() -> None:
    schema = Schema([Integer("id", 0, 2**31 - 4), Boolean("b")])
    began = time.process_time()
    for text in ("id < 5", "id = 7", "id IS NULL", "id BETWEEN 1 AND 3"):
        with pytest.raises(QueryError, match=r"2,147,483,645 levels, more than the 67,108,864"):
            where(schema, text)
    assert time.process_time() - began < 1


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("a = " + "[" * 5000, "nest too deeply"),
        ("a = " + "1" * 5000, "a number is too long"),
        ("[[column]]\nname = 'n'\nkind = 'number'\nlow = 0\nhigh = 1\nbins = 2147483646", "from 1 to 1,048,576"),
        (
            "[[column]]\nname = 'n'\nkind = 'integer'\nlow = 0\nhigh = 0x" + "f" * 5000,
            "high is a very long int; expected a whole number",
        ),
        ("[[column]]\nname = 'n'\nkind = '" + "x" * 90_000 + "'", r"kind is 'x{299}\.\.\.; expected one of boolean"),
    ],
)
def test_schema_files_that_took_too_much_or_broke_the_parser(text: str, reason: str) -> None:
    began = time.process_time()
    with pytest.raises(SchemaError, match=reason):
        Schema.loads(text)
    assert time.process_time() - began < 1


def test_dates_of_all_years_cost_nothing_until_they_are_listed() -> None:
    began = time.process_time()
    column = Date("d", "0001-01-01", "9999-12-31")
    assert column.known == 3_652_059
    assert Date("w", "2024-01-01", "2024-01-15", unit="week").known == len(
        Date("w", "2024-01-01", "2024-01-15", unit="week").values
    )
    assert column.compare("<", "0001-01-03").nonzero()[0].tolist() == [0, 1]
    with pytest.raises(SchemaError, match="levels in total"):
        Schema([column, Boolean("b")], impossible=[{"d": "x", "b": "true"}])
    assert time.process_time() - began < 1


@pytest.mark.thorough
def test_impossible_combinations_that_encode_a_hard_problem_are_refused_in_time() -> None:
    """Pigeons in holes: no search of this kind is quick, so there is an end to it."""
    pigeons, holes = 14, 13
    columns = [Category(f"p{i}", [str(h) for h in range(holes)]) for i in range(pigeons)]
    clashes = [{f"p{i}": str(h), f"p{j}": str(h)} for i in range(pigeons) for j in range(i) for h in range(holes)]
    began = time.process_time()
    with pytest.raises(SchemaError, match="share too many columns"):
        Schema(columns, impossible=clashes)
    assert time.process_time() - began < 5


@pytest.mark.parametrize(
    "text", ['{"a": ' + "[" * 3000, '{"a": ' + "1" * 5000 + "}", '{"a": 1e999}', '{"a": [[]]}', '{"": 3}']
)
def test_mbi_files_are_refused_as_schemas(text: str) -> None:
    with pytest.raises(SchemaError):
        from_mbi(text)


@pytest.mark.parametrize(
    "facts",
    ["{type: float, lower: 0, upper: 'x y'}", "{type: int, lower: [], upper: 1}", "{type: int, lower: 0, upper: .inf}"],
)
def test_smartnoise_bounds_are_refused_as_schemas(facts: str) -> None:
    with pytest.raises(SchemaError, match="lower and upper must be numbers"):
        from_smartnoise(f"'':\n  s:\n    t:\n      a: {facts}\n")


def test_smartnoise_keys_that_cannot_be_keys() -> None:
    with pytest.raises(SchemaError):
        from_smartnoise("? [a]\n: {b: {c: 1}}\n")


def _changed(parts: dict[str, bytes], **facts: Any) -> bytes:
    return sealed({**parts, MANIFEST: json.dumps({**json.loads(parts[MANIFEST]), **facts}).encode()})


def test_a_sealed_release_whose_parts_do_not_fit_is_refused_at_loading(tmp_path: Path) -> None:
    path = tmp_path / "made.maq"
    tried = 0
    for content, parts in seeds():
        path.write_bytes(content)
        mq.Release.load(path)
        manifest = json.loads(parts[MANIFEST])
        for changed in (
            {"schema": Schema([Boolean("b")]).dumps()},
            {"model": {"kind": "none", "rows": 5}},
            {"evidence": {"kind": "dense"}},
            {"evidence": {"kind": "none", "rows": float("nan")}},
            {"certificate": {**manifest["certificate"], "epsilon": "1"}},
            {"certificate": {**manifest["certificate"], "charges": [5]}},
            {"format": "x" * 50_000},
        ):
            path.write_bytes(_changed(parts, **changed))
            with pytest.raises(DataError) as refused:
                mq.Release.load(path)
            assert len(str(refused.value)) < 1_000
            tried += 1
    assert tried >= 35


def test_a_saved_table_with_noise_of_an_absurd_size_is_refused_at_loading(tmp_path: Path) -> None:
    path = tmp_path / "made.maq"
    (parts,) = [parts for _, parts in seeds() if json.loads(parts[MANIFEST])["evidence"]["kind"] == "tables"]
    evidence = json.loads(parts[MANIFEST])["evidence"]
    evidence["tables"][0]["event"]["variance"] = str(10**400)
    path.write_bytes(_changed(parts, evidence=evidence))
    with pytest.raises(DataError, match="a scale outside the possible range"):
        mq.Release.load(path)


def test_a_saved_check_with_noise_of_an_absurd_size_is_refused_at_loading(tmp_path: Path) -> None:
    path = tmp_path / "made.maq"
    saved = [(parts, json.loads(parts[MANIFEST]).get("check")) for _, parts in seeds()]
    checked = [(parts, check) for parts, check in saved if check is not None]
    assert checked
    for parts, check in checked:
        scale = "variance" if "variance" in check["event"] else "scale"
        for absurd in (10**400, f"1/{10**400}"):
            check["event"][scale] = absurd
            path.write_bytes(_changed(parts, check=check))
            with pytest.raises(DataError, match="a scale outside the possible range"):
                mq.Release.load(path)


@pytest.mark.parametrize(
    ("column", "condition"),
    [
        (Date("when", "0001-01-01", "9999-12-31", unit="year"), "year(x) = 2039"),
        (Date("when", "0001-01-01", "9999-12-31"), "year(x) = 2039"),
        (Integer("n", 0, 2**40, width=2**20), "x % 2 = 0"),
        (Integer("n", 0, 5_000_000), "x % 2 = 0"),
    ],
    ids=str,
)
def test_an_expression_on_too_many_values_is_refused_before_they_are_listed(column: Any, condition: str) -> None:
    start = time.process_time()
    with pytest.raises(QueryError, match="too many"):
        where(Schema([column]), condition.replace("x", f'"{column.name}"'))
    assert time.process_time() - start < 1.0


@pytest.mark.parametrize(
    "deep",
    [
        "age" + " IN (31, 97)" * 31,
        "age % 2" + " NOT IN (0, 1)" * 12,
        "nullif(" * 12 + "age % 2" + ", 5)" * 12 + " = 1",
        "CAST((" * 10 + "age % 2" + ") BETWEEN 0 AND 1 AS INT)" * 10 + " = 1",
        "CASE " * 12 + "age % 2" + " WHEN 0 THEN 1 WHEN 1 THEN 0 END" * 12 + " = 1",
    ],
    ids=["IN", "NOT IN", "nullif", "BETWEEN", "CASE"],
)
def test_comparisons_of_comparisons_are_refused_before_their_copies_fill_the_memory(deep: str) -> None:
    for text in (deep, f"SELECT count(*) FROM t WHERE {deep}", f"SELECT count(*) FILTER (WHERE {deep}) FROM t"):
        with pytest.raises(QueryError, match=r"of one another, as deep as here, is not supported|cannot be read"):
            question(SCHEMA, text)


def test_long_lists_and_comparisons_of_a_few_comparisons_are_read() -> None:
    listed = ", ".join(map(str, range(50)))
    assert where(SCHEMA, f"age IN ({listed}, {listed}, {listed}, {listed}, {listed}, {listed})") == where(
        SCHEMA, "age < 50"
    )
    assert where(SCHEMA, "(age % 3 IN (0, 1)) IN (TRUE)") == where(SCHEMA, "age % 3 <> 2")
    assert where(SCHEMA, "CASE nullif(age % 3, 2) WHEN 0 THEN 1 WHEN 1 THEN 1 END IN (1, 5)") == where(
        SCHEMA, "age % 3 <> 2"
    )


def test_groups_that_are_too_many_are_refused_before_room_is_made_for_them() -> None:
    wide = Schema([Integer("a", 0, 1_999), Integer("b", 0, 2_999), Boolean("c")])
    asked = question(
        wide,
        "WITH w AS (SELECT a, b, c, count(*) AS n, avg(a) AS m FROM t GROUP BY a, b, c) SELECT * FROM w ORDER BY n",
    )
    assert isinstance(asked, Program)
    tracemalloc.start()
    try:
        with pytest.raises(QueryError, match="12,000,000 groups are too many"):
            rehearse(asked)
        assert tracemalloc.get_traced_memory()[1] < 2**22
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize(
    "end",
    [
        "GROUP BY WHERE smoker",
        "GROUP BY ORDER BY 1",
        "WHERE GROUP BY smoker",
        "WHERE",
        "GROUP BY smoker HAVING LIMIT 1",
    ],
)
def test_a_clause_with_nothing_in_it_is_refused(end: str) -> None:
    with pytest.raises(QueryError, match=r"with nothing on one side|ends too early"):
        question(SCHEMA, f"SELECT count(*) FROM t {end}")


@pytest.mark.parametrize("again", [" <=> age", " IS NOT NULL", " = 3"])
def test_a_long_chain_of_comparisons_is_refused_as_deep_parentheses_are(again: str) -> None:
    with pytest.raises(QueryError, match=r"nesting more than 24 deep|cannot be read"):  # as the parser's version has it
        question(SCHEMA, "smoker OR age" + 30 * again)
    question(SCHEMA, " OR ".join(f"age = {number}" for number in range(60)))  # wide, not deep


def test_a_title_that_cannot_be_written_is_refused() -> None:
    with suppress(QueryError):  # some versions of the parser read no escape here, and the title is plain
        asked = question(SCHEMA, r"SELECT count(*) AS e'\x00', count(smoker) AS n FROM t")
        assert "\x00" not in "".join(output.title for output in asked.outputs)  # type: ignore[union-attr]


LOOSE = {
    "plain": " JOIN p" * 500,
    "some with ON": (" JOIN p" * 3 + " ON a = b") * 100,
    "lateral": " LEFT JOIN LATERAL p" * 200,
    "DISTINCT ON": " JOIN (SELECT DISTINCT ON (a) a FROM p)" * 100,
}


@pytest.mark.parametrize("joins", LOOSE.values(), ids=LOOSE)
def test_joins_without_a_condition_are_refused_before_each_is_read_in_two_ways(joins: str) -> None:
    """Eighteen of them took four seconds, and each further one twice as long."""
    with pytest.raises(QueryError, match="more than 8 JOINs without ON or USING are not supported; write ON"):
        question(SCHEMA, f"SELECT count(*) FROM p{joins}")
    with pytest.raises(Problem, match="too many JOINs without ON or USING"):
        pieces(f"SELECT count(*) FROM p{joins}")


def test_joins_with_their_conditions_may_be_many() -> None:
    text = "SELECT count(*) FROM p" + " LEFT JOIN q ON p.age = q.age" * 40 + " JOIN q USING (age)" * 40
    with pytest.raises(QueryError, match="a second table is not supported"):
        question(SCHEMA, text)
