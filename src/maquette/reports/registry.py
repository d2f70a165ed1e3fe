"""Registry entry: a deployment in the format of the public registry of differentially private deployments, as YAML.

The registry (OpenDP's `deployments-registry-data`, which backs the Differential Privacy Deployments Registry) keeps one
file for each deployment, in three tiers of detail: who published what for whom (1), under which variant, unit, loss and
trust model (2), and how it was accounted and implemented (3). Names of fields and choices are the registry's as of
July 2026; all text in them is the caller's or comes from the certificate.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from datetime import date
from typing import Any

import yaml

from maquette.errors import QueryError
from maquette.estimates import Tables
from maquette.privacy import Composed, Event
from maquette.privacy.ledger import Description
from maquette.reports.risk import number, odds_factor, percent, told, true_positive_rate
from maquette.reports.subject import Subject, subject_of

NAMES = {
    "pure": "pure epsilon, basic composition",
    "basic": "epsilon, basic composition, with one delta for a lazy guard",
    "zcdp": "zero-concentrated differential privacy, converted tightly to (epsilon, delta)",
    "gdp": "Gaussian differential privacy, converted exactly to (epsilon, delta)",
}
KINDS = {
    "discrete-laplace": "exact discrete Laplace noise on counts",
    "discrete-gaussian": "exact discrete Gaussian noise on counts",
    "selection": "exponential mechanism",
    "pure": "sparse vector or permute-and-flip",
    "lazy-rounds": "sparse vector without threshold noise",
}


VARIANTS = {"pure": "Pure DP", "basic": "Approximate DP", "zcdp": "Zero-concentrated DP", "gdp": "Custom"}
SECTORS = ("Technology", "Healthcare", "Education", "Government", "Energy", "Finance")


def registry_entry(
    thing: object,
    *,
    organisation: str,
    use: str,
    data: str,
    name: str | None = None,
    region: str = "not stated",
    sector: str | None = None,
    published: str | None = None,
    collected: str | None = None,
    address: str | None = None,
    contact: str | None = None,
    authors: Sequence[str] = (),
    justification: str | None = None,
) -> str:
    """An entry for the Differential Privacy Deployments Registry, as YAML: your text, and the facts of the certificate.

    `organisation` publishes something about `data`, for `use`. `name` is that of the product (default: `data`),
    `region` the region it is about, `sector` one of the registry's. `published` and `collected` are dates as
    YYYY-MM-DD; `published` defaults to today. `authors` wrote the entry (default: the organisation). With a
    `justification` of the choices made the entry is of tier 3, otherwise of tier 2. The status is "Draft": review it,
    then submit it. Unknown fields are left out.
    """
    for word, text in (("organisation", organisation), ("use", use), ("data", data), ("region", region)):
        _check_words(word, text)
    if sector is not None and sector not in SECTORS:
        raise QueryError(f"sector is {sector!r}", advice=f"the registry knows {', '.join(SECTORS)}")
    day, since = _day("published", published or date.today().isoformat()), collected and _day("collected", collected)
    subject = subject_of(thing)
    if not subject.private:
        raise QueryError(
            "this was made with injected noise and is not private", advice="there is no deployment to register"
        )
    product = name or data
    notes = [f"Data collected: {since}." if since else "", f"Contact: {contact}" if contact else ""]
    entry = {
        "url_slug": _slug(f"{product} {organisation} {day[:4]}"),
        "status": "Draft",
        "tier": 3 if justification else 2,
        "deployment": {
            "basic": _given(
                name=product,
                data_curators=[organisation],
                intended_use=use,
                data_product_type=_product(subject),
                data_product_region=region,
                description=f"{data}. {_description(subject)}",
                publication_date=day,
                data_product_sector=sector,
            ),
            "dp_variant": _variant(subject),
            "privacy_loss": _privacy_loss(subject),
            "deployment_model": _model(subject),
            "accounting": {
                "post_processing": "A public model is fitted to the noisy numbers; answers, intervals and synthetic "
                "rows are computed from it.",
                "composition": f"{NAMES[_currency(subject)]}; one ledger adds up every access to the table.",
            },
            "implementation": _given(
                preprocessing_and_hyperparameter_tuning=_preprocessing(subject),
                mechanisms=_mechanisms(subject),
                justification=justification,
            ),
            "administrative": _given(
                sources=address,
                notes=" ".join(note for note in notes if note) or None,
                registry_authors=list(authors) or [organisation],
            ),
        },
    }
    return yaml.safe_dump(entry, sort_keys=False, allow_unicode=True, width=100)


def _check_words(word: str, text: object) -> None:
    if not isinstance(text, str) or not text.strip():
        raise QueryError(f"{word} is {text!r}", expected="a few words for the registry")


def _day(word: str, text: str) -> str:
    try:
        return date.fromisoformat(text).isoformat()
    except (TypeError, ValueError):
        raise QueryError(f"{word} is {text!r}", expected="a date such as 2026-03-01") from None


def _slug(text: str) -> str:
    return re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-")


def _given(**facts: Any) -> dict[str, Any]:
    return {word: fact for word, fact in facts.items() if fact is not None}


def _currency(subject: Subject) -> str:
    return subject.currency.partition(" ")[0]


def _product(subject: Subject) -> str:
    if subject.kind == "session":
        return "Interactive API"
    separate = subject.release is not None and isinstance(subject.release.model, Tables)
    return "Summary statistics" if separate else "Synthetic data"


def _description(subject: Subject) -> str:
    kind = {
        "Interactive API": "Answers to questions as they come, each with a noise interval",
        "Summary statistics": "Noisy tables with noise intervals",
        "Synthetic data": "A model that answers questions and draws synthetic rows",
    }[_product(subject)]
    return f"{kind}, over {len(subject.schema)} columns."


def _variant(subject: Subject) -> dict[str, str]:
    public = "the declared columns, levels, bins and bounds" + (
        "; how many units there are" if subject.relation == "replace" else ""
    )
    return {
        "variant_name": VARIANTS[_currency(subject)],
        "data_domain": f"Tables over {len(subject.schema)} declared columns (schema SHA-256 {subject.schema.digest}).",
        "unprotected_quantities": f"Nothing that was computed from the rows. Public in advance: {public}.",
    }


def _privacy_loss(subject: Subject) -> dict[str, Any]:
    epsilon, delta = told(subject.total)
    rho = subject.total.rho if _currency(subject) == "zcdp" else None
    presence = subject.relation == "add-remove"
    differ, odds = (
        ("the presence of", "being present") if presence else ("the values of", "having one value or another")
    )
    details = (
        f"All charges to this table up to this publication; by itself it cost epsilon {told(subject.loss)[0]:.6g}. The "
        f"odds of {subject.unit} {odds} change by at most a factor of {number(odds_factor(epsilon))}, and an attacker "
        f"with 5% false positives detects at most {percent(true_positive_rate(subject.total, 0.05))}."
    )
    if _currency(subject) == "gdp" and subject.total.rho is not None:
        details += f" Gaussian differential privacy, mu = {math.sqrt(2 * subject.total.rho):.6g}."
    return {
        "privacy_unit": subject.unit,
        "privacy_unit_details": f"Adjacent tables differ in {differ} {subject.unit} ({subject.relation}).",
        "privacy_parameters": _given(epsilon=round(epsilon, 6), delta=delta or None, rho=rho),
        "privacy_parameters_details": details,
    }


def _model(subject: Subject) -> dict[str, str]:
    once = subject.kind == "release"
    budget = "" if subject.limit is None else f", which is epsilon {told(subject.limit)[0]:.6g} in total"
    return {
        "model_name": "Central",
        "model_name_details": "A custodian holds the rows and is trusted with them.",
        "actors": "The custodian, its machine and this software see the rows. Everyone else, colluding or not, sees "
        "only what was released, and is not trusted.",
        "release_type": "One release" if once else "Many releases",
        "release_type_details": "Later releases of this table are charged to the same ledger, under the same budget."
        if once
        else f"Every answer is charged to one ledger, until the table's budget is spent{budget}; it is never reset.",
        "data_source_type": "Static",
        "access_type": "Non-interactive" if once else "Interactive",
        "access_type_details": "The published model can be queried freely; the rows are not accessed again."
        if once
        else "One budget for all analysts together, so collusion gains nothing; each may have a limit under it.",
    }


def _preprocessing(subject: Subject) -> str:
    drafted = " The schema was drafted by reading data, which was not accounted for." if subject.schema.guessed else ""
    kept = "" if subject.unit == "one row" else " Rows of one unit beyond the declared number are dropped."
    return (
        "Columns, levels, bins and bounds are declared in advance; values outside are clamped or go to a declared "
        f"level.{kept} Settings of the method depend on the rows only through charged accesses.{drafted}"
    )


def _mechanisms(subject: Subject) -> str:
    promise = f" Accuracy: {subject.promise}." if subject.promise else ""
    timing = "" if subject.kind == "release" else " Timing of answers is not protected by the software."
    return (
        f"Method: {subject.method}. Accesses: {', '.join(accesses(subject))}; {len(subject.charges)} charges. Noise is "
        f"exact and on integers, so floating point is not involved; it comes from the operating system's generator."
        f"{timing} Software: maquette {subject.facts['version']}.{promise}"
    )


def accesses(subject: Subject) -> list[str]:
    """The kinds of private mechanism named by its charges."""
    described = map(Description.of, subject.charges)
    kinds = [kind for charge in described for event, _ in charge.events for kind in _kinds(event)]
    return [KINDS.get(kind, kind) for kind in dict.fromkeys(kinds)]


def _kinds(event: Event) -> list[str]:
    if isinstance(event, Composed):
        return [kind for part in event.events for kind in _kinds(part)]
    return [str(event.as_dict()["kind"])]
