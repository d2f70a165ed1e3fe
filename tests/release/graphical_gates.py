"""Gates a graphical release must pass on tiny tables: they see released integers, requested noise and charges only."""

from __future__ import annotations

import functools
import importlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
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
from maquette.estimates.merged import MergedModel
from maquette.estimates.residuals import Residuals
from maquette.hypothesis.graphical import GraphicalModel
from maquette.privacy import UNITS_PER_ONE
from maquette.query import Contrasts, Marginal

loop: Any = importlib.import_module("maquette.releases.methods.graphical")

WORKLOAD = mq.marginals(SCHEMA, k=3)
BASE = records(SCHEMA, 120)

Rows = NDArray[np.int64]


class Setting(NamedTuple):
    """A budget, a relation, and what a release is asked for."""

    budget: mq.Budget
    relation: Any = "add-remove"
    asked: tuple[tuple[str, float], ...] = ()  # epsilon, rho, rounds; the rest of the budget if there is none

    @property
    def rounds(self) -> int | None:
        found = dict(self.asked).get("rounds")
        return None if found is None else int(found)


ZCDP = mq.Budget(rho=4.0, delta=1e-9)
SETTINGS = {
    "pure": Setting(mq.Budget(epsilon=30.0)),
    "pure, two rounds": Setting(mq.Budget(epsilon=30.0), "replace", (("rounds", 2),)),
    "concentrated": Setting(ZCDP, "add-remove", (("rho", 3.0),)),
    "concentrated, two rounds": Setting(ZCDP, "add-remove", (("rounds", 2),)),
    "rows are public": Setting(ZCDP, "replace"),
    "Gaussian": Setting(mq.Budget(epsilon=6.0, delta=1e-6, accounting="gdp"), "add-remove", (("rounds", 3),)),
    "too little": Setting(mq.Budget(rho=1e-14, delta=1e-9)),
}


def others(relation: str) -> list[Rows]:
    """Tables as far from the base as they come; with as many rows where their number is public."""
    alike = [records(SCHEMA, len(BASE), seed=7), np.repeat(POINTS[-1:], len(BASE), axis=0)]
    if relation == "replace":
        return alike
    return [alike[0], alike[1][:1], np.repeat(POINTS[37:38], 900, axis=0)]


def neighbours(relation: str) -> list[Rows]:
    """The base with one row more, or another: all that the counts of one row can be, over some of the universe."""
    points = POINTS[:: len(POINTS) // 5]
    start = BASE if relation == "add-remove" else BASE[1:]
    return [np.vstack([start, point]) for point in points]


@dataclass
class Seen:
    """All that a release shows, and what it was made from."""

    decisions: dict[str, Any]
    calls: list[Call]
    charges: list[tuple[str, int]]
    truths: list[list[Integers]]
    released: list[list[Integers]]
    asked: list[list[Marginal | Contrasts]] = field(default_factory=list)
    spent: int = 0
    allowed: int = 0


def run(
    setting: Setting,
    rows: Rows,
    transcript: Sequence[list[Integers]] | None = None,
    seed: int = 0,
    check: bool = True,
) -> Seen:
    """One release, of seeded noise or steered to a transcript; with the check of its model unless told otherwise."""
    noise = Steered(seed, transcript)
    runs: list[Any] = []
    asked: list[list[Marginal | Contrasts]] = []
    through, marginals, begin = Transaction.through, Curator._asked, loop._Run.__post_init__

    def steered(self: Transaction, door: str, **named: Any) -> Any:
        evaluate = named["evaluate"]
        return through(self, door, **{**named, "evaluate": lambda: noise.answered(evaluate)})

    def noted(self: Curator, questions: Any) -> Any:
        found = marginals(self, questions)
        asked.append([question for question in found if isinstance(question, Marginal | Contrasts)])
        return found

    def kept(self: Any) -> None:
        runs.append(self)
        begin(self)

    with (
        mock.patch.object(Transaction, "through", steered),
        mock.patch.object(Curator, "_asked", noted),
        mock.patch.object(loop._Run, "__post_init__", kept),
        Curator(opened(rows), setting.budget, relation=setting.relation, noise=noise) as curator,
    ):
        CURATOR.append(curator)
        allowed = setting.budget.limit
        if "rho" in dict(setting.asked):
            allowed = curator.budget.accountant.share(epsilon=None, rho=dict(setting.asked)["rho"], delta=1e-9)
        settings: dict[str, Any] = dict(setting.asked)
        settings |= {} if setting.rounds is None else {"rounds": setting.rounds}
        try:
            made = mq.release(curator, WORKLOAD, method="graphical", check=check, **settings)
            decisions = _decisions(runs[0], made)
        except MaquetteError as refused:
            decisions = {"refused": str(refused)}
        charges = [(charge.description, charge.units) for charge in curator.ledger.charges()]
        spent = curator.ledger.spent()
    return Seen(decisions, noise.calls, charges, noise.truths, noise.released, asked, spent, allowed)


def _decisions(state: Any, made: mq.Release) -> dict[str, Any]:
    """Everything public of a run, comparable: choices, the model's and the evidence's numbers to the last bit."""
    model = made.model.model if isinstance(made.model, MergedModel) else made.model
    assert isinstance(model, GraphicalModel)
    shares = made.model.shares if isinstance(made.model, MergedModel) else {}
    return {
        "groups": {name: groups.tolist() for name, groups in state.merging.groups.items()},
        "tables": list(state.measured),
        "room": state.max_cells,
        "cliques": model.cliques,
        "model": {key: array.tobytes() for key, array in model.state().items()},
        "levels": {name: values.tobytes() for name, values in shares.items()},
        "evidence": [_evidence(each) for each in (state.fine, state.coarse)],
        "rows": made.rows,
        "certificate": made.certificate,
        "check": None if made.check is None else (made.check.facts(), made.check.distances.tobytes()),
        "answers": [repr(made.answer(text)) for text in ("smoker", "age < 7 AND smoker", "region = 'n'")],
        "records": made.model.sample(50, np.random.default_rng(0)).tobytes(),
        "text": [repr(made), made._repr_html_()],
    }


def _evidence(residuals: Residuals) -> list[tuple[Any, ...]]:
    return [(columns, values.tobytes(), variances.tobytes()) for columns, values, variances in residuals]


def gate_public_only(name: str) -> None:
    """Steered to release the same integers, any table leads to the same decisions, noise, charges and model."""
    setting = SETTINGS[name]
    base = run(setting, BASE)
    if "refused" not in base.decisions:
        assert base.decisions["tables"], "nothing was chosen: there is nothing to compare"
        assert max(base.decisions["groups"]["age"]) < 19, "nothing was merged: there is nothing to compare"
    for rows in others(setting.relation):
        seen = run(setting, rows, base.released)
        assert seen.released == [] or not same(seen.truths, base.truths), "the tables do not differ"
        assert seen.calls == base.calls, "the noise asked for depends on the rows"
        assert seen.charges == base.charges, "a charge or what it says depends on the rows"
        for what, value in base.decisions.items():
            assert seen.decisions.get(what) == value, f"{what}: depends on the rows"


def gate_exact_loss(name: str) -> None:
    """What a neighbour's release can differ by, exactly, from the noise asked for: never more than was charged."""
    setting = SETTINGS[name]
    base = run(setting, BASE)
    start = base if setting.relation == "add-remove" else None
    worst = 0.0
    tables = neighbours(setting.relation)
    first = start or run(setting, tables[0], base.released)
    for rows in tables if start else tables[1:]:
        seen = run(setting, rows, base.released)
        calls = iter(base.calls)
        for one, other, (_, charged) in zip(first.truths, seen.truths, base.charges, strict=True):
            lost = sum(
                loss(setting.budget.currency, np.ravel(a - b), next(calls)) for a, b in zip(one, other, strict=True)
            )
            assert lost * UNITS_PER_ONE <= charged * TOLERANCE, f"{name}: lost {lost}, charged {charged}"
            worst = max(worst, lost * UNITS_PER_ONE / charged)
    assert worst > 0.4, f"{name}: at most {worst} of a charge is lost: the audit misses what is released"


def gate_charges(name: str) -> None:
    """The ledger against a short reference: what each door's noise costs, how it is split, and the sum.

    Of the method alone; the charges of the check have a reference of their own in `test_checking`.
    """
    setting = SETTINGS[name]
    seen = run(setting, BASE, check=False)
    ends = 2 if setting.relation == "replace" else 1
    calls = iter(seen.calls)
    for questions, (description, charged) in zip(seen.asked, seen.charges, strict=True):
        if '"door": "measure_error"' in description:  # one row changes a cell of each table by one
            parts = [price(setting.budget.currency, next(calls), ends * len(questions), ends**2 * len(questions))]
        else:
            moves = [ends * moved(question, 1) for question in questions], [squared(q, ends) for q in questions]
            parts = [price(setting.budget.currency, next(calls), l1, l2) for l1, l2 in zip(*moves, strict=True)]
        assert abs(sum(parts) * UNITS_PER_ONE / charged - 1) < 1e-9, f"{name}: {sum(parts)}, {charged}"
    spent = [charged for _, charged in seen.charges]
    assert seen.spent == sum(spent) <= seen.allowed, f"{name}: {seen.spent} spent, {seen.allowed} asked for"
    rounds = (len(spent) - 1) // 2
    shares, left = [0.2], 0.8
    for i in range(rounds):
        part = left if i == rounds - 1 else 0.6 * left
        look = min(0.02, 0.2 * part)
        shares += [look, part - look]
        left -= part
    assert setting.rounds in (None, rounds)
    assert np.allclose(np.array(spent) / seen.allowed, shares, rtol=1e-6), f"{name}: {spent}"


def gate_order() -> None:
    """At every door of a release: charge, then draw, then record.

    Columns, errors and tables twice, and the two charges of the check.
    """
    steps: list[str] = []

    class Watched(Seeded):
        def gaussian(self, variance: Fraction, size: int) -> Integers:
            steps.append("draw")
            return super().gaussian(variance, size)

    with Curator(opened(BASE), ZCDP, noise=Watched(0)) as curator:
        ledger = curator.ledger
        with noted_steps(ledger, steps):
            mq.release(curator, WORKLOAD, method="graphical", rounds=2)
    once = [step for step, before in zip(steps, ["", *steps], strict=False) if step != before]
    assert once == ["reserve", "draw", "commit"] * 7, once


PAID = [name for name in SETTINGS if name != "too little"]
GATES: dict[str, Callable[[], None]] = {
    "order": gate_order,
    **{f"public only: {name}": functools.partial(gate_public_only, name) for name in SETTINGS},
    **{f"exact loss: {name}": functools.partial(gate_exact_loss, name) for name in PAID},
    **{f"charges: {name}": functools.partial(gate_charges, name) for name in PAID},
}
