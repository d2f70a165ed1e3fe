"""The page of costs, docs/costs.md, and its chart, from results/scale.json and results/columns.json."""

from __future__ import annotations

import itertools
import textwrap
from pathlib import Path
from typing import Any

from recording import recorded

ROOT = Path(__file__).resolve().parent
SCALE, COLUMNS = ROOT / "results" / "scale.json", ROOT / "results" / "columns.json"
PAGE, CHART = ROOT.parent / "docs" / "costs.md", ROOT.parent / "docs" / "images" / "costs.svg"
SIZES = (10**6, 10**7, 10**8)
STEPS = {"open": "open", "ask": "a fresh question", "pairs": "all 66 pairs"}
COMPARED = {"maquette": "66 pairs, ours", "duckdb": "DuckDB, GROUPING SETS", "polars": "Polars, streaming"}
WITH_SPARK = {**COMPARED, "spark": "ours in Spark", "spark sql": "Spark, GROUPING SETS"}
CORES, MANY = 64, 10**10
Figures = dict[str, dict[str, Any]]

INTRODUCTION = """\
# What rows, columns, cells and questions cost

Every figure is read from `benchmarks/results/scale.json` and `columns.json`, which `benchmarks/scale.py` and
`benchmarks/columns.py` write with `--record`; `python benchmarks/scale.py --chart` makes this page from them. Times are
CPU seconds of one process on a shared machine of two cores; memory is the peak of the process with its imports.
"""

ROWS = """\
## Rows

Tables of 12 columns (2 to 100 levels) in Parquet. Opening encodes every value once, into code planes in a file; a
question then reads the planes of its own columns. In the rows marked *limited* the system refuses the process more than
600 MB of data (`RLIMIT_DATA`): at 1e8 rows the planes alone are twice that.
"""

OTHERS = """\
The other libraries read the Parquet file at each question; theirs is every eleventh pair from 1e7 rows on, scaled up.
"""

ONE_RUN = """\
The same once more, all in one run with Spark, while the machine had much else to do. Spark is in local mode; its
figures are of a second, warm pass, and hold the CPU time of Java and of all workers (GROUPING SETS at 1e8 rows: every
33rd pair). *Ours in Spark* counts planes that its executors keep.
"""

CHECK = """\
### Is it linear?

A line through the figures of 1e6 and 1e7 rows, continued to 1e8, beside what was then measured:
"""

COLUMN_TEXT = """\
## Columns

Releases of all pairs, or triples, at epsilon 1 (delta 1e-9) of generated tables of 100,000 rows: yes/no columns driven
by hidden numbers, and mixed columns of 2 to 20 levels; scattered columns, which depend on others anywhere in the table,
are held back: no setting was chosen by them. The error is the mean half L1 distance of 300 tables from the rows, as a
fraction of them, beside that of independent columns: measured for the whole price of the release, and the true ones. Of
more than 20,000 pairs, those of neighbouring columns and others by a fixed seed are looked at; the rest is explained by
the models.
"""

CELL_TEXT = """\
## Cells

One count of 1e6 rows in memory, by the cells of its table. While the table is small, the rows are what takes time; then
it is the table, which no longer fits in the processor's caches.
"""

QUESTION_TEXT = """\
## Questions

Fresh questions about 1e6 rows in memory, one after the other, each about three columns never asked together before.
The first loads what asking needs; each further one adds milliseconds.
"""


def line(scale: Figures, step: str) -> tuple[float, float]:
    """Seconds that do not depend on the rows, and seconds per row, of the two smaller sizes."""
    first, second = (float(scale[f"{rows:.0e} maquette"][step]) for rows in SIZES[:2])
    slope = (second - first) / (SIZES[1] - SIZES[0])
    return first - slope * SIZES[0], slope


def table(head: list[str], lines: list[list[str]]) -> str:
    """A table in Markdown."""
    return "\n".join(
        [
            "| " + " | ".join(head) + " |",
            "|---" * len(head) + "|",
            *("| " + " | ".join(each) + " |" for each in lines),
            "",
        ]
    )


def shown(value: Any, digits: int = 3) -> str:
    return "-" if value is None else f"{float(value):,.{digits}g}" if value < 100 else f"{float(value):,.0f}"


def by_rows(scale: Figures) -> str:
    """Ours and the others, by rows."""
    lines = []
    for rows, case in itertools.product(SIZES, ("maquette", "limited")):
        if (found := scale.get(f"{rows:.0e} {case}")) is None:
            continue
        own = [found.get(name) for name in ("open", "first", "ask", "slowest ask", "pairs")]
        name = f"{rows:.0e}" + (", limited" if case == "limited" else "")
        lines.append([name, *map(shown, [*own, found["resident"], found["disk"]])])
    head = [
        "rows",
        "open",
        "first answer",
        "fresh question",
        "slowest of 50",
        "66 pairs",
        "MB",
        "MB on disk",
    ]
    compared = table(["rows", *COMPARED.values()], [_compared(scale, rows) for rows in SIZES])
    runs = {rows: scale.get(f"{rows:.0e} one run") for rows in SIZES}
    together = [[f"{rows:.0e}", *(shown(run.get(case)) for case in WITH_SPARK)] for rows, run in runs.items() if run]
    spark = table(["rows", *WITH_SPARK.values()], together)
    made = [(rows, scale.get(f"{rows:.0e} release")) for rows in SIZES]
    released = [[f"{rows:.0e}", shown(one["release"]), shown(one["resident"])] for rows, one in made if one]
    releases = table(["rows", "release of all pairs, without a limit", "MB"], released)
    chart = "![CPU seconds by rows](images/costs.svg)\n"
    return "\n".join([ROWS, table(head, lines), chart, releases, OTHERS, compared, ONE_RUN, spark])


def _compared(scale: Figures, rows: int) -> list[str]:
    """All pairs, by everybody who counted them at this size."""
    found = {case: scale.get(f"{rows:.0e} {case}", {}).get("pairs") for case in (*COMPARED, "limited")}
    found["maquette"] = found["maquette"] or found["limited"]
    return [f"{rows:.0e}", *(shown(found[case]) for case in COMPARED)]


def check(scale: Figures) -> str:
    """Extrapolation from 1e6 and 1e7 to 1e8."""
    lines = []
    last = scale[f"{SIZES[-1]:.0e} limited"]
    for step, name in STEPS.items():
        start, slope = line(scale, step)
        predicted = start + slope * SIZES[-1]
        lines.append(
            [name, shown(slope * 1e6), shown(predicted), shown(last[step]), f"{predicted / last[step] - 1:+.0%}"]
        )
    return "\n".join([CHECK, table(["", "CPU s per 1e6 rows", "predicted at 1e8", "measured", "difference"], lines)])


def model(scale: Figures) -> str:
    """What 1e10 rows would take on a cluster."""
    lines = []
    for step, name in STEPS.items():
        start, slope = line(scale, step)
        work = start + slope * MANY
        lines.append([name, shown(work), shown(work / CORES)])
    disk = scale[f"{SIZES[-1]:.0e} limited"]["disk"] / SIZES[-1] * MANY / 1e3
    text = f"""\
No table of 1e10 rows was opened. This is the same line, continued by a factor of a hundred more, for {CORES} cores.
The most that a table may hold is 3 * 2^32 rows, about 1.3e10. The planes take {disk:,.0f} GB of memory or disk over all
workers."""
    assumed = [
        "Work is linear in rows: seen up to 1e8.",
        "The rows are spread evenly, and encoding and counting cost a core of the cluster what they cost a core here.",
        f"Spark's own work is not in it. In local mode{_spark(scale)}.",
        "Only counts travel: eight bytes for each cell and part, 0.2 MB a part for the 66 pairs, more where joint "
        "tables of several pairs are counted.",
        "Reading the source is as fast as encoding it. The fit of a release does not depend on the rows.",
    ]
    listed = "\n".join(textwrap.fill(f"* {each}", 120, subsequent_indent="  ") for each in assumed)
    head = ["1e10 rows", "CPU s", f"seconds on {CORES} cores"]
    return "\n".join(["### 1e10 rows on a cluster\n", text + "\n", table(head, lines), "Assumptions:\n", listed, ""])


def _spark(scale: Figures) -> str:
    """What was measured of Spark."""
    told = []
    for rows in SIZES:
        if own := scale.get(f"{rows:.0e} spark"):
            text = f" at {rows:.0e} rows a warm pass over all pairs took {shown(own['pairs'])} CPU s, and opening "
            told.append(text + f"{shown(own['open'])}, with its start")
    return ";".join(told)


def by_columns(columns: Figures) -> str:
    """Releases, by columns."""
    lines = []
    for key, found in sorted(columns.items(), key=lambda each: (each[1]["k"], each[1]["columns"], each[0])):
        k = found["k"]
        errors = [f"{k}-way{other}" for other in ("", " bought", " independent")]
        own = [found.get(name) for name in ("cpu", "memory", "session", *errors)]
        lines.append([key.rpartition(" k=")[0], str(k), *map(shown, own)])
    head = ["columns", "k", "release, CPU s", "MB", "opening a session, CPU s", "error"]
    head += ["columns alone, measured", "columns alone, true"]
    return "\n".join([COLUMN_TEXT, table(head, lines)])


def by_name(scale: Figures, what: str, text: str, head: list[str]) -> str:
    """What the case `growth` found by cells, or by questions."""
    found = {int(key.split()[1]): value for key, value in scale["1e+06 growth"].items() if key.startswith(what)}
    return "\n".join([text, table(head, [[f"{number:,}", shown(found[number])] for number in sorted(found)])])


def page(scale: Figures, columns: Figures) -> str:
    """The whole page."""
    cells = by_name(scale, "cells", CELL_TEXT, ["cells", "CPU s of a count"])
    questions = by_name(scale, "questions", QUESTION_TEXT, ["questions", "CPU s of all"])
    return "\n".join([INTRODUCTION, by_rows(scale), check(scale), model(scale), by_columns(columns), cells, questions])


def chart(scale: Figures) -> None:
    """CPU seconds by rows: opening, one question, all pairs, and all pairs by others."""
    import altair as alt

    named = {"open": "open", "ask": "a fresh question", "pairs": "66 pairs"}
    points = [
        {"rows": rows, "seconds": found[step], "what": name}
        for rows in SIZES
        if (found := scale.get(f"{rows:.0e} maquette") or scale.get(f"{rows:.0e} limited"))
        for step, name in named.items()
    ]
    for case, name in {"duckdb": "66 pairs, DuckDB", "polars": "66 pairs, Polars"}.items():
        points += [
            {"rows": rows, "seconds": scale[f"{rows:.0e} {case}"]["pairs"], "what": name}
            for rows in SIZES
            if f"{rows:.0e} {case}" in scale
        ]
    drawn = (
        alt.Chart(alt.Data(values=points))
        .mark_line(point=True)
        .encode(
            x=alt.X(
                "rows:Q", scale=alt.Scale(type="log"), axis=alt.Axis(values=list(SIZES), format=".0e"), title="rows"
            ),
            y=alt.Y("seconds:Q", scale=alt.Scale(type="log"), title="CPU seconds"),
            color=alt.Color("what:N", title=None),
        )
        .properties(width=420, height=300)
    )
    drawn.save(str(CHART))


def write() -> None:
    """Write the page and its chart."""
    scale = recorded(SCALE)
    PAGE.write_text(page(scale, recorded(COLUMNS)), encoding="utf-8")
    chart(scale)
