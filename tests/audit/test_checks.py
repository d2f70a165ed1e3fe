"""The checks of `maquette audit` pass on the library as it is, and kill every mutant of the package's registry."""

from __future__ import annotations

import pytest

from maquette.audit.checks import CHECKS
from maquette.audit.mutants import MUTANTS, Mutant


@pytest.mark.thorough
@pytest.mark.parametrize("check", CHECKS)
def test_the_library_passes(check: str) -> None:
    CHECKS[check]()


@pytest.mark.thorough(fast=10)
@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
def test_mutant_is_killed(mutant: Mutant) -> None:
    assert mutant.kill() is not None, f"{mutant.name} survives {mutant.killer}"


def test_names_of_mutants_differ_and_their_checks_exist() -> None:
    assert len({mutant.name for mutant in MUTANTS}) == len(MUTANTS)
    assert {mutant.killer for mutant in MUTANTS} <= CHECKS.keys()


SURVIVED = [
    "permute-and-flip priced as a selection under zCDP",
    "guard ignores contributions where rows are replaced",
    "minus zero kept above scale 2^17",
    "one weighted bucket priced by high - low",
    "lottery reads before the charge",
    "lazy guard does not count a hit whose value is 0",
    "far tail decided by floats",
]


def test_the_seven_that_once_survived_are_in_the_registry() -> None:
    assert set(SURVIVED) <= {mutant.name for mutant in MUTANTS}
