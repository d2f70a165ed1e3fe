"""Sources that cannot be read here: the refusal names a way out, and quotes no address: it may hold a password."""

from __future__ import annotations

from pathlib import Path

import duckdb
import pytest

import maquette as mq
from maquette.curator.table import engine_of
from maquette.errors import UnreadableSource

SCHEMA = mq.Schema([mq.Boolean("a")])


@pytest.mark.parametrize(
    ("kind", "told"),
    [
        ("mysql", "MySQL cannot be read"),
        ("mariadb", "MariaDB cannot be read"),
        ("snowflake", "begin with snowflake://"),
    ],
)
@pytest.mark.parametrize("query", [None, "SELECT a FROM t"])
def test_an_address_that_is_not_read_is_refused_without_its_password(kind: str, told: str, query: str | None) -> None:
    with pytest.raises(UnreadableSource, match=told) as refusal:
        mq.open_table(f"{kind}://someone:hunter2@db.example/people", SCHEMA, query=query)
    assert "hunter2" not in str(refusal.value)
    assert "db.example" not in str(refusal.value)


def test_a_connection_with_an_attached_database_is_read(tmp_path: Path) -> None:
    """The way out that the refusal of MySQL names; here the attached database is DuckDB's own."""
    with duckdb.connect(str(tmp_path / "other.db")) as other:
        other.execute("CREATE TABLE t AS SELECT true AS a FROM range(7)")
    with duckdb.connect() as connection:
        connection.execute(f"ATTACH '{tmp_path}/other.db' AS other (READ_ONLY)")
        table = mq.open_table(connection, SCHEMA, query="SELECT a FROM other.t")
        assert engine_of(table).counts(["a"]).tolist() == [0, 7]


@pytest.mark.parametrize(("kind", "mark"), [("delta", "_delta_log"), ("iceberg", "metadata")])
def test_a_lake_without_its_extension_is_refused(
    kind: str, mark: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path / "home"))  # where DuckDB looks for extensions
    (tmp_path / "lake" / mark).mkdir(parents=True)
    with pytest.raises(UnreadableSource, match=f"INSTALL {kind}"):
        mq.open_table(tmp_path / "lake", SCHEMA)
