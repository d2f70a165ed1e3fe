"""The audits a sparse vector must pass and its mutants must fail."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from itertools import product
from typing import Any, NamedTuple

import numpy as np

from maquette.audit.reference import (
    GuardNoise,
    ScriptedNoise,
    discrete_gaussian,
    grid,
    pattern_loss,
    patterns,
    reference_scales,
    reference_transcript,
    renyi,
)
from maquette.curator.sparse_vector import Settings, SparseVector, concentrated, resampled, unresampled
from maquette.errors import GuardSealed

FORMS = ("resampled", "zcdp", "unresampled")
THRESHOLD = 10
STREAMS = [
    [(10, 50), (10, 51), (10, 52)],
    [(9, 9), (11, 11), (10, 10)],
    [(10, 3), (8, 4), (11, 5)],
    [(11, -7), (9, -8), (9, -9)],
]


def settings_of(form: str, total: float | Fraction, **terms: Any) -> Settings:
    if form == "zcdp":
        return concentrated(rho=total, **terms)
    return (resampled if form == "resampled" else unresampled)(epsilon=total, **terms)


class Subject(NamedTuple):
    """A sparse vector under audit: how its settings are made, and its machine."""

    settings: Callable[..., Settings] = settings_of
    machine: type[SparseVector] = SparseVector


def run(machine: SparseVector, stream: list[tuple[int, int]]) -> list[tuple[bool, int | None]]:
    """Every test until the guard says that it is sealed."""
    outcomes = []
    for compared, released in stream:
        if machine.sealed:
            break
        above, value = machine.test(compared, answer_of=released)
        outcomes.append((above, value))
    return outcomes


def matches_the_reference_on_every_noise(subject: Subject, hits: int = 2, support: tuple[int, ...] = (-2, 0, 2)) -> int:
    """L1: transcript and requested scales equal the reference's for every noise vector; returns the number of runs."""
    runs = 0
    for form, numeric, stream in product(FORMS, (False, True), STREAMS):
        terms: dict[str, Any] = {"hits": hits, "sensitivity": 3, "numeric": numeric}
        settings = subject.settings(form, 0.7, **terms)
        ideal = reference_scales(form, 0.7, hits, 3, numeric=numeric)
        draws = 1 + len(stream) + hits * ((form != "unresampled") + numeric)
        # Indistinguishable noise vectors differ only in draws never made: one run stands for all of them.
        seen = set()
        for script in grid(support, draws):
            expected, asked = reference_transcript(form, hits, THRESHOLD, stream, script, numeric=numeric)
            if script[: len(asked)] in seen:
                continue
            seen.add(script[: len(asked)])
            noise = ScriptedNoise(script)
            machine = subject.machine(settings, THRESHOLD, noise)
            assert run(machine, stream) == expected, (form, stream, script)
            assert [call.kind for call in noise.calls] == [kind for kind, _ in asked]
            for call, (_, role) in zip(noise.calls, asked, strict=True):
                excess = float(call.scale) / ideal[role] - 1
                assert -1e-12 <= excess <= 2**-20, (form, role, excess)
                assert call.size == 1
            assert machine.sealed == (sum(above for above, _ in expected) == hits)
            if machine.sealed:
                refuses_when_sealed(machine)
            runs += 1
    return runs


def refuses_when_sealed(machine: SparseVector) -> None:
    try:
        machine.test(10**6)
    except GuardSealed:
        return
    raise AssertionError(f"the guard answered after {machine.hits} hits")


def guard_of(settings: Settings) -> GuardNoise:
    return GuardNoise(settings.hits, float(settings.threshold_scale), float(settings.query_scale), settings.refreshed)


def exact_epsilon(
    guard: GuardNoise, answer_epsilon: float, length: int, values: tuple[int, ...], sensitivity: int
) -> float:
    """L2: the largest loss over all patterns, streams and perturbations; each hit's answer adds its own full loss."""
    return max(
        pattern_loss(guard, pattern, values, sensitivity) + sum(pattern) * answer_epsilon
        for pattern in patterns(length, guard.hits)
    )


def keeps_its_epsilon(
    subject: Subject, form: str, *, hits: int, sensitivity: int = 1, numeric: bool = False, length: int = 5,
    values: tuple[int, ...] = (-8, 0, 9),
) -> float:  # fmt: skip
    settings = subject.settings(form, 1, hits=hits, sensitivity=sensitivity, numeric=numeric)
    answer = sensitivity / float(settings.answer.scale) if settings.answer else 0.0
    guard = guard_of(settings)._replace(hits=hits)
    epsilon = exact_epsilon(guard, answer, length, values, sensitivity)
    assert epsilon <= 1 + 1e-9, f"{form}, {hits} hits: exact epsilon {epsilon:.4f} > 1"
    return epsilon


def keeps_its_rho(subject: Subject, *, hits: int = 2) -> tuple[float, float]:
    """L2 for zCDP, part by part: the exact epsilon of one run gives the tests' share, the exact law the answers'.

    Rényi divergences of the tests alone are about a tenth of epsilon^2/2 and would let large mistakes pass.
    """
    rho = 0.5
    settings = subject.settings("zcdp", rho, hits=hits, sensitivity=1, numeric=True)
    run_epsilon = exact_epsilon(guard_of(settings)._replace(hits=1), 0.0, 6, (-12, 0, 13), 1)
    tests = hits * run_epsilon**2 / 2
    assert tests <= 0.9 * rho * (1 + 1e-9), f"tests cost {tests:.4f} > {0.9 * rho}"
    assert settings.answer is not None
    z, variance = np.arange(-100, 101), float(settings.answer.scale)
    laws = discrete_gaussian(z, variance), discrete_gaussian(z - 1, variance)
    answers = hits * max(renyi(*laws, order) / order for order in (1.01, 2, 8, 32))
    assert answers <= 0.1 * rho * (1 + 1e-9), f"answers cost {answers:.4f} > {0.1 * rho}"
    return tests, answers
