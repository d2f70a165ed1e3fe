"""The first private answers: a table behind the wall, questions with intervals, and the ledger that paid for them."""

from __future__ import annotations

import time

import duckdb
from rich.console import Console
from rich.table import Table

import maquette as mq
from maquette.demo.survey import ROWS, SCHEMA, survey

QUESTIONS = (
    "SELECT count(*) FROM survey WHERE age >= 65 AND smoker",
    "SELECT count(*) FROM survey WHERE diabetes AND NOT hypertension",
    "SELECT avg(age) FROM survey WHERE hypertension",
    "SELECT sum(income) FROM survey WHERE region IN ('north', 'islands')",
    "SELECT count(*) FILTER (WHERE smoker) FROM survey WHERE education = 'university'",
)
GROUPED = "SELECT region, count(*), avg(bmi) FROM survey WHERE age BETWEEN 30 AND 49 GROUP BY region"
EACH = 0.05


def tell(rows: int = ROWS, console: Console | None = None) -> None:
    """Open the survey, ask a few questions, show what they cost."""
    out = console or Console()
    began = time.perf_counter()
    people = survey(rows)
    out.print(f"A generated health survey: {rows:,} invented people, {len(SCHEMA)} columns, {SCHEMA.size:.2e} cells.")
    with mq.Curator(mq.open_table(people, SCHEMA), mq.Budget(epsilon=1.0, delta=1e-9)) as curator:
        out.print(f"Budget: epsilon 1 at delta 1e-9, {curator.relation}. Each question costs epsilon {EACH}.\n")
        _questions(curator, people, out)
        out.print(f"\n[bold]{GROUPED}[/bold]  [dim](a GROUP BY is one question)[/dim]")
        out.print(str(mq.answer(curator, GROUPED, epsilon=EACH)))
        before = curator.spent.units
        mq.answer(curator, QUESTIONS[0], epsilon=EACH)
        out.print(f"\nAsking the first question again: the same answer, {curator.spent.units - before} units charged.")
        _ledger(curator, out)
    out.print(f"\nDone in {time.perf_counter() - began:.1f} s. Next, on your own table:\n")
    out.print("  maquette schema guess people.csv > people.schema.toml   [dim]# then review every line[/dim]")
    out.print('  python -c "import maquette as mq; help(mq.answer)"')


def _questions(curator: mq.Curator, people: object, out: Console) -> None:
    shown = Table("question", "private answer", "noise interval (95%)", "truth (invented people)", box=None)
    with duckdb.connect() as engine:
        engine.register("survey", people)
        for asked in QUESTIONS:
            given = mq.answer(curator, asked, epsilon=EACH)
            assert isinstance(given, mq.Answer)
            (truth,) = engine.execute(asked).fetchall()[0]
            shown.add_row(asked, _number(given.value), f"{_number(given.low)} to {_number(given.high)}", _number(truth))
    out.print(shown)


def _ledger(curator: mq.Curator, out: Console) -> None:
    shown = Table("charge", "state", "rho", box=None, title="ledger", title_justify="left")
    for charge in curator.ledger.charges():
        shown.add_row(str(charge.seq), charge.state, f"{charge.units / mq.UNITS_PER_ONE:.3g}")
    out.print(shown)
    out.print(f"spent {curator.spent}; remaining {curator.remaining}")


def _number(value: float) -> str:
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:,.2f}"
