"""Gates a combined release must pass on small tables: they see released integers, requested noise, charges and files.

Nothing here knows how the method keeps its state: a release is run through `release`, with noise that can be steered.
"""

from __future__ import annotations

import functools
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path
from typing import Any, NamedTuple
from unittest import mock

import numpy as np
from numpy.typing import NDArray
from release_checks import Integers, Seeded, records
from release_gates import CURATOR, POINTS, SCHEMA, TOLERANCE, Steered, loss, moved, opened, price, same, squared

import maquette as mq
from gate_tools import noted_steps
from maquette.audit.reference import Call
from maquette.curator import Curator
from maquette.curator.transaction import Transaction
from maquette.errors import MaquetteError
from maquette.privacy import UNITS_PER_ONE
from maquette.query import Contrasts, Marginal

BASE = records(SCHEMA, 600)
WORKLOAD = mq.marginals(SCHEMA, k=3)
QUESTIONS = ("smoker", "age < 7 AND smoker", "region = 'n'")

Rows = NDArray[np.int64]


class Setting(NamedTuple):
    """A budget, a relation, what a release is asked for, and the accesses that follow."""

    budget: mq.Budget
    relation: Any
    doors: str
    asked: tuple[tuple[str, Any], ...] = ()


ERRORS, TABLES = "measure_error", "measure"
COLUMNS_ONLY = f"{TABLES} {TABLES}"
PAIRS = f"{TABLES} {ERRORS} {TABLES}"
TRIPLES = f"{PAIRS} {ERRORS} {TABLES} {ERRORS}"  # the last look compares the models
STARTED = f"{TABLES} {ERRORS} {ERRORS} {TABLES} {ERRORS} {TABLES} {ERRORS}"  # the second look is at the start
RICH = mq.Budget(rho=4.0, delta=1e-9)
PUBLIC = SCHEMA.decode(records(SCHEMA, 300, seed=3))  # a start
SETTINGS = {
    "columns": Setting(mq.Budget(rho=1e-4, delta=1e-9), "add-remove", COLUMNS_ONLY),
    "pairs": Setting(mq.Budget(rho=0.1, delta=1e-9), "add-remove", PAIRS),
    "triples": Setting(RICH, "add-remove", TRIPLES),
    "rows are public": Setting(RICH, "replace", TRIPLES),
    "a part of the budget": Setting(RICH, "add-remove", TRIPLES, (("rho", 3.0),)),
    "Gaussian": Setting(mq.Budget(epsilon=20.0, delta=1e-6, accounting="gdp"), "replace", TRIPLES),
    "target": Setting(RICH, "add-remove", TRIPLES, (("target", "smoker"),)),
    "start": Setting(RICH, "add-remove", STARTED, (("start", PUBLIC),)),
    "start of few rows": Setting(mq.Budget(rho=1e-3, delta=1e-9), "add-remove", COLUMNS_ONLY, (("start", PUBLIC),)),
    "too little": Setting(mq.Budget(rho=1e-14, delta=1e-9), "add-remove", ""),
}
PAID = [name for name in SETTINGS if name != "too little"]


def others(relation: str) -> list[Rows]:
    """Tables as far from the base as they come; with as many rows where their number is public."""
    alike = [records(SCHEMA, len(BASE), seed=7), np.repeat(POINTS[-1:], len(BASE), axis=0)]
    if relation == "replace":
        return alike
    return [alike[0], alike[1][:1], np.repeat(POINTS[37:38], 2000, axis=0)]


def neighbours(relation: str) -> list[Rows]:
    """The base with one row more, or another."""
    points = POINTS[:: len(POINTS) // 5]
    start = BASE if relation == "add-remove" else BASE[1:]
    return [np.vstack([start, point]) for point in points]


@dataclass
class Seen:
    """All that a release shows, and what it was made from."""

    shown: dict[str, Any]
    calls: list[Call]
    charges: list[tuple[str, int]]
    truths: list[list[Integers]]
    released: list[list[Integers]]
    asked: list[list[Marginal | Contrasts]] = field(default_factory=list)
    spent: int = 0
    allowed: int = 0

    @property
    def doors(self) -> str:
        return " ".join(description.split('"door": "')[1].split('"')[0] for description, _ in self.charges)


@contextmanager
def _steering(noise: Steered, asked: list[list[Marginal | Contrasts]]) -> Iterator[None]:
    through, questions_of = Transaction.through, Curator._asked

    def steered(self: Transaction, door: str, **named: Any) -> Any:
        evaluate = named["evaluate"]
        return through(self, door, **{**named, "evaluate": lambda: noise.answered(evaluate)})

    def noted(self: Curator, questions: Any) -> Any:
        found: Any = questions_of(self, questions)
        asked.append(list(found))
        return found

    with mock.patch.object(Transaction, "through", steered), mock.patch.object(Curator, "_asked", noted):
        yield


def run(
    setting: Setting,
    rows: Rows,
    transcript: Sequence[list[Integers]] | None = None,
    check: bool = True,
) -> Seen:
    """One release, of seeded noise or steered to a transcript."""
    noise, asked = Steered(0, transcript), list[list[Marginal | Contrasts]]()
    with (
        _steering(noise, asked),
        Curator(opened(rows), setting.budget, relation=setting.relation, noise=noise) as curator,
    ):
        CURATOR.append(curator)
        settings = dict(setting.asked)
        allowed = setting.budget.limit
        if "rho" in settings:
            allowed = curator.budget.accountant.share(epsilon=None, rho=settings["rho"], delta=1e-9)
        try:
            shown = _shown(mq.release(curator, WORKLOAD, method="combined", check=check, **settings))
        except MaquetteError as refused:
            shown = {"refused": str(refused)}
        charges = [(charge.description, charge.units) for charge in curator.ledger.charges()]
        spent = curator.ledger.spent()
    return Seen(shown, noise.calls, charges, noise.truths, noise.released, asked, spent, allowed)


def _shown(made: mq.Release) -> dict[str, Any]:
    """Everything public of a release, to the last bit; its file holds model, evidence, trace, check and certificate."""
    with tempfile.TemporaryDirectory() as folder:
        made.save(Path(folder) / "made.maq")
        file = (Path(folder) / "made.maq").read_bytes()
    return {
        "explanation": made.explain(),
        "trace": made.trace,
        "rows": made.rows,
        "certificate": made.certificate,
        "check": None if made.check is None else (made.check.facts(), made.check.distances.tobytes()),
        "table": made.marginal(*SCHEMA.names).tobytes(),
        "answers": [repr(made.answer(text)) for text in QUESTIONS],
        "records": made.model.sample(50, np.random.default_rng(0)).tobytes(),
        "text": [repr(made), made._repr_html_()],
        "file": file,
    }


def gate_public_only(name: str) -> None:
    """Steered to release the same integers, any table leads to the same questions, noise, charges and file."""
    setting = SETTINGS[name]
    base = run(setting, BASE)
    assert base.doors.startswith(setting.doors), f"{name}: {base.doors}"
    for rows in others(setting.relation):
        seen = run(setting, rows, base.released)
        assert seen.released == [] or not same(seen.truths, base.truths), "the tables do not differ"
        assert seen.calls == base.calls, "the noise asked for depends on the rows"
        assert seen.charges == base.charges, "a charge or what it says depends on the rows"
        for what, value in base.shown.items():
            assert seen.shown.get(what) == value, f"{what}: depends on the rows"


def gate_exact_loss(name: str) -> None:
    """What a neighbour's release can differ by, exactly, from the noise asked for: never more than was charged."""
    setting = SETTINGS[name]
    base = run(setting, BASE)
    tables = neighbours(setting.relation)
    first = base if setting.relation == "add-remove" else run(setting, tables.pop(0), base.released)
    worst = dict.fromkeys(set(base.doors.split()), 0.0)
    for rows in tables:
        seen, calls = run(setting, rows, base.released), iter(base.calls)
        steps = zip(first.truths, seen.truths, base.charges, base.doors.split(), strict=True)
        for one, other, (_, charged), door in steps:
            lost = sum(
                loss(setting.budget.currency, np.ravel(a - b), next(calls)) for a, b in zip(one, other, strict=True)
            )
            assert lost * UNITS_PER_ONE <= charged * TOLERANCE, f"{name}: lost {lost}, charged {charged}"
            worst[door] = max(worst[door], lost * UNITS_PER_ONE / charged)
    assert min(worst.values()) > 0.2, f"{name}: {worst} of a charge is lost: the audit misses what is released"


def gate_charges(name: str) -> None:
    """The ledger against a short reference: what each door's noise costs, and that the sum is what was asked for."""
    setting = SETTINGS[name]
    seen = run(setting, BASE, check=False)
    assert "refused" not in seen.shown, f"{name}: {seen.shown}"
    assert seen.doors == setting.doors, f"{name}: {seen.doors}"
    ends, calls = 2 if setting.relation == "replace" else 1, iter(seen.calls)
    for questions, (_, charged), door in zip(seen.asked, seen.charges, seen.doors.split(), strict=True):
        if door == ERRORS:  # one row changes a cell of each table by one
            parts = [price(setting.budget.currency, next(calls), ends * len(questions), ends**2 * len(questions))]
        else:
            moves = [ends * moved(question, 1) for question in questions], [squared(q, ends) for q in questions]
            parts = [price(setting.budget.currency, next(calls), l1, l2) for l1, l2 in zip(*moves, strict=True)]
        assert abs(sum(parts) * UNITS_PER_ONE / charged - 1) < 1e-8, f"{name}: {sum(parts)}, {charged}"
    assert next(calls, None) is None, "noise beside the charges"
    assert seen.spent == sum(charged for _, charged in seen.charges)
    assert 0.97 * seen.allowed <= seen.spent <= seen.allowed, f"{name}: {seen.spent} of {seen.allowed}"
    assert seen.shown["certificate"].units == seen.spent


def gate_order() -> None:
    """At every door of a release: charge, then draw, then record. Six doors of the method and two of the check."""
    steps: list[str] = []

    class Watched(Seeded):
        def gaussian(self, variance: Fraction, size: int) -> Integers:
            steps.append("draw")
            return super().gaussian(variance, size)

    with Curator(opened(BASE), RICH, noise=Watched(0)) as curator, noted_steps(curator.ledger, steps):
        mq.release(curator, WORKLOAD, method="combined")
    once = [step for step, before in zip(steps, ["", *steps], strict=False) if step != before]
    assert once == ["reserve", "draw", "commit"] * 8, once


@contextmanager
def everywhere(name: str, change: Callable[..., Any]) -> Iterator[None]:
    """Break a function wherever the files of methods use it, however many those are."""
    with ExitStack() as patches:
        found = False
        for place, module in list(sys.modules.items()):
            if place.startswith("maquette.releases.methods.") and name in vars(module):
                broken = functools.partial(change, getattr(module, name))
                patches.enter_context(mock.patch.object(module, name, broken))
                found = True
        assert found, f"no method uses {name}: mend the mutant"
        yield


GATES: dict[str, Callable[[], None]] = {
    "order": gate_order,
    **{f"public only: {name}": functools.partial(gate_public_only, name) for name in SETTINGS},
    **{f"exact loss: {name}": functools.partial(gate_exact_loss, name) for name in PAID},
    **{f"charges: {name}": functools.partial(gate_charges, name) for name in PAID},
}
