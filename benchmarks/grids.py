"""L1: every noise vector of a grid, through the production doors, against short references written here.

    python benchmarks/grids.py --workers 2 --record        # all of them: over 1.7 million runs
    python benchmarks/grids.py --every 50                  # one run in fifty of each family

A *run* is one access (a measurement, a selection, a guard's life) with scripted noise in place of random noise. It is
compared with a reference that knows the theory and nothing of the code: what is released, which noise was asked for, in
which order, at which scale. Prints JSON; the exit code is 1 if there is a difference.
"""

from __future__ import annotations

import argparse
import functools
import itertools
import json
import math
import multiprocessing as mp
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from fractions import Fraction
from typing import Any

import numpy as np

import maquette as mq
from maquette.audit.reference import ScriptedNoise, reference_scales, reference_transcript
from maquette.curator.guard import GRID
from maquette.curator.sparse_vector import SparseVector, concentrated, resampled, unresampled
from maquette.errors import GuardSealed
from maquette.query import Marginal

SCHEMA = mq.Schema([mq.Boolean("a"), mq.Category("b", ["x", "y", "z"])])
POINTS = tuple(itertools.product((False, True), "xyz"))
PURE, ZCDP = mq.Budget(epsilon=9e3), mq.Budget(rho=4e3, delta=1e-9)
SETTINGS = (("add-remove", 1), ("replace", 1), ("add-remove", 2), ("replace", 2))
TABLES = (
    ((False, "x"), (True, "z"), (True, "z")),
    ((True, "y"),),
    ((False, "x"), (False, "y"), (False, "z"), (True, "x"), (True, "x")),
)
ROUNDED_UP = 1 + 2.0**-19  # scales are rounded up by at most one part in 2^20

Run = tuple[bool, str]  # whether it agrees, and what it was


@functools.cache
def _open(rows: tuple[tuple[bool, str], ...], m: int) -> mq.PrivateTable:
    columns: dict[str, list[Any]] = {"a": [a for a, _ in rows], "b": [b for _, b in rows]}
    if m == 1:
        return mq.open_table(columns, SCHEMA)
    columns["who"] = [str(i // m) for i in range(len(rows))]
    return mq.open_table(columns, SCHEMA, privacy_unit="who", max_contributions=m)


@contextmanager
def _curator(rows: Any, relation: Any, m: int, budget: mq.Budget, script: Sequence[int]) -> Iterator[Any]:
    noise = Recording(script)
    with mq.Curator(_open(rows, m), budget, relation=relation, noise=noise) as curator:
        yield curator, noise


class Recording(ScriptedNoise):
    """Scripted noise that also keeps the scores of selections."""

    def __init__(self, values: Sequence[int]) -> None:
        super().__init__(values)
        self.scores: list[list[int]] = []

    def again(self, values: Sequence[int]) -> None:
        """Begin another script."""
        self._values, self.used, self.calls = list(values), 0, []

    def exponential(self, scores: Any, scale: Fraction) -> int:
        self.scores.append(scores.tolist())
        return super().exponential(scores, scale)

    def permute_and_flip(self, scores: Any, scale: Fraction) -> int:
        self.scores.append(scores.tolist())
        return super().permute_and_flip(scores, scale)


def _price(budget: mq.Budget, amount: float) -> dict[str, float]:
    return {"epsilon": amount} if budget is PURE else {"rho": amount}


def _counts(rows: Any, axes: str, keep: Callable[[bool, str], float] = lambda a, b: 1.0) -> np.ndarray:
    """A marginal by its definition."""
    found = np.zeros([{"a": 2, "b": 3}[axis] for axis in axes])
    for a, b in rows:
        place = {"a": int(a), "b": "xyz".index(b)}
        found[tuple(place[axis] for axis in axes)] += keep(a, b)
    return found


@functools.cache
def _largest_move(axes: str, relation: str, m: int, power: int) -> float:
    """The L1 norm (or squared L2 norm) of the largest move of a marginal by one unit, over all units; at least 1.

    Where units are rows, a row is replaced by a row; a person of up to m rows by one of none to m.
    """
    sizes = (1,) if relation == "replace" and m == 1 else range(m + 1)
    sums = [_counts(rows, axes) for size in sizes for rows in itertools.combinations_with_replacement(POINTS, size)]
    others = sums if relation == "replace" else [np.zeros_like(sums[0])]
    return max(1.0, *(float((np.abs(one - other) ** power).sum()) for one in sums for other in others))


STREAMS = (
    ((0, 0), (2, 7), (1, 3), (5, 5)),
    ((3, 1), (3, 1), (3, 1), (3, 1)),
    ((-4, 2), (1, 0), (-4, 2), (1, 0)),
    ((9, 9), (0, 4), (9, 9), (0, 4)),
    ((2, 2), (1, 1), (0, 0), (-1, -1)),
    ((0, 5), (0, 5), (4, 6), (4, 6)),
)
MAKERS: dict[str, Any] = {"resampled": resampled, "unresampled": unresampled, "zcdp": concentrated}


def sparse_vectors() -> Iterator[Callable[[], Run]]:
    """The machine inside every guard: all forms, up to three hits, with and without numbers."""
    for form, hits, numeric in itertools.product(MAKERS, (1, 2, 3), (False, True)):
        amount = {"rho" if form == "zcdp" else "epsilon": 2.0}
        settings = MAKERS[form](**amount, hits=hits, sensitivity=1, numeric=numeric)
        scales = reference_scales(form, 2.0, hits, 1, numeric=numeric)
        one = functools.partial(_machine, settings=settings, scales=scales, form=form, numeric=numeric)
        for stream, vector in itertools.product(STREAMS, itertools.product((-4, -1, 0, 1, 4), repeat=6)):
            yield functools.partial(one, stream, vector)


def _machine(stream: Any, vector: Any, *, settings: Any, scales: dict[str, float], form: str, numeric: bool) -> Run:
    script = [*vector, 1, -2, 0, 3, -1, 2]
    noise, seen = ScriptedNoise(script), []
    machine = SparseVector(settings, 2, noise)
    for compared, released in stream:
        if machine.sealed:
            break
        outcome = machine.test(compared, answer_of=released if numeric else None)
        seen.append((outcome.above, outcome.value))
    expected, asked = reference_transcript(form, settings.hits, 2, stream, script, numeric=numeric)
    right = seen == expected and [call.kind for call in noise.calls] == [law for law, _ in asked]
    right = right and all(
        1 - 1e-12 < float(call.scale) / scales[role] < ROUNDED_UP
        for call, (_, role) in zip(noise.calls, asked, strict=True)
    )
    return right, f"sparse vector {form} hits {settings.hits} numeric {numeric} stream {stream} noise {vector}"


SUPPORTS = {"": range(-6, 7), "a": range(-3, 4), "b": (-3, -1, 0, 2), "ab": (-2, 0, 3)}


def measurements() -> Iterator[Callable[[], Run]]:
    """`measure` of tables: counts plus noise cell by cell, at a scale of the largest move over all units."""
    for (relation, m), rows, axes, law in itertools.product(SETTINGS, TABLES, SUPPORTS, ("laplace", "gaussian")):
        vectors = list(itertools.product(SUPPORTS[axes], repeat=_counts(rows, axes).size))
        batch = functools.partial(_measured, vectors, rows=rows, relation=relation, m=m, axes=axes, law=law)
        yield from _batched(batch, len(vectors))


def _measured(vectors: Any, *, rows: Any, relation: str, m: int, axes: str, law: Any) -> Iterator[Run]:
    budget = PURE if law == "laplace" else ZCDP
    move = _largest_move(axes, relation, m, 1 if law == "laplace" else 2)
    ideal = move / 0.01 if law == "laplace" else move / (2 * 0.01)
    exact = _counts(rows, axes)
    script = [int(v) for vector in vectors for v in vector]
    with _curator(rows, relation, m, budget, script) as (curator, noise):
        for vector in vectors:
            before = len(noise.calls)
            released = curator.measure(Marginal(SCHEMA, list(axes)), noise=law, **_price(budget, 0.01)).values
            (call,) = noise.calls[before:]
            right = released.tolist() == (exact + np.array(vector).reshape(exact.shape)).tolist()
            right &= call.kind == law and call.size == exact.size
            right &= ideal * (1 - 1e-12) <= float(call.scale) <= ideal * ROUNDED_UP
            yield right, f"measure {axes!r} {law} {relation} m={m} noise {vector}"


def _batched(batch: Callable[[], Iterator[Run]], size: int) -> Iterator[Callable[[], Run]]:
    """Runs that share a curator: it is opened by the first that is wanted."""
    started: list[Iterator[Run]] = []

    def run() -> Run:
        if not started:
            started.append(batch())
        return next(started[0])

    for _ in range(size):
        yield run


def errors() -> Iterator[Callable[[], Run]]:
    """`measure_error` of two questions: their L1 distances plus noise, at the sum of their sensitivities."""
    publics = ((0.0, 0.0), (1.0, 2.0), (0.4, 1.6), (3.0, 0.0))
    vectors = list(itertools.product(range(-3, 4), repeat=2))
    for (relation, m), rows, level in itertools.product(SETTINGS, TABLES, publics):

        def batch(relation: str = relation, m: int = m, rows: Any = rows, level: Any = level) -> Iterator[Run]:
            answers = [np.full(2, level[0]), np.full((3, 2), level[1])]
            questions = [Marginal(SCHEMA, ["a"]), Marginal(SCHEMA, ["b", "a"])]
            exact = [np.abs(_counts(rows, axes) - np.rint(public)).sum()
                     for axes, public in zip(("a", "ba"), answers, strict=True)]  # fmt: skip
            ideal = sum(_largest_move(axes, relation, m, 1) for axes in ("a", "ba")) / 0.01
            with _curator(rows, relation, m, PURE, [v for vector in vectors for v in vector]) as (curator, noise):
                for vector in vectors:
                    found = curator.measure_error(questions, answers, epsilon=0.01).values
                    call = noise.calls[-1]
                    right = found.tolist() == [e + v for e, v in zip(exact, vector, strict=True)]
                    right &= call.size == 2 and ideal * (1 - 1e-12) <= float(call.scale) <= ideal * ROUNDED_UP
                    yield right, f"measure_error {relation} m={m} public {level} noise {vector}"

        yield from _batched(batch, len(vectors))


def selections() -> Iterator[Callable[[], Run]]:
    """`select_worst`, `select_best` and `lottery`: scores, scale and what the drawn index is read back as."""
    publics = [np.array(level).reshape(3, 2) for level in itertools.product((0.0, 1.4), repeat=6)]
    for (relation, m), rows, budget in itertools.product(SETTINGS, TABLES, (PURE, ZCDP)):

        def batch(relation: str = relation, m: int = m, rows: Any = rows, budget: mq.Budget = budget) -> Iterator[Run]:
            question, exact = Marginal(SCHEMA, ["b", "a"]), _counts(rows, "ba")
            strength = 0.01 if budget is PURE else math.sqrt(8 * 0.01)
            script = [i for n in range(len(publics)) for i in (n % 6, n % 12, n % 3, n % 12)]
            with _curator(rows, relation, m, budget, script) as (curator, noise):
                drawing = curator.lottery([question])
                for n, public in enumerate(publics):
                    off = (exact - np.rint(public)).ravel()
                    fine = (exact.ravel() * GRID - np.rint(public.ravel() * GRID)).astype(int)
                    worst = curator.select_worst([question], [public], **_price(budget, 0.01))
                    signed = curator.select_worst([question], [public], signed=True, **_price(budget, 0.01))
                    candidates = np.stack([public.ravel(), exact.ravel() + 2, np.zeros(6)])
                    best = curator.select_best([question], candidates, **_price(budget, 0.01))
                    drawn = drawing.draw(public.ravel(), draws=1, **_price(budget, 0.01))
                    errs = [-float(np.abs(np.rint(c) - exact.ravel()).max()) for c in candidates]
                    scores = [np.abs(off), np.concatenate([off, -off]), errs, np.concatenate([fine, -fine])]
                    right = [list(map(float, s)) for s in scores] == [list(map(float, s)) for s in noise.scores[-4:]]
                    for call, grid in zip(noise.calls[-4:], (1, 1, 1, GRID), strict=True):
                        right &= 1 - 1e-9 <= float(call.scale) / (2 * m * grid / strength) <= ROUNDED_UP
                    right &= worst.cell == np.unravel_index(n % 6, (3, 2))
                    right &= signed.sign == (1 if n % 12 < 6 else -1) and best.index == n % 3
                    right &= int(drawn.cells[0]) == n % 12 % 6
                    yield bool(right), f"selections {relation} m={m} {budget.accounting} public {public.tolist()}"

        yield from _batched(batch, len(publics))


def guards() -> Iterator[Callable[[], Run]]:
    """`guard`: a whole guard behind the door, ledger and all."""
    asked = (("a", lambda a, b: a, 0.2), ("b = 'x'", lambda a, b: b == "x", 1.4), ("a", lambda a, b: a, 5.0))
    forms = {"resampled": (PURE, True), "unresampled": (PURE, False), "zcdp": (ZCDP, None)}
    vectors = list(itertools.product((-4, -1, 0, 2), repeat=5))
    for rows, form, hits, numeric in itertools.product(TABLES[:2], forms, (1, 2), (False, True)):

        def batch(rows: Any = rows, form: str = form, hits: int = hits, numeric: bool = numeric) -> Iterator[Run]:
            budget, refreshed = forms[form]
            exact = [round(float(_counts(rows, "", keep))) for _, keep, _ in asked]
            stream = [(abs(count * GRID - round(public * GRID)), count * GRID)
                      for count, (_, _, public) in zip(exact, asked, strict=True)]  # fmt: skip
            scales = reference_scales(form, 0.5, hits, GRID, numeric=numeric)
            questions = [(mq.where(SCHEMA, text), public) for text, _, public in asked]
            with _curator(rows, "add-remove", 1, budget, []) as (curator, noise):
                for vector in vectors:
                    script = [v * GRID for v in (*vector, 1, -2, 0, 3)]
                    noise.again(script)
                    guard = curator.guard(1.5, hits=hits, numeric=numeric, refreshed=refreshed, **_price(budget, 0.5))
                    said: list[Any] = []
                    for question, public in questions:
                        try:
                            tested = guard.test(question, public)
                        except GuardSealed:
                            break
                        said.append((tested.above, None if tested.count is None else round(tested.count * GRID)))
                    expected, requests = reference_transcript(
                        form, hits, math.ceil(1.5 * GRID), stream, script, numeric=numeric
                    )
                    right = said == expected and [c.kind for c in noise.calls] == [law for law, _ in requests]
                    right = right and all(
                        1 - 1e-5 < float(call.scale) / scales[role] < 1 + 1e-5
                        for call, (_, role) in zip(noise.calls, requests, strict=True)
                    )
                    yield right, f"guard {form} hits {hits} numeric {numeric} noise {vector}"

        yield from _batched(batch, len(vectors))


def lazy_guards() -> Iterator[Callable[[], Run]]:
    """`lazy_guard`: each test a fresh draw, the same number released on a hit, nothing once sealed."""
    asked = (("a", lambda a, b: a, 0.2), ("b = 'x'", lambda a, b: b == "x", 1.4), ("a", lambda a, b: a, 5.0))
    budget = mq.Budget(epsilon=9.0, delta=1e-6, accounting="basic")
    for rows, hits, vector in itertools.product(TABLES[:2], (1, 2), itertools.product((-7, -2, 0, 1, 3), repeat=3)):

        def run(rows: Any = rows, hits: int = hits, vector: Any = vector) -> Run:
            said: list[Any] = []
            with _curator(rows, "add-remove", 1, budget, [v * GRID for v in vector]) as (curator, noise):
                guard = curator.lazy_guard(1.5, hits=hits, epsilon=1.0)
                for text, _, public in asked:
                    try:
                        tested = guard.test(mq.where(SCHEMA, text), public)
                        said.append(tested.count)
                    except GuardSealed:
                        said.append("sealed")
            expected: list[Any] = []
            for (_, keep, public), drawn in zip(asked, vector, strict=True):
                if sum(isinstance(e, float) for e in expected) == hits:
                    expected.append("sealed")
                    continue
                noisy = float(_counts(rows, "", keep)) + drawn
                expected.append(noisy if abs(noisy * GRID - round(public * GRID)) > math.ceil(1.5 * GRID) else None)
            return said == expected and len(noise.calls) == 3 - expected.count("sealed"), f"lazy guard {hits} {vector}"

        yield run


def row_counts() -> Iterator[Callable[[], Run]]:
    """`count_rows`: noisy under add-remove, exact where it is public."""
    for (relation, m), rows, drawn in itertools.product(SETTINGS, TABLES, range(-9, 10)):

        def run(relation: str = relation, m: int = m, rows: Any = rows, drawn: int = drawn) -> Run:
            public = relation == "replace" and m == 1
            with _curator(rows, relation, m, PURE, [drawn]) as (curator, noise):
                found = curator.count_rows() if public else curator.count_rows(epsilon=0.5)
                spent = curator.spent.epsilon
            right = found == len(rows) + (0 if public else drawn) and spent == (0 if public else 0.5)
            return right and len(noise.calls) == (0 if public else 1), f"count_rows {relation} m={m} noise {drawn}"

        yield run


FAMILIES = (sparse_vectors, measurements, errors, selections, guards, lazy_guards, row_counts)


def tried(part: int, parts: int, every: int) -> dict[str, Any]:
    """Run this part of all families; a family whose runs share curators is cut into whole batches."""
    counts: dict[str, int] = {}
    differences: list[str] = []
    for family in FAMILIES:
        done = 0
        for number, run in enumerate(family()):
            block = number // 512  # neighbours in the enumeration may share a curator
            if block % parts != part or block // parts % every:
                continue
            agrees, what = run()
            done += 1
            if not agrees:
                differences.append(what)
        counts[family.__name__] = done
    return {"counts": counts, "differences": differences}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--every", type=int, default=1, help="run one block in so many")
    parser.add_argument("--record", action="store_true", help="write the figures to results/reliability.json")
    settings = parser.parse_args()
    began = time.perf_counter()
    with mp.get_context("fork").Pool(settings.workers) as pool:
        parts = pool.starmap(tried, [(part, settings.workers, settings.every) for part in range(settings.workers)])
    counts = {family.__name__: sum(part["counts"][family.__name__] for part in parts) for family in FAMILIES}
    differences = [what for part in parts for what in part["differences"]]
    figures = {"runs": sum(counts.values()), "differences": len(differences), "families": counts}
    print(json.dumps({**figures, "seconds": round(time.perf_counter() - began), "shown": differences[:10]}, indent=1))
    if settings.record:
        from recording import record

        record("grids", figures)
    return int(bool(differences))


if __name__ == "__main__":
    sys.exit(main())
