"""A census table without a header, with spaces and question marks, from its draft to numbers, against the truth.

`python benchmarks/zero_inflated.py adult.csv` drafts the table, releases it at epsilon 1 and delta 1e-9 (or `--delta`)
with the sums of its binned numbers bought, and prints, for every numeric column, how far averages, sums, and the mean,
quantiles and share of zeros of synthetic rows are off, then the mean, deviation and worst of the averages' errors over
all runs. The drafted schema is used as it is: nothing here is a private release.
"""

from __future__ import annotations

import argparse
import csv
import warnings
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

import maquette as mq
from maquette.schema import FileFormat, Integer, Number, Schema

COLUMNS = (
    *("age", "workclass", "fnlwgt", "education", "education_num", "marital_status", "occupation", "relationship"),
    *("race", "sex", "capital_gain", "capital_loss", "hours_per_week", "native_country", "income"),
)
AT = (0.5, 0.9, 0.95, 0.99)


def main() -> None:
    asked = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    asked.add_argument("table", type=Path, help="the census file, without a header")
    asked.add_argument("--runs", type=int, default=3)
    asked.add_argument("--delta", type=float, default=1e-9)
    given = asked.parse_args()
    warnings.simplefilter("ignore")
    schema = Schema.guess(given.table, FileFormat(names=COLUMNS))
    numeric = [c.name for c in schema if isinstance(c, Integer | Number)]
    binned = [c.name for c in schema if isinstance(c, Number) or (isinstance(c, Integer) and c.width > 1)]
    with given.table.open(encoding="utf-8") as file:
        rows = [row for row in csv.reader(file) if row]
    truth = {name: np.array([float(row[COLUMNS.index(name)]) for row in rows]) for name in numeric}
    table = mq.open_table(given.table, schema)
    print("| run | column | avg off by | sum off by | synthetic mean off by | zeros: truth, synthetic | quantiles |")
    print("|---|---|---|---|---|---|---|")
    errors: dict[str, list[float]] = {name: [] for name in numeric}
    for run in range(1, given.runs + 1):
        with mq.Curator(table, mq.Budget(epsilon=1.0, delta=given.delta)) as curator:
            release = mq.release(curator, mq.marginals(schema, k=3, sums=binned))
        drawn = release.sample(len(rows))
        for name in numeric:
            off = told(run, name, release, truth[name], np.asarray(drawn[name].to_pylist(), dtype=np.float64))
            errors[name].append(off)
    print("\n| column | mean error of avg | deviation | worst | within 3% |\n|---|---|---|---|---|")
    for name, off_by in errors.items():
        e = np.array(off_by)
        worst, held = e[np.abs(e).argmax()], (np.abs(e) <= 0.03).sum()
        print(f"| {name} | {e.mean():+.2%} | {np.sqrt((e**2).mean()):.2%} | {worst:+.2%} | {held} of {len(e)} |")


def told(run: int, name: str, release: mq.Release, true: NDArray[np.float64], drawn: NDArray[np.float64]) -> float:
    """One line of the table; returns how far the average is off."""
    average, total = (release.answer(f"SELECT {what}({name}) FROM t").value for what in ("avg", "sum"))
    off = [average / true.mean() - 1, total / true.sum() - 1, drawn.mean() / true.mean() - 1]
    zeros = f"{(true == 0).mean():.2%}, {(drawn == 0).mean():.2%}"
    pairs = zip(np.quantile(true, AT), np.quantile(drawn, AT), strict=True)
    quantiles = "; ".join(f"{a:,.0f}, {b:,.0f}" for a, b in pairs)
    print(f"| {run} | {name} | {' | '.join(f'{value:+.2%}' for value in off)} | {zeros} | {quantiles} |", flush=True)
    return float(off[0])


if __name__ == "__main__":
    main()
