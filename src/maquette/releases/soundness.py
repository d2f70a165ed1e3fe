"""What a loaded release must hold before anyone uses it: arrays that fit its schema, and numbers that are numbers.

A saved file can be made by anyone. Whatever passes here answers or refuses as a release of our own making does.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from maquette.errors import DataError
from maquette.estimates import MergedEvidence, MergedModel, NoEvidence, Residuals, Tables
from maquette.privacy import DiscreteGaussian
from maquette.releases.artifact import Certificate, Release
from maquette.releases.classes.coefficients import ParityAnswers
from maquette.releases.classes.projection import ParityModel
from maquette.schema import Schema

LARGEST = 2**63  # units of a ledger are smaller
_TEXTS = ("currency", "relation", "method", "schema", "version")
_OPTIONAL = ("accuracy", "unit")


def sound(release: Release) -> Release:
    """The release itself; DataError if a part of it does not fit the others."""
    _certificate(release.certificate)
    if release.certificate.schema != release.schema.digest:
        raise _unfit("certificate is of another schema than the file's own")
    if isinstance(release.model, NoEvidence | Residuals | MergedEvidence):
        raise _unfit("model answers no question")
    if not isinstance(release.evidence, NoEvidence | Residuals | MergedEvidence | Tables | ParityAnswers):
        raise _unfit("evidence says nothing about a question")
    for thing in (release.model, release.evidence):
        _check(release.schema, thing)
    if not _finite([release.evidence.rows]):
        raise _unfit("number of rows is no number")
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
        raise _unfit("certificate lacks a number or a text, or has one that makes no sense")


def _check(schema: Schema, thing: object) -> None:
    match thing:
        case Residuals():
            _residuals(schema, thing)
        case Tables():
            _tables(thing)
        case NoEvidence(rows):
            if not _finite([rows]):
                raise _unfit("number of rows is no number")
        case MergedEvidence():
            _check(schema, thing.fine)
            _check(thing.merging.merged, thing.coarse)
        case MergedModel():
            for name, shares in thing.shares.items():
                _array(f"shares of {name!r}", shares, (schema[name].size,))
        case ParityModel():
            _two_levels(schema, thing.columns)
            _array("moments", thing.moments, (len(thing.columns) + 1,) * 2)
        case ParityAnswers():
            _parities(schema, thing)


def _residuals(schema: Schema, residuals: Residuals) -> None:
    for columns, sums, precisions in residuals.stored():
        _ordered(schema, columns)
        shape = tuple(schema[name].size - 1 for name in columns)
        _array("measured coefficients", sums, shape)
        _array("precisions", precisions, shape)
        if not (np.asarray(precisions) > 0).all():
            raise _unfit("precisions must be above 0")


def _tables(tables: Tables) -> None:
    if not tables.measurements:
        raise _unfit("list of measured tables is empty")
    for table in tables.measurements:
        _array("measured tables", table.values, table.marginal.shape)
        event = table.event
        if not 1 <= 2**100 * (event.variance if isinstance(event, DiscreteGaussian) else event.scale) <= 2**200:
            raise _unfit("noise is of a size that nobody draws")


def _parities(schema: Schema, answers: ParityAnswers) -> None:
    _two_levels(schema, answers.columns)
    if not 1 <= answers.k <= len(answers.columns) or len(answers.levels) > len(answers.columns) + 1:
        raise _unfit("parities are over more columns than there are")
    if not answers.levels or not _finite(answers.variances) or min(answers.variances) < 0:
        raise _unfit("variances of the parities are no numbers")
    for size, level in enumerate(answers.levels):
        _array("parities", level, (math.comb(len(answers.columns), size),))


def _two_levels(schema: Schema, columns: Sequence[str]) -> None:
    _ordered(schema, columns)
    if not columns or any(schema[name].size != 2 for name in columns):
        raise _unfit("parities are of columns that do not have two levels")


def _ordered(schema: Schema, columns: Sequence[str]) -> None:
    places = [schema.position(name) for name in columns]
    if places != sorted(set(places)):
        raise _unfit("columns are named twice or out of order")


def _array(what: str, values: NDArray[Any], shape: tuple[int, ...]) -> None:
    if np.shape(values) != shape or not _finite(values):
        raise _unfit(f"{what} do not fit the schema, or are no numbers")


def _finite(values: NDArray[Any] | Iterable[float]) -> bool:
    array = np.asarray(values)
    return array.dtype.kind in "fiu" and bool(np.isfinite(array).all())


def _unfit(what: str) -> DataError:
    return DataError(f"this is not a saved release as Maquette writes them: its {what}", advice="get the original file")
