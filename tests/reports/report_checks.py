"""Small releases and sessions to report on, and a reader of the pages."""

from __future__ import annotations

import functools
import json
import re
from typing import Any

import numpy as np

import maquette as mq
from maquette.releases import Release, adaptive
from maquette.reports import report
from maquette.session import Session, online

HOSTILE = '</script><script>alert("x")</script>'
SCHEMA = mq.Schema(
    [
        mq.Integer("age", 0, 99, width=5),
        mq.Category("region", ["north", "south", "<b>east</b>"]),
        mq.Boolean(HOSTILE),
        mq.Integer("kids", 0, 3),
    ]
)
BUDGET = mq.Budget(epsilon=1.0, delta=1e-9)


def rows(number: int = 3_000) -> dict[str, Any]:
    rng = np.random.default_rng(5)
    age = rng.integers(0, 100, number)
    return {
        "age": age,
        "region": rng.choice(["north", "south", "<b>east</b>"], number).tolist(),
        HOSTILE: rng.random(number) < age / 100,
        "kids": np.minimum(3, rng.poisson(age / 40)),
    }


def curator(budget: mq.Budget = BUDGET) -> mq.Curator:
    return mq.Curator(mq.open_table(rows(), SCHEMA), budget)


@functools.cache
def released() -> Release:
    """An adaptive release after another charge, so that it did not pay for everything in its certificate."""
    kept = curator()
    kept.measure(["kids"], epsilon=0.1)
    return adaptive(kept, mq.marginals(SCHEMA, k=2), epsilon=0.5, rounds=4)


@functools.cache
def asked() -> Session:
    session = online(curator(), alpha=0.1)
    for question in ("age >= 60", "kids >= 2", "age >= 60", "SELECT region, count(*) FROM t GROUP BY region"):
        session.ask(question)
    session.ask_many(["kids >= 2", "age >= 20 AND kids >= 1"])
    return session


@functools.cache
def page() -> str:
    return report(released(), title=f"People {HOSTILE}")


@functools.cache
def session_page() -> str:
    """A session's page, for which nothing may be charged."""
    before = asked().curator.ledger.spent()
    text = report(asked())
    assert asked().curator.ledger.spent() == before
    return text


@functools.cache
def busy_page() -> str:
    """The page of a session that was asked for whole tables, so that it has every kind of chart."""
    session = online(curator(mq.Budget(epsilon=4.0, delta=1e-9)), alpha=0.1)
    hostile = '"{}"'.format(HOSTILE.replace('"', '""'))
    for names in ("region", "kids", hostile, "region, kids", f"region, {hostile}", f"kids, {hostile}", "region"):
        session.ask(f"SELECT {names}, count(*) FROM t GROUP BY {names}")
    return report(session)


def specs(text: str) -> dict[str, Any]:
    """The charts of a page."""
    found = re.search(r'<script type="application/json" id="specs">(.*?)</script>', text, re.DOTALL)
    assert found is not None
    charts: dict[str, Any] = json.loads(found[1])
    return charts


def prose(text: str) -> str:
    """A page without its scripts."""
    return re.sub(r"<script.*?</script>", "", text, flags=re.DOTALL)
