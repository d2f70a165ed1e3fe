"""Combined release: what is worth its noise is measured, models explain it, and the one closest to the rows is kept.

The models are a junction tree, of the tables that it can hold, a mixture of products, of all tables, and the average of
the two. Sharp dependencies suit the tree, many weak ones the mixture; a small paid comparison decides.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from maquette.curator import Curator
from maquette.errors import QueryError
from maquette.estimates import BlendedModel, Columns, Part, mixture_holds, paired, raked, units_for
from maquette.hypothesis import JunctionTree, Mixture, WeightedRecords
from maquette.query import Marginal, Workload
from maquette.releases.artifact import Model
from maquette.releases.methods.draft import Draft
from maquette.releases.methods.gathered import WIDE, fits_of, mixture_of, product_of, sharp_of, tree_of
from maquette.releases.methods.gathering import Gathering
from maquette.releases.methods.phases import STEPS, Phases, asking
from maquette.releases.methods.weighing import LARGEST
from maquette.releases.progress import Progress
from maquette.releases.starting import Start
from maquette.schema import Schema

MAX_CELLS = 200_000  # of the junction tree
CHOICE = 0.01  # share of the budget that compares the models, at the end
DIFFERENCE = 0.03  # standard deviation of a comparison, as a fraction of rows, above which it is not bought
COMPARED, COMPARED_CELLS = 100, 2**24  # most tables on which models are compared, and most cells of them together

Values = NDArray[np.float64]


def combined(
    curator: Curator,
    workload: Workload,
    *,
    epsilon: float | None = None,
    rho: float | None = None,
    units: int | None = None,
    max_cells: int = MAX_CELLS,
    target: str | None = None,
    spare: int = 0,
    start: Start | None = None,
    progress: bool | None = None,
) -> Draft:
    """Release the best of a junction tree, a mixture of products and their average, fitted to the same measurements.

    `max_cells` bounds the cells of the junction tree. `target` names a column whose tables count more: rows that train
    a model of that column need them. `spare` units are kept for a check of the finished model; they are measured with
    too if it would say nothing about so few rows. `start` is a public first hypothesis: columns are shrunk towards it,
    pairs that a look finds right are not bought again, and its rows, reweighted, are one more model. Interrupting the
    fits releases what has been fitted.

    Privacy: the measurements of `Gathering`, then one `measure_error` of the finished models: an adaptive composition
    of Gaussian mechanisms, each charged before it is answered. Fits are functions of released and public numbers.

    Accuracy: no theorem; intervals come from what was measured and from the check of the finished model.
    """
    _check(curator, max_cells, target)
    gathering = Gathering(curator, workload, units_for(curator, epsilon, rho, units), target, spare=spare, start=start)
    models: list[Model] = []
    with Progress("fitting", STEPS, progress) as shown:
        pairs = list(gathering.weights[2])
        phases = Phases(shown, [asking(2 * len(pairs)), *fits_of(gathering.found, max_cells, pairs)])
        try:
            gathering.run(CHOICE, DIFFERENCE, phases.told)
            phases.end()
            phases.predict(fits_of(gathering.found, max_cells))
            _fit(gathering, max_cells, models, phases)
            shown.update(STEPS)
        except KeyboardInterrupt as interrupt:
            if not models:
                interrupt.add_note("what was measured is charged; there is no model yet to release")
                raise
    model = _closest(gathering, models)
    evidence = gathering.found.evidence
    return Draft(model=model, evidence=evidence, trace=gathering.trace, explanation=tuple(gathering.said))


def _check(curator: Curator, max_cells: int, target: str | None) -> None:
    """Refuse what cannot be released, before anything is charged."""
    if isinstance(max_cells, bool) or not isinstance(max_cells, int) or max_cells < 1:
        raise QueryError(f"max_cells is {max_cells!r}", expected="a whole number of at least 1")
    if curator.budget.accountant.currency == "pure":
        raise QueryError(
            "method 'combined' needs a budget with delta above 0",
            advice='take method="graphical" or "everything", or give the budget a delta',
        )
    if target is not None:
        curator.schema.position(target)
    needed = _needed(curator.schema)
    if needed > max_cells:
        raise QueryError(
            f"the impossible combinations of the schema need a model of {needed:,} cells, more than the "
            f"{max_cells:,} allowed",
            advice="give max_cells, or declare them over fewer columns or fewer levels",
        )


def _needed(schema: Schema) -> int:
    """The cells of a junction tree that holds all impossible combinations."""
    sets = [columns for columns, _ in schema.zeros]
    sizes = {name: schema[name].size for columns in sets for name in columns}
    return JunctionTree(sizes, sets).cells if sets else 0


def _fit(gathering: Gathering, max_cells: int, models: list[Model], phases: Phases) -> None:
    """Fit every model that can hold what was measured, and average them."""
    found = gathering.found
    if not found.tables and not found.hints and not found.schema.zeros:
        product, said = product_of(found)
        gathering.said.append(said)
        models[:] = [_corrected(gathering, product), product] if gathering.trusted else [product]
        return
    tree, said = tree_of(found, gathering.gains, max_cells, phases.told)
    models.append(tree)
    gathering.said.append(said)
    parts: list[Part] = [tree]
    if (found.tables or found.hints) and mixture_holds(found.merging.merged) and not found.interrupted:
        phases.end()
        mixture, said = mixture_of(found, told=phases.told)
        if len(found.names) >= WIDE:
            mixture, sharp = paired(mixture, sharp_of(found, tree))
            said += f", {len(sharp)} sharp pairs as blocks"
        gathering.said.append(said)
        parts.append(mixture)
    if gathering.trusted:
        parts.append(_corrected(gathering, BlendedModel(parts)))
    if len(parts) > 1:
        models[:] = [BlendedModel(parts), *parts]
    if len(found.names) >= WIDE:
        models.append(product_of(found)[0])


def _corrected(gathering: Gathering, model: BlendedModel | Mixture) -> WeightedRecords:
    """The rows of the start, reweighted to have the columns and the measured tables of a fitted model."""
    found, start = gathering.found, gathering.start
    assert start is not None, "only a start is corrected"
    wanted: dict[Columns, Values] = {(name,): found.probabilities(name) for name in found.names}
    wanted |= {columns: gathering.cells(model, columns) for columns in found.tables}
    gathering.said.append(f"the rows of the start, reweighted to {len(wanted)} tables, are one more model")
    return raked(found.schema, start.records, start.weights, wanted, found.merging.groups)


def _closest(gathering: Gathering, models: Sequence[Model]) -> Model:
    """The model that is closest to the rows on some tables of the workload; the first if that cannot be told.

    The tables are drawn from a fixed seed. One row moves the mean of their distances by at most one (two under
    "replace", times the rows of a unit), so a small share tells models apart even where single distances are noise.
    """
    names = [_name(model) for model in models]
    tables = _compared(gathering)
    if len(models) == 1 or not gathering.reserve or not tables:
        reason = ": a comparison would say nothing" if len(models) > 1 else ""
        gathering.said.append(f"kept the {names[0]}{reason}")
        return models[0]
    rows = gathering.found.rows
    answers = [cells * rows for each in answers_of(models, tables) for cells in each]
    asked = [Marginal(gathering.schema, table) for table in tables] * len(models)
    try:
        seen = gathering.curator.measure_error(asked, answers, units=gathering.units - gathering.spent)
    except KeyboardInterrupt:
        gathering.said.append(f"kept the {names[0]}: the comparison was interrupted")
        return models[0]
    means = np.asarray(seen.values).reshape(len(models), -1).mean(axis=1) / 2 / rows
    best = int(np.argmin(means))
    listed = ", ".join(f"{name} {mean:.4f}" for name, mean in zip(names, means, strict=True))
    gathering.said.append(f"kept the {names[best]}: mean distance of {len(tables)} tables from the rows: {listed}")
    return models[best]


def _name(model: Model) -> str:
    if isinstance(model, Mixture) and model.components == 1:
        return "product of columns"
    names = {"graphical": "tree", "merged": "tree", "blended": "average", "records": "start"}
    return names.get(getattr(model, "kind", ""), "mixture")


def answers_of(models: Sequence[Model], tables: Sequence[Columns]) -> list[list[Values]]:
    """The probabilities of every model over these tables; an average has those of its parts, computed once."""
    own = {id(m): [np.asarray(m.marginal(t)) for t in tables] for m in models if not isinstance(m, BlendedModel)}
    found: list[list[Values]] = []
    for model in models:
        if isinstance(model, BlendedModel):
            parts = zip(*(own[id(part)] for part in model.parts), strict=True)
            found.append([model.mean(each) for each in parts])
        else:
            found.append(own[id(model)])
    return found


def _compared(gathering: Gathering) -> list[Columns]:
    """Some of the largest tables of the workload, from a fixed seed; fewer if they are large."""
    tables = [table for table in gathering.tables if gathering.schema.cells(table) <= LARGEST]
    largest = max(map(len, tables), default=0)
    tables = [table for table in tables if len(table) == largest]
    drawn = np.random.default_rng(0).choice(len(tables), min(COMPARED, len(tables)), replace=False)
    tables = [tables[i] for i in drawn]
    cells = np.cumsum([gathering.schema.cells(table) for table in tables])
    return tables[: max(1, int(np.searchsorted(cells, COMPARED_CELLS, side="right")))]
