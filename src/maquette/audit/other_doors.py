"""The doors other than `measure`, on questions that `measure` accepted, whose exact values are therefore known."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from fractions import Fraction
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from maquette.audit.benches import Bench, Outcome
from maquette.audit.questions import Asked, Pair
from maquette.query import Contrasts

if TYPE_CHECKING:
    from maquette.audit.questions import _Batch as Batch

GUARD = 2**20  # guarded statistics and lottery scores are in these units
FAR = 2.0**30
TESTED = 80  # questions per guard


def ask_other_doors(batch: Batch, accepted: Sequence[Asked]) -> None:
    """Pass small groups of the questions to two doors each, and every single number to the guards."""
    rng = batch.rng
    order = [accepted[i] for i in rng.permutation(len(accepted))]
    order.sort(key=lambda asked: asked.form.trusted)  # those of unknown meaning form their own groups
    while order:
        count = int(rng.integers(1, 4)) if order[0].form.trusted else 1
        group, order = order[:count], order[count:]
        for door in rng.choice(len(DOORS), size=2, replace=False):
            relation = ("add-remove", "replace")[rng.integers(2)]
            DOORS[door](batch, relation, batch.pairs[relation], group)  # type: ignore[index]
    single = [asked for asked in accepted if asked.shape == () and not isinstance(asked.question, Contrasts)]
    for relation, pair in batch.pairs.items():
        for asked in accepted[:1]:
            batch.twice("count_rows", pair, asked.form, lambda b: b.curator.count_rows(**b.price))
        for asked in single[:TESTED]:
            if rng.random() < 0.5:
                _guards(batch, relation, pair, asked)


def _many(batch: Batch, relation: str, pair: Pair, group: Sequence[Asked]) -> None:
    questions = [asked.question for asked in group]
    answers = batch.twice("measure_many", pair, group[0].form, lambda b: b.curator.measure_many(questions, **b.price))
    if answers is None:
        return
    for side, answer in enumerate(answers):
        for asked, measured in zip(group, answer.result, strict=True):
            values = [int(v) for v in np.ravel(measured.values) * asked.grid]
            if values != asked.values[relation, side]:
                batch.fault("measure_many", asked.form, "other values than `measure` gives")
    for i, asked in enumerate(group):
        one, other = (asked.values[relation, side] for side in (0, 1))
        batch.within_price("measure_many", asked.form, answers[0].result[i].event, one, other)


def _error(batch: Batch, relation: str, pair: Pair, group: Sequence[Asked]) -> None:
    public = _answers(batch, relation, group)
    questions = [asked.question for asked in group]
    answers = batch.twice(
        "measure_error", pair, group[0].form, lambda b: b.curator.measure_error(questions, public, **b.price)
    )
    if answers is None:
        return
    grid = max(asked.grid for asked in group)
    released = [[int(v) for v in answer.result.values * grid] for answer in answers]
    batch.within_price("measure_error", group[0].form, answers[0].result.event, released[0], released[1])
    for side, values in enumerate(released):
        expected = [
            sum(abs(error) for error in _errors(asked, relation, side, answer)) * (grid // asked.grid)
            for asked, answer in zip(group, public, strict=True)
        ]
        if values != expected and all(asked.form.trusted for asked in group):
            batch.fault("measure_error", group[0].form, f"distances {values[:5]}, expected {expected[:5]}")


def _worst(over: str, signed: bool, weighted: bool) -> Callable[..., None]:
    door = f"select_worst ({over}{', signed' * signed}{', weighted' * weighted})"

    def ask(batch: Batch, relation: str, pair: Pair, group: Sequence[Asked]) -> None:
        public = _answers(batch, relation, group)
        questions = [asked.question for asked in group]
        extra: dict[str, Any] = {"over": over, "signed": signed}
        if weighted:
            extra |= {"weights": batch.rng.random(len(group)) + 1e-3, "penalties": batch.rng.normal(0, 3, len(group))}
        if batch.rng.random() < 0.4:
            extra["mechanism"] = str(batch.rng.choice(["exponential", "permute-and-flip"]))
        answers = batch.twice(
            door, pair, group[0].form, lambda b: b.curator.select_worst(questions, public, **extra, **b.price)
        )
        if answers is None:
            return
        _check_selection(batch, door, pair, group, answers)
        if weighted or not all(asked.form.trusted for asked in group):
            return
        grid = max(asked.grid for asked in group)
        for side, answer in enumerate(answers):
            expected: list[int] = []
            places: list[tuple[int, int | None, int | None]] = []
            for i, (asked, known) in enumerate(zip(group, public, strict=True)):
                errors = [error * (grid // asked.grid) for error in _errors(asked, relation, side, known)]
                if over == "marginals":
                    expected.append(sum(map(abs, errors)))
                    places.append((i, None, None))
                else:
                    expected += [*errors, *(-e for e in errors)] if signed else [abs(e) for e in errors]
                    ways = (1, -1) if signed else (None,)
                    places += [(i, cell, way) for way in ways for cell in range(len(errors))]
            if answer.scores[0].tolist() != expected:
                batch.fault(door, group[0].form, "scores are not the errors of the public answers")
                continue
            chosen = answer.result
            asked = group[chosen.index]
            cell = (
                None
                if chosen.cell is None
                else int(np.ravel_multi_index(chosen.cell, asked.shape) if asked.shape else 0)
            )
            if (chosen.index, cell, chosen.sign) != places[int(np.argmax(expected))]:
                batch.fault(door, group[0].form, f"chose {places[int(np.argmax(expected))]} and said {chosen}")

    return ask


def _best(batch: Batch, relation: str, pair: Pair, group: Sequence[Asked]) -> None:
    count = sum(len(asked.values[relation, 0]) for asked in group)
    truth = np.concatenate([np.array(asked.values[relation, 0]) / asked.grid for asked in group])
    table = np.stack([truth + batch.rng.normal(0, 2, count), np.zeros(count), np.rint(truth) + 0.5])
    questions = [asked.question for asked in group]
    answers = batch.twice(
        "select_best", pair, group[0].form, lambda b: b.curator.select_best(questions, table, **b.price)
    )
    if answers is None:
        return
    _check_selection(batch, "select_best", pair, group, answers)
    if not all(asked.form.trusted for asked in group):
        return
    grid = max(asked.grid for asked in group)
    for side, answer in enumerate(answers):
        exact = [v * (grid // asked.grid) for asked in group for v in asked.values[relation, side]]
        expected = [-max(abs(round(float(c) * grid) - e) for c, e in zip(row, exact, strict=True)) for row in table]
        if answer.scores[0].tolist() != expected:
            batch.fault("select_best", group[0].form, "scores are not minus the largest error of each candidate")


def _lottery(batch: Batch, relation: str, pair: Pair, group: Sequence[Asked]) -> None:
    group = [asked for asked in group if not isinstance(asked.question, Contrasts)]
    if not group:
        return
    public = np.concatenate([np.ravel(answer) for answer in _answers(batch, relation, group)])
    rows = np.stack([public, public + 1.25]) if batch.rng.random() < 0.3 else public[None]
    between = (0.5, 2.5) if batch.rng.random() < 0.5 else None
    questions = [asked.question for asked in group]
    answers = batch.twice(
        "lottery",
        pair,
        group[0].form,
        lambda b: b.curator.lottery(questions, between=between).draw(rows, draws=1, **b.price),
    )
    if answers is None:
        return
    _check_selection(batch, "lottery", pair, group, answers)
    if not all(asked.form.trusted for asked in group):
        return
    for side, answer in enumerate(answers):
        exact = [v * (GUARD // asked.grid) for asked in group for v in asked.values[relation, side]]
        rounded = [[round(float(a) * GUARD) for a in row] for row in rows]
        if between is None:
            errors = [len(rows) * e - sum(row[i] for row in rounded) for i, e in enumerate(exact)]
            expected = [*errors, *(-error for error in errors)]
        else:
            low, high = (int(b * GUARD) for b in between)
            expected = [sum(min(max(abs(e - row[i]), low), high) for row in rounded) for i, e in enumerate(exact)]
        if answer.scores[0].tolist() != expected:
            batch.fault("lottery", group[0].form, "scores are not the errors of the public answers")


def _guards(batch: Batch, relation: str, pair: Pair, asked: Asked) -> None:
    """A hit of every guard releases the exact count, since the noise is zero; it changes by its contributions only."""
    doors: dict[str, Callable[[Bench], Any]] = {
        "guard": lambda b: b.curator.guard(2.0, hits=TESTED, **b.price),
        "lazy_guard": lambda b: b.curator.lazy_guard(2.0, hits=TESTED, epsilon=50.0),
    }
    for door, opened in doors.items():
        if door == "lazy_guard" and pair[0].curator.budget.accounting != "basic":
            continue
        for bench in pair:
            bench.keep(door, opened)
        tested = partial(_tested, door, asked.question)
        answers = batch.twice(f"{door}.test", pair, asked.form, tested)
        if answers is None:
            continue
        counts = [None if a.result.count is None else Fraction(a.result.count) for a in answers]
        expected = [Fraction(asked.values[relation, side][0], asked.grid) for side in (0, 1)]
        if counts != expected and asked.form.trusted:
            batch.fault(f"{door}.test", asked.form, f"released {counts} on hits, expected {expected}")
        if None not in counts and abs(counts[0] - counts[1]) > pair[0].contributions:  # type: ignore[operator]
            batch.fault(f"{door}.test", asked.form, "a count moves by more than the rows of a unit")


def _tested(door: str, question: Any, bench: Bench) -> Any:
    return bench.kept[door].test(question, FAR)


DOORS = (
    _many,
    _error,
    _worst("cells", False, False),
    _worst("cells", True, False),
    _worst("cells", False, True),
    _worst("marginals", False, False),
    _worst("marginals", False, True),
    _best,
    _lottery,
)


def _check_selection(
    batch: Batch, door: str, pair: Pair, group: Sequence[Asked], answers: tuple[Outcome, Outcome]
) -> None:
    """No score changes so much that the exponent 2 D / scale would exceed the charge."""
    (call,) = answers[0].calls
    one, other = (answer.scores[0] for answer in answers)
    if one.dtype != np.int64 or len(one) != len(other):
        batch.fault(door, group[0].form, "scores are not integers, or their number depends on the rows")
        return
    moved = max(abs(int(a) - int(b)) for a, b in zip(one, other, strict=True))
    strength = pair[0].strength(answers[0].units, call.kind)
    if 2 * moved > call.scale * strength:
        batch.fault(
            door, group[0].form, f"a score moves by {moved}, and {float(call.scale * strength / 2):.6g} was priced"
        )


def _answers(batch: Batch, relation: str, group: Sequence[Asked]) -> list[np.ndarray]:
    """Public answers in counts: close ones, far ones, and zeros."""
    answers = []
    for asked in group:
        truth = np.array(asked.values[relation, 0], dtype=np.float64).reshape(asked.shape) / asked.grid
        kind = batch.rng.integers(4)
        if kind == 0:
            truth = np.zeros(asked.shape)
        elif kind == 1:
            truth = np.asarray(truth + batch.rng.normal(0, 3, asked.shape))
        elif kind == 2:
            truth = np.asarray(np.full(asked.shape, float(batch.rng.choice([-7.5, 0.5, 1e6]))))
        answers.append(truth)
    return answers


def _errors(asked: Asked, relation: str, side: int, public: np.ndarray) -> list[int]:
    """Exact values minus public answers, which are rounded to the grid, half to even.

    A grid is a power of two, so that the product of a float and a grid is exact.
    """
    rounded = [round(float(answer) * asked.grid) for answer in np.ravel(public)]
    return [v - r for v, r in zip(asked.values[relation, side], rounded, strict=True)]
