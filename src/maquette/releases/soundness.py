"""Checks of a loaded release before it is used: a certificate for its own schema, and finite numbers.

A saved file can be made by anyone. Models and evidence check their own arrays when they are restored; a release that
passes all checks behaves like one made here.
"""

from __future__ import annotations

import math
import re
from typing import Any

from maquette.estimates import Step
from maquette.hypothesis.saving import unfit
from maquette.privacy import ACCOUNTANTS
from maquette.releases.artifact import Certificate, Release, named_plainly

LARGEST = 2**63  # ledger units are smaller
DIGITS = 19  # of such a number, and of the rows of a unit
_TEXTS = ("currency", "relation", "method", "schema", "version")
_OPTIONAL = ("accuracy", "unit", "checked", "start", "cut", "table")


def sound(release: Release) -> Release:
    """The release itself; DataError if a part of it does not fit the others."""
    _certificate(release.certificate)
    if release.certificate.schema != release.schema.digest:
        raise unfit("certificate is of another schema than the file's own")
    if not all(map(_drawable, release.trace)):
        raise unfit("rounds lack a number or the names of columns")
    if not math.isfinite(release.evidence.rows):
        raise unfit("number of rows is not a number")
    return release


def _certificate(certificate: Certificate) -> None:
    numbers: list[Any] = [certificate.epsilon, certificate.delta]
    numbers += [] if certificate.rho is None else [certificate.rho]
    texts = [getattr(certificate, name) for name in _TEXTS]
    texts += [text for name in _OPTIONAL if (text := getattr(certificate, name)) is not None]
    right = all(map(_amount, numbers)) and certificate.delta <= 1
    amounts = [certificate.units, *([] if certificate.ledger_units is None else [certificate.ledger_units])]
    right &= all(type(units) is int and 0 <= units < LARGEST for units in amounts)
    right &= all(isinstance(text, str) for text in (*texts, *certificate.charges))
    right &= all(type(flag) is bool for flag in (certificate.drafted, certificate.bound_from_rows))
    right &= certificate.table is None or named_plainly(certificate.table)
    right = right and certificate.currency.partition(" ")[0] in ACCOUNTANTS and _countable(certificate.relation)
    if not right:
        raise unfit("certificate lacks a number or a text, or has an invalid one")


def _amount(number: Any) -> bool:
    return type(number) in (int, float) and (0 <= number < LARGEST or number == math.inf)


def _countable(relation: str) -> bool:
    """Whether the rows of a unit that a relation names are a number that a ledger can hold."""
    return all(len(digits) <= DIGITS for digits in re.findall(r"\d+", relation))


def _drawable(step: Step) -> bool:
    """Whether a report can draw a step."""
    whole = type(step.round) is int and 0 <= step.round < LARGEST
    named = all(isinstance(name, str) for name in step.columns)
    return whole and named and _amount(step.distance) and _amount(step.noise)
