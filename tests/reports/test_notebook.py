"""Notebooks: what Jupyter shows of each object is short, says what matters, and runs nothing that a name says."""

from __future__ import annotations

from html.parser import HTMLParser

import numpy as np
import pytest
from report_checks import HOSTILE

import maquette as mq
from maquette.estimates import NoEvidence
from maquette.holdout import plan as holdout_plan
from maquette.releases import Release
from maquette.session import Session, online

LEVELS = [f"{HOSTILE}1", "plain", '<img src=x onerror="alert(1)">']
SCHEMA = mq.Schema([mq.Category(HOSTILE, LEVELS), mq.Integer("age", 0, 99, width=10), mq.Boolean("smoker")])
UNIT = f"who, {HOSTILE}"
KNOWN = {
    "b",
    "br",
    "caption",
    "circle",
    "g",
    "line",
    "p",
    "rect",
    "small",
    "svg",
    "table",
    "td",
    "text",
    "th",
    "title",
    "tr",
}


class Tags(HTMLParser):
    """The elements and attributes of a piece of HTML."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.found: set[str] = set()
        self.attributes: set[str] = set()
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.add(tag)
        self.attributes |= {name for name, _ in attrs}


@pytest.fixture(scope="module")
def things() -> dict[str, object]:
    rng = np.random.default_rng(0)
    rows = {
        HOSTILE: rng.choice(LEVELS, 4_000).tolist(),
        "age": rng.integers(0, 100, 4_000),
        "smoker": rng.random(4_000) < 0.3,
        UNIT: np.arange(4_000) // 2,
    }
    budget = mq.Budget(epsilon=2.0, delta=1e-9)
    curator = mq.Curator(mq.open_table(rows, SCHEMA, privacy_unit=UNIT, max_contributions=2), budget)
    release = mq.release(curator, mq.marginals(SCHEMA, k=2), epsilon=0.5)
    session = online(curator, alpha=0.2)
    reused = mq.Holdout(rng.random(500) < 0.5)
    for _ in range(30):
        reused.ask(lambda kept: kept, guess=0.5)
    name = '"{}"'.format(HOSTILE.replace('"', '""'))
    grouped = f"SELECT {name}, age, count(*) FROM t GROUP BY {name}, age"
    return {
        "schema": SCHEMA,
        "budget": budget,
        "ledger": curator.ledger,
        "release": release,
        "session": session,
        "answer": session.ask("age >= 50"),
        "table": session.ask(grouped),
        "plan": mq.plan(rows=4_000, schema=SCHEMA, queries=100, epsilon=1.0, delta=1e-9),
        "holdout plan": holdout_plan(rows=4_000, queries=100),
        "holdout": reused,
        "certified": reused.answers[-1],
    }


def shown(thing: object) -> str:
    text: str = thing._repr_html_()  # type: ignore[attr-defined]
    return text


def test_names_are_text_in_every_one(things: dict[str, object]) -> None:
    for name, thing in things.items():
        tags = Tags(shown(thing))
        assert tags.found <= KNOWN, name
        assert not [attribute for attribute in tags.attributes if attribute.startswith("on") or attribute == "src"], (
            name
        )
        assert len(shown(thing)) < 20_000, name
        assert "\n" not in repr(thing), name
    assert "&lt;script&gt;" in shown(things["schema"])
    assert "&lt;script&gt;" in shown(things["table"])


def test_the_unit_is_named(things: dict[str, object]) -> None:
    release, session = things["release"], things["session"]
    assert isinstance(release, Release)
    assert isinstance(session, Session)
    assert release.certificate.unit == UNIT
    assert release.certificate.protects == f"add-remove of one unit of up to 2 rows, by {UNIT}"
    assert "by who, &lt;/script&gt;" in shown(release)


def test_five_hundred_columns_stay_short() -> None:
    wide = mq.Schema([mq.Boolean(f"column {i}") for i in range(500)])
    text = shown(wide)
    assert text.count("<tr>") < 60
    assert "460 more columns" in text
    assert "about 10^150.5 points" in text


def test_a_long_table_says_that_there_is_more() -> None:
    schema = mq.Schema([mq.Integer("age", 0, 99)])
    curator = mq.Curator(mq.open_table({"age": np.arange(1_000) % 100}, schema), mq.Budget(epsilon=1.0))
    release = mq.release(curator, mq.marginals(schema, k=1))
    text = shown(release.answer("SELECT age, count(*) FROM t GROUP BY age"))
    assert "... 50 more rows" in text
    assert "free" in text.rpartition("<small>")[2]


def test_an_answer_says_where_its_interval_comes_from() -> None:
    schema = mq.Schema([mq.Boolean("a"), mq.Boolean("b")])
    rows = {"a": [True, False] * 500, "b": [True, True, False, True] * 250}
    curator = mq.Curator(mq.open_table(rows, schema), mq.Budget(epsilon=1.0))
    release = mq.release(curator, mq.marginals(schema, k=1), method="everything")
    assert "measured at 95%" in shown(release.answer("a"))
    alone = mq.Release(schema, release.model, NoEvidence(1_000.0), release.certificate)
    assert "[0, 1] logical at 95%" in shown(alone.answer("a AND b"))
