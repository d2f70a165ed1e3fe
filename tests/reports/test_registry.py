"""The registry entry: the fields and choices of the Differential Privacy Deployments Registry, and nothing else.

`FIELDS` is our own note of the registry's form as of July 2026: which fields there are, which an entry cannot do
without, and where only some words may stand.
"""

from __future__ import annotations

import re
from datetime import date
from typing import Any

import numpy as np
import pytest
import yaml
from report_checks import SCHEMA, asked, curator, released

import maquette as mq
from maquette.errors import QueryError
from maquette.releases import gaussian
from maquette.reports import registry_entry
from maquette.reports.subject import subject_of

TEXT, NUMBER, TEXTS = "text", "number", "texts"
FIELDS: dict[str, Any] = {
    "url_slug": TEXT,
    "status": {"Draft", "Pending", "Approved", "Converted", "Changes Required"},
    "tier": {1, 2, 3},
    "deployment/basic/name": TEXT,
    "deployment/basic/data_curators": TEXTS,
    "deployment/basic/intended_use": TEXT,
    "deployment/basic/data_product_type": {
        *(
            "Summary statistics",
            "Machine learning model",
            "Dataset",
            "Synthetic data",
            "Interactive API",
            "SQL queries",
        ),
    },
    "deployment/basic/data_product_region": TEXT,
    "deployment/basic/description": TEXT,
    "deployment/basic/publication_date": TEXT,
    "deployment/basic/data_product_sector": {
        *("Technology", "Healthcare", "Education", "Government", "Energy", "Finance"),
    },
    "deployment/dp_variant/variant_name": {
        *("Pure DP", "Approximate DP", "Zero-concentrated DP", "Renyi DP", "Custom"),
    },
    "deployment/dp_variant/data_domain": TEXT,
    "deployment/dp_variant/unprotected_quantities": TEXT,
    "deployment/privacy_loss/privacy_unit": TEXT,
    "deployment/privacy_loss/privacy_unit_details": TEXT,
    "deployment/privacy_loss/privacy_parameters/epsilon": NUMBER,
    "deployment/privacy_loss/privacy_parameters/delta": NUMBER,
    "deployment/privacy_loss/privacy_parameters/rho": NUMBER,
    "deployment/privacy_loss/privacy_parameters_details": TEXT,
    "deployment/deployment_model/model_name": {"Local", "Central", "Shuffle", "Federated", "Varies"},
    "deployment/deployment_model/model_name_details": TEXT,
    "deployment/deployment_model/actors": TEXT,
    "deployment/deployment_model/release_type": {"One release", "Many releases"},
    "deployment/deployment_model/release_type_details": TEXT,
    "deployment/deployment_model/data_source_type": {"Static", "Dynamic"},
    "deployment/deployment_model/data_source_type_details": TEXT,
    "deployment/deployment_model/access_type": {"Interactive", "Non-interactive"},
    "deployment/deployment_model/access_type_details": TEXT,
    "deployment/accounting/post_processing": TEXT,
    "deployment/accounting/composition": TEXT,
    "deployment/implementation/preprocessing_and_hyperparameter_tuning": TEXT,
    "deployment/implementation/mechanisms": TEXT,
    "deployment/implementation/justification": TEXT,
    "deployment/administrative/sources": TEXT,
    "deployment/administrative/notes": TEXT,
    "deployment/administrative/registry_authors": TEXTS,
}
REQUIRED = {
    *("url_slug", "status", "tier", "deployment/administrative/registry_authors"),
    *(name for name in FIELDS if name.startswith("deployment/basic/") and not name.endswith("sector")),
}
WORDS = {"organisation": 'Office: of "Facts"', "use": "tests", "data": "A made-up survey"}


def leaves(entry: dict[str, Any], above: str = "") -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, value in entry.items():
        found |= leaves(value, f"{above}{name}/") if isinstance(value, dict) else {f"{above}{name}": value}
    return found


def check(text: str) -> dict[str, Any]:
    """The entry, flat, if the registry would take it."""
    found = leaves(yaml.safe_load(text))
    assert set(found) <= set(FIELDS)
    assert set(found) >= REQUIRED
    for name, value in found.items():
        kind = FIELDS[name]
        if isinstance(kind, set):
            assert value in kind, name
        elif kind == TEXTS:
            assert value, name
            assert all(isinstance(one, str) and one for one in value), name
        else:
            assert isinstance(value, str if kind == TEXT else float), name
            assert value, name
    assert re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)*", found["url_slug"])
    assert date.fromisoformat(found["deployment/basic/publication_date"])
    assert not [token for token in yaml.scan(text) if getattr(token, "style", None) == ">"]  # it keeps no white space
    return found


def test_a_release_makes_an_entry() -> None:
    entry = check(registry_entry(released(), **WORDS, published="2026-01-02", contact="facts@example.org"))
    subject = subject_of(released())
    assert entry["url_slug"] == "a-made-up-survey-office-of-facts-2026"
    assert (entry["status"], entry["tier"]) == ("Draft", 2)
    assert entry["deployment/basic/data_curators"] == ['Office: of "Facts"']
    assert entry["deployment/basic/publication_date"] == "2026-01-02"
    assert entry["deployment/basic/data_product_type"] == "Synthetic data"
    assert entry["deployment/dp_variant/variant_name"] == "Zero-concentrated DP"
    assert SCHEMA.digest in entry["deployment/dp_variant/data_domain"]
    loss = "deployment/privacy_loss/privacy_parameters"
    assert entry[f"{loss}/epsilon"] == pytest.approx(subject.total.epsilon, abs=1e-6)
    assert (entry[f"{loss}/delta"], entry[f"{loss}/rho"]) == (1e-9, subject.total.rho)
    assert "by itself it cost epsilon 0.5" in entry[f"{loss}_details"]
    said = entry["deployment/implementation/mechanisms"]
    assert "adaptive. Accesses: exact discrete Gaussian noise on counts, exponential mechanism" in said
    assert entry["deployment/administrative/notes"] == "Contact: facts@example.org"
    assert entry["deployment/administrative/registry_authors"] == ['Office: of "Facts"']


def test_a_session_makes_an_entry() -> None:
    entry = check(registry_entry(asked(), **WORDS, region="Anywhere", sector="Healthcare", justification="agreed"))
    assert entry["tier"] == 3
    assert entry["deployment/basic/data_product_type"] == "Interactive API"
    assert entry["deployment/deployment_model/access_type"] == "Interactive"
    assert entry["deployment/deployment_model/release_type"] == "Many releases"
    assert "Timing" in entry["deployment/implementation/mechanisms"]


@pytest.mark.parametrize(
    ("budget", "variant", "parameters"),
    [
        (mq.Budget(epsilon=1.0), "Pure DP", {"epsilon"}),
        (mq.Budget(epsilon=1.0, delta=1e-9, accounting="gdp"), "Custom", {"epsilon", "delta"}),
    ],
)
def test_the_variant_is_that_of_the_ledger(budget: mq.Budget, variant: str, parameters: set[str]) -> None:
    made = mq.release(curator(budget), mq.marginals(SCHEMA, k=1), method="everything")
    text = registry_entry(made, **WORDS)
    assert check(text)["deployment/dp_variant/variant_name"] == variant
    assert set(yaml.safe_load(text)["deployment"]["privacy_loss"]["privacy_parameters"]) == parameters
    assert ("mu = " in text) == (variant == "Custom")


def test_separate_tables_and_people_are_named() -> None:
    people = mq.Schema([mq.Boolean("a")])
    rows = {"a": np.arange(200) % 2 == 0, "who": np.arange(200) // 2}
    table = mq.open_table(rows, people, privacy_unit="who", max_contributions=2)
    kept = mq.Curator(table, mq.Budget(epsilon=1.0, delta=1e-9), relation="replace")
    entry = check(registry_entry(gaussian(kept, mq.marginals(people, k=1), epsilon=0.5), **WORDS))
    assert entry["deployment/basic/data_product_type"] == "Summary statistics"
    assert entry["deployment/privacy_loss/privacy_unit"] == "one who (with up to 2 rows)"
    assert "the values of one who" in entry["deployment/privacy_loss/privacy_unit_details"]
    assert "dropped" in entry["deployment/implementation/preprocessing_and_hyperparameter_tuning"]


@pytest.mark.parametrize(
    ("given", "complaint"),
    [
        ({"organisation": " "}, "organisation is ' '"),
        ({"published": "2 January"}, "published is '2 January'; expected a date"),
        ({"collected": "yesterday"}, "collected is 'yesterday'; expected a date"),
        ({"sector": "Sports"}, "sector is 'Sports'; the registry knows Technology"),
    ],
)
def test_what_the_registry_would_refuse_is_refused(given: dict[str, str], complaint: str) -> None:
    with pytest.raises(QueryError, match=complaint):
        registry_entry(released(), **{**WORDS, **given})
