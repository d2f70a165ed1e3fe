"""No two tables of a service have a budget each for the same rows, and none shares its ledger."""

from __future__ import annotations

import os
import shutil
from dataclasses import replace
from pathlib import Path

import pytest
from rooms import settings, write_table
from typer.testing import CliRunner

from maquette.cli import app
from maquette.errors import QueryError
from maquette.service import ConfigError, Principal, Service, TableConfig
from maquette.service.config import HoldoutConfig
from maquette.service.origins import shared_rows

ADD_UP = "the epsilons add up"


def table(name: str, source: str | Path) -> TableConfig:
    return TableConfig(name=name, source=str(source), epsilon=1.0)


def meet(one: str | Path, other: str | Path) -> bool:
    found = list(shared_rows([table("one", one), table("other", other)]))
    assert all("'one' and table 'other'" in problem and ADD_UP in problem for problem in found)
    return bool(found)


def test_a_file_with_two_tables_is_refused_before_anything_opens(tmp_path: Path) -> None:
    write_table(tmp_path)
    block = '[[table]]\nname = "{}"\nsource = "{}"\nschema = "people.schema.toml"\nepsilon = 1\ndelta = 1e-9\n'
    file = tmp_path / "maquette.toml"
    file.write_text(block.format("people", "people.csv") + block.format("again", "../" + tmp_path.name + "/people.csv"))
    refused = CliRunner().invoke(app, ["serve", "--config", str(file), "--check"])
    assert refused.exit_code != 0
    assert "table 'people' and table 'again' read the same rows" in str(refused.exception)
    assert not list(tmp_path.glob("*.ledger*"))
    file.write_text(block.format("people", "people.csv"))
    assert CliRunner().invoke(app, ["serve", "--config", str(file), "--check"]).exit_code == 0


def test_the_same_file_by_another_path_or_as_a_copy(tmp_path: Path) -> None:
    source, _ = write_table(tmp_path, count=50)
    other, _ = write_table(tmp_path, "other", count=50, seed=6)
    (tmp_path / "soft.csv").symlink_to(source)
    os.link(source, tmp_path / "hard.csv")
    shutil.copy(source, tmp_path / "copy.csv")
    for same in ("soft.csv", "hard.csv", "copy.csv", "./people.csv", "*.csv", "p*"):
        assert meet(source, tmp_path / same), same
    assert meet(tmp_path, source)
    assert not meet(source, other)
    assert not meet(source, tmp_path / "none.csv")
    assert not meet(tmp_path / "o*.csv", source)


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ("duckdb://{}/a.db?table=people", "duckdb://{}/./a.db?table=People", True),
        ("duckdb://{}/a.db?table=people", "duckdb://{}/a.db?table=visits", False),
        ("duckdb://{}/a.db?table=people", "duckdb://{}/b.db?table=people", False),
        ("sqlite://{}/a.db?table=people", "sqlite://{}/a%2Edb?table=people", True),
        ("sqlite://{}/a.db?table=people", "sqlite://{}/a.db?table=pets&table=people", True),
        ("postgresql://ada:x@Host/d?table=t", "postgres://host:5432/d?sslmode=disable&table=public.t", True),
        ("postgresql://localhost/d?table=t", "postgresql:///d?table=t&host=/run/postgresql", True),
        ("postgresql://a/d?table=t", "postgresql://b/d?table=t", False),
        ("postgresql://a/d?table=t", "postgresql://a:5433/d?table=t", False),
        ("postgresql://a/d?table=t", "postgresql://a/e?table=t", False),
        ("postgresql://a/d?table=t", "postgresql://a/d?table=s.t", False),
        ("demo://survey", "demo://survey", True),
    ],
)
def test_databases_are_compared_by_what_they_name(tmp_path: Path, one: str, other: str, same: bool) -> None:
    (tmp_path / "a.db").touch()
    (tmp_path / "b.db").touch()
    assert meet(one.format(tmp_path), other.format(tmp_path)) is same


def test_a_problem_shows_no_password(tmp_path: Path) -> None:
    address = "postgresql://ada:secret@host/d?table=t&password=hidden"
    (problem,) = shared_rows([table("one", address), table("other", address)])
    assert "secret" not in problem
    assert "hidden" not in problem
    assert "postgresql://host/d" in problem


def test_two_tables_with_one_ledger_or_anchor_are_refused(tmp_path: Path) -> None:
    config = settings(tmp_path)
    people, other = config.tables
    config.check()
    (tmp_path / "data").mkdir()
    same = replace(other, ledger=str(tmp_path / "data" / ".." / "data" / "people.ledger"))
    with pytest.raises(ConfigError, match="'people' and 'other' have the same ledger"):
        replace(config, tables=(people, same)).check()
    anchored = [replace(one, anchor=str(tmp_path / "anchor")) for one in (people, other)]
    with pytest.raises(ConfigError, match="the same anchor"):
        replace(config, tables=tuple(anchored)).check()
    shared = [replace(one, ledger="postgresql://host/ledgers") for one in (people, other)]
    replace(config, tables=tuple(shared)).check()


def test_a_holdout_has_rows_of_its_own(tmp_path: Path) -> None:
    config = settings(tmp_path)
    holdout = HoldoutConfig(name="kept", source=config.tables[0].source, target="smoker")
    with pytest.raises(ConfigError, match="a holdout's rows are used for nothing else"):
        replace(config, holdouts=(holdout,)).check()


def test_an_uploaded_copy_of_a_served_file_gets_no_second_budget(tmp_path: Path) -> None:
    config = settings(tmp_path)
    custodian = Principal(name="custodian", role="custodian")
    with Service(config) as service:
        content = Path(config.tables[0].source).read_bytes()
        draft = service.drafts.upload(custodian, "copy.csv", [content])
        service.drafts.revise(custodian, draft["id"], draft["columns"], reviewed=True)
        with pytest.raises(QueryError, match=ADD_UP):
            service.drafts.publish(custodian, draft["id"], "copy", epsilon=1.0, delta=1e-9)
        assert not (config.directory / "copy.ledger").exists()
        with pytest.raises(QueryError, match="a holdout's rows are used for nothing else"):
            service.registrar.register(custodian, draft["id"], "copy", target="smoker")
        assert not (config.directory / "copy.holdout").exists()
        assert set(service.tables) == {"people", "other"}
