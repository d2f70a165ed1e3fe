"""Registry entry: what a public register of differentially private deployments asks of one, as YAML."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import yaml

from maquette.errors import QueryError
from maquette.report.account import CURRENCIES
from maquette.report.risk import odds_factor, told, true_positive_rate
from maquette.report.subject import Subject, subject_of

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


def registry_entry(
    thing: object,
    *,
    organisation: str,
    use: str,
    data: str,
    published: str | None = None,
    collected: str | None = None,
    address: str | None = None,
    contact: str | None = None,
) -> str:
    """An entry for a public register of deployments, as YAML: what the caller knows, and what the certificate says.

    `published` and `collected` are dates as text. Nothing is guessed: what was not given is left out. The fields follow
    what such registers ask for (who, what for, whom it protects, with which parameters and mechanism, how it is
    accounted, at whose trust); each has a form of its own, into which these are to be copied.
    """
    for word, text in (("organisation", organisation), ("use", use), ("data", data)):
        if not isinstance(text, str) or not text.strip():
            raise QueryError(f"{word} is {text!r}; expected a few words for the register")
    subject = subject_of(thing)
    if not subject.private:
        raise QueryError("this was made with injected noise and is not private; there is no deployment to register")
    entry = {
        "deployment": _given(
            organisation=organisation,
            use=use,
            data=data,
            collected=collected,
            published=published,
            address=address,
            contact=contact,
        ),
        "product": _product(subject),
        "guarantee": _guarantee(subject),
        "mechanism": _mechanism(subject),
        "trust": {
            "model": "central: a custodian holds the rows and is trusted with them",
            "access": "published once, asked freely" if subject.kind == "release" else "interactive, under one budget",
        },
    }
    return yaml.safe_dump(entry, sort_keys=False, allow_unicode=True, width=100)


def _given(**facts: str | None) -> dict[str, str]:
    return {word: text for word, text in facts.items() if text is not None}


def _product(subject: Subject) -> dict[str, Any]:
    return {
        "kind": "model with noise intervals and synthetic rows" if subject.kind == "release" else "online answers",
        "columns": list(subject.schema.names),
        "schema_sha256": subject.schema.digest,
        "software": f"maquette {subject.facts['version']}",
    }


def _guarantee(subject: Subject) -> dict[str, Any]:
    epsilon, delta = told(subject.total)
    kinds = {"pure": "epsilon-DP", "basic": "(epsilon, delta)-DP", "zcdp": "rho-zCDP", "gdp": "mu-GDP"}
    stated: Mapping[str, Any] = {
        "definition": kinds[subject.currency.partition(" ")[0]],
        "unit": subject.unit,
        "relation": subject.relation,
        "epsilon": round(epsilon, 6),
        "delta": delta,
        "rho": subject.total.rho,
        "covers": "every charge to this table's ledger up to this publication",
        "epsilon_of_this_publication": round(told(subject.loss)[0], 6),
        "odds_factor": round(odds_factor(epsilon), 4),
        "true_positive_rate_at_5_percent": round(true_positive_rate(subject.total, 0.05), 4),
    }
    return {word: value for word, value in stated.items() if value is not None}


def accesses(subject: Subject) -> list[str]:
    """The kinds of private mechanism that its charges name."""
    events = [event for charge in subject.charges for event in json.loads(charge).get("events", [])]
    kinds = [kind for event in events for kind in _kinds(event)]
    return [KINDS.get(kind, kind) for kind in dict.fromkeys(kinds)]


def _kinds(event: Mapping[str, Any]) -> list[str]:
    if event["kind"] == "composed":
        return [kind for part in event["events"] for kind in _kinds(part)]
    return [str(event["kind"])]


def _mechanism(subject: Subject) -> dict[str, Any]:
    name = subject.currency.partition(" ")[0]
    facts = {
        "method": subject.method,
        "accesses": accesses(subject),
        "accounting": NAMES[name],
        "currency": CURRENCIES[name],
        "charges": len(subject.lines),
        "post_processing": "a public model fitted to the noisy numbers",
    }
    return {**facts, **({"accuracy": subject.promise} if subject.promise else {})}
