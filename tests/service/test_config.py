"""The configuration is checked in full, before anything opens; the command line and the file say the same."""

from __future__ import annotations

import contextlib
import sqlite3
import subprocess
from dataclasses import fields, replace
from pathlib import Path
from typing import Any
from unittest import mock

import pytest
from rooms import house, settings, write_table
from typer.testing import CliRunner

from maquette.cli import app
from maquette.cli.options import table_name
from maquette.errors import MaquetteError, PrivacyWarning, SchemaError
from maquette.service import ConfigError, Limits, Service, ServiceConfig, TableConfig, demonstration, load_config
from maquette.service.config import AnalystConfig, GroupConfig, HoldoutConfig, OidcConfig
from maquette.service.config_file import parse

FILE = """
port = 9000
directory = "kept"
[limits]
questions = 50
[[table]]
name = "people"
source = "people.csv"
schema = "people.schema.toml"
epsilon = 1
delta = 1e-9
deadline = 0.5
[[analyst]]
name = "ada"
tables = ["people"]
epsilon = 0.25
[[group]]
name = "team"
epsilon = 0.5
"""


def test_a_file_says_everything(tmp_path: Path) -> None:
    write_table(tmp_path)
    (tmp_path / "maquette.toml").write_text(FILE)
    config = load_config(tmp_path / "maquette.toml")
    config.check()
    assert config.directory == tmp_path / "kept"
    assert config.tables[0].source == str(tmp_path / "people.csv")
    assert (config.tables[0].epsilon, config.limits.questions, config.port) == (1, 50, 9000)
    assert config.analysts[0].tables == ("people",)
    assert not (tmp_path / "kept").exists()


def test_files_are_beside_the_settings_from_wherever_they_are_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Databases in files too; and an editor may have begun the file with a mark of its encoding."""
    home, elsewhere = tmp_path / "a place #1", tmp_path / "elsewhere"
    home.mkdir()
    elsewhere.mkdir()
    schema = write_table(home)[1]
    with contextlib.closing(sqlite3.connect(home / "rows.db")) as database, database:
        database.execute("CREATE TABLE people (age INTEGER)")
    text = FILE.replace("people.csv", "sqlite://rows.db?table=people").replace(
        "directory", 'state = "sqlite:///s.db"\ndirectory'
    )
    (home / "maquette.toml").write_text("\ufeff" + text, encoding="utf-8")
    monkeypatch.chdir(elsewhere)
    config = load_config(home / "maquette.toml")
    config.check()
    assert config.state == f"sqlite:///{home / 's.db'}"
    missing = replace(config.tables[0], source="duckdb://none.db?table=people", schema=schema)
    assert any("there is no database file 'none.db'" in problem for problem in missing.problems())
    kept = ("sqlite:////abs/s.db", "sqlite://", "postgresql://db/maquette")
    assert [parse({"state": address}, home).state for address in kept] == list(kept)


def test_hosts_are_names_alone_and_in_any_case(tmp_path: Path) -> None:
    config = replace(settings(tmp_path), hosts=("Maquette.Example.org", "2001:DB8::7", "[::7]"))
    config.check()
    with house(config) as made:
        for name in ("maquette.example.ORG:8765", "[2001:db8::7]:8765", "[::7]", "LOCALHOST"):
            assert made.call(None, "GET", "/v1/health", headers={"Host": name}).status_code == 200, name
        assert made.call(None, "GET", "/v1/health", headers={"Host": "example.org"}).status_code == 421
    for wrong in ("https://maquette.example.org", "maquette.example.org:443", "a b", ""):
        with pytest.raises(ConfigError, match="leave out the scheme"):
            replace(config, hosts=(wrong,)).check()


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("prot = 1", "unknown setting 'prot'; did you mean 'port'?"),
        ("port = 'x'", "port is 'x'; expected a whole number"),
        ("port = true", "port is True"),
        ("[limits]\nquestion = 1", r"\[limits\] has an unknown setting 'question'; did you mean"),
        ("[[table]]\nname = 'x'", r"\[\[table\]\] 1 lacks the setting"),
        ("[table]\nname = 'x'", "two pairs of brackets"),
        ("log_level = 'loud'", "one of 'debug', 'info'"),
        ("= =", "not valid TOML"),
        ("prot = 1\nport = 'x'\n[[group]]\nname = 'x'\n[limits]\njobs = 'x'", "4 problems:(?s:.)*epsilon(?s:.)*jobs"),
    ],
)
def test_a_wrong_file_is_refused_by_name(tmp_path: Path, line: str, said: str) -> None:
    (tmp_path / "maquette.toml").write_text(line)
    with pytest.raises(ConfigError, match=said):
        load_config(tmp_path / "maquette.toml")


def test_every_problem_is_told_at_once(tmp_path: Path) -> None:
    config = settings(tmp_path)
    table = replace(
        config.tables[0], name="Bad Name", schema="no.toml", epsilon=-1, alpha=2, deadline="auto", session="a:b"
    )
    wrong = replace(
        config,
        tables=(table, table),
        analysts=(AnalystConfig(name="x/y", tables=("none",)),),
        host="0.0.0.0",
        port=70_000,
        limits=Limits(questions=0),
        oidc=OidcConfig(issuer="http://plain", audience="", algorithms=("HS256",)),
    )
    found = "\n".join(wrong.problems())
    for said in (
        "two tables", "small letters", "no schema file 'no.toml'", "epsilon", "alpha is 2", "max_rows",
        "without a colon", "no table 'none'", "a name has letters", "plain text", "port is 70000", "questions is 0",
        "https://", "'HS256'", "audience",
    ):  # fmt: skip
        assert said in found, said
    with pytest.raises(ConfigError, match="problems:"):
        wrong.check()


def test_mistakes_that_only_a_start_would_show(tmp_path: Path) -> None:
    """Each is seen by `--check`, and no address is quoted: it may hold a password."""
    config = settings(tmp_path)
    ledger = "postgresql://maquette:geheim@db/maquette"
    mistakes: dict[str, dict[str, Any]] = {
        "which table of the database": {"source": "postgresql://reader:geheim@db/clinic"},
        "an address that nothing reads": {"source": "oracle://reader:geheim@db/clinic?table=visits"},
        "no file matches": {"source": str(tmp_path / "visits-*.csv")},
        "max_rows is -1": {"max_rows": -1},
        "at most 41 letters": {"name": "x" * 42, "ledger": ledger},
        "or leave out shared": {"shared": True},
    }
    for said, wrong in mistakes.items():
        with pytest.raises(ConfigError, match=said) as refusal:
            replace(config, tables=(replace(config.tables[0], **wrong),)).check()
        assert "geheim" not in str(refusal.value)
    with pytest.raises(ConfigError, match=r"no \[\[group\]\] 'taem', so nothing would limit it; the groups are team"):
        replace(config, analysts=(AnalystConfig(name="ada", group="taem"),)).check()
    replace(config, tables=(replace(config.tables[0], source=str(tmp_path / "peo*.csv")),), analysts=()).check()


def test_a_key_of_another_certificate_is_seen_before_anything_opens(tmp_path: Path) -> None:
    for name in ("one", "other"):
        make = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-subj", f"/CN={name}", "-days", "2"]
        made = ["-keyout", str(tmp_path / f"{name}.key"), "-out", str(tmp_path / f"{name}.crt")]
        subprocess.run([*make, *made], check=True, capture_output=True)
    config = replace(settings(tmp_path), tls_certificate=str(tmp_path / "one.crt"), tls_key=str(tmp_path / "one.key"))
    config.check()
    with pytest.raises(ConfigError, match="the key belongs to another certificate"):
        replace(config, tls_key=str(tmp_path / "other.key")).check()


def test_a_table_that_cannot_be_opened_is_named(tmp_path: Path) -> None:
    config = settings(tmp_path)
    wrong = replace(config.tables[1], unit="nobody")
    with pytest.raises(MaquetteError, match="table 'other': the source lacks 'nobody'"):
        Service(replace(config, tables=(config.tables[0], wrong))).start()


def test_plaintext_stays_on_this_machine(tmp_path: Path) -> None:
    config = settings(tmp_path)
    with pytest.raises(ConfigError, match="tokens would travel in plain text"):
        replace(config, host="192.0.2.1").check()
    replace(config, host="192.0.2.1", trust_proxy=True).check()


def test_check_opens_nothing(tmp_path: Path) -> None:
    source, schema = write_table(tmp_path)
    asked = ["serve", source, "--schema", schema, "--epsilon", "1", "--delta", "1e-9", "--check"]
    result = CliRunner().invoke(app, [*asked, "--directory", str(tmp_path / "new")])
    assert result.exit_code == 0, result.output
    assert "nothing was opened" in result.output
    assert not (tmp_path / "new").exists()
    assert not list(tmp_path.glob("*.ledger"))


@pytest.mark.parametrize("given", [[], ["x.csv", "--demo"], ["x.csv"]])
def test_what_to_serve_is_said_once(given: list[str]) -> None:
    result = CliRunner().invoke(app, ["serve", *given])
    assert result.exit_code != 0


def test_a_table_is_named_after_its_file() -> None:
    assert table_name("data/People 2024.csv") == "people_2024"
    assert table_name("2024.parquet") == "t_2024"


def test_the_demonstration_is_valid(tmp_path: Path) -> None:
    demonstration(tmp_path).check()


def test_every_setting_is_documented() -> None:
    page = (Path(__file__).parents[2] / "docs" / "operations" / "settings.md").read_text()
    for kind in (ServiceConfig, TableConfig, AnalystConfig, GroupConfig, HoldoutConfig, Limits, OidcConfig):
        for each in fields(kind):
            assert f"`{each.name}`" in page, f"{kind.__name__}.{each.name}"


def test_a_drafted_schema_is_refused_unless_the_table_trusts_it(tmp_path: Path) -> None:
    write_table(tmp_path)
    schema = tmp_path / "people.schema.toml"
    schema.write_text("guessed = true\n" + schema.read_text())
    file = tmp_path / "maquette.toml"
    file.write_text(FILE)
    refused = CliRunner().invoke(app, ["serve", "--config", str(file), "--check"])
    assert refused.exit_code != 0
    assert "is a draft" in str(refused.exception)
    file.write_text(FILE.replace("deadline = 0.5", "alpha = 0.2\ntrust_draft = true"))
    assert CliRunner().invoke(app, ["serve", "--config", str(file), "--check"]).exit_code == 0
    service = Service(load_config(file))
    with pytest.warns(PrivacyWarning):
        service.start()
    with contextlib.closing(service):
        assert service.tables["people"].schema.guessed
        custodian = service.authenticate(service.custodian_token())
        assert ("draft trusted", "people") in [(row["what"], row["table"]) for row in service.audit_log(custodian)]


@pytest.mark.parametrize(
    ("deadline", "max_rows", "moment"),
    [(None, None, None), (None, 1_000, "auto"), ("none", 1_000, None), (0.5, 1_000, 0.5), ("auto", 1_000, "auto")],
)
def test_declared_bounds_make_a_deadline(tmp_path: Path, deadline: Any, max_rows: int | None, moment: Any) -> None:
    table = replace(settings(tmp_path).tables[0], deadline=deadline, max_rows=max_rows)
    assert list(table.problems()) == []
    assert table.fixed_moment == moment


def test_a_shared_table_needs_a_ledger_in_postgresql(tmp_path: Path) -> None:
    (problem,) = replace(settings(tmp_path).tables[0], shared=True).problems()
    assert "not in PostgreSQL" in problem


AUTO = """
directory = "kept"
[[table]]
name = "pay"
source = "pay.csv"
schema = "pay.schema.toml"
epsilon = 1
delta = 1e-9
alpha = 0.2
"""


def write_pay(folder: Path) -> Path:
    """A table with a column whose bins are to be drawn, and settings without their price."""
    lines = "".join(f"{(i * 7919) % 90_000},{i % 2}\n" for i in range(2_000))
    (folder / "pay.csv").write_text(f"income,smoker\n{lines}")
    (folder / "pay.schema.toml").write_text(
        '[[column]]\nname = "income"\nkind = "number"\nlow = 0\nhigh = 1000000\nprecision = 0\nbins = "auto"\n'
        '[[column]]\nname = "smoker"\nkind = "boolean"\n'
    )
    (folder / "maquette.toml").write_text(AUTO)
    return folder / "maquette.toml"


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("", r'income declared with bins = "auto" and no price: write bins_epsilon = 0.1'),
        ("bins_epsilon = 1.5", "bins_epsilon is 1.5; it lies between 0 and epsilon, 1"),
        ("bins_epsilon = 0", "bins_epsilon is 0; it lies between 0 and epsilon, 1"),
    ],
)
def test_bins_to_be_drawn_need_a_price_before_anything_opens(line: str, said: str, tmp_path: Path) -> None:
    file = write_pay(tmp_path)
    file.write_text(AUTO + line)
    with pytest.raises(ConfigError, match=said):
        load_config(file).check()
    assert not (tmp_path / "kept").exists()


@pytest.mark.thorough
def test_bins_are_drawn_once_for_the_named_price(tmp_path: Path) -> None:
    file = write_pay(tmp_path)
    file.write_text(AUTO + "bins_epsilon = 0.25\n")
    config = load_config(file)
    config.check()
    spent = []
    for bins_epsilon in (0.25, None):  # opened again, the ledger has the bins, and no price is needed
        again = replace(config, tables=(replace(config.tables[0], bins_epsilon=bins_epsilon),))
        again.check()
        service = Service(again)
        service.start()
        with contextlib.closing(service):
            table = service.tables["pay"]
            assert not table.curator.undrawn
            assert 2 <= table.schema["income"].known <= 40
            charge = table.curator.bins_charge
            assert charge is not None
            spent.append(table.curator.budget.accountant.loss(charge.units, 1e-9).epsilon)
    assert spent == [pytest.approx(0.25, rel=0.01)] * 2


def test_a_ledger_that_has_not_drawn_bins_charges_nothing_without_a_price(tmp_path: Path) -> None:
    from maquette import Budget, Curator, Schema, open_table

    config = load_config(write_pay(tmp_path))
    kept = tmp_path / "kept" / "pay.ledger"
    kept.parent.mkdir()
    table = open_table(tmp_path / "pay.csv", Schema.load(tmp_path / "pay.schema.toml"))
    with Curator(table, Budget(epsilon=1, delta=1e-9), ledger=kept):
        pass
    config.check()
    service = Service(config)
    with contextlib.closing(service), pytest.raises(SchemaError, match=r"bins_epsilon = 0.1 in the settings of the t"):
        service.start()
    with Curator(table, Budget(epsilon=1, delta=1e-9), ledger=kept) as curator:
        assert curator.spent.units == 0


def test_another_name_of_a_session_begins_anew_with_what_is_left(tmp_path: Path) -> None:
    """A session that can no longer be continued does not keep its table from being served."""
    config = settings(tmp_path)
    spent = []
    for name in ("online", "second", "online"):
        service = Service(replace(config, tables=(replace(config.tables[0], session=name),), analysts=()))
        service.start()
        with contextlib.closing(service):
            table = service.tables["people"]
            table.session.ask("SELECT count(*) FROM people WHERE smoker")
            spent.append(table.curator.ledger.spent())
    assert 0 < spent[0] < spent[1] == spent[2]


def test_large_tables_are_counted_from_planes_that_may_be_kept(tmp_path: Path) -> None:
    """Kept planes are the custodian's alone, are read at the next start, and are refused if the rows changed."""
    config = settings(tmp_path)
    planes = tmp_path / "planes"
    table = replace(config.tables[0], planes=str(planes), keep_planes=True)
    config = replace(config, tables=(table,), analysts=(), groups=())
    with mock.patch("maquette.curator.open._SMALL", 1):
        with house(config) as made:
            first = made.ask("ada", "smoker AND a", Idempotency_Key="k").json()
            assert planes.stat().st_mode & 0o777 == 0o700
            assert {path.stat().st_mode & 0o777 for path in planes.iterdir()} == {0o600}
        with house(config) as made, mock.patch("maquette.curator.open._load", side_effect=AssertionError("encoded")):
            assert made.ask("ada", "smoker AND a", Idempotency_Key="k").json() == first
            assert made.ask("ada", "smoker AND b").status_code == 200
        with Path(table.source).open("a") as rows:
            rows.write("5,Paris,yes,yes,no\n")
        with pytest.raises(MaquetteError, match="belong to another table"):
            Service(config).start()


def test_planes_have_a_folder_of_their_own(tmp_path: Path) -> None:
    config = settings(tmp_path)
    one, other = (replace(table, planes=str(tmp_path / "planes")) for table in config.tables)
    with pytest.raises(ConfigError, match="have the same planes"):
        replace(config, tables=(one, other)).check()
    with pytest.raises(ConfigError, match="keep_planes is set"):
        replace(config, tables=(replace(config.tables[0], keep_planes=True),), analysts=()).check()
    with pytest.raises(ConfigError, match="keep_planes is for one process"):
        replace(config, tables=(replace(one, keep_planes=True, shared=True),), analysts=()).check()
    (tmp_path / "maquette.toml").write_text(FILE.replace("epsilon = 1\n", 'epsilon = 1\nplanes = "kept"\n'))
    assert load_config(tmp_path / "maquette.toml").tables[0].planes == str(tmp_path / "kept")
