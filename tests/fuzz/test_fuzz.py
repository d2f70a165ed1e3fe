"""A bounded run of every fuzz target, and that the fuzzer sees what it looks for; `benchmarks/fuzz.py` runs more."""

from __future__ import annotations

import os
import random
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import fuzz_runner
import pytest
from fuzz_runner import Broken, Target, made, run, run_in_workers
from fuzz_targets import TARGETS, target_of

from maquette.errors import QueryError, SchemaError

COUNTS = {"sql": 6_000, "predicate": 6_000, "schema": 6_000, "maq": 1_500, "ledger": 2_000}
PARTS = 5  # each target's inputs are tried in this many parts


@pytest.mark.thorough
@pytest.mark.parametrize("part", range(PARTS))
@pytest.mark.parametrize("name", TARGETS)
def test_only_documented_errors_in_bounded_time_and_memory(name: str, part: int) -> None:
    target, count = target_of(name), COUNTS[name] // PARTS
    run(target, seed=0, first=0, count=1)  # what is loaded once belongs to no input
    outcome = run(target, seed=3, first=part * count, count=count)
    assert outcome.found == 0, outcome.findings[:3]
    accepted = sum(times for word, times in outcome.outcomes.items() if not word[0].isupper())
    assert count / 30 < accepted < count, outcome.outcomes


def test_a_target_is_built_with_what_its_inputs_load() -> None:
    """Otherwise the input that loads it is found to be slow."""
    lines = (
        "import sys",
        "from fuzz_targets import target_of",
        "target_of('predicate')",
        "assert 'duckdb' in sys.modules",
    )
    path = os.pathsep.join([str(Path(__file__).parent), *sys.path])
    subprocess.run([sys.executable, "-c", "; ".join(lines)], check=True, env={**os.environ, "PYTHONPATH": path})


@pytest.mark.thorough(fast=1)
@pytest.mark.parametrize("name", ["sql", "schema", "maq", "ledger"])
def test_an_input_is_a_function_of_its_number(name: str) -> None:
    target = target_of(name)
    assert [made(target, 5, number) for number in range(20)] == [made(target, 5, number) for number in range(20)]
    assert made(target, 5, 1) != made(target, 6, 1)


def _faulty(number: int) -> str:
    match number:
        case 3:
            raise KeyError("not documented")
        case 5:
            raise SchemaError("of another target")
        case 7:
            raise Broken("a property")
        case 9:
            raise QueryError("x" * 20_000)
        case 11:
            raise QueryError("\ud800")
        case 13:
            end = time.process_time() + 0.2
            while time.process_time() < end:
                pass
        case 15:
            bytearray(300 * 2**20)
        case 17:
            raise RecursionError
    raise QueryError("documented")


def _numbered(fault: object) -> Target:
    counted = iter(range(10_000))
    return Target("faulty", lambda rng: next(counted), fault, (QueryError,), seconds=0.1)  # type: ignore[arg-type]


@pytest.mark.thorough
def test_the_fuzzer_sees_every_kind_of_fault() -> None:
    outcome = run(_numbered(_faulty), seed=0, first=0, count=20)
    assert [finding["input"] for finding in outcome.findings] == [3, 5, 7, 9, 11, 13, 15, 17]


def _endless(_: int) -> str:
    while True:
        pass


def test_an_endless_input_is_interrupted() -> None:
    outcome = run(_numbered(_endless), seed=0, first=0, count=1)
    assert outcome.outcomes == {"too slow": 1}


def _crashing(name: str) -> Target:
    def fall(given: int) -> str:
        if given == 30:
            os.kill(os.getpid(), signal.SIGKILL)
        raise QueryError("documented")

    return Target(name, _number, fall, (QueryError,))


def _number(rng: random.Random) -> int:
    return NUMBERS[rng.getstate()[1][:5]]


NUMBERS = {random.Random(2**40 + number).getstate()[1][:5]: number for number in range(100)}


def test_a_crash_is_a_finding_and_the_rest_goes_on() -> None:
    outcome = run_in_workers("crashing", 1, first=0, count=100, workers=2, target_of=_crashing)
    assert outcome.count == 100
    assert [finding["input"] for finding in outcome.findings] == [30]
    assert outcome.findings[0]["problem"] == "the process ended with exit code -9, by SIGKILL"
    assert outcome.outcomes["crashed"] == 1


def _sleeping(name: str) -> Target:
    def fall_asleep(given: int) -> str:
        if given == 30:
            time.sleep(600)  # of no processor time, so that the deadline of an input does not end it
        raise QueryError("documented")

    return Target(name, _number, fall_asleep, (QueryError,))


def test_a_hang_is_told_from_a_crash(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fuzz_runner._Worker, "patience", 3.0)
    outcome = run_in_workers("sleeping", 1, first=28, count=10, workers=1, target_of=_sleeping)
    assert outcome.count == 10
    assert outcome.outcomes["hung"] == 1
    (finding,) = outcome.findings
    assert finding["input"] == 30
    assert re.match(r"the process hung: no other input for [3-9] s, in state S after \d+ s", finding["problem"])


def test_a_run_may_end_early_and_says_how_far_it_came() -> None:
    outcome = run_in_workers("sql", 1, first=0, count=100_000, workers=1, target_of=target_of, minutes=1e-6)
    assert outcome.count == sum(outcome.outcomes.values()) < 100_000
    assert outcome.found == 0


SELECT = "SELECT sex, count(*) AS n FROM people GROUP BY sex"


@pytest.mark.parametrize(
    ("text", "written", "broken"),
    [
        (SELECT, "SELECT sex, count(*) AS m FROM people GROUP BY sex", "titles"),
        (SELECT, "SELECT sex, count(*) AS n FROM people WHERE smoker GROUP BY sex", "another question"),
        (SELECT, "SELECT sex, count(*) AS n FROM people GROUP BY nothing", "refused when written again"),
        ("age % 2 = 0", "age % 2 = 1", "another question"),
        ("age % 2 = 0", "age % 2 = 0 AND nothing", "refused when written again"),
        ("age = 2", "age = 3", "another question"),
    ],
)
def test_the_fuzzer_of_sql_compares_what_is_written_again(
    monkeypatch: pytest.MonkeyPatch, text: str, written: str, broken: str
) -> None:
    import fuzz_sql

    assert fuzz_sql.run_sql((0, text))
    for writer in ("select_text", "tree_text", "condition_text"):
        monkeypatch.setattr(fuzz_sql, writer, lambda given: written)
    with pytest.raises(Broken, match=broken):
        fuzz_sql.run_sql((0, text))
