"""The Net mechanism's exact loss on every table of a tiny universe, and what must never be done instead."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
import pytest
from net_checks import QUERIES, SCHEMA, ZCDP, Counts, Seen, fractions, observe, replaced, tables

import maquette as mq
from maquette.privacy import UNITS_PER_ONE
from maquette.releases.nets.net import Net, local_search, net_mechanism

TOLERANCE = 1 + 1e-9


@pytest.mark.thorough(fast=2)
@pytest.mark.parametrize("rows", [1, 2, 4])
@pytest.mark.parametrize("epsilon", [0.5, 2.0])
def test_loss_under_replace_is_within_the_charge_on_every_table(rows: int, epsilon: float) -> None:
    net = Net.small_databases(SCHEMA, rows)
    seen = {x: observe(x, lambda c: net_mechanism(c, QUERIES, net, epsilon=epsilon)) for x in tables(4)}
    worst = max(_loss(seen[x], seen[y]) for x in seen for y in replaced(x))
    assert seen[(4, 0, 0)].charged == [epsilon]
    assert 0.5 * epsilon < worst <= epsilon * TOLERANCE


def test_range_under_zcdp_is_within_the_charge_on_every_table() -> None:
    net = Net.small_databases(SCHEMA, 2)
    seen = {x: observe(x, lambda c: net_mechanism(c, QUERIES, net, rho=0.5), budget=ZCDP) for x in tables(4)}
    for x in seen:
        for y in replaced(x):
            ratio = np.log(seen[x].laws[0]) - np.log(seen[y].laws[0])
            assert np.ptp(ratio) <= math.sqrt(8 * seen[x].charged[0]) * TOLERANCE


def test_loss_under_add_remove_is_within_both_charges_on_every_table() -> None:
    """The joint law of (row estimate, choice): the candidates may depend on the estimate, on nothing else."""
    epsilon, net = 1.0, Net.small_databases(SCHEMA, 2)

    def estimated(x: Counts, rows: int) -> Seen:
        script = [rows - sum(x), 0]
        return observe(
            x, lambda c: net_mechanism(c, QUERIES, net, epsilon=epsilon), relation="add-remove", script=script
        )

    worst = 0.0
    for rows in (0, 1, 2, 3, 5, 8):
        seen = {x: estimated(x, rows) for x in (*tables(3), *tables(4))}
        for x in tables(4):
            for i in range(3):
                y: Any = tuple(n - (j == i) for j, n in enumerate(x))
                if min(y) >= 0:
                    assert seen[x].described == seen[y].described
                    counting = 1 / float(seen[x].calls[0].scale)
                    worst = max(worst, counting + _loss(seen[x], seen[y]))
    assert seen[x].charged == pytest.approx([epsilon / 10, epsilon * 9 / 10])
    assert 0.5 * epsilon < worst <= sum(seen[x].charged) * TOLERANCE


def test_local_search_looks_at_the_rows_through_its_selections_only() -> None:
    """With the same choices every table leads to the same candidates and charges, and each step is within its own."""
    start = np.array([[0], [0], [1], [2]])
    for neighbours, choices in itertools.product((None, 5), ([0, 3, 5], [4, 1, 2])):

        def ask(c: mq.Curator, neighbours: int | None = neighbours) -> object:
            rng = np.random.default_rng(7)
            return local_search(c, QUERIES, start, 3, neighbours=neighbours, rng=rng, epsilon=1.2)

        seen = {x: observe(x, ask, script=choices) for x in tables(4)}
        for x, one in seen.items():
            assert one.described == seen[(4, 0, 0)].described
            assert one.result.model.records.tolist() == seen[(4, 0, 0)].result.model.records.tolist()
            for y, (step, charged) in itertools.product(replaced(x), enumerate(one.charged)):
                assert _loss(one, seen[y], step) <= charged * TOLERANCE
        assert seen[(4, 0, 0)].charged == pytest.approx([0.2, 0.4, 0.6])


def test_one_row_count_and_all_selections_are_charged_and_no_more() -> None:
    zcdp, gdp = (mq.Budget(epsilon=1.0, delta=1e-6, accounting=currency) for currency in ("zcdp", "gdp"))
    for budget, relation in itertools.product((mq.Budget(epsilon=1.0), zcdp, gdp), ("add-remove", "replace")):
        seen = observe(
            (2, 1, 1), lambda c: local_search(c, QUERIES, np.zeros((2, 1), int), 3), budget=budget, relation=relation
        )
        limit = budget.limit / UNITS_PER_ONE
        assert len(seen.charged) == (4 if relation == "add-remove" else 3)
        assert limit * (1 - 1e-9) <= sum(seen.charged) <= limit
        assert seen.result.cost.units == round(sum(seen.charged) * UNITS_PER_ONE)


def test_markov_chain_started_at_the_rows_fails_the_audit() -> None:
    """Why there is none: Metropolis on the mechanism's own law, one step from the data, delta(1) = 0.84."""
    n, epsilon = 12, 1.0
    weights = np.array([[1, 0, 0], [0, 1, 0], [0, 0, 1], [1, 0.5, 0], [0, 0.3, 1]])
    states = tables(n)
    index = {state: i for i, state in enumerate(states)}
    answers = np.array(states) @ weights.T / n

    def after(x: Counts, steps: int) -> np.ndarray:
        log_law = -epsilon * n / 2 * np.abs(answers - answers[index[x]]).max(axis=1)
        chain = np.zeros((len(states), len(states)))
        for state in states:
            i = index[state]
            for target in replaced(state):
                j = index[target]
                lost, gained = (int(np.argmax(np.subtract(a, b))) for a, b in ((state, target), (target, state)))
                propose, back = state[lost] / n / 2, target[gained] / n / 2
                chain[i, j] = propose * min(1, math.exp(log_law[j] - log_law[i]) * back / propose)
            chain[i, i] = 1 - chain[i].sum()
        law = np.exp(log_law) / np.exp(log_law).sum()
        assert np.allclose(law @ chain, law), "the chain does aim at the mechanism's law"
        return np.linalg.matrix_power(chain, steps)[index[x]]

    delta = {
        steps: np.maximum(after((12, 0, 0), steps) - math.e * after((11, 1, 0), steps), 0).sum() for steps in (1, 5, 20)
    }
    assert delta == pytest.approx({1: 0.84, 5: 0.43, 20: 0.07}, abs=0.005)
    exact = [
        observe(x, lambda c: net_mechanism(c, QUERIES, Net.small_databases(SCHEMA, 12), rho=1 / 8), budget=ZCDP)
        for x in ((12, 0, 0), (11, 1, 0))
    ]
    assert np.maximum(exact[0].laws[0] - math.e * exact[1].laws[0], 0).sum() == 0


def test_pure_law_is_permute_and_flip_and_zcdp_law_is_exponential() -> None:
    net = Net.small_databases(SCHEMA, 1)
    assert observe((2, 1, 1), lambda c: net_mechanism(c, QUERIES, net, epsilon=1.0)).calls[0].kind == "permute_and_flip"
    zcdp = observe((2, 1, 1), lambda c: net_mechanism(c, QUERIES, net, rho=1 / 8), budget=ZCDP)
    assert zcdp.calls[0].kind == "exponential"
    assert float(zcdp.calls[0].scale) == pytest.approx(2 * 2**20)


def _loss(one: Seen, other: Seen, step: int = 0) -> float:
    return float(np.abs(np.log(one.laws[step]) - np.log(other.laws[step])).max())


def test_the_exponential_mechanism_is_algorithm_seven_to_the_letter() -> None:
    """Also under a pure budget: Pr[y] in proportion to exp(epsilon n score(y) / 2), from scratch; not the default."""
    net, epsilon, x = Net.small_databases(SCHEMA, 2), 1.3, (3, 2, 1)
    seen = observe(x, lambda c: net_mechanism(c, QUERIES, net, mechanism="exponential", epsilon=epsilon))
    scores = -np.abs(net.answers(QUERIES) - fractions(x)).max(axis=1)
    expected = np.exp(epsilon * 6 * scores / 2)
    assert seen.calls[0].kind == "exponential"
    assert seen.charged == [epsilon]
    assert np.abs(seen.laws[0] - expected / expected.sum()).max() < 1e-5
    default = observe(x, lambda c: net_mechanism(c, QUERIES, net, epsilon=epsilon))
    assert np.abs(default.laws[0] - seen.laws[0]).max() > 0.01
    assert default.laws[0] @ scores > seen.laws[0] @ scores, "permute-and-flip errs less in expectation"


@pytest.mark.parametrize("mechanism", ["exponential", "permute-and-flip"])
def test_loss_of_each_mechanism_is_within_the_charge(mechanism: Any) -> None:
    net, epsilon = Net.small_databases(SCHEMA, 2), 1.0
    seen = {
        x: observe(x, lambda c: net_mechanism(c, QUERIES, net, mechanism=mechanism, epsilon=epsilon)) for x in tables(4)
    }
    worst = max(_loss(seen[x], seen[y]) for x in seen for y in replaced(x))
    assert 0.5 * epsilon < worst <= epsilon * TOLERANCE
