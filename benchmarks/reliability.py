"""Write docs/reliability.md from the recorded figures (benchmarks/results/reliability.json).

    python benchmarks/reliability.py            # rewrite the page
    python benchmarks/reliability.py --check    # exit with 1 if it is not up to date

Each script below records its own figures with `--record`.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent))

from recording import recorded

PAGE = Path(__file__).resolve().parent.parent / "docs" / "reliability.md"
MISSING = "not recorded yet"

HEAD = """# Reliability

What the audits of privacy and of the ledger tried, how much of it, and what came out. Every figure is read from
`benchmarks/results/reliability.json`; `python benchmarks/reliability.py` writes this page from it, and a test refuses
a page that is out of date. The everyday suite runs a bounded part of each. What the figures stand for is on
[Every claim of privacy](theory/claims.md).
"""


def _plain(figures: Mapping[str, Any]) -> str:
    """Figures of a script that has no form of its own: each with its name."""
    shown = {key: value for key, value in figures.items() if not isinstance(value, dict | list) and key != "version"}
    return "; ".join(f"{key.replace('_', ' ')} {_number(value)}" for key, value in shown.items())


def _number(value: Any) -> str:
    return f"{value:,}" if isinstance(value, int) and not isinstance(value, bool) else str(value)


def _fuzzed(figures: Mapping[str, Any]) -> str:
    return (
        f"{figures['inputs']:,} inputs, {figures['findings']} findings; slowest {figures['slowest_seconds']} s, "
        f"largest {figures['most_megabytes']} MB"
    )


def _gridded(figures: Mapping[str, Any]) -> str:
    machine = figures["families"]["sparse_vectors"]
    return (
        f"{figures['runs']:,} runs, {figures['differences']} differences: {machine:,} of the sparse vector by itself, "
        f"{figures['runs'] - machine:,} through a door and its ledger"
    )


def _images(figures: Mapping[str, Any]) -> str:
    cuts = figures["opened"]["power cut"]
    further = sum(figures["opened"].values()) - cuts
    return f"{cuts:,} power cuts, {further:,} images with a further loss, {sum(figures['bad'].values())} bad"


def _killed(figures: Mapping[str, Any]) -> str:
    places = ", ".join(f"{place} {count:,}" for place, count in figures["places"].items())
    return (
        f"{figures['kills']:,} kills ({places}); {figures['asked']:,} keys, {figures['answered']:,} answered, "
        f"{figures['lost']:,} charged and lost; {figures['connections_cut']:,} connections cut by clients; "
        f"{figures['faults']} faults"
    )


def _served(figures: Mapping[str, Any]) -> str:
    memory = figures["memory"]
    asked, first, last = max(map(int, memory)), min(memory.values()), memory[max(memory, key=int)]
    busy = max(row.get("others %", 0) for row in figures["rows"].values())
    return (
        "; ".join(f"{name}: {_rate(row)}" for name, row in figures["rows"].items())
        + f". {figures['clients']} clients, {figures['cores']} cores, of which other programs took up to {busy:.0f}%. "
        f"Memory over {asked:,} more known answers: {first:.0f} to {last:.0f} MB"
    )


def _laden(figures: Mapping[str, Any]) -> str:
    rates = "; ".join(
        f"{figures['clients']} clients in {processes}: {figures[kind]['rate']:,.0f} requests/s, "
        f"{figures[kind]['cpu_ms']:.2f} ms CPU of theirs each"
        for kind, processes in (("shared", f"{figures['processes']} processes"), ("alone", "one process"))
    )
    long = "; ".join(
        f"{figures['charges']:,} charges in {place}: {figures[kind]['cpu']:.1f} s CPU ({figures[kind]['seconds']:.0f} "
        f"on a busy machine), {figures[kind]['megabytes']:.0f} MB of the process"
        for kind, place in (("file", "a file"), ("postgres", "PostgreSQL"))
    )
    return f"{rates}. {long}"


def _rate(row: Mapping[str, Any]) -> str:
    late = f", p50 {row['p50 ms']:.0f} and p99 {row['p99 ms']:.0f} ms" if "p99 ms" in row else ""
    failed = f", {row['failed']:,.0f} failed" if row.get("failed") else ""
    return f"{row['CPU ms']:.2f} ms CPU, {row['rate']:,.0f}/s{late}{failed}"


def _idle(figures: Mapping[str, Any]) -> str:
    none, every = figures["none"], figures["http_and_postgres"]
    return (
        f"{figures['connections']:,} of each: {none['megabytes']} to {every['megabytes']} MB, {none['files']} to "
        f"{every['files']:,} open files; a known answer takes {none['known_ms']} and {every['known_ms']} ms on a busy "
        "machine; all are served"
    )


def _malformed(figures: Mapping[str, Any]) -> str:
    statuses = ", ".join(f"{status} {count:,}" for status, count in figures["statuses"].items())
    early, late = figures["megabytes"]
    return (
        f"{figures['requests']:,} requests, {figures['findings']} findings; {statuses}; slowest "
        f"{figures['slowest_s']} s; {early} MB after a tenth, {late} MB at the end"
    )


def _sampled(figures: Mapping[str, Any]) -> str:
    pairs = figures["pairs"].values()
    samples = [pair["samples"] for pair in pairs]
    violated = sum(pair["violated"] for pair in pairs)
    return f"{len(samples)} pairs, {min(samples):,} to {max(samples):,} samples per table, {violated} violations"


def _mutated(figures: Mapping[str, Any]) -> str:
    return (
        f"{figures['tried']:,} tried, a sample of {figures['mutants']:,} in {len(figures['files'])} files: "
        f"{figures['killed']:,} killed, {figures['survived']:,} survived, {figures['argued']:,} of them argued"
    )


@dataclass(frozen=True)
class Row:
    """One line of the table: the name it is recorded under, what was tried, the goal, and when it fails."""

    name: str
    tried: str
    goal: str
    fails: str
    script: str
    show: Callable[[Mapping[str, Any]], str] = _plain


FUZZ_FAILS = "an undocumented exception, over 2 s or 200 MB, a crash, a hang, or a broken property"
ROWS = (
    Row(
        "questions",
        "generated questions through the engine path of every door, on neighbours",
        "1,000,000 questions, 0 differences",
        "a value differs from exact fractions, or moves further than was priced",
        "questions.py",
    ),
    Row(
        "questions, with values",
        "the same with sums of values, in parts while the code grew",
        "1,000,000 questions, 0 differences",
        "a value differs from exact fractions, or moves further than was priced",
        "questions.py --name 'questions, with values'",
    ),
    Row(
        "grids",
        "L1: every noise vector of a grid through the doors, against short references",
        "1,500,000 runs, 0 differences",
        "a released value, the order of draws or a scale differs",
        "grids.py",
        _gridded,
    ),
    Row(
        "sampled",
        "L3: samples on neighbours, five events each, failure probability 1e-6 per pair",
        "1e6 to 1e7 samples, 0 violations",
        "a lower bound on epsilon exceeds the exact epsilon of the pair",
        "sampled.py",
        _sampled,
    ),
    Row("mutants", "broken variants of doors, noise, accounting, ledger, sessions, releases, holdout", "at least 80, "
        "all killed", "a mutant passes the audits", "make mutants"),
    Row("mutation", "changed operators, numbers and conditions in the wall and the accounting, by cosmic-ray",
        "each killed, or argued on [Survivors](theory/survivors.md)", "a survivor is not argued", "mutation.py",
        _mutated),
    Row("kills", "kill -9 of processes that charge and answer", "10,000 kills, 0 overspend, 0 conflicts, 0 unbacked",
        "an answer without its charge, a charge undone, two answers to one request", "faults.py"),
    Row("serve_kills", "kill -9 of one of three servers on one PostgreSQL ledger, under load", "1,000 kills, 0 "
        "overspend, 0 conflicts, 0 unbacked; every key has its answer or its lost charge", "an answer without its "
        "charge, two answers to one key or question, a key that pays twice, or is refused without a lost charge of its "
        "own", "serve_kills.py", _killed),
    Row("serve", "the server under load, beside the same questions to a session in one process", "500 fresh and 1,000 "
        "derived asks and 10,000 cached answers per second at 64 clients", "a goal of speed: it is missed where a rate "
        "is lower. One process plans under one interpreter lock: what an ask takes of the processor is the limit",
        "serve.py --requests 1000 --repeats 300000", _served),
    Row("ledger_load", "a PostgreSQL ledger under load, and ledgers grown long", "1,500 requests per second of 64 "
        "clients in four processes; 1,000,000 charges open within 10 s and 300 MB", "a goal of speed: it is missed "
        "where a rate is lower or a figure is higher. Processes that share a ledger write one after the other, and "
        "clients and PostgreSQL have the same cores", "ledger_load.py --charges 1000000", _laden),
    Row("serve_idle", "idle connections to one server: HTTP, and PostgreSQL clients that have logged in", "2,000 of "
        "each, and it still answers", "a connection is lost, or a question is not answered", "serve_idle.py", _idle),
    Row("serve_fuzz", "malformed HTTP requests to one server, over sockets", "100,000 requests, 0 findings", "a reply "
        "of 5xx, a refusal that is no problem document, over 2 s, a connection neither answered nor closed, more "
        "charges than answers, a server that no longer answers", "serve_fuzz.py", _malformed),
    Row("serve_timing", "time of replies over HTTP about neighbouring and extreme tables", "AUC below 0.51, rho below "
        "0.02 over 100,000 requests", "the time tells the tables, or the noise, apart", "serve_timing.py"),
    Row("power", "power-loss images of the ledger's files, also with the log lost", "10,000 images, 0 lost",
        "a told answer or a charge is gone, or an older state opens", "faults.py", _images),
    Row("tampering", "ledgers set back, forked, edited", "1,000 of 1,000 refused", "one opens", "faults.py"),
    Row("timing", "time of answers on neighbouring and extreme tables, with a deadline", "AUC below 0.51 over 100,000 "
        "pairs", "the time tells the tables apart", "timing.py"),
    Row("wall", "CPU time of asking, against the same in the last version whose wall did not compile", "at most 1.03",
        "the ratio is above the goal", "wall.py"),
    Row("fuzz-sql", "fuzzed SQL: parse, canonical form, written again", "1,000,000 inputs, 0 findings", FUZZ_FAILS,
        "fuzz.py --target sql", _fuzzed),
    Row("fuzz-sql, strict", "the same with programs and expressions on levels; titles compared, no refusal of what is "
        "written again", "1,000,000 inputs, 0 findings", FUZZ_FAILS + ". The findings (room made for "
        "groups before they were refused, a clause with nothing in it, chains of comparisons, a median over many "
        "groups, a title with a NUL) are mended, each with a test; one was not seen again. Inputs "
        "before a mend ran on the code before it", "fuzz.py --target sql", _fuzzed),
    Row("fuzz-predicate", "fuzzed conditions, as text and as Python", "1,000,000 inputs, 0 findings",
        FUZZ_FAILS + ". The finding, a chain of IN that filled the memory, is mended; the 20,000 inputs around it, run "
        "again, have none", "fuzz.py --target predicate", _fuzzed),
    Row("fuzz-schema", "fuzzed schema files: TOML, and two neighbours' formats", "1,000,000 inputs, 0 findings",
        FUZZ_FAILS, "fuzz.py --target schema", _fuzzed),
    Row("fuzz-maq", "fuzzed saved releases, most with a right seal", "1,000,000 inputs, 0 findings", FUZZ_FAILS +
        ". One finding, a saved check with noise of an absurd size, is mended, with a test; all inputs ran on the code "
        "before it. The other, a process that ended or did not move on for 76 s (which of the two is now recorded, and "
        "was not then), is not explained; it was not seen again in the 10,000 inputs around it, nor in the 490,000 "
        "that followed", "fuzz.py --target maq", _fuzzed),
    Row("fuzz-ledger", "fuzzed ledger files and keys", "1,000,000 inputs, 0 findings",
        FUZZ_FAILS + ", or a ledger that opens and says something else", "fuzz.py --target ledger", _fuzzed),
)  # fmt: skip


def page(known: Mapping[str, Any]) -> str:
    """The whole page; what was recorded under a name that has no row gets a row of its own."""
    lines = [HEAD, "| tried | goal | measured | fails when | script | version |", "|---|---|---|---|---|---|"]
    others = [Row(name, name, "", "", "") for name in sorted(known) if name not in {row.name for row in ROWS}]
    for row in (*ROWS, *others):
        figures = known.get(row.name)
        measured = MISSING if figures is None else row.show(figures)
        version = "" if figures is None else figures["version"]
        script = f"`{row.script}`" if row.script else ""
        lines.append(f"| {row.tried} | {row.goal} | {measured} | {row.fails} | {script} | {version} |")
    tables = (*_grids(known.get("grids")), *_samples(known.get("sampled")), *_fuzz(known))
    return "\n".join([*lines, "", *tables, *_mutations(known.get("mutation"))]) + "\n"


def _grids(figures: Mapping[str, Any] | None) -> list[str]:
    if figures is None:
        return []
    listed = [f"| {name.replace('_', ' ')} | {count:,} |" for name, count in figures["families"].items()]
    return ["## Noise grids by door", "", "| family | runs |", "|---|---|", *listed, ""]


def _samples(figures: Mapping[str, Any] | None) -> list[str]:
    if figures is None:
        return []
    head = [
        "## Samples on neighbours",
        "",
        "The power is the least shortfall of the noise's scale that would be caught 99 times in 100 at this size.",
        "",
        "| pair | claim | exact epsilon | best lower bounds | samples | power |",
        "|---|---|---|---|---|---|",
    ]
    for name, pair in figures["pairs"].items():
        bounds = ", ".join(f"{bound:.3f}" for bound in sorted(pair["bounds"], reverse=True))
        short = pair["caught_if_noise_is_short_by"]
        power = "above 70%" if short is None else f"{short:.1%}"
        head.append(f"| {name} | {pair['claim']} | {pair['exact']} | {bounds} | {pair['samples']:,} | {power} |")
    return [*head, ""]


def _fuzz(known: Mapping[str, Any]) -> list[str]:
    found = {name: figures for name, figures in known.items() if name.startswith("fuzz-")}
    if not found:
        return []
    lines = ["## What became of fuzzed inputs", "", "| target | accepted or refused as |", "|---|---|"]
    for name, figures in sorted(found.items()):
        said = ", ".join(f"{word} {count:,}" for word, count in figures["outcomes"].items())
        lines.append(f"| {name.removeprefix('fuzz-')} | {said} |")
    return [*lines, ""]


def _mutations(figures: Mapping[str, Any] | None) -> list[str]:
    if figures is None:
        return []
    lines = [
        "## Mutants by file",
        "",
        "| file | mutants | tried | killed | survived, all argued |",
        "|---|---|---|---|---|",
    ]
    for path, file in figures["files"].items():
        left = len(file["survived"])
        lines.append(f"| `{path}` | {file['mutants']:,} | {file['tried']:,} | {file['killed']:,} | {left:,} |")
    return [*lines, ""]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="write nothing; fail if the page is out of date")
    settings = parser.parse_args()
    text = page(recorded())
    if settings.check:
        return int(not PAGE.exists() or PAGE.read_text(encoding="utf-8") != text)
    PAGE.write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
