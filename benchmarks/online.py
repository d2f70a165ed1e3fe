"""Online sessions: what a stream of questions costs under every strategy, how good the answers are, and how fast.

python benchmarks/online.py [--quick] [--data PATH] [--chart FILE.svg] [--workload NAME ...] [--strategy NAME ...]
                            [--first] [--asks N] [--streams [PART OF A NAME ...] [--runs N] [--rows-given]]

A stream asks distinct questions of a fixed pool with Zipf frequencies, each to be answered within alpha of the rows but
for a chance of 1e-3. Costs are in units of one such count: u = 5.41 / (alpha n)^2 of rho, or under a pure budget
v = 6.91 / (alpha n) of epsilon; "epsilon" is the total at delta 1e-9 (or pure) after the last ask. "missed" is the
share of answers further off than alpha of the rows, "outside" that of exact values outside the stated interval, both
over distinct questions (a repeat repeats its answer). Medians over seeds; a seed drives the stream and the peer's
simulated noise, the library's noise has none. Strategies: a cache of single Laplace or Gaussian counts, a cache of
whole marginals, one histogram at the start, the online iterative construction with its theorem's parameters,
PMW-Bypass ("peer") at its published settings, and `mq.online`: "ours", each answer at 1e-3; "ours together", all
answers at once at 0.05. All but ours are given the number of rows, but for "histogram, rows bought", which is
told as little as ours. "priced": every question, or the opening, costs the
same whatever is asked, so the cost is computed, and only a sample of the questions was answered for real.

Workloads: cells of up to three of seven columns of adult (workclass, education, marital-status, relationship, race,
sex, income>50K); sets of levels of up to three of them; cells of up to three and up to five columns of nltcs;
conjunctions of sets of levels over a table of 128 cells and a million generated rows, under a pure budget; halves of
the levels of two to four of fourteen unrelated generated columns, a universe too large for a histogram, under a pure
budget: here a guard over the model pays ("ours unguarded" has none). PATH
(default $MAQUETTE_DATA) holds adult/adult.csv and nltcs/nltcs.csv; without it rows are generated to resemble them.

With --streams: streams of ordinary analysis in SQL (distribution functions, ranges, averages, dashboards), each asked
once in order, "each" at 1e-3 and "together" at 0.05, with the number of rows given or bought, beside simple strategies
that know the stream in advance. Medians over runs. `streams.SET_ASIDE` is not tuned for (see there). A last table has
the ratio of every price to that of the best simple strategy: of those that know the stream, and where all answers hold
together also of those that do not know how many questions will come and divide the doubt by a falling series.
"""

from __future__ import annotations

import argparse
import itertools
import json
import multiprocessing
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from functools import cache
from pathlib import Path

from rich.console import Console
from rich.table import Table

for variable in ("OPENBLAS_NUM_THREADS", "NUMBA_NUM_THREADS"):  # before numpy starts its threads
    os.environ.setdefault(variable, "1")

from online_sessions import report, speed, streams  # noqa: E402
from online_sessions.strategies import LARGEST, Case, Outcome, run, strategies  # noqa: E402
from online_sessions.workloads import NAMES, Workload, load  # noqa: E402

SEEDS = 8
SETTINGS = ((1.0, 0.05, 100_000), (0.0, 0.05, 10_000), (1.0, 0.02, 10_000), (1.0, 0.01, 10_000))  # Zipf, alpha, asks
SHORT = 10_000  # asks of the session whose answers hold together, which follows the same path at another price
ONCE = ("peer 1000-1", "peer 100-5, rate 0.4", "peer 5-1, rate 4", "ours together")  # only in the first of these

Setting = tuple[float, float, int]

loaded = cache(load)


def one(case: Case) -> Outcome:
    return run(case, loaded(case.workload, case.data))


def cases(workload: Workload, data: str, seeds: int, settings: list[Setting]) -> list[Case]:
    most = min(settings[0][2], SHORT)
    return [
        Case(
            workload=workload.name,
            strategy=strategy,
            alpha=alpha,
            zipf=zipf,
            seed=seed,
            asks=min(asks, SHORT) if strategy == "ours together" else asks,
            data=data,
        )
        for zipf, alpha, asks in (settings if workload.schema.size <= LARGEST else [(*settings[0][:2], most)])
        for seed in range(seeds)
        for strategy in strategies(workload)
        if (zipf, alpha) == SETTINGS[0][:2] or strategy not in ONCE
    ]


def compare(console: Console, names: list[str], cases_of: Callable[[str], list[Case]]) -> list[Outcome]:
    """Every strategy on every workload, two processes at a time."""
    outcomes: list[Outcome] = []
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(min(2, os.cpu_count() or 1), mp_context=context) as pool:
        for name in names:
            start = time.perf_counter()
            found = list(pool.map(one, cases_of(name)))
            outcomes += found
            for key, runs in report.grouped(found).items():
                report.costs(console, key, runs)
            console.print(f"  {name}: {time.perf_counter() - start:,.0f} s\n")
    return outcomes


def show_speed(console: Console, names: list[str], data: str, quick: bool) -> None:
    """Speed with a ledger on disk, one workload after another, each in a process of its own."""
    table = Table("workload", "route", "answers", "per second", "memory MB", title="session with a ledger on disk")
    for name in names:
        command = [sys.executable, __file__, "--speed", name, "--data", data, *(["--quick"] if quick else [])]
        result = json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout)
        for i, (route, answers) in enumerate(result["answers"].items()):
            ends = ("", "") if i else (name, f"{result['memory']:,.0f}")
            table.add_row(ends[0], route, f"{answers:,}", f"{result['rates'][route]:,.0f}", ends[1])
    console.print(table)
    sizes = (10_000,) if quick else (10_000, speed.ENTRIES)
    table = Table("ledger entries", "filled per second", "spent ms", "charge ms", "refusal ms", title="ledger on disk")
    for size in sizes:
        found = speed.ledger_speed(size)
        shown = [f"{found[key]:.3f}" for key in ("spent", "reserve and commit", "refuse")]
        table.add_row(f"{found['entries']:,.0f}", f"{found['entries per second']:,.0f}", *shown)
    console.print(table)


def show_streams(console: Console, wanted: list[str], data: str, runs: int, *, told: bool) -> None:
    """What streams of SQL cost, in counts; medians over runs. `told`: only with the number of rows given."""
    runner, ratios = streams.Runner(data), list[report.Ratio]()
    for made in (*streams.STREAMS, *streams.HELD_OUT, *streams.SET_ASIDE):
        stream = made()
        if wanted and not any(part in stream.name for part in wanted):
            continue
        for together, given in itertools.product((False, True), (True,) if told else (True, False)):
            start = time.process_time()
            found = [runner.run(stream, together=together, given=given) for _ in range(runs)]
            best = stream.together() if together else stream.references
            line = (
                f"{stream.name:30} {'together' if together else 'each':8} rows {'given' if given else 'bought':6} "
                f"{statistics.median(one.price for one in found):8,.1f} u"
                f"{sum(one.missed for one in found):5,} missed "
                f"{sum(one.unpromised for one in found):5,} without promise"
                f"{(time.process_time() - start) / runs:7.1f} s   "
            )
            console.print(line + ", ".join(f"{name} {price:,.0f}" for name, price in best.items()), highlight=False)
            price = statistics.median(one.price for one in found)
            ratios.append((stream.name, together, given, price, *compared(stream, price, together=together)))
    report.ratios(console, ratios)


def compared(stream: streams.Stream, price: float, *, together: bool) -> tuple[str, str]:
    """A price beside the best simple strategy that knows the stream, and the best that does not: ratio and name."""
    known, unaware = stream.together() if together else stream.references, stream.unaware() if together else {}
    told = []
    for prices in (known, unaware):
        name = min(prices, key=lambda name: prices[name], default="")
        told.append(f"{price / prices[name]:.2f} {name} {prices[name]:,.3g}" if prices else "")
    return told[0], told[1]


def main() -> None:
    parser = argparse.ArgumentParser(description="Cost, quality and speed of online sessions.")
    parser.add_argument("--quick", action="store_true", help="one seed, a thousand asks, three workloads")
    parser.add_argument("--data", default=os.environ.get("MAQUETTE_DATA", ""), help="folder with nltcs and adult")
    parser.add_argument("--chart", type=Path, help="write the cumulative costs to this SVG file")
    parser.add_argument("--seeds", type=int, help=f"streams for each setting (default {SEEDS})")
    parser.add_argument("--asks", type=int, help="no more asks than these: a power of ten")
    parser.add_argument("--first", action="store_true", help="Zipf(1) and alpha 0.05 alone")
    parser.add_argument("--workload", action="append", choices=NAMES, help="only these workloads")
    parser.add_argument("--strategy", action="append", default=[], help="only these strategies")
    parser.add_argument("--no-speed", action="store_true", help="costs alone")
    parser.add_argument("--streams", nargs="*", help="SQL streams alone: all, or those whose name holds one of these")
    parser.add_argument("--runs", type=int, default=5, help="runs of each SQL stream")
    parser.add_argument("--rows-given", action="store_true", help="SQL streams with the number of rows given alone")
    parser.add_argument("--speed", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.speed:
        print(json.dumps(speed.session_speed(given.speed, given.data, patience=3.0 if given.quick else 20.0)))
        return
    console = Console(width=170)
    if given.streams is not None:
        show_streams(console, given.streams, given.data, given.runs, told=given.rows_given)
        return
    names = given.workload or (["adult cells", "128 cells", "wide conjunctions"] if given.quick else list(NAMES))
    given.first |= given.quick
    seeds = given.seeds or (1 if given.quick else SEEDS)
    most = given.asks or (1_000 if given.quick else SETTINGS[0][2])
    settings = [(zipf, alpha, min(asks, most)) for zipf, alpha, asks in (SETTINGS[:1] if given.first else SETTINGS)]

    def cases_of(name: str) -> list[Case]:
        found = cases(loaded(name, given.data), given.data, seeds, settings)
        return [case for case in found if not given.strategy or case.strategy in given.strategy]

    outcomes = compare(console, names, cases_of)
    report.times(console, outcomes)
    if given.chart:
        report.chart(given.chart, report.grouped(outcomes))
        console.print(f"chart: {given.chart}")
    if not given.no_speed:
        show_speed(console, names[:2] if given.quick else names, given.data, given.quick)


if __name__ == "__main__":
    main()
