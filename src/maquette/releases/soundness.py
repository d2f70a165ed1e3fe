"""Checks of a loaded release before it is used: a certificate for its own schema, and finite numbers.

A saved file can be made by anyone. Models and evidence check their own arrays when they are restored; a release that
passes all checks behaves like one made here.
"""

from __future__ import annotations

import math
from typing import Any

from maquette.hypothesis.saving import unfit
from maquette.releases.artifact import Certificate, Release

LARGEST = 2**63  # ledger units are smaller
_TEXTS = ("currency", "relation", "method", "schema", "version")
_OPTIONAL = ("accuracy", "unit", "checked")


def sound(release: Release) -> Release:
    """The release itself; DataError if a part of it does not fit the others."""
    _certificate(release.certificate)
    if release.certificate.schema != release.schema.digest:
        raise unfit("certificate is of another schema than the file's own")
    if not math.isfinite(release.evidence.rows):
        raise unfit("number of rows is not a number")
    return release


def _certificate(certificate: Certificate) -> None:
    numbers: list[Any] = [certificate.epsilon, certificate.delta]
    numbers += [] if certificate.rho is None else [certificate.rho]
    texts = [getattr(certificate, name) for name in _TEXTS]
    texts += [text for name in _OPTIONAL if (text := getattr(certificate, name)) is not None]
    right = all(type(n) in (int, float) and (0 <= n < LARGEST or n == math.inf) for n in numbers)
    amounts = [certificate.units, *([] if certificate.ledger_units is None else [certificate.ledger_units])]
    right &= all(type(units) is int and 0 <= units < LARGEST for units in amounts)
    right &= all(isinstance(text, str) for text in (*texts, *certificate.charges))
    if not right:
        raise unfit("certificate lacks a number or a text, or has an invalid one")
