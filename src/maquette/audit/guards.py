"""Guards under scripted noise (L1): every noise vector of a small grid gives the transcript of a short reference.

Scripts are in rows, because statistics, thresholds and scales are compared with the reference in rows.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from fractions import Fraction
from typing import Any

from maquette.audit.exact_losses import UNIT
from maquette.audit.reference.quiet import QuietNoise
from maquette.audit.reference.scripted import Call, ScriptedNoise, grid
from maquette.audit.reference.transcripts import reference_scales, reference_transcript
from maquette.audit.tiny import BASE, PURE, SCHEMA, SETTINGS, ZCDP, asked, tiny_table
from maquette.curator import Curator
from maquette.errors import GuardSealed
from maquette.privacy import Budget
from maquette.query import Marginal

PEOPLE = (*BASE, ((1, 2),))
FORMS = {"resampled": (PURE, True), "unresampled": (PURE, False), "zcdp": (ZCDP, None)}
BASIC = Budget(epsilon=50.0, delta=1e-6, accounting="basic")


def _price(budget: Budget, amount: float) -> dict[str, Any]:
    return {"epsilon": amount} if budget is PURE else {"rho": amount}


def check_measured_noise() -> int:
    """`measure`: for every noise vector the output is the count plus that noise, cell by cell, and nothing else."""
    question, vectors = Marginal(SCHEMA, ["b"], asked("a")), list(grid((-3, -1, 0, 1, 2), 3))
    noise = ScriptedNoise([value for vector in vectors for value in vector])
    with Curator(tiny_table(PEOPLE, 1), PURE, noise=noise) as curator:
        for vector in vectors:
            released = curator.measure(question, epsilon=0.5).values.tolist()
            assert released == [vector[0], vector[1], 2 + vector[2]], f"noise {vector} gave {released}"
    assert set(noise.calls) == {Call("laplace", Fraction(2), 3)}, "another law or scale than the question's"
    return len(vectors)


def check_guard_transcripts() -> int:
    """`guard`: outcomes, released numbers, distributions and scales on every noise vector of a grid."""
    queries = [(asked("a"), 0.25, 2), (asked("b = 'x'"), 1.0, 1), (asked("a"), 5.0, 2)]
    stream = [(round(abs(count - public) * UNIT), count * UNIT) for _, public, count in queries]
    runs = 0
    for (form, (budget, refreshed)), hits, numeric in itertools.product(FORMS.items(), (1, 2), (False, True)):
        scales = reference_scales(form, 2.0, hits, UNIT, numeric=numeric)
        for vector in itertools.product((-3, 0, 2), repeat=3):
            script = [value * UNIT for value in (*vector, 7, -5, 11, 4, 9)]
            noise, seen = ScriptedNoise(script), []
            with Curator(tiny_table(PEOPLE, 1), budget, noise=noise) as curator:
                guard = curator.guard(1.5, hits=hits, numeric=numeric, refreshed=refreshed, **_price(budget, 2.0))
                for query, public, _ in queries:
                    try:
                        seen.append(guard.test(query, public))
                    except GuardSealed:
                        break
            threshold = 3 * UNIT // 2
            expected, wanted = reference_transcript(form, hits, threshold, stream, script, numeric=numeric)
            found = [(t.above, None if t.count is None else round(t.count * UNIT)) for t in seen]
            assert found == expected, f"{form}, hits={hits}, noise {vector}: {found}, expected {expected}"
            assert [call.kind for call in noise.calls] == [law for law, _ in wanted]
            for call, (_, role) in zip(noise.calls, wanted, strict=True):
                assert abs(float(call.scale) / scales[role] - 1) < 1e-5, f"{form}: {role} noise {call.scale}"
            runs += 1
    return runs


def check_guard_contributions() -> None:
    """A guard's noise grows with the contribution bound, under both relations, in every form."""
    for (relation, m), (form, (budget, refreshed)) in itertools.product(SETTINGS, FORMS.items()):
        for numeric in (False, True):
            noise = QuietNoise()
            with Curator(tiny_table(PEOPLE, m), budget, relation=relation, noise=noise) as curator:
                guard = curator.guard(1.5, numeric=numeric, refreshed=refreshed, **_price(budget, 2.0))
                guard.test(asked("a"), 50.0)
            scales = reference_scales(form, 2.0, 1, m * UNIT, numeric=numeric)
            for call, role in zip(noise.calls, ("threshold", "query", *(["answer"] if numeric else [])), strict=False):
                assert float(call.scale) >= scales[role] * (1 - 1e-5), f"{relation}, {m} rows, {form}: {role} noise"
    for relation, m in SETTINGS:
        noise = QuietNoise()
        with Curator(tiny_table(PEOPLE, m), BASIC, relation=relation, noise=noise) as curator:
            lazy = curator.lazy_guard(1.5, hits=2, epsilon=1.0)
            lazy.test(asked("a"), 50.0)
            moved = lazy.event.sensitivity
        assert moved == m * UNIT, f"lazy guard, {relation}, {m} rows: priced for {moved}"


def check_hits_of_zero() -> None:
    """A hit counts whatever number it releases, including 0."""
    nobody = asked("a AND b = 'x'")
    doors: list[tuple[Budget, Callable[[Curator], Any]]] = [
        (PURE, lambda c: c.guard(1.5, hits=2, epsilon=1.0)),
        (PURE, lambda c: c.guard(1.5, hits=2, epsilon=1.0, numeric=False)),
        (BASIC, lambda c: c.lazy_guard(1.5, hits=2, epsilon=1.0)),
    ]
    for budget, opened in doors:
        with Curator(tiny_table(PEOPLE, 1), budget, noise=QuietNoise()) as curator:
            guard = opened(curator)
            first = guard.test(nobody, 50.0)
            assert first.above, "an answer that is 50 rows off is no hit"
            assert guard.hits_left == 1, "a hit whose number is 0 was not counted"
            guard.test(nobody, 50.0)
            assert guard.sealed, "a guard with no hits left is open"
            try:
                guard.test(nobody, 50.0)
            except GuardSealed:
                continue
            raise AssertionError("a sealed guard answers")
