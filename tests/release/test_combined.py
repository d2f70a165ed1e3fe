"""Combined releases: what they spend, what they decide, how close they come, odd schemas, files and interruptions."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from combined_gates import everywhere
from numpy.typing import NDArray
from release_checks import SCHEMA, Seeded, counts, exact, open_records, rarely_missed, records, released, table_of

import maquette as mq
from gate_tools import wrapped
from maquette.errors import MaquetteError, QueryError
from maquette.estimates import BlendedModel, MergedModel
from maquette.hypothesis import GraphicalModel, Mixture
from maquette.releases import checking
from maquette.releases.methods.combined import answers_of
from maquette.schema import Schema, impossible_cells

MANY = mq.Schema([mq.Integer("age", 0, 39), mq.Category("region", ["n", "e", "s"]), mq.Boolean("smoker")])
WIDE = mq.Schema([mq.Integer(f"c{i}", 0, 2 + i % 3) for i in range(8)])
BUDGETS = {
    "little": mq.Budget(rho=1e-4, delta=1e-9),
    "some": mq.Budget(rho=0.02, delta=1e-9),
    "much": mq.Budget(rho=20.0, delta=1e-9),
    "Gaussian": mq.Budget(epsilon=1.0, delta=1e-6, accounting="gdp"),
}
CLOSE = mq.Budget(rho=5000.0, delta=1e-9)

Rows = NDArray[np.int64]


def distance(made: mq.Release, schema: Schema, rows: Rows, k: int) -> float:
    """The mean over k-way tables of half the L1 distance to the exact one."""
    sets = itertools.combinations(schema.names, k)
    far = [np.abs(made.marginal(*c) - counts(schema, rows, c) / len(rows)).sum() / 2 for c in sets]
    return float(np.mean(far))


def whole(made: mq.Release) -> None:
    """A release that can be used: tables are distributions, answers have bounds, rows can be drawn."""
    names = made.schema.names[:3]
    table = made.marginal(*names)
    assert table.sum() == pytest.approx(1.0)
    assert table.min() >= 0.0
    assert made.sample(50, rng=np.random.default_rng(0)).num_rows == 50
    assert made.explain()


@pytest.mark.thorough(fast=1)
@pytest.mark.parametrize("check", [False, True])
@pytest.mark.parametrize("relation", ["add-remove", "replace"])
@pytest.mark.parametrize("name", BUDGETS)
def test_all_that_was_asked_for_is_charged_and_never_more(name: str, relation: Any, check: bool) -> None:
    budget, workload = BUDGETS[name], mq.marginals(SCHEMA, k=3)
    with mq.Curator(table_of(SCHEMA, 800), budget, relation=relation, noise=Seeded(1)) as curator:
        made = mq.release(curator, workload, method="combined", check=check)
        spent = curator.ledger.spent()
        assert made.certificate.units == spent
        assert (0.95 if check else 0.98) * budget.limit <= spent <= budget.limit
    whole(made)


@pytest.mark.thorough(fast=1)
@pytest.mark.parametrize("price", [{"rho": 0.01}, {"epsilon": 0.3}])
def test_a_part_of_the_budget_is_left_for_others(price: dict[str, Any]) -> None:
    with mq.Curator(table_of(SCHEMA, 800), BUDGETS["some"], noise=Seeded(1)) as curator:
        made = mq.release(curator, mq.marginals(SCHEMA, k=2), method="combined", **price)
        assert curator.remaining.units > 0.05 * curator.budget.limit
        for amount, value in price.items():
            assert getattr(made.certificate, amount, value) <= value * (1 + 1e-9)
        assert made.certificate.units == curator.ledger.spent() < curator.budget.limit


@pytest.mark.thorough
def test_choosing_is_not_bought_where_it_cannot_pay() -> None:
    """Little budget: columns alone. More: pairs. Much: triples, and a comparison of the two models."""
    doors = {}
    for name in ("little", "some", "much"):
        with mq.Curator(table_of(MANY, 800), BUDGETS[name], noise=Seeded(0)) as curator:
            made = mq.release(curator, mq.marginals(MANY, k=3), method="combined", check=False)
            doors[name] = [c.description.split('"door": "')[1].split('"')[0] for c in curator.ledger.charges()]
        sizes = {len(step.columns) for step in made.trace}
        assert sizes == {"little": set(), "some": {2}, "much": {2, 3}}[name]
    assert doors["little"] == ["measure", "measure"]
    assert doors["some"] == ["measure", "measure_error", "measure"]
    assert doors["much"] == ["measure", "measure_error", "measure", "measure_error", "measure", "measure_error"]


@pytest.mark.thorough
def test_explanations_say_what_was_expected_and_kept() -> None:
    load = mq.marginals(MANY, k=3)
    little, much = (
        released("combined", table_of(MANY, 300), BUDGETS[name], Seeded(0), workload=load, relation="replace").explain()
        for name in ("little", "much")
    )
    assert "tables are not worth their noise" in little
    for words in (
        "expected best split of what is left: columns",
        "tables were worth their noise in round 2",
        "kept the",
    ):
        assert words in much
    assert "mean distance of 1 tables from the rows: average" in much


@pytest.mark.thorough
def test_without_noise_to_speak_of_triples_are_exact() -> None:
    schema = mq.Schema(WIDE.columns[:5])
    rows = records(schema, 4000)
    made = released("combined", open_records(schema, rows), CLOSE, Seeded(0), workload=mq.marginals(schema, k=3))
    for k, most in ((1, 0.002), (2, 0.01), (3, 0.02)):
        assert distance(made, schema, rows, k) < most


@pytest.mark.thorough
def test_it_beats_independent_columns_where_noise_allows_and_equals_them_where_not() -> None:
    """Means of five releases each, at the same price."""
    for rho, rows, most in ((0.05, 5000, 0.6), (2e-5, 500, 1.05)):
        table = records(WIDE, rows)
        budget = mq.Budget(rho=rho, delta=1e-9)
        ours, alone = (
            np.mean(
                [
                    distance(
                        released(name, open_records(WIDE, table), budget, Seeded(s), workload=load), WIDE, table, 3
                    )
                    for s in range(5)
                ]
            )
            for name, load in (("combined", mq.marginals(WIDE, k=3)), ("graphical", mq.marginals(WIDE, k=1)))
        )
        assert ours < most * alone, (rho, ours, alone)


@pytest.mark.thorough
def test_a_parity_that_no_pair_shows_is_found_by_the_look_at_triples() -> None:
    schema = mq.Schema([mq.Boolean(name) for name in "abcd"])
    coins = np.random.default_rng(0).integers(0, 2, (20_000, 3))
    rows = np.column_stack([coins[:, 0], coins[:, 1], coins[:, 0] ^ coins[:, 1], coins[:, 2]])
    budget = mq.Budget(rho=1.0, delta=1e-9)
    made = released("combined", open_records(schema, rows), budget, Seeded(0), workload=mq.marginals(schema, k=3))
    assert max(made.trace, key=lambda step: step.distance).columns == ("a", "b", "c")
    assert np.abs(made.marginal("a", "b", "c") - counts(schema, rows, "abc") / len(rows)).sum() < 0.1


@pytest.mark.thorough
def test_a_public_number_of_rows_is_the_number_of_rows() -> None:
    for name in ("little", "some", "much"):
        made = released("combined", table_of(SCHEMA, 800), BUDGETS[name], Seeded(3), relation="replace")
        assert made.rows == pytest.approx(800, abs=1e-6)


@pytest.mark.thorough
def test_several_rows_of_a_person_are_paid_for() -> None:
    """Three rows of each: the same budget buys noise of three times the deviation, and the intervals say so."""
    rows = records(SCHEMA, 1500)
    columns = SCHEMA.decode(rows)
    people = {name: columns[name].to_pylist() for name in columns.column_names} | {"id": [i // 3 for i in range(1500)]}
    tables = (
        mq.open_table(people, SCHEMA, privacy_unit="id", max_contributions=3),
        open_records(SCHEMA, rows),
    )
    scales, widths = [], []
    for table in tables:
        noise = Seeded(0)
        made = released("combined", table, BUDGETS["much"], noise, check=True)
        assert made.certificate.units <= BUDGETS["much"].limit
        whole(made)
        scales.append(float(noise.calls[0].scale))
        answer = made.answer("smoker")
        assert answer.low <= answer.value <= answer.high
        widths.append(answer.high - answer.low)
    assert scales[0] == pytest.approx(9 * scales[1], rel=1e-3)
    assert widths[0] > widths[1]


ODD = mq.Schema(
    [mq.Integer("one", 0, 0), mq.Boolean("a"), mq.Integer("b", 0, 5), mq.Boolean("unasked"), mq.Category("k", ["x"])]
)


@pytest.mark.thorough(fast=3)
@pytest.mark.parametrize("name", ["little", "much"])
@pytest.mark.parametrize(
    "columns",
    [[("one", "a", "b")], [("one",)], [("a",)], [("one", "a"), ("b",)], [("a", "b")], [("one", "k")]],
    ids=str,
)
def test_columns_of_one_level_and_columns_outside_the_workload(columns: list[tuple[str, ...]], name: str) -> None:
    rng = np.random.default_rng(0)
    rows = np.column_stack([rng.integers(0, size, 400) for size in ODD.shape(ODD.names)])
    workload = mq.marginals(ODD, columns=columns)
    with mq.Curator(open_records(ODD, rows), BUDGETS[name], noise=Seeded(0)) as curator:
        made = mq.release(curator, workload, method="combined")
        assert 0.9 * curator.budget.limit <= curator.ledger.spent() <= curator.budget.limit
    whole(made)
    assert made.marginal("one") == pytest.approx([1.0])
    assert made.marginal("unasked") == pytest.approx([0.5, 0.5], abs=1e-4), "nothing was asked about it"
    if name == "much":
        for table in columns:
            apart = np.abs(made.marginal(*table) - counts(ODD, rows, table) / len(rows)).sum() / 2
            assert apart < 0.02, (table, apart)


def test_a_schema_of_one_column() -> None:
    schema = mq.Schema([mq.Integer("age", 0, 30)])
    rows = records(schema, 2000)
    made = released(
        "combined", open_records(schema, rows), BUDGETS["some"], Seeded(0), workload=mq.marginals(schema, k=1)
    )
    assert distance(made, schema, rows, 1) < 0.1
    whole(made)


@pytest.mark.parametrize("k", [1, 2])
def test_single_columns_get_everything_and_pairs_no_triples(k: int) -> None:
    with mq.Curator(table_of(SCHEMA, 800), BUDGETS["much"], noise=Seeded(0)) as curator:
        made = mq.release(curator, mq.marginals(SCHEMA, k=k), method="combined", check=False)
        doors = [charge.description.split('"door": "')[1].split('"')[0] for charge in curator.ledger.charges()]
        assert curator.ledger.spent() > 0.98 * curator.budget.limit
    assert {len(step.columns) for step in made.trace} == ({2} if k == 2 else set())
    assert len(doors) == (4 if k == 2 else 1)


BARRED = mq.Schema(
    [*MANY.columns, mq.Boolean("works")],
    impossible=[{"age": [str(age) for age in range(12)], "works": "true"}, {"region": "n", "smoker": "true"}],
)


@pytest.mark.thorough
@pytest.mark.parametrize("held", [False, True], ids=["rows-agree", "rows-disagree"])
@pytest.mark.parametrize("name", ["little", "some", "much"])
def test_impossible_combinations_have_exactly_nothing(name: str, held: bool) -> None:
    closed = impossible_cells(BARRED)
    assert closed is not None
    rows = records(BARRED, 1500)
    rows = rows if held else rows[~closed[tuple(rows.T)]]
    made = released(
        "combined", open_records(BARRED, rows), BUDGETS[name], Seeded(0), workload=mq.marginals(BARRED, k=3)
    )
    full = made.marginal(*BARRED.names)
    assert (full[closed] == 0.0).all()
    assert full.sum() == pytest.approx(1.0)
    sampled = made.model.sample(1000, np.random.default_rng(0))
    assert not closed[tuple(sampled.T)].any()
    answer = made.answer("age < 12 AND works")
    assert (answer.value, answer.low) == (0.0, 0.0)


def test_combinations_that_need_too_large_a_model_are_refused_before_any_charge() -> None:
    with mq.Curator(table_of(BARRED, 100), BUDGETS["some"]) as curator:
        with pytest.raises(QueryError, match="need a model of 86 cells, more than the 50 allowed") as caught:
            mq.release(curator, mq.marginals(BARRED, k=2), method="combined", max_cells=50)
        assert "max_cells" in str(caught.value.advice)
        assert curator.ledger.spent() == 0


@pytest.mark.thorough
def test_a_block_too_large_for_a_mixture_leaves_nothing_unspent() -> None:
    """Impossible combinations over 6,400 cells: the tree alone is fitted, and triples are not saved for."""
    schema = mq.Schema(
        [mq.Integer("a", 0, 79), mq.Integer("b", 0, 79), mq.Boolean("c"), mq.Boolean("d")],
        impossible=[{"a": "0", "b": "0"}],
    )
    with mq.Curator(table_of(schema, 3000), BUDGETS["much"], noise=Seeded(0)) as curator:
        made = mq.release(curator, mq.marginals(schema, k=3), method="combined", check=False)
        assert curator.ledger.spent() > 0.98 * curator.budget.limit
    assert isinstance(made.model, GraphicalModel | MergedModel)
    assert made.marginal("a", "b")[0, 0] == 0.0


@pytest.mark.thorough
def test_missing_values_are_a_level_of_their_own() -> None:
    schema = mq.Schema([mq.Integer("age", 0, 19, nullable=True), mq.Category("job", ["x", "y"], nullable=True)])
    rng = np.random.default_rng(0)
    ages = [None if rng.random() < 0.3 else int(age) for age in rng.integers(0, 20, 3000)]
    jobs = [None if age is None or rng.random() < 0.1 else "xy"[age % 2] for age in ages]
    made = released(
        "combined", mq.open_table({"age": ages, "job": jobs}, schema), BUDGETS["much"], Seeded(0), check=True
    )
    missing = made.answer("age IS NULL")
    assert missing.value == pytest.approx(np.mean([age is None for age in ages]), abs=0.01)
    assert missing.low <= missing.value <= missing.high
    both = made.answer("age IS NULL AND job IS NULL")
    assert both.value == pytest.approx(missing.value, abs=0.02)
    assert made.sample(200, rng=np.random.default_rng(0)).column("age").null_count > 20


@pytest.mark.parametrize("settings", [{}, {"target": "smoker"}, {"max_cells": 1000}])
def test_pure_budgets_are_refused_with_advice_before_any_charge(settings: dict[str, Any]) -> None:
    with mq.Curator(table_of(SCHEMA, 100), mq.Budget(epsilon=1.0)) as curator:
        with pytest.raises(QueryError, match="needs a budget with delta above 0") as caught:
            mq.release(curator, mq.marginals(SCHEMA, k=2), method="combined", **settings)
        assert "graphical" in str(caught.value.advice)
        assert curator.ledger.spent() == 0
        assert mq.release(curator, mq.marginals(SCHEMA, k=2)).certificate.units == curator.ledger.spent() > 0


@pytest.mark.parametrize("name", ["auto", "combined"])
@pytest.mark.parametrize(
    ("settings", "words"),
    [({"target": "nobody"}, "nobody"), ({"target": 7}, "a column name is of type int"), ({"loud": True}, "loud")],
    ids=["unknown", "no name", "setting"],
)
def test_bad_settings_are_refused_before_any_charge(name: str, settings: dict[str, Any], words: str) -> None:
    with mq.Curator(table_of(SCHEMA, 100), BUDGETS["some"]) as curator:
        with pytest.raises(MaquetteError, match=words):
            mq.release(curator, mq.marginals(SCHEMA, k=2), method=name, **settings)
        assert curator.ledger.spent() == 0


@pytest.mark.parametrize("cells", [0, -5, 2.5, True, "many"])
def test_a_model_has_a_whole_number_of_cells(cells: Any) -> None:
    with mq.Curator(table_of(SCHEMA, 100), BUDGETS["some"]) as curator:
        with pytest.raises(QueryError, match="max_cells"):
            mq.release(curator, mq.marginals(SCHEMA, k=2), method="combined", max_cells=cells)
        assert curator.ledger.spent() == 0


@pytest.mark.thorough
def test_a_target_gets_more_of_the_budget_and_a_better_table() -> None:
    """Tables with the target are better in the mean of ten releases; what the others lose is theirs."""
    schema = Schema(WIDE.columns[:6])
    rows, budget = records(schema, 3000), mq.Budget(rho=0.005, delta=1e-9)
    table, load = open_records(schema, rows), mq.marginals(schema, k=2)
    pairs = [("c3", name) for name in schema.names if name != "c3"]

    def error(**settings: Any) -> float:
        found = []
        for seed in range(10):
            made = released("combined", table, budget, Seeded(seed), workload=load, **settings)
            found += [np.abs(made.marginal(*p) - counts(schema, rows, p) / len(rows)).sum() / 2 for p in pairs]
        return float(np.mean(found))

    assert error(target="c3") < 0.97 * error()


@pytest.mark.thorough(fast=1)
@pytest.mark.parametrize("kept", range(3), ids=["average", "tree", "mixture"])
@pytest.mark.parametrize("name", ["little", "some", "much"])
def test_a_saved_release_is_the_same(name: str, kept: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whichever model is kept: the same bytes, answers, explanation and rows."""
    if name == "much":
        monkeypatch.setattr(np, "argmin", lambda _: kept)
    made = released(
        "combined", table_of(MANY, 2000), BUDGETS[name], Seeded(0), workload=mq.marginals(MANY, k=3), check=True
    )
    monkeypatch.undo()
    if name == "much":
        assert isinstance(made.model, ((BlendedModel,), (GraphicalModel, MergedModel), (Mixture,))[kept])
    digest = made.save(tmp_path / "one.maq")
    again = mq.Release.load(tmp_path / "one.maq", digest=digest)
    assert again.save(tmp_path / "two.maq") == digest
    assert (tmp_path / "one.maq").read_bytes() == (tmp_path / "two.maq").read_bytes()
    assert again.explain() == made.explain()
    assert again.certificate == made.certificate
    assert again.trace == made.trace
    for text in ("smoker", "age >= 30 AND smoker", "SELECT region, count(*), avg(age) FROM t GROUP BY region"):
        assert again.answer(text) == made.answer(text)
    one, two = (each.model.sample(200, np.random.default_rng(0)) for each in (made, again))
    assert (one == two).all()


def test_a_release_of_another_method_says_that_it_was_asked_for() -> None:
    made = released("laplace", table_of(SCHEMA, 100), mq.Budget(epsilon=1.0), Seeded(0))
    assert made.explain() == "method 'laplace' was asked for"


@pytest.mark.thorough
def test_every_answer_has_a_bound_and_nearly_all_hold() -> None:
    """What the intervals promise holds as often as they say, except with probability 1e-6."""
    texts = ("smoker", "age >= 20", "smoker AND region = 'n'", "region = 's' AND age < 10 AND smoker")
    rows = records(SCHEMA, 2000)
    truths = [exact(mq.where(SCHEMA, text), rows) / len(rows) for text in texts]
    table, load = open_records(SCHEMA, rows), mq.marginals(SCHEMA, k=3)
    releases, held = 60, np.zeros(len(texts), dtype=int)
    for seed in range(releases):
        made = released("combined", table, BUDGETS["some"], Seeded(seed), workload=load, check=True)
        for i, text in enumerate(texts):
            answer = made.answer(text)
            assert answer.bound in ("measured", "certified", "logical")
            assert 0.0 <= answer.low <= answer.value <= answer.high <= 1.0
            held[i] += answer.low <= truths[i] <= answer.high
    assert held.min() >= rarely_missed(releases, 0.95, len(texts)), held


@pytest.mark.thorough
def test_the_better_model_is_kept() -> None:
    """A tree or a mixture that is spoilt after its fit loses the comparison."""
    load = mq.marginals(SCHEMA, k=3)
    spoilt = Mixture(
        SCHEMA,
        np.ones(1),
        [((name,), np.eye(SCHEMA[name].size)[:1]) for name in SCHEMA.names],
    )
    marginal = Mixture.marginal

    def bad(original: Any, self: Any, columns: Any) -> Any:
        return marginal(spoilt, columns)

    with wrapped(Mixture, "marginal", bad):
        made = released("combined", table_of(SCHEMA, 2000), BUDGETS["much"], Seeded(0), workload=load)
    assert isinstance(made.model, GraphicalModel | MergedModel)
    with wrapped(GraphicalModel, "marginal", bad):
        made = released("combined", table_of(SCHEMA, 2000), BUDGETS["much"], Seeded(0), workload=load)
    assert isinstance(made.model, Mixture)


def _stopped(original: Any, *args: Any, **named: Any) -> Any:
    """The first of the ever finer fits, and then Ctrl-C."""
    yield next(original(*args, **named))
    raise KeyboardInterrupt


def _stop(*_: Any, **__: Any) -> Any:
    raise KeyboardInterrupt


@pytest.mark.parametrize(("name", "broken"), [("estimates", _stopped), ("components", _stop)])
def test_an_interrupted_fit_releases_what_has_been_fitted(name: str, broken: Any) -> None:
    """After the first fit of the tree, or during the fit of the mixture; one Ctrl-C is enough."""
    with mq.Curator(table_of(SCHEMA, 800), BUDGETS["some"], noise=Seeded(0)) as curator:
        with everywhere(name, broken):
            made = mq.release(curator, mq.marginals(SCHEMA, k=2), method="combined", check=False)
        assert made.certificate.units == curator.ledger.spent()
    whole(made)
    assert "kept the tree" in made.explain()
    assert ("fit interrupted" in made.explain()) == (name == "estimates")
    assert any(len(step.columns) == 2 for step in made.trace)


@pytest.mark.parametrize("name", ["estimates", "believed"])
def test_an_interrupt_before_a_model_says_that_what_was_measured_is_charged(name: str) -> None:
    with mq.Curator(table_of(SCHEMA, 800), BUDGETS["some"], noise=Seeded(0)) as curator:
        with everywhere(name, _stop), pytest.raises(KeyboardInterrupt) as caught:
            mq.release(curator, mq.marginals(SCHEMA, k=2), method="combined")
        assert "what was measured is charged" in caught.value.__notes__[0]
        assert curator.ledger.spent() > 0


def test_the_check_follows_whatever_was_kept() -> None:
    """The comparison and the check are separate charges: the model is not changed by the check."""
    with mq.Curator(table_of(SCHEMA, 2000), BUDGETS["much"], noise=Seeded(0)) as curator:
        made = mq.release(curator, mq.marginals(SCHEMA, k=3), method="combined")
        last = [charge.units / curator.budget.limit for charge in curator.ledger.charges()][-2:]
    assert made.check is not None
    assert last == pytest.approx([checking.CHECK, checking.TYPICAL], rel=1e-3)


@pytest.mark.parametrize("most", [20, 2**24])
def test_models_are_compared_on_few_tables_where_these_are_large(most: int, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[int] = []

    def noted(original: Any, self: Any, questions: Any, answers: Any, **named: Any) -> Any:
        asked.append(sum(np.size(each) for each in answers))
        return original(self, questions, answers, **named)

    monkeypatch.setattr("maquette.releases.methods.combined.COMPARED_CELLS", most)
    with wrapped(mq.Curator, "measure_error", noted):
        made = released("combined", table_of(SCHEMA, 2000), BUDGETS["much"], Seeded(0))
    assert "mean distance of" in made.explain()
    assert (asked[-1] <= 3 * 20) == (most == 20)


def test_the_average_is_compared_by_the_mean_of_its_parts() -> None:
    tables = [("a",), ("b", "a")]
    schema = mq.Schema([mq.Integer("a", 0, 2), mq.Integer("b", 0, 3)])
    rng = np.random.default_rng(0)
    parts = [
        Mixture(schema, np.ones(1), [((n,), rng.dirichlet(np.ones(k))[None]) for n, k in (("a", 3), ("b", 4))])
        for _ in "12"
    ]
    models: list[BlendedModel | Mixture] = [BlendedModel(parts), *parts]
    for model, found in zip(models, answers_of(models, tables), strict=True):
        for table, cells in zip(tables, found, strict=True):
            assert cells == pytest.approx(model.marginal(table))
