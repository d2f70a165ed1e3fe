"""A release knows the name of its table: that of its file or the one it was given; an unknown name is refused."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

import maquette as mq
from maquette.cli import app
from maquette.errors import DataError, QueryError
from maquette.releases import plain_name

SCHEMA = mq.Schema([mq.Boolean("smoker"), mq.Category("sex", ["f", "m"])])
ROWS: dict[str, list[Any]] = {"smoker": [True, False] * 50, "sex": ["f"] * 60 + ["m"] * 40}


def written(folder: Path, name: str) -> Path:
    lines = [f"{smoker},{sex}" for smoker, sex in zip(ROWS["smoker"], ROWS["sex"], strict=True)]
    (path := folder / name).write_text("\n".join(["smoker,sex", *lines]) + "\n", encoding="utf-8")
    return path


def made(source: object, table: str | None = None, method: str = "auto") -> mq.Release:
    curator = mq.Curator(mq.open_table(source, SCHEMA), mq.Budget(epsilon=100.0, delta=1e-9))
    return mq.release(curator, mq.marginals(SCHEMA, k=2), table=table, method=method)


def test_the_name_is_that_of_the_file_also_after_saving(tmp_path: Path) -> None:
    release = made(written(tmp_path, "people.csv"))
    release.save(tmp_path / "other.maq")
    for one in (release, mq.Release.load(tmp_path / "other.maq")):
        assert one.certificate.table == "people"
        for text in ("SELECT count(*) FROM people", "SELECT count(*) FROM PEOPLE p", "SELECT count(*) FROM t"):
            assert one.answer(text).value == pytest.approx(100, abs=5)
        with pytest.raises(QueryError, match=r"there is no table 'peple'; did you mean people\?"):
            one.answer("SELECT count(*) FROM peple")
        with pytest.raises(QueryError, match="there is no table 'orders'; this is about 'people'"):
            one.answer("SELECT count(*) FROM orders")
        assert one.answer("SELECT count(*) FROM orders", table="orders").value == pytest.approx(100, abs=5)
        assert one.answer("smoker").value == pytest.approx(0.5, abs=0.05)


@pytest.mark.parametrize("method", ["auto", "everything", "graphical", "gaussian"])
def test_a_given_name_goes_first_with_every_method(tmp_path: Path, method: str) -> None:
    release = made(written(tmp_path, "export_2024.csv"), table="people", method=method)
    assert release.certificate.table == "people"
    with pytest.raises(QueryError, match="this is about 'people'"):
        release.answer("SELECT count(*) FROM export_2024")


def test_a_table_without_a_name_takes_any_and_its_file_says_nothing(tmp_path: Path) -> None:
    release = made(ROWS)
    release.save(tmp_path / "people.maq")
    loaded = mq.Release.load(tmp_path / "people.maq")
    assert loaded.certificate.table is None
    assert loaded.answer("SELECT count(*) FROM anything").value == pytest.approx(100, abs=5)


@pytest.mark.parametrize("name", ["two words", "", "9lives", "a;b", "a\x00", "x" * 256])
def test_a_name_that_sql_cannot_write_plainly_is_refused_before_any_charge(name: str) -> None:
    curator = mq.Curator(mq.open_table(ROWS, SCHEMA), mq.Budget(epsilon=1.0, delta=1e-9))
    with pytest.raises(QueryError, match="letters, digits and _, no digit first, at most 255"):
        mq.release(curator, mq.marginals(SCHEMA, k=2), table=name)
    assert curator.spent.units == 0
    assert plain_name("größe_2") == "größe_2"


def test_the_command_line_names_tables_and_refuses_others(tmp_path: Path) -> None:
    source, schema, out = written(tmp_path, "my people.csv"), tmp_path / "s.toml", tmp_path / "out.maq"
    schema.write_text(SCHEMA.dumps(), encoding="utf-8")
    runner = CliRunner()
    release = ["release", str(source), "--schema", str(schema), "--epsilon", "5", "--delta", "1e-9", "--out", str(out)]
    assert "table is 'a b'" in str(runner.invoke(app, [*release, "--table", "a b"]).exception)
    assert not out.exists()
    told = runner.invoke(app, [*release, "--spend", "1"]).output
    assert '"SELECT count(*) FROM my_people"' in told
    assert runner.invoke(app, ["ask", str(out), "SELECT count(*) FROM my_people"]).exit_code == 0
    refused = runner.invoke(app, ["ask", str(out), "SELECT count(*) FROM whatever"])
    assert refused.exit_code == 1
    assert "there is no table 'whatever'" in str(refused.exception)
    assert runner.invoke(app, [*release, "--table", "staff"]).exit_code == 0
    assert runner.invoke(app, ["ask", str(out), "SELECT count(*) FROM staff"]).exit_code == 0


def test_a_file_with_a_name_that_cannot_be_is_refused(tmp_path: Path) -> None:
    release = made(ROWS)
    release.certificate = replace(release.certificate, table="a\nb")
    release.save(tmp_path / "odd.maq")
    with pytest.raises(DataError, match="certificate lacks a number or a text, or has an invalid one"):
        mq.Release.load(tmp_path / "odd.maq")


def test_a_prompt_knows_the_name_of_its_file(tmp_path: Path) -> None:
    source, schema = written(tmp_path, "my people.csv"), tmp_path / "s.toml"
    schema.write_text(SCHEMA.dumps(), encoding="utf-8")
    online = ["online", str(source), "--schema", str(schema), "--epsilon", "9", "--delta", "1e-9", "--alpha", "0.2"]
    online += ["--rows", "100", "--ledger", str(tmp_path / "l")]
    runner = CliRunner()
    told = runner.invoke(app, online, input="SELECT count(*) FROM my_people\n")
    assert told.exit_code == 0
    told = runner.invoke(app, [*online, "--table", "staff"], input="SELECT count(*) FROM my_people\n")
    assert told.exit_code == 1
    assert "this is about 'staff'" in told.output
