"""Runs the suite: every case in a process of its own, with a limit of CPU time; tables, JSON, chart, comparison."""

from __future__ import annotations

import argparse
import itertools
import json
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from rich.console import Console
from rich.table import Table

from maquette.releases.methods.registry import METHODS
from releases import peers, scores, suite_page
from releases.distance import COMPARED
from releases.processes import run
from releases.suite import HALVES, SuiteTable, table, tables
from releases.suite_case import BASELINES, DELTA, OURS

EPSILONS = (0.1, 1.0, 10.0)
SHOWN = ("1-way", "2-way", "3-way", "3-way cell", "rows 3-way", "average", "average by group", "sum by group")


def arguments(parser: argparse.ArgumentParser) -> None:
    """The options of the suite."""
    own = parser.add_argument_group("the suite")
    own.add_argument("--suite", action="store_true", help="real and generated tables that nobody tuned for")
    own.add_argument("--train", action="store_true", help="train a model on synthetic rows, test it on real ones")
    own.add_argument("--intervals", action="store_true", help="repeated releases: how often intervals hold")
    own.add_argument("--half", choices=("development", "held", "both"), default="development")
    own.add_argument("--epsilons", type=float, nargs="+", help="default 0.1, 1 and 10; of --train and --intervals 1")
    own.add_argument("--methods", nargs="+", help=f"some of: {', '.join((*OURS, *BASELINES, *peers.PEERS))}")
    own.add_argument("--tables", nargs="+", help="names of tables; default: all of the half")
    own.add_argument("--runs", type=int, help="releases of each case; default 1 (of --intervals 200, of --train 10)")
    own.add_argument("--ways", type=int, default=3, help="columns of the tables that are asked for")
    own.add_argument("--seconds", type=float, default=120.0, help="CPU time that a release may take")
    own.add_argument("--json", type=Path, help="write every case to this file, as they end; resumes it if it is there")
    own.add_argument("--baseline", type=Path, help="compare with the cases of an earlier file")
    own.add_argument("--chart", type=Path, help="write a chart (SVG)")
    own.add_argument("--record", action="store_true", help="write docs/suite.md, its chart and its figures")
    own.add_argument("--repeat", action="store_true", help="also run a method by name where auto took it")
    own.add_argument("--quiet", action="store_true", help="only write the file: for the held half, until the end")


def chosen(given: argparse.Namespace) -> list[SuiteTable]:
    """The tables asked for."""
    found = list(tables(given.half)) if not given.tables else [table(name) for name in given.tables]
    return sorted(found, key=lambda each: (each.half, each.source.rows * len(each.schema)))


def methods(given: argparse.Namespace) -> list[str]:
    """The methods asked for; of ours, those that exist."""
    if given.methods:
        return list(given.methods)
    ours = [name for name in OURS if name == "auto" or name in METHODS]
    return [*ours, *BASELINES, *(peers.PEERS if given.peers else ())]


def peer(name: str, found: SuiteTable, case: dict[str, Any], venvs: Path) -> dict[str, Any]:
    """A peer's errors, under the names used here."""
    with tempfile.TemporaryDirectory() as folder:
        written(found, Path(folder))
        asked = {"table": found.name, "data": folder, "epsilon": case["epsilon"], "delta": DELTA, "k": case["ways"]}
        got = peers.run(name, venvs, {**asked, "compared": COMPARED}, case["limit"] * 3)
    if isinstance(got, str):
        return {"note": got}
    renamed = {"tvd": "3-way", "cell": "3-way cell", "pairs tvd": "2-way", "rows tvd": "rows 3-way"}
    return {renamed.get(key, key): value for key, value in got.items()}


def written(found: SuiteTable, folder: Path, codes: NDArray[np.int32] | None = None) -> None:
    """A table, or other rows of its schema, as the peers read it."""
    home = folder / found.name
    home.mkdir()
    domain = {column.name: column.size for column in found.schema}
    (home / f"{found.name}-domain.json").write_text(json.dumps(domain), encoding="utf-8")
    lines = [
        ",".join(found.schema.names),
        *(",".join(map(str, row)) for row in (found.codes if codes is None else codes).tolist()),
    ]
    (home / f"{found.name}.csv").write_text("\n".join(lines) + "\n", encoding="utf-8")


def cases(given: argparse.Namespace, done: list[dict[str, Any]], venvs: Path) -> Iterator[dict[str, Any]]:
    """Every case that is not done yet; the caller appends each to `done` before it asks for the next."""
    known = {(each["table"], each["epsilon"], each["method"], each["run"]) for each in done}
    asked = itertools.product(chosen(given), given.epsilons or EPSILONS, methods(given), range(given.runs or 1))
    for found, epsilon, method, number in asked:
        if (found.name, epsilon, method, number) in known:
            continue
        case = {"table": found.name, "epsilon": epsilon, "method": method}
        limits = {"ways": given.ways, "limit": given.seconds}
        skipped = needless(done, scores.Key(found.name, epsilon, method), given.repeat)
        got = {"note": skipped} if skipped else measured(found, {**case, **limits}, venvs)
        books = {} if method in (*BASELINES, *peers.PEERS) else {"accounting": "gdp"}
        yield {**case, "half": found.half, "run": number, **books, **got}


def measured(found: SuiteTable, asked: dict[str, Any], venvs: Path) -> dict[str, Any]:
    """One case, by one of our methods, a baseline or a peer."""
    return peer(asked["method"], found, asked, venvs) if asked["method"] in peers.PEERS else run("suite_case", asked)


def needless(done: list[dict[str, Any]], key: scores.Key, repeat: bool) -> str | None:
    """Why a case need not run: `auto` took that method, or it cannot list the cells of this table."""
    default = key._replace(method="auto")
    taken = {each["note"] for each in scores.grouped(done).get(default, [])}
    return scores.SAME if key.method in taken and not repeat else too_large(done, key.table, key.method)


def too_large(done: list[dict[str, Any]], name: str, method: str) -> str | None:
    """Why a method cannot list the cells of a table: true at every price, so it is tried at one."""
    notes = [each["note"] for each in done if (each["table"], each["method"]) == (name, method)]
    return next((note for note in notes if note.startswith("cannot run: the universe")), None)


def show(console: Console, done: list[dict[str, Any]], half: str) -> None:
    """Every case of a half, then its geometric means."""
    own = [case for case in done if HALVES[case["table"]] == half]
    if not own:
        return
    listed = Table("table", "epsilon", "method", *SHOWN, "CPU s", "MB", "note", title=f"{half} half")
    for key, runs in scores.grouped(own).items():
        mean = scores.means(runs)
        numbers = [f"{mean[name]:.4f}" if name in mean else "-" for name in SHOWN]
        costs = [f"{mean[name]:.{digits}f}" if name in mean else "-" for name, digits in (("cpu", 1), ("memory", 0))]
        listed.add_row(key.table, f"{key.epsilon:g}", key.method, *numbers, *costs, mean["note"][:40])
    console.print(listed)
    summary = Table(
        "epsilon", "method", "tables", "geometric mean", "ratio to auto", "least ratio", title=f"{half}: 3-way"
    )
    for (epsilon, method), row in sorted(scores.against(own).items()):
        ratio = [f"{row[name]:.4f}" for name in ("mean", "ratio", "least")]
        summary.add_row(f"{epsilon:g}", method, str(row["tables"]), *ratio)
    console.print(summary)


def compare(console: Console, done: list[dict[str, Any]], before: list[dict[str, Any]]) -> None:
    """Today's default over the earlier one, table by table."""
    for half in ("development", "held"):
        own = [case for case in done if HALVES[case["table"]] == half]
        found = scores.ratios(own, before)
        if not found:
            continue
        prices = sorted({key.epsilon for key in found})
        listed = Table(
            "table", *(f"epsilon {price:g}" for price in prices), title=f"{half}: 3-way error over the baseline's"
        )
        for name in dict.fromkeys(key.table for key in found):
            given = [found.get(scores.Key(name, price, "auto")) for price in prices]
            listed.add_row(name, *("-" if ratio is None else f"{ratio:.3f}" for ratio in given))
        each = [[ratio for key, ratio in found.items() if key.epsilon == price] for price in prices]
        listed.add_row("geometric mean", *(f"{scores.geometric(ratios):.3f}" for ratios in each))
        console.print(listed)


def chart(done: list[dict[str, Any]], path: Path) -> None:
    """The 3-way error of every method on every table."""
    import altair as alt

    compared = [case for case in done if scores.ERROR in case]
    points = [
        {**key._asdict(), "error": value, "half": HALVES[key.table]} for key, value in scores.errors(compared).items()
    ]
    drawn = (
        alt.Chart(alt.Data(values=points))
        .mark_point(filled=True, size=45)
        .encode(
            x=alt.X(
                "error:Q",
                scale=alt.Scale(type="log"),
                axis=alt.Axis(values=[0.001, 0.01, 0.1, 1.0]),
                title="mean total variation of 3-way tables",
            ),
            y=alt.Y("table:N", title=None),
            color=alt.Color("method:N", title=None),
            shape=alt.Shape("method:N", title=None),
            column=alt.Column("epsilon:O", title="epsilon"),
            row=alt.Row("half:N", title=None),
        )
        .properties(width=240)
        .resolve_scale(y="independent")
    )
    drawn.save(str(path))


def read(path: Path | None) -> list[dict[str, Any]]:
    """The cases of a file."""
    if path is None or not path.exists():
        return []
    found: list[dict[str, Any]] = json.loads(path.read_text(encoding="utf-8"))["cases"]
    return found


def main(console: Console, given: argparse.Namespace, venvs: Path) -> None:
    """The suite, as asked for."""
    done = read(given.json)
    for case in cases(given, done, venvs):
        done.append(case)
        if given.json:
            given.json.write_text(json.dumps({"delta": DELTA, "cases": done}, indent=1) + "\n", encoding="utf-8")
        if not given.quiet and sys.stderr.isatty():
            print(
                f"{case['table']} {case['epsilon']:g} {case['method']}: {case.get('3-way', case['note'])}",
                file=sys.stderr,
            )
    if given.quiet:
        return
    for half in ("development", "held"):
        show(console, done, half)
    if given.baseline:
        compare(console, done, read(given.baseline))
    if given.record:
        done = suite_page.with_earlier(done)
    if given.chart or given.record:
        chart(done, given.chart or suite_page.CHART)
    if given.record:
        suite_page.write(done)
