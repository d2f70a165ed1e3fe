"""Sessions that end and go on: restarts, kill -9, threads, analysts, and ledgers that no longer fit."""

from __future__ import annotations

import functools
import json
import os
import random
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from session_checks import SeededNoise
from session_gates import numbers

import maquette as mq
from maquette.audit.reference import ScriptedNoise
from maquette.curator import Curator
from maquette.errors import LedgerCorrupted, LedgerError, LedgerLocked, LedgerMismatch, MaquetteError
from maquette.session import Session

KILLS = Path(__file__).with_name("kill_sessions.py")
SCHEMA = mq.Schema(
    [mq.Integer("age", 0, 99, width=20), mq.Category("region", ["north", "east", "south"]), mq.Boolean("smoker")]
)
SEEDS = (1, 2, 19, 33, 44, 48)
PURE, ZCDP = mq.Budget(epsilon=3.0), mq.Budget(epsilon=3.0, delta=1e-9)
QUESTIONS = [
    "smoker",
    "age >= 60 AND smoker",
    "age < 40 OR region = 'east'",
    "age >= 20 AND smoker OR region = 'south' AND NOT smoker",
    "SELECT region, count(*) FROM people GROUP BY region",
    "SELECT avg(age) FROM people WHERE smoker",
    "SELECT smoker, sum(age) AS years, count(*) FROM people WHERE region <> 'north' GROUP BY smoker",
    "SELECT count(*) FROM people",
    "age BETWEEN 20 AND 59",
]


def people(rows: int = 4_000, seed: int = 3) -> mq.PrivateTable:
    rng = np.random.default_rng(seed)
    return mq.open_table(
        {
            "age": rng.integers(0, 100, rows).tolist(),
            "region": rng.choice(["north", "east", "south"], rows, p=[0.5, 0.3, 0.2]).tolist(),
            "smoker": (rng.random(rows) < 0.25).tolist(),
        },
        SCHEMA,
    )


@functools.cache
def opened_table() -> mq.PrivateTable:
    return people()


@contextmanager
def opened(path: Path | None, budget: mq.Budget = ZCDP, **named: Any) -> Iterator[tuple[Curator, Session]]:
    curating = {key: named.pop(key) for key in ("relation", "noise", "anchor") if key in named}
    with Curator(named.pop("table", None) or opened_table(), budget, ledger=path, **curating) as curator:
        yield curator, mq.online(curator, **{"alpha": 0.05, "simultaneous": False, **named})


@pytest.mark.thorough(fast=1)
@pytest.mark.parametrize("simultaneous", [False, True])
@pytest.mark.parametrize("relation", ["add-remove", "replace"])
@pytest.mark.parametrize("budget", [PURE, ZCDP], ids=["pure", "zcdp"])
def test_a_restart_repeats_every_answer_in_any_order(
    tmp_path: Path, budget: mq.Budget, relation: str, simultaneous: bool
) -> None:
    setting: dict[str, Any] = {"relation": relation, "simultaneous": simultaneous, "alpha": 0.1}
    with opened(tmp_path / "ledger", budget, **setting) as (curator, session):
        answers = {question: session.ask(question) for question in QUESTIONS}
        promised = [question for question in QUESTIONS if "-" not in _promises(answers[question])]
        digest, spent = session._record.transcript.digest, curator.ledger.spent()
    assert len(promised) > 3
    for seed in range(3):
        order = random.Random(seed).sample(promised, len(promised))
        with opened(tmp_path / "ledger", budget, **setting) as (curator, session):
            assert session._record.transcript.digest == digest
            for question in order:
                assert numbers(session.ask(question)) == numbers(answers[question]), question
                assert numbers(session.ask(question)) == numbers(answers[question]), question
            assert curator.ledger.spent() == spent


def _promises(answer: mq.Answered) -> list[str]:
    return ["-" if one.guarantee is None else "+" for one in answer.numbers]


def test_what_was_asked_between_restarts_goes_on_as_if_there_had_been_none(tmp_path: Path) -> None:
    """One question per life: later purchases build on earlier ones, and no answer ever moves."""
    told: dict[str, Any] = {}
    for question in QUESTIONS:
        with opened(tmp_path / "ledger") as (_, session):
            told[question] = numbers(session.ask(question))
            assert all(numbers(session.ask(text)) == value for text, value in told.items())


def test_a_histogram_session_stays_one_after_a_restart(tmp_path: Path) -> None:
    with opened(tmp_path / "ledger", PURE, warm_start="histogram", alpha=0.1) as (curator, session):
        answers = {question: numbers(session.ask(question)) for question in QUESTIONS}
        spent = curator.ledger.spent()
    for start in ("auto", "none", "histogram"):
        with opened(tmp_path / "ledger", PURE, warm_start=start, alpha=0.1) as (curator, session):
            assert {question: numbers(session.ask(question)) for question in QUESTIONS} == answers
            assert curator.ledger.spent() == spent


def test_a_guarded_answer_stays_the_same_after_a_restart(tmp_path: Path) -> None:
    """What a guard let pass is recorded; the guard itself ends with its process, and its charge is kept."""
    with opened(tmp_path / "ledger", mq.Budget(rho=50.0, delta=1e-9), noise=SeededNoise(1)) as (curator, session):
        session.ask_many(["smoker", "age >= 60", "region = 'east'"])
        session._policy._arm()
        assert session._policy.armed
        answers = {text: session.ask(text) for text in ("smoker AND region = 'east'", "age >= 60 AND smoker")}
        digest, spent = session._record.transcript.digest, curator.ledger.spent()
    assert "hypothesis" in {answer.source for answer in answers.values()}
    with opened(tmp_path / "ledger", mq.Budget(rho=50.0, delta=1e-9)) as (curator, session):
        assert not session._policy.armed
        assert session._record.transcript.digest == digest
        for text, answer in answers.items():
            assert numbers(session.ask(text)) == numbers(answer)
        assert curator.ledger.spent() == spent


def test_a_session_whose_budget_is_gone_still_opens_and_repeats_its_answers(tmp_path: Path) -> None:
    budget = mq.Budget(epsilon=0.03)
    asked = "age >= 20 AND smoker OR region = 'south' AND NOT smoker"
    with opened(tmp_path / "ledger", budget, relation="replace", warm_start="none") as (_, session):
        first = session.ask(asked)
        assert first.guarantee is not None
        assert session.ask("age < 40 OR NOT smoker").guarantee is None
    with opened(tmp_path / "ledger", budget, relation="replace", warm_start="none") as (_, session):
        assert numbers(session.ask(asked)) == numbers(first)


def test_two_analysts_get_one_answer_and_the_first_one_pays() -> None:
    with opened(None) as (curator, session):
        before = curator.ledger.spent()
        ann, bob = (session.ask("age >= 60 AND smoker", analyst=name) for name in ("ann", "bob"))
        assert numbers(ann) == numbers(bob)
        assert (ann.source, bob.source) == ("measured", "cache")
        assert session.spent_by("ann").units == ann.cost.units == curator.ledger.spent() - before > 0
        assert session.spent_by("bob").units == bob.cost.units == 0


def test_two_sessions_of_one_name_on_one_curator_are_one_session() -> None:
    with opened(None) as (curator, first):
        second = mq.online(curator, alpha=0.05, simultaneous=False)
        spent = curator.ledger.spent()
        one = first.ask("smoker")
        paid = curator.ledger.spent() - spent
        assert numbers(second.ask("smoker")) == numbers(one)
        assert curator.ledger.spent() == spent + paid
        assert numbers(first.ask("age >= 60")) == numbers(second.ask("age >= 60"))
        assert numbers(second.ask("region = 'east' AND smoker")) == numbers(first.ask("region = 'east' AND smoker"))


def test_two_sessions_of_one_name_may_each_arm_a_guard() -> None:
    with opened(None, mq.Budget(rho=50.0, delta=1e-9)) as (curator, first):
        second = mq.online(curator, alpha=0.05, simultaneous=False)
        for session in (first, second, first):
            session._policy._arm()
            assert session._policy.armed
        assert len({charge.id for charge in curator.ledger.charges() if '"guard"' in charge.description}) == 3


def test_a_session_may_be_opened_while_another_of_its_name_is_asking() -> None:
    """Opening buys the number of rows more precisely; that must not come between another session and its charge."""
    with opened(None, mq.Budget(rho=50.0, delta=1e-9)) as (curator, session):
        failures: list[BaseException] = []

        def attempt(work: Any, values: Any) -> None:
            try:
                for value in values:
                    work(value)
            except BaseException as failure:
                failures.append(failure)

        def reopen(alpha: float) -> None:
            mq.online(curator, alpha=alpha, simultaneous=False)

        works: list[tuple[Any, Any]] = [(session.ask, QUESTIONS), *[(reopen, [0.04, 0.03, 0.02, 0.015])] * 2]
        threads = [threading.Thread(target=attempt, args=work, daemon=True) for work in works]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(timeout=120)
        assert not any(thread.is_alive() for thread in threads), "a deadlock"
        assert not failures
        assert len({charge.id for charge in curator.ledger.charges()}) == session._record.transcript.moment


def test_threads_pay_once_and_hear_the_same() -> None:
    """Eight threads ask the same questions in different orders, through two session objects."""
    with opened(None) as (curator, session):
        sessions = [session, mq.online(curator, alpha=0.05, simultaneous=False)]
        heard: list[dict[str, Any]] = [{} for _ in range(8)]
        failures: list[BaseException] = []
        start = threading.Barrier(len(heard))

        def ask(number: int) -> None:
            try:
                start.wait()
                for question in random.Random(number).sample(QUESTIONS, len(QUESTIONS)):
                    heard[number][question] = numbers(sessions[number % 2].ask(question, analyst=f"ann{number}"))
            except BaseException as failure:
                failures.append(failure)

        threads = [threading.Thread(target=ask, args=(number,), daemon=True) for number in range(len(heard))]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(timeout=120)
        assert not any(thread.is_alive() for thread in threads), "a deadlock"
        assert not failures
        assert all(answers == heard[0] for answers in heard)
        charges = list(curator.ledger.charges())
        analysts = sum(session.spent_by(f"ann{number}").units for number in range(len(heard)))
        assert sum(charge.units for charge in charges) == curator.ledger.spent()
        assert analysts + session.spent_by("custodian").units == curator.ledger.spent()
        spent = curator.ledger.spent()
        for question in QUESTIONS:
            session.ask(question)
        assert curator.ledger.spent() == spent


def test_a_batch_is_one_charge_and_costs_no_more_than_its_questions_one_by_one() -> None:
    questions = ["smoker", "age >= 60", "region = 'east'", "age >= 60 AND smoker"]
    with opened(None, ZCDP, rows=4_000) as (curator, session):
        before, spent = len(list(curator.ledger.charges())), curator.ledger.spent()
        answers = session.ask_many([*questions, questions[0]])
        assert len(list(curator.ledger.charges())) == before + 1
        together = curator.ledger.spent() - spent
        assert {one.cost.units for one in answers[:-1] if one.source == "measured"} == {together}
        assert numbers(answers[-1]) == numbers(answers[0])
    with opened(None, ZCDP, rows=4_000) as (curator, session):
        spent = curator.ledger.spent()
        for question in questions:
            session.ask(question)
        assert together <= (curator.ledger.spent() - spent) * 1.05


@pytest.mark.thorough
def test_looking_at_a_session_changes_nothing_about_it() -> None:
    """Explaining, displaying and planning are free of charge and of consequences."""
    bought = []
    for curious in (False, True):
        with opened(None, PURE, relation="replace", noise=ScriptedNoise([0] * 2_000)) as (curator, session):
            seen: list[str] = []
            for question in QUESTIONS:
                if curious:
                    for other in QUESTIONS:
                        session.explain(other)
                    seen += [session.outlook(), session.outlook(), session._repr_html_(), repr(session)]
                    assert seen[-4] == seen[-3]
                session.ask(question)
            bought.append([(charge.units, charge.description) for charge in curator.ledger.charges()])
    assert bought[0] == bought[1]


class Seeded(ScriptedNoise):
    """Noise of about the right size, the same in every run of a test."""

    def __init__(self, seed: int) -> None:
        super().__init__([])
        self._rng = np.random.default_rng(seed)

    def laplace(self, scale: Any, size: int) -> Any:
        return np.rint(self._rng.laplace(0.0, float(scale), size)).astype(np.int64)

    def gaussian(self, variance: Any, size: int) -> Any:
        return np.rint(self._rng.normal(0.0, float(variance) ** 0.5, size)).astype(np.int64)


def condition(rng: random.Random, depth: int = 0) -> str:
    simple = [
        f"age >= {20 * rng.randrange(6)}",
        f"region = '{rng.choice(['north', 'east', 'south'])}'",
        rng.choice(["smoker", "alive", "kind = 'person'"]),
        f"income < {rng.choice([-10, 0, 10])}",
    ]
    if depth == 3 or rng.random() < 0.6:
        return rng.choice(simple)
    one, two = condition(rng, depth + 1), condition(rng, depth + 1)
    return rng.choice([f"({one} AND {two})", f"({one} OR {two})", f"NOT ({one})"])


def statement(rng: random.Random) -> str:
    if rng.random() < 0.5:
        return condition(rng)
    groups = rng.sample(["region", "smoker", "alive", "kind", "age"], rng.randrange(3))
    totals = rng.sample(["count(*)", "sum(age)", "avg(age)", "sum(income)", "avg(income)"], rng.randrange(1, 3))
    held = f" WHERE {condition(rng)}" if rng.random() < 0.6 else ""
    ending = f" GROUP BY {', '.join(groups)}" if groups else ""
    return f"SELECT {', '.join(groups + totals)} FROM people{held}{ending}"


@pytest.fixture(scope="module")
def mixed() -> mq.PrivateTable:
    """Columns of every kind: negative numbers, one level only, one value only."""
    rng, rows = np.random.default_rng(5), 3_000
    income = mq.Number("income", edges=[-50, -10, 0, 10, 80])
    schema = mq.Schema([*SCHEMA.columns, income, mq.Boolean("alive"), mq.Category("kind", ["person"])])
    columns: dict[str, Any] = {
        "age": rng.integers(0, 100, rows).tolist(),
        "region": rng.choice(["north", "east", "south"], rows).tolist(),
        "smoker": (rng.random(rows) < 0.3).tolist(),
        "income": rng.uniform(-50, 80, rows).tolist(),
        "alive": [True] * rows,
        "kind": ["person"] * rows,
    }
    return mq.open_table(columns, schema)


@pytest.mark.thorough(fast=1)
@pytest.mark.parametrize("seed", SEEDS)
def test_random_sessions_keep_their_word(tmp_path: Path, mixed: mq.PrivateTable, seed: int) -> None:
    """Three lives of a random session: what is paid for is promised, what was promised never changes."""
    rng = random.Random(seed)
    budget = rng.choice(
        [mq.Budget(epsilon=rng.choice([0.5, 3.0, 50.0])), mq.Budget(epsilon=rng.choice([0.5, 3.0, 50.0]), delta=1e-9)]
    )
    named: dict[str, Any] = {
        "alpha": rng.choice([0.1, 0.3]),
        "simultaneous": rng.random() < 0.5,
        "warm_start": rng.choice(["auto", "none", "histogram"]),
        "rows": rng.choice([None, 2_500]),
        "relation": rng.choice(["add-remove", "replace"]),
        "table": mixed,
    }
    heard: dict[str, Any] = {}
    for life in range(3):
        with opened(tmp_path / "ledger", budget, noise=Seeded(10 * seed + life), **named) as (curator, session):
            for text, before in heard.items():
                assert numbers(session.ask(text)) == before, text
            for _ in range(8):
                text, spent = statement(rng), curator.ledger.spent()
                foreseen = session.explain(text)
                assert curator.ledger.spent() == spent
                answer = session.ask(text)
                paid, promised = curator.ledger.spent() - spent, "-" not in _promises(answer)
                assert promised or not paid, f"paid, not promised: {text}"
                if promised and not session._policy.armed:
                    assert abs(paid - foreseen.cost.units) <= max(100, 1e-5 * paid), text
                if promised:
                    heard.setdefault(text, numbers(answer))


def test_where_rows_are_public_no_measurement_says_more_about_them(tmp_path: Path) -> None:
    """Marginals measured as asked also say how many rows there are; that must not change intervals on a restart."""
    questions = [
        "SELECT age, count(*) FROM people GROUP BY age",
        "SELECT sum(age) FROM people WHERE age >= 40",
        "SELECT age, sum(age) FROM people GROUP BY age",
    ]
    setting: dict[str, Any] = {"relation": "replace", "simultaneous": True, "alpha": 0.1, "warm_start": "none"}
    with opened(tmp_path / "ledger", **setting) as (curator, session):
        answers = {question: numbers(session.ask(question)) for question in questions}
        again = mq.online(curator, alpha=0.1, warm_start="none")
        assert all(numbers(again.ask(question)) == answers[question] for question in questions)
    with opened(tmp_path / "ledger", **setting) as (_, session):
        assert {question: numbers(session.ask(question)) for question in questions} == answers


@pytest.mark.parametrize("seed", range(6))
def test_a_question_with_several_needs_is_promised_once_paid(mixed: mq.PrivateTable, seed: int) -> None:
    """One charge may buy a part twice as precise for one goal and so with one more piece for another."""
    budget, noise = mq.Budget(epsilon=0.5, delta=1e-9), Seeded(seed)
    with opened(None, budget, table=mixed, noise=noise, simultaneous=True, alpha=0.1) as (curator, session):
        for question in ("smoker", "age >= 20"):
            session.ask(question)
        spent = curator.ledger.spent()
        answer = session.ask("SELECT kind, avg(income), sum(age) FROM people GROUP BY kind")
        assert curator.ledger.spent() == spent or "-" not in _promises(answer)


class Failing(ScriptedNoise):
    """Noise that fails when told to, after the charge."""

    broken = False

    def laplace(self, scale: Any, size: int) -> Any:
        if self.broken:
            raise MemoryError("no memory left")
        return super().laplace(scale, size)


def test_a_failure_after_the_charge_wastes_it_and_the_session_goes_on() -> None:
    noise = Failing([0] * 200)
    with opened(None, PURE, relation="replace", noise=noise) as (curator, session):
        noise.broken = True
        with pytest.raises(MemoryError):
            session.ask("smoker")
        wasted, noise.broken = curator.ledger.spent(), False
        assert wasted > 0
        answer = session.ask("smoker")
        assert answer.guarantee is not None
        assert curator.ledger.spent() >= 2 * wasted
        assert session.ask("age >= 60").guarantee is not None


def kill(kills: int, *variants: str) -> list[Any]:
    command = [sys.executable, str(KILLS), str(kills), *variants]
    environment = {**os.environ, "OPENBLAS_NUM_THREADS": "1", "NUMBA_NUM_THREADS": "1"}
    output = subprocess.run(command, check=True, capture_output=True, text=True, env=environment, timeout=300)
    return [json.loads(line) for line in output.stdout.splitlines()]


@pytest.mark.thorough
def test_kills_leave_no_conflict_no_overspend_and_every_answer_repeatable() -> None:
    plain, guarded = kill(13, "plain", "guarded")
    faults = ("conflicts", "not repeated at the end", "paid again", "decreased", "overspent")
    for report in (plain, guarded):
        assert {name: report[name] for name in faults} == dict.fromkeys(faults, 0), report
        assert min(report["told"], report["charges"]) > 10, report
    assert guarded["vouched"] > 0, guarded


@pytest.mark.thorough
@pytest.mark.parametrize("broken", ["forgets", "drifts"])
def test_the_same_judgement_catches_broken_sessions(broken: str) -> None:
    """Ten kills may miss it where a busy machine lets few answers out before each; fifty do not."""
    reports = (report for _ in range(5) for report in kill(10, broken))
    assert any(report["conflicts"] + report["not repeated at the end"] for report in reports)


def test_a_table_that_changed_is_refused(tmp_path: Path) -> None:
    with opened(tmp_path / "ledger") as (_, session):
        session.ask("smoker")
    with (
        pytest.raises(LedgerMismatch, match="its fingerprint differs"),
        opened(tmp_path / "ledger", table=people(4_001)),
    ):
        pass
    with pytest.raises(LedgerMismatch, match="limit"), opened(tmp_path / "ledger", mq.Budget(epsilon=4.0, delta=1e-9)):
        pass
    with pytest.raises(LedgerMismatch, match="relation"), opened(tmp_path / "ledger", relation="replace"):
        pass


def test_a_second_process_is_refused_while_the_session_is_open(tmp_path: Path) -> None:
    with opened(tmp_path / "ledger"), pytest.raises(LedgerLocked), opened(tmp_path / "ledger"):
        pass


@pytest.mark.parametrize("change", [{"alpha": 0.02}, {"beta": 0.001}, {"simultaneous": True}], ids=str)
def test_a_stricter_session_on_the_same_ledger_keeps_its_own_promise(tmp_path: Path, change: dict[str, Any]) -> None:
    """What was bought for a looser promise counts only as far as it goes: every interval is as wide as promised now."""
    budget = mq.Budget(rho=1.0, delta=1e-9)
    with opened(tmp_path / "ledger", budget) as (curator, session):
        loose = {question: session.ask(question) for question in QUESTIONS[:4]}
        spent = curator.ledger.spent()
    with opened(tmp_path / "ledger", budget, **change) as (curator, session):
        for question in QUESTIONS[:4]:
            answer = session.ask(f"SELECT count(*) FROM people WHERE {question}")
            assert answer.guarantee is not None
            assert (answer.high - answer.low) / 2 <= session.tolerance * (1 + 1e-5), question
        assert curator.ledger.spent() > spent
    with opened(tmp_path / "ledger", budget) as (curator, session):
        for question, answer in loose.items():  # and the looser one finds its answers as it left them
            assert numbers(session.ask(question)) == numbers(answer)


def test_a_looser_session_on_the_same_ledger_pays_nothing_for_what_is_known(tmp_path: Path) -> None:
    with opened(tmp_path / "ledger", alpha=0.03) as (curator, session):
        session.ask_many(QUESTIONS[:3])
        spent = curator.ledger.spent()
    with opened(tmp_path / "ledger", alpha=0.06) as (curator, session):
        assert all(session.ask(question).guarantee is not None for question in QUESTIONS[:3])
        assert curator.ledger.spent() == spent


def test_a_session_of_another_name_is_another_session(tmp_path: Path) -> None:
    with opened(tmp_path / "ledger") as (curator, session):
        first = session.ask("smoker")
        spent = curator.ledger.spent()
        other = mq.online(curator, alpha=0.05, simultaneous=False, name="other")
        assert other.ask("smoker").source == "measured"
        assert curator.ledger.spent() > spent
    for name in ("online", "other"):
        with opened(tmp_path / "ledger", name=name) as (curator, session):
            spent = curator.ledger.spent()
            assert session.ask("smoker").source == "derived"
            assert (session.ask("smoker").value == first.value) == (name == "online")
            assert curator.ledger.spent() == spent


@pytest.mark.parametrize("request_id", ["online:0", "online:first", "session:online", "rows:0"])
def test_charges_of_others_under_a_similar_name_are_left_alone(request_id: str) -> None:
    with Curator(opened_table(), ZCDP) as curator:
        curator.measure(["smoker"], rho=1e-4, request=request_id)
        for name in ("online", "rows"):
            assert mq.online(curator, alpha=0.05, simultaneous=False, name=name).ask("smoker").guarantee is not None


def _tampered(curator: Curator, change: Any) -> Any:
    """The ledger's charges with their notes changed, as a wrong program would have written them."""
    charges = curator.ledger.charges

    def changed() -> Any:
        for charge in charges():
            described = json.loads(charge.description)
            change(described.get("note"))
            object.__setattr__(charge, "description", json.dumps(described))
            yield charge

    return changed


def test_a_note_that_does_not_lead_to_the_recorded_state_is_refused(tmp_path: Path, monkeypatch: Any) -> None:
    def other_state(note: Any) -> None:
        note["state"] = "0" * 64

    def other_price(note: Any) -> None:
        note["units"] = [2 * units for units in note["units"]]

    with opened(tmp_path / "ledger") as (curator, session):
        session.ask("smoker")
        spent = curator.ledger.spent()
    for change, refusal in ((other_state, LedgerCorrupted), (other_price, LedgerError)):
        with Curator(opened_table(), ZCDP, ledger=tmp_path / "ledger") as curator:
            monkeypatch.setattr(curator.ledger, "charges", _tampered(curator, change))
            with pytest.raises(refusal) as told:
                mq.online(curator, alpha=0.05, simultaneous=False)
            assert curator.ledger.spent() == spent
            if refusal is LedgerCorrupted:
                assert "under another name" in str(told.value)


def test_a_ledger_edited_on_disk_is_refused(tmp_path: Path) -> None:
    with opened(tmp_path / "ledger") as (_, session):
        session.ask("smoker")
    content = (tmp_path / "ledger").read_bytes()
    place = content.rindex(b'"units"')
    (tmp_path / "ledger").write_bytes(content[:place] + b'"sunit"' + content[place + 7 :])
    with pytest.raises(MaquetteError, match="ledger"), opened(tmp_path / "ledger"):
        pass


def test_a_ledger_set_back_to_an_older_copy_is_refused(tmp_path: Path) -> None:
    ledger, anchor = tmp_path / "ledger", tmp_path / "anchor"
    with opened(ledger, anchor=anchor) as (_, session):
        session.ask("smoker")
    old = ledger.read_bytes()
    with opened(ledger, anchor=anchor) as (_, session):
        session.ask("age >= 60")
    ledger.write_bytes(old)
    with pytest.raises(LedgerCorrupted, match=r"older|anchor"), opened(ledger, anchor=anchor):
        pass
