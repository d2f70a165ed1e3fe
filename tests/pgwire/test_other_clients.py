"""Clients that are not Python: pgJDBC, node-postgres, psqlODBC, R. Each is a real program against a real door."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest
from pg_door import Door

JAR = Path("/usr/share/java/postgresql.jar")
NODE = Path(os.environ.get("MAQUETTE_NODE_MODULES", "build/node/node_modules")).resolve()
HERE = Path(__file__).parent
ODBC = "PostgreSQL Unicode"


def run(*words: str, **environment: str) -> str:
    done = subprocess.run(
        words, capture_output=True, text=True, timeout=120, check=False, env={**os.environ, **environment}
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.thorough
@pytest.mark.skipif(not JAR.exists() or not shutil.which("java"), reason="apt-get install libpostgresql-jdbc-java")
def test_pgjdbc(door: Door) -> None:
    """Metadata, parameters in text and binary, fetch sizes, errors with their states, warnings, COPY by CopyManager."""
    before = door.units()
    url = f"jdbc:postgresql://127.0.0.1:{door.port}/maquette?sslmode=require"
    said = run("java", "-cp", str(JAR), str(HERE / "Jdbc.java"), url, "alice", door.tokens["alice"])
    lines = dict(line.split(": ", 1) for line in said.strip().split("\n"))
    assert lines["tables"] == "people visits"
    assert lines["columns"] == "age int8, region text, smoker bool, height float8, born date"
    assert lines["keys"] == "0 0 0 0"
    assert lines["fetched"] == "1000"
    assert lines["regions"] == "4"
    assert lines["prepared"] == "ok"
    assert lines["state"] == "42P01"
    assert "cost" in lines["warning"] or "free" in lines["warning"]
    assert lines["copied"] == "4 5"
    assert lines["binary"] == "1000 PGCOPY"
    assert lines["refused copy"] == "42P01"
    assert lines["after it"] == "1"
    assert door.units() >= before


@pytest.mark.thorough
@pytest.mark.skipif(
    not all((NODE / name).exists() for name in ("pg", "pg-copy-streams")),
    reason="npm install pg pg-copy-streams, and MAQUETTE_NODE_MODULES=its node_modules",
)
def test_node_postgres(door: Door) -> None:
    said = run(
        "node",
        str(HERE / "client.cjs"),
        NODE_PATH=str(NODE),
        PGHOST="127.0.0.1",
        PGPORT=str(door.port),
        PGUSER="alice",
        PGDATABASE="maquette",
        PGPASSWORD=door.tokens["alice"],
    )
    assert said.split("\n")[:4] == ["4 regions", "prepared ok", "42P01", "notices 1"]
    copies = said.split("\n")[4:8]
    assert copies == [
        "copied region,n and 4 rows",
        "copied 1000 rows",
        "refused copy 42P01",
        "after it 1",
    ]


@pytest.mark.thorough
@pytest.mark.skipif(
    not shutil.which("isql")
    or ODBC not in (Path("/etc/odbcinst.ini").read_text() if Path("/etc/odbcinst.ini").exists() else ""),
    reason="apt-get install odbc-postgresql unixodbc",
)
def test_odbc(door: Door) -> None:
    """What Excel asks through psqlODBC: tables, columns, a count, rows."""
    link = f"Driver={ODBC};Server=127.0.0.1;Port={door.port};Database=maquette;Uid=alice;Pwd={door.tokens['alice']};"
    done = subprocess.run(
        ["isql", "-k", link + "SSLMode=require", "-b", "-v"],
        input="help\nhelp people\nselect count(*) from people\nselect * from people limit 3\n",
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert "ERROR" not in done.stdout, done.stdout
    assert "people" in done.stdout
    assert "SQLRowCount returns 5" in done.stdout
    assert "3 rows fetched" in done.stdout


def has_r() -> bool:
    """Whether R and a driver of PostgreSQL for it are installed."""
    asked = "q(status = !any(c('RPostgres', 'RPostgreSQL') %in% rownames(installed.packages())))"
    return (
        bool(shutil.which("Rscript"))
        and not subprocess.run(["Rscript", "-e", asked], capture_output=True, check=False, timeout=120).returncode
    )


@pytest.mark.thorough
def test_r(door: Door) -> None:
    """DBI: tables, fields, a question, parameters, fetches in steps, a whole table, an error."""
    if not has_r():
        pytest.skip("R has no driver for PostgreSQL here: apt-get install r-cran-rpostgresql")
    said = run(
        "Rscript",
        str(HERE / "client.R"),
        PGHOST="127.0.0.1",
        PGPORT=str(door.port),
        PGUSER="alice",
        PGDATABASE="maquette",
        PGPASSWORD=door.tokens["alice"],
        PGSSLMODE="require",
    )
    lines = dict(line.split(": ", 1) for line in said.strip().split("\n") if ": " in line)
    found = {name: text.split() for name, text in lines.items()}
    assert {"people", "visits"} <= set(found["tables"])
    assert found["exists"] == ["TRUE", "FALSE"]
    assert found["fields"] == ["age", "region", "smoker", "height", "born"]
    assert found["groups"] == ["4", "TRUE", "TRUE"]
    assert found["parameters"] == ["TRUE"]
    assert found["fetched"] == ["40", "960", "Date", "logical"]
    assert found["read"] == ["1000", "5"]
    assert found["wrong"] == ["TRUE"]
