"""psql: what is typed, and what it asks the catalogue behind its backslash commands."""

from __future__ import annotations

import os
import subprocess

import pytest
from pg_door import Door

if subprocess.run(["which", "psql"], capture_output=True, check=False).returncode:
    pytest.skip("psql is not installed: apt-get install postgresql-client", allow_module_level=True)

COMMANDS = [
    *("\\d", "\\d people", "\\d+ people", "\\dt", "\\dt+", "\\dv", "\\dn", "\\dn+", "\\l", "\\l+", "\\du", "\\df"),
    *("\\di", "\\dT", "\\dp", "\\conninfo", "\\encoding", "\\db", "\\dx", "\\dm", "\\ds", "\\dD", "\\dC", "\\d peop*"),
    *("\\dS pg_class", "\\dO", "\\dg", "\\dE", "\\dy", "\\drds", "\\ddp", "\\dRp", "\\det", "\\des", "\\deu", "\\dew"),
    *("\\dF", "\\dP", "\\dX", "\\dconfig", "\\dL", "\\da", "\\do +", "\\z", "\\dd", "\\dc", "\\dA", "\\d nothing"),
]


def psql(
    door: Door,
    *commands: str,
    user: str = "alice",
    variables: dict[str, str] | None = None,
    **environment: str,
) -> subprocess.CompletedProcess[str]:
    """Run psql with these commands."""
    words = ["psql", door.dsn(user, sslmode="require").replace(f"password={door.tokens[user]}", ""), "-X"]
    for one in commands:
        words += ["-c", one]
    for name, value in (variables or {}).items():
        words += ["-v", f"{name}={value}"]
    known = {**os.environ, "PGPASSWORD": door.tokens[user], "LC_ALL": "C.UTF-8", **environment}
    return subprocess.run(words, capture_output=True, text=True, env=known, timeout=60, check=False)


@pytest.mark.thorough
def test_a_first_session(door: Door) -> None:
    said = psql(
        door,
        "\\dt",
        "EXPLAIN SELECT count(*) FROM people WHERE age >= 65",
        "SELECT region, count(*), avg(age) FROM people GROUP BY region",
        "SET maquette.intervals = on",
        "SELECT count(*) AS n FROM people",
        "SHOW maquette.budget",
        "\\copy (SELECT smoker, count(*) FROM people GROUP BY smoker) TO STDOUT CSV HEADER",
    )
    assert said.returncode == 0, said.stderr
    assert "public | people | table" in said.stdout
    assert "route: " in said.stdout
    assert "n_low" in said.stdout
    assert "smoker,count,count_low,count_high" in said.stdout
    assert "NOTICE:  measured: cost epsilon" in said.stderr


@pytest.mark.thorough
def test_backslash_commands(door: Door) -> None:
    """Every command of psql that describes something is answered; what does not exist here is empty."""
    before = door.units()
    said = psql(door, *COMMANDS)
    assert "ERROR" not in said.stderr, said.stderr
    assert door.units() == before
    assert "integer: 100 levels, 0 to 99" in said.stdout
    assert "maquette | maquette | UTF8" in said.stdout
    assert 'Did not find any relation named "nothing"' in said.stderr


def test_fetches_in_steps(door: Door) -> None:
    """With FETCH_COUNT psql declares a cursor and fetches from it."""
    asked = ("SET maquette.sample_rows = 250", "SELECT age FROM people")
    said = psql(door, *asked, variables={"FETCH_COUNT": "100"})
    assert said.returncode == 0, said.stderr
    assert said.stdout.count("\n") >= 250


def test_errors_point_at_their_place(door: Door) -> None:
    said = psql(door, "SELECT count(*) FROM people WHERE agee > 3", "SELECT 1; SELECT count(*) FROM peple; SELECT 2")
    assert "LINE 1: SELECT count(*) FROM people WHERE agee > 3" in said.stderr
    assert "did you mean age?" in said.stderr
    assert "did you mean people" in said.stderr
    assert "2" not in said.stdout.split("?column?")[-1]


def test_a_wrong_token(door: Door) -> None:
    said = psql(door, "SELECT 1", PGPASSWORD="mqt_" + "x" * 43)
    assert 'password authentication failed for user "alice"' in said.stderr
