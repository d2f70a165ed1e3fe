"""Every mutant of the suite in one table: `make mutants` runs them all and fails if one survives.

A mutant is a broken copy of the library; the test that is listed here passes when a gate notices it. Adding one is
adding it to the table of mutants of its test file, or a new test file to `REGISTRY`.
"""

from __future__ import annotations

import sys
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

HERE = Path(__file__).parent
LEAST = 80

REGISTRY: dict[str, str] = {  # the test of each table of mutants, and the room that is broken
    "audit/test_checks.py::test_mutant_is_killed": "",
    "doors/test_mutants.py::test_mutant_is_killed": "doors",
    "doors/test_value_sums.py::test_value_mutant_is_killed": "doors",
    "doors/test_value_products.py::test_product_mutant_is_killed": "doors",
    "doors/test_unit_counts.py::test_unit_mutant_is_killed": "doors",
    "doors/test_cut.py::test_cut_mutant_is_killed": "doors",
    "doors/test_auto_bins.py::test_bins_mutant_is_killed": "doors",
    "sql/test_audit.py::test_sql_mutant_is_killed": "doors",
    "doors/test_lazy_guard.py::test_broken_lazy_guard_is_caught": "doors",
    "doors/test_many_draws.py::test_a_broken_draw_of_many_is_killed": "noise",
    "doors/test_many_draws.py::test_exact_arithmetic_at_the_scale_of_another_is_killed": "noise",
    "query/test_rehearsal.py::test_rehearsal_mutant_is_killed": "sessions",
    "pgwire/test_charging.py::test_charging_mutant_is_killed": "service",
    "pgwire/test_charging.py::test_purse_mutant_is_killed": "service",
    "service/test_mending.py::test_mending_mutant_is_killed": "service",
    "session/test_bases_privacy.py::test_basis_mutant_is_killed": "sessions",
    "disjunctions/test_parities.py::test_mutants_are_caught": "doors",
    "game/test_lottery.py::test_a_broken_lottery_is_caught": "doors",
    "game/test_tested_boosting.py::test_a_broken_test_of_structures_is_noticed": "releases",
    "ledger/test_ledger_members.py::test_member_mutant_is_killed": "ledger",
    "ledger/test_ledger_power.py::test_the_same_judgement_catches_missing_syncs": "ledger",
    "ledger/test_ledger_processes.py::test_the_same_judgement_catches_broken_ledgers": "ledger",
    "ledger/test_ledger_processes.py::test_the_race_catches_check_then_act": "ledger",
    "low_sensitivity/test_function_doors.py::test_function_mutant_is_killed": "doors",
    "noise/test_noise_mutants.py::test_sampler_mutant_is_killed": "noise",
    "noise/test_noise_mutants.py::test_selection_mutant_is_killed": "noise",
    "release/test_checking.py::test_check_mutant_is_killed": "releases",
    "release/test_combined_privacy.py::test_combined_mutant_is_killed": "releases",
    "release/test_graphical_privacy.py::test_mutant_is_killed": "releases",
    "session/test_concurrent.py::test_concurrent_mutant_is_killed": "sessions",
    "session/test_guard_policy.py::test_a_broken_rule_differs_on_some_short_history": "sessions",
    "session/test_lazy_construction.py::test_broken_session_is_caught": "sessions",
    "session/test_private_multiplicative_weights.py::test_a_broken_promise_is_noticed": "sessions",
    "session/test_rests.py::test_rest_mutant_is_killed": "sessions",
    "session/test_session_privacy.py::test_mutant_is_killed": "sessions",
    "session/test_textbook_mutants.py::test_mutants_are_killed": "sessions",
    "sparse/test_lookup_doors.py::test_lookup_mutant_is_killed": "doors",
    "tables/test_all_engines.py::test_plane_mutant_is_killed": "doors",
    "tables/test_rows_apart.py::test_reading_mutant_is_killed": "doors",
    "tables/test_spark_frames.py::test_engine_mutant_is_killed": "doors",
    "sparse_vector/test_sparse_vector_mutants.py::test_mutant_is_killed": "doors",
    "theory/test_promises_run.py::test_a_broken_mechanism_is_noticed": "releases",
}
ROOMS = {"doors", "noise", "accounting", "ledger", "sessions", "releases", "holdout", "service"}


@dataclass
class Row:
    """One mutant."""

    name: str
    room: str
    killer: str
    killed: bool | None = None


class Collector:
    """Keeps the tests of the registry, and what became of them."""

    def __init__(self) -> None:
        self.rows: dict[str, Row] = {}
        self.missing = set(REGISTRY)

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, items: list[Any]) -> None:
        kept = []
        for item in items:
            place = f"{Path(item.path).relative_to(HERE)}::{item.originalname}"
            if place in REGISTRY:
                self.rows[item.nodeid] = _row(item, place)
                kept.append(item)
                self.missing.discard(place)
        items[:] = kept

    def pytest_runtest_logreport(self, report: Any) -> None:
        if report.nodeid in self.rows and (report.when == "call" or report.failed):
            self.rows[report.nodeid].killed = report.passed


def _row(item: Any, place: str) -> Row:
    parameters = item.callspec.params if hasattr(item, "callspec") else {}
    name = item.callspec.id if parameters else item.originalname
    mutant: Any = parameters.get("mutant", parameters.get("name"))
    room, killer = REGISTRY[place], place.partition("::")[0]
    if hasattr(mutant, "killer"):
        return Row(mutant.name, mutant.room, mutant.killer)
    known = getattr(item.module, "MUTANTS", None)
    if isinstance(known, dict) and mutant in known:
        told = next((part for part in known[mutant] if isinstance(part, str)), None)
        killer = f"{killer}: {told}" if told else killer
    elif "gate" in parameters:
        killer = f"{killer}: {parameters['gate']}"
    return Row(str(name), room, killer)


def files() -> list[str]:
    """The test files of the registry."""
    return sorted({str(HERE / place.partition("::")[0]) for place in REGISTRY})


def main() -> int:
    """Run all mutants, print the table, and say whether every one was killed; `--record` keeps the figures."""
    collector = Collector()
    more = [word for word in sys.argv[1:] if word != "--record"]
    pytest.main([*files(), "--thorough", "-q", "--no-header", "-p", "no:cacheprovider", *more], plugins=[collector])
    rows = sorted(collector.rows.values(), key=lambda row: (row.room, row.name))
    print(f"\n{'mutant':<70} {'room':<10} {'killed':<7} killer")
    for row in rows:
        print(f"{row.name[:70]:<70} {row.room:<10} {'yes' if row.killed else 'NO':<7} {row.killer}")
    killed = sum(bool(row.killed) for row in rows)
    rooms = ", ".join(f"{room} {count}" for room, count in sorted(Counter(row.room for row in rows).items()))
    print(f"\n{killed} of {len(rows)} mutants killed ({rooms})")
    if "--record" in sys.argv:
        sys.path.insert(0, str(HERE.parent / "benchmarks"))
        from recording import record

        record("mutants", {"mutants": len(rows), "killed": killed, "rooms": dict(Counter(row.room for row in rows))})
    for place in sorted(collector.missing):
        print(f"the registry lists {place}, which no test file holds; mend tests/mutants.py")
    return 0 if killed == len(rows) >= LEAST and not collector.missing else 1


if __name__ == "__main__":
    sys.exit(main())
