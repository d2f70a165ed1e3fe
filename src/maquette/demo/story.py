"""The whole workflow on one table: plan, publish, ask, draw synthetic rows, answer a thousand questions, report."""

from __future__ import annotations

import shutil
import sys
import tempfile
import time
from collections import Counter
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import duckdb
import numpy as np
from numpy.typing import NDArray
from rich.console import Console
from rich.progress import track
from rich.table import Table

import maquette as mq
from maquette.demo.bars import bars
from maquette.demo.questions import QUESTIONS, stream
from maquette.demo.table import ROWS, SCHEMA, survey
from maquette.errors import MaquetteError
from maquette.privacy import UNITS_PER_ONE

if TYPE_CHECKING:
    import pyarrow as pa

EPSILON, DELTA = 1.0, 1e-9
PUBLISHED = 0.5  # epsilon of the release; the session gets the rest
ALPHA = 0.02
AHEAD = (5, 2, 1)  # pairs of columns are bought in advance this many times finer, so that sums over cells follow
ASKED = 1_000
FILES = {
    "table": "survey.parquet",
    "schema": "survey.schema.toml",
    "ledger": "survey.ledger",
    "release": "survey.maq",
    "report": "report.html",
}
SOURCES = {
    "cache": "asked before, perhaps in other words",
    "derived": "follows from what is known",
    "hypothesis": "the public model was close enough",
    "measured": "paid for",
}


def tell(rows: int = ROWS, console: Console | None = None, folder: Path | None = None) -> Path:
    """Run the demonstration; return the folder with everything it made: table, schema, ledger, release, report.

    The people are invented, so exact answers are shown beside private ones. A real custodian must never do that.
    """
    out = console or Console()
    home = Path(tempfile.mkdtemp(prefix="maquette-demo-")) if folder is None else folder
    if home.exists() and not home.is_dir():
        raise MaquetteError(f"{str(home)!r} is a file", advice="give a new folder")
    home.mkdir(parents=True, exist_ok=True)
    began = time.perf_counter()
    people = survey(rows)
    source = _kept(people, home)
    out.print(
        f"A health survey that never happened: {rows:,} generated people, {len(SCHEMA)} columns, "
        f"{SCHEMA.size:.1e} possible rows. Its people are invented, so exact answers may be shown beside private ones."
    )
    _step(out, 1, "plan", "what each mechanism can guarantee, before anything is spent")
    _plan(rows, out)
    budget = mq.Budget(epsilon=EPSILON, delta=DELTA)
    table = mq.open_table(source, SCHEMA)
    with mq.Curator(table, budget, ledger=home / FILES["ledger"]) as curator:
        _step(out, 2, "release", "one model of all pairs of columns, paid for once")
        release = mq.release(curator, mq.marginals(SCHEMA, k=2), epsilon=PUBLISHED)
        release.save(home / FILES["release"])
        out.print(f"{release.certificate.method}, {release.certificate.relation}: cost {release.cost}")
        _step(out, 3, "ask", "ten questions, free: the release is already paid for")
        _questions(release, people, out)
        _smokers(release, people, out)
        _step(out, 4, "sample", "synthetic rows, as many as you like; they belong to no real person")
        _rows(release, out)
        _step(out, 5, "online", f"{ASKED:,} random questions, each within {ALPHA:.0%} of the rows, on what remains")
        _session(curator, people, out)
    _step(out, 6, "report", "who is protected, where the budget went, how accurate it is")
    _report(release, home, out)
    out.print(f"\nDone in {time.perf_counter() - began:.0f} s. Everything is in {home}", markup=False, soft_wrap=True)
    _next(home, out)
    return home


def _kept(people: pa.Table, home: Path) -> Path:
    from pyarrow import parquet

    source = home / FILES["table"]
    if source.exists():
        raise MaquetteError(f"{str(home)!r} holds a demo already", advice="give a new folder, or delete that one")
    parquet.write_table(people, source)
    SCHEMA.save(home / FILES["schema"])
    return source


def _step(out: Console, number: int, word: str, what: str) -> None:
    out.print(f"\n[bold]{number}. {word}[/bold]  [dim]{what}[/dim]")


def _plan(rows: int, out: Console) -> None:
    plan = mq.plan(rows=rows, schema=SCHEMA, queries=ASKED, epsilon=EPSILON, delta=DELTA)
    useful = sorted((p for p in plan if p.runnable and not p.vacuous), key=lambda promise: promise.error)
    bars(out, [(p.title, p.error, f"{p.error:.2%} of the rows") for p in useful[:5]])
    out.print(f"[dim]largest error of {ASKED:,} answers, guaranteed before the table is opened[/dim]")


def _questions(release: mq.Release, people: pa.Table, out: Console) -> None:
    shown = Table("question", "private answer", "noise interval (95%)", "truth", box=None)
    held = 0
    with duckdb.connect() as engine:
        engine.register("survey", people)
        for asked in QUESTIONS:
            given = release.answer(asked)
            (truth,) = engine.execute(asked).fetchall()[0]
            held += given.low <= truth <= given.high
            words = asked.removeprefix("SELECT ").replace(" FROM survey", "").replace("count(*) WHERE ", "")
            shown.add_row(words, _number(given.value), f"{_number(given.low)} to {_number(given.high)}", _number(truth))
    out.print(shown)
    out.print(f"[dim]{held} of {len(QUESTIONS)} intervals cover the truth[/dim]")


def _smokers(release: mq.Release, people: pa.Table, out: Console) -> None:
    """One table of the release as a bar chart."""
    private = release.marginal("education", "smoker")
    levels = SCHEMA["education"].labels
    with duckdb.connect() as engine:
        engine.register("survey", people)
        exact = dict(
            engine.execute("SELECT education, avg(CAST(smoker AS INT)) FROM survey GROUP BY education").fetchall()
        )
    shares = private[:, 1] / np.maximum(private.sum(axis=1), 1e-9)
    out.print("\nsmokers by education")
    bars(out, [(n, float(s), f"{s:.1%}  (truth {exact[n]:.1%})") for n, s in zip(levels, shares, strict=True)])


def _rows(release: mq.Release, out: Console) -> None:
    drawn = release.sample(5)
    shown = Table(box=None, pad_edge=False, padding=(0, 1, 0, 0))
    for name in drawn.column_names:
        shown.add_column(name, overflow="fold")
    for row in drawn.to_pylist():
        shown.add_row(*("" if value is None else str(value) for value in row.values()))
    out.print(shown)


def _session(curator: mq.Curator, people: pa.Table, out: Console) -> None:
    with curator.account("bought ahead") as ahead:
        for finer in AHEAD:
            with suppress(mq.BudgetExceeded):  # a small table can afford less
                mq.online(curator, alpha=ALPHA / finer, warm_start=2)
                break
    with curator.account("answers") as answers:
        session = mq.online(curator, alpha=ALPHA)
        truth, used, paid, worst = _Truth(people), Counter[str](), 0, 0.0
        asked = stream(ASKED, np.random.default_rng())
        for condition in track(asked, "asking", console=out, transient=True, disable=not out.is_terminal):
            given = session.ask(condition)
            used[given.source] += 1
            paid += given.cost.units > 0
            worst = max(worst, abs(given.value - truth.of(condition)))
    bars(out, [(SOURCES[name], used[name], f"{used[name]:,}") for name in SOURCES if used[name]])
    first, later = (account.charged_units / UNITS_PER_ONE for account in (ahead, answers))
    out.print(
        f"All pairs of columns were bought first (rho {first:.2g}). Of {len(asked):,} answers {paid} were paid for "
        f"(rho {later:.2g}); the largest error is {worst:.2%} of the rows, {ALPHA:.0%} was promised. "
        "Most questions are on one or two columns, few on three or on the finest columns."
    )
    out.print(f"spent {curator.spent}; remaining {curator.remaining}")


class _Truth:
    """Exact answers, each computed once, from tables that are counted once."""

    def __init__(self, people: pa.Table) -> None:
        self._records = SCHEMA.encode(people)
        self._tables: dict[tuple[str, ...], NDArray[np.float64]] = {}
        self._known: dict[str, float] = {}

    def of(self, condition: str) -> float:
        """The share of people who satisfy a condition."""
        if condition not in self._known:
            query = mq.where(SCHEMA, condition)
            self._known[condition] = float((query.weights(query.columns) * self._table(query.columns)).sum())
        return self._known[condition]

    def _table(self, columns: tuple[str, ...]) -> NDArray[np.float64]:
        if columns not in self._tables:
            shape, places = SCHEMA.shape(columns), [SCHEMA.position(name) for name in columns]
            cells = np.ravel_multi_index(tuple(self._records[:, places].T), shape)
            counted = np.bincount(cells, minlength=SCHEMA.cells(columns)).reshape(shape)
            self._tables[columns] = counted / len(self._records)
        return self._tables[columns]


def _report(release: mq.Release, home: Path, out: Console) -> None:
    from maquette.reports import report

    try:
        report(release, home / FILES["report"], title="A health survey that never happened")
    except MaquetteError as error:
        out.print(f"not written: {error}", markup=False, soft_wrap=True)
    else:
        out.print(f"open {home / FILES['report']} in a browser; it needs no network", markup=False, soft_wrap=True)


def _next(home: Path, out: Console) -> None:
    survey_at, terms = home / FILES["table"], f"--schema {home / FILES['schema']} --epsilon 1 --delta 1e-9"
    command = _command()
    lines = (
        "Next, on the survey:",
        f'  {command} ask {home / FILES["release"]} "SELECT region, count(*) FROM survey WHERE smoker GROUP BY region"',
        f"  {command} online {survey_at} {terms} --alpha {ALPHA}",
        f"  {command} budget {home / FILES['ledger']}",
        "to serve it to a browser, to psql and to every tool that speaks PostgreSQL (make serve does both):",
        "  pip install 'maquette[server]'",
        f"  {command} serve --demo",
        "and on your own table:",
        f"  {command} schema guess people.csv --out people.schema.toml   # then review every line",
        f"  {command} release people.csv --schema people.schema.toml --epsilon 1 --delta 1e-9 --out people.maq",
    )
    for line in lines:
        out.print(line, soft_wrap=True, markup=False, highlight=False)


def _command() -> str:
    """What to type: the command name if the shell finds it, else the path by which it was started."""
    typed = sys.argv[0] if sys.argv else ""
    return typed if Path(typed).stem == "maquette" and shutil.which("maquette") is None else "maquette"


def _number(value: float) -> str:
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:,.2f}"
