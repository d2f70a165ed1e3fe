"""Mutation testing of the wall and the accounting: change one operator, number or condition, and see a test fail.

    python benchmarks/mutation.py --list                                      # files, and how many mutants each has
    python benchmarks/mutation.py --files privacy/relation.py --sample 50
    python benchmarks/mutation.py --log mutation.log --seconds 3600           # all files in turn, for an hour
    python benchmarks/mutation.py --log mutation.log --again                  # what survived, against newer tests
    python benchmarks/mutation.py --log mutation.log --record                 # the figures of docs/reliability.md

Mutants are those of cosmic-ray, but for those of type annotations and of error texts, which change nothing that runs.
Each is written into a temporary copy of the tree and meets the tests that `TESTS` lists for its file, in a process
that is forked from one which has loaded the libraries; the file itself is never touched. A sample is drawn with a
fixed seed. What survives is printed; docs/theory/survivors.md argues about each.
"""

from __future__ import annotations

import argparse
import ast
import difflib
import importlib
import json
import os
import random
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(Path(__file__).resolve().parent))

from recording import record  # noqa: E402

PAGE = ROOT / "docs" / "theory" / "survivors.md"
SEED = 14
ARROW = " → "
SLOWEST = 25.0  # seconds before a mutant counts as killed: its test command takes a few
LIBRARIES = (
    "numba",
    "scipy.stats",
    "scipy.optimize",
    "duckdb",
    "pyarrow",
    "narwhals",
    "sqlglot",
    "hypothesis",
    "pytest",
)
OPERATORS = (  # of cosmic-ray; the others change nothing but annotations, or add and replace whole variables
    "AddNot",
    "NumberReplacer",
    "ReplaceAndWithOr",
    "ReplaceOrWithAnd",
    "ReplaceBinaryOperator",
    "ReplaceBreakWithContinue",
    "ReplaceContinueWithBreak",
    "ReplaceComparisonOperator",
    "ReplaceTrueWithFalse",
    "ReplaceFalseWithTrue",
    "ReplaceUnaryOperator",
    "ZeroIterationForLoop",
)
DOORS = "tests/doors/test_gates.py"
SAME = (
    "_Eq_Is",
    "_Is_Eq",
    "_NotEq_IsNot",
    "_IsNot_NotEq",
)  # identity for equality: the same for None and small numbers
SURVIVORS = "tests/doors/test_survivors.py"
TESTS: dict[str, str] = {  # the quickest tests that concern each file, those that fail soonest first
    "privacy/relation.py": f"{SURVIVORS} {DOORS} -k relation or moves or measure or sums or rows",
    "query/moves.py": f"{SURVIVORS} {DOORS} -k relation or moves or measure or sums",
    "curator/compiled.py": f"{SURVIVORS} tests/doors/test_compiling.py {DOORS} "
    "-k compiled or agree or clamped or one_by_one or amounts or written_to "
    "or gates and (sums or scores or exhaustive)",
    "curator/compile.py": f"{SURVIVORS} tests/doors/test_compiling.py tests/audit/test_questions.py "
    "-k beyond_one or compiling and not cancel and not lies",
    "curator/scores.py": f"{SURVIVORS} tests/doors/test_arithmetic.py {DOORS} "
    "-k scores or wrap or measure_error or worst or best",
    "curator/cap.py": f"{SURVIVORS} tests/game/test_lottery.py -k cap or clip",
    "curator/sparse_vector.py": f"{SURVIVORS} tests/sparse_vector/test_sparse_vector.py {DOORS} "
    "-k sparse_vector or guard",
    "curator/guard.py": f"{SURVIVORS} {DOORS} tests/audit/test_order.py -k guard and not mutant",
    "curator/lazy_guard.py": f"{SURVIVORS} tests/doors/test_lazy_guard.py "
    "-k lazy_guard and not broken and not adversary and not vertices and not renyi and not samples",
    "curator/lottery.py": f"{SURVIVORS} tests/game/test_lottery.py {DOORS} -k lottery and not broken and not many",
    "privacy/units.py": f"{SURVIVORS} tests/privacy/test_accountants.py -k round or decimals or units",
    "privacy/pure.py": f"{SURVIVORS} tests/privacy/test_accountants.py",
    "privacy/zcdp.py": f"{SURVIVORS} tests/privacy/test_accountants.py tests/privacy/test_budget.py -k not import",
    "privacy/gdp.py": f"{SURVIVORS} tests/privacy/test_accountants.py tests/privacy/test_gaussian_corners.py "
    "-k not profile",
    "privacy/accountant.py": f"{SURVIVORS} tests/privacy/test_accountants.py tests/privacy/test_budget.py "
    "-k not import",
    "privacy/cost.py": f"{SURVIVORS} tests/privacy/test_cost.py tests/privacy/test_accountants.py",
    "curator/contributions.py": f"{SURVIVORS} tests/tables/test_contributions.py",
    "curator/transaction.py": f"{SURVIVORS} {DOORS} tests/doors/test_review_measuring.py "
    "tests/doors/test_measuring_door.py tests/timing/test_deadlines.py "
    "-k order or replay or record or guard or late or told",
    "curator/deadline.py": f"{SURVIVORS} tests/timing/test_deadlines.py -k not compiled_kernel",
    "privacy/ledger/head.py": f"{SURVIVORS} tests/ledger/test_ledger_head.py -k not changed_byte and not mixture",
    "privacy/ledger/chain.py": f"{SURVIVORS} tests/ledger/test_ledger_tampering.py -k event or key or receipt or macs",
    "privacy/ledger/replay.py": f"{SURVIVORS} tests/ledger/test_ledger_protocol.py "
    "tests/ledger/test_ledger_tampering.py "
    "-k restart or edited or terms or anchor or key or receipt or no_ledger or lists",
    "privacy/ledger/machine.py": f"{SURVIVORS} tests/ledger/test_ledger_protocol.py",
    "privacy/ledger/book.py": f"{SURVIVORS} tests/ledger/test_ledger_protocol.py",
    "privacy/ledger/memory.py": f"{SURVIVORS} tests/ledger/test_ledger_protocol.py",
    "privacy/ledger/sqlite.py": f"{SURVIVORS} tests/ledger/test_ledger_protocol.py",
    "curator/exact.py": f"{SURVIVORS} tests/noise/test_noise_exact.py",
    "curator/noise.py": f"{SURVIVORS} tests/noise/test_noise_exact.py tests/noise/test_noise_source.py "
    "tests/noise/test_noise_laws.py tests/noise/test_noise_selection.py tests/audit/test_checks.py "
    "-k test_noise_exact or laplace_law or gaussian_law or mechanism_law or flip_law "
    "or out_of_range or sizes or saturate or up_ or library_passes and (tail or sampler or noise or zero)",
}


@dataclass(frozen=True)
class Place:
    """One place of a file where one operator of cosmic-ray applies."""

    path: str
    line: int
    operator: str
    occurrence: int

    @property
    def key(self) -> str:
        """Tells places of all files apart."""
        return f"{self.path} {self.operator} {self.occurrence}"

    def code(self) -> str:
        """The whole file, changed in this one place."""
        from cosmic_ray.mutating import mutate_code
        from cosmic_ray.plugins import get_operator

        code: str = mutate_code(_source(self.path), get_operator(self.operator)(), self.occurrence)
        return code

    def change(self, code: str) -> str:
        """The lines before and after."""
        lines = difflib.unified_diff(_source(self.path).splitlines(), code.splitlines(), n=0, lineterm="")
        kept = [line for line in lines if line[:1] in "+-" and line[:3] not in ("+++", "---")]
        return ARROW.join(line[1:].strip() for line in kept)


def _source(path: str) -> str:
    return (ROOT / "src" / "maquette" / path).read_text(encoding="utf-8")


def places_of(path: str) -> list[Place]:
    """Every place of a file under src/maquette, operator after operator."""
    from cosmic_ray.ast import ast_nodes, get_ast
    from cosmic_ray.plugins import get_operator, operator_names

    source = _source(path)
    quiet, nodes, found = _quiet(source), list(ast_nodes(get_ast(source))), []
    for name in sorted(operator_names()):
        kind = name.removeprefix("core/")
        if not kind.startswith(OPERATORS) or kind.endswith(SAME):
            continue
        operator = get_operator(name)()
        starts = [start for node in nodes for start, _ in operator.mutation_positions(node)]
        found += [
            Place(path, start[0], name, occurrence)
            for occurrence, start in enumerate(starts)
            if not any(low <= tuple(start) < high for low, high in quiet)
        ]
    return found


def _quiet(source: str) -> list[tuple[tuple[int, int], tuple[int, int]]]:
    """Spans that do not decide anything: annotations, what an error says, and how an object prints itself."""
    spans = []
    for node in ast.walk(ast.parse(source)):
        parts: list[ast.AST | None] = []
        if isinstance(node, ast.FunctionDef):
            parts.append(node if node.name in ("__repr__", "__str__") else node.returns)
        elif isinstance(node, ast.arg | ast.AnnAssign):
            parts.append(node.annotation)
        elif isinstance(node, ast.Raise):
            parts.append(node)
        for part in parts:
            if isinstance(part, ast.expr | ast.stmt):
                ends = (part.end_lineno or part.lineno, part.end_col_offset or 0)
                spans.append(((part.lineno, part.col_offset), ends))
    return spans


def killed(path: str, code: str, tree: Path) -> bool:
    """Whether a test of the file fails, or does not end, when the file holds this code."""
    place = tree / "src" / "maquette" / path
    before = place.read_text(encoding="utf-8")
    place.write_text(code, encoding="utf-8")
    try:
        return _run(tree, TESTS[path]) != 0
    finally:
        place.write_text(before, encoding="utf-8")


def _run(tree: Path, tests: str) -> int:
    """The exit code of pytest in a forked process; 1 if it takes too long."""
    process = os.fork()
    if process == 0:
        os.setpgid(0, 0)
        _child(tree, tests)
    ends = time.monotonic() + SLOWEST
    while time.monotonic() < ends:
        done, status = os.waitpid(process, os.WNOHANG)
        if done:
            return os.waitstatus_to_exitcode(status)
        time.sleep(0.02)
    os.killpg(process, signal.SIGKILL)
    os.waitpid(process, 0)
    return 1


def _child(tree: Path, tests: str) -> None:
    with open(tree / "output.txt", "w", encoding="utf-8") as output:
        os.dup2(output.fileno(), 1)
        os.dup2(output.fileno(), 2)
    os.chdir(tree)
    os.environ["PYTHONPATH"] = str(tree / "src")
    sys.dont_write_bytecode = True
    sys.path.insert(0, str(tree / "src"))
    import pytest

    code = 1
    try:
        arguments = ["--thorough", "-x", "-q", "-p", "no:cacheprovider", "-p", "no:xdist", "--no-header", "--tb=line"]
        code = int(pytest.main([*arguments, *_split(tests)]))
    finally:
        sys.stdout.flush()
        os._exit(code)


def _split(tests: str) -> list[str]:
    """Words of a test command; what follows -k is one word, and leaves out none of the tests against survivors."""
    words, _, chosen = tests.partition(" -k ")
    return [*words.split(), *(["-k", f"({chosen}) or {Path(SURVIVORS).stem}"] if chosen else [])]


def copied() -> Path:
    """A copy of the tree in which files may be changed."""
    tree = Path(tempfile.mkdtemp(prefix="mutation-"))
    for name in ("src", "tests", "benchmarks", "docs"):
        shutil.copytree(ROOT / name, tree / name, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / "pyproject.toml", tree)
    return tree


def tried(path: str, sample: int, again: set[str] | None, tree: Path, ends: float) -> Iterator[tuple[Place, str, bool]]:
    """Mutants of a sample that is always the same, what each changes and whether it was killed, until time is up.

    With `again` those that are named there, instead of a sample.
    """
    if _run(tree, TESTS[path]) != 0:
        text = (tree / "output.txt").read_text(encoding="utf-8")
        print(
            f"the tests of {path} fail without any mutant, or take over {SLOWEST} s; mend them first:\n{text[-2000:]}"
        )
        return
    every = places_of(path)
    random.Random(SEED).shuffle(every)
    for place in every[:sample] if again is None else [each for each in every if each.key in again]:
        if time.monotonic() > ends:
            return
        code = place.code()
        yield place, place.change(code), killed(path, code, tree)


def outcomes(log: Path) -> dict[str, dict[str, Any]]:
    """The last outcome of every mutant in a log."""
    rows = [json.loads(line) for line in log.read_text(encoding="utf-8").splitlines()] if log.exists() else []
    return {row["key"]: row for row in rows}


def figures_of(log: Path) -> dict[str, Any]:
    """What a log says of each file; a survivor is argued if the page of survivors shows its line."""
    page, files = PAGE.read_text(encoding="utf-8"), {}
    for path in TESTS:
        rows = [row for row in outcomes(log).values() if row["path"] == path]
        left = sorted(row["after"] for row in rows if not row["killed"])
        if rows:
            files[path] = {
                "mutants": len(places_of(path)),
                "tried": len(rows),
                "killed": len(rows) - len(left),
                "survived": left,
                "argued": sum(f"`{shown(after)}`" in page for after in left),
            }
    each = files.values()
    total = {name: sum(file[name] for file in each) for name in ("mutants", "tried", "killed", "argued")}
    return {"files": files, **total, "survived": sum(len(file["survived"]) for file in each)}


def shown(line: str) -> str:
    """A line of code as a table of Markdown shows it."""
    return line.replace("|", "\\|")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--files", nargs="+", default=list(TESTS), choices=list(TESTS), metavar="FILE")
    parser.add_argument("--sample", type=int, default=30, help="most mutants of one file")
    parser.add_argument("--seconds", type=float, default=1e9, help="begin no mutant after this time")
    parser.add_argument("--list", action="store_true", help="count the mutants of each file and try none")
    parser.add_argument("--log", type=Path, help="append each mutant and its outcome to this file, as JSON lines")
    parser.add_argument("--again", action="store_true", help="try only what survived in the log")
    parser.add_argument("--record", action="store_true", help="try nothing; record what the log says, for the pages")
    settings = parser.parse_args()
    if settings.list:
        for path in settings.files:
            print(f"{path}: {len(places_of(path))} mutants; {TESTS[path]}")
        return 0
    if (settings.again or settings.record) and settings.log is None:
        parser.error("--again and --record read a log; name it with --log")
    if settings.record:
        record("mutation", figures_of(settings.log))
        return 0
    for name in LIBRARIES:
        importlib.import_module(name)
    tree, ends = copied(), time.monotonic() + settings.seconds
    try:
        for path in settings.files:
            _try_file(path, settings, tree, ends)
    finally:
        shutil.rmtree(tree, ignore_errors=True)
    return 0


def _try_file(path: str, settings: argparse.Namespace, tree: Path, ends: float) -> None:
    again, results = None, []
    if settings.again:
        again = {key for key, row in outcomes(settings.log).items() if row["path"] == path and not row["killed"]}
        if not again:
            return
    for place, change, dead in tried(path, settings.sample, again, tree, ends):
        results.append(dead)
        before, _, after = change.partition(ARROW)
        if settings.log:
            row = {"key": place.key, "path": path, "line": place.line, "before": before, "after": after, "killed": dead}
            with settings.log.open("a", encoding="utf-8") as log:
                log.write(json.dumps(row, ensure_ascii=False) + "\n")
        if not dead:
            print(f"survived {path}:{place.line}  {change}", flush=True)
    print(f"{path}: {sum(results)} killed of {len(results)} tried of {len(places_of(path))}", flush=True)


if __name__ == "__main__":
    sys.exit(main())
