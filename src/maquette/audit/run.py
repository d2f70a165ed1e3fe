"""audit: all that can be checked about the privacy of the doors on this machine and version, in about a minute."""

from __future__ import annotations

import platform
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from maquette.audit import exact_losses, guards, sampled, samplers
from maquette.audit.checks import CHECKS
from maquette.audit.exact_losses import TOLERANCE, Loss
from maquette.audit.findings import Findings
from maquette.audit.mutants import MUTANTS
from maquette.audit.questions import audit_questions
from maquette.audit.sampled import Bound

PACKAGES = ("maquette", "numpy", "scipy", "numba", "duckdb", "pyarrow", "sqlglot")
Tell = Callable[[str], None]


@dataclass(frozen=True)
class Result:
    """One check: how often it was tried, and what went wrong, if anything."""

    part: str
    name: str
    tried: str
    failure: str | None
    seconds: float

    @property
    def passed(self) -> bool:
        """Whether nothing went wrong."""
        return self.failure is None


@dataclass(frozen=True)
class Killed:
    """A mutant, and the failure that its check reported; None if it survived."""

    name: str
    room: str
    killer: str
    said: str | None


@dataclass
class Audit:
    """What an audit tried and found; `passed` if no fault was found and no mutant survived."""

    results: list[Result] = field(default_factory=list)
    losses: list[Loss] = field(default_factory=list)
    bounds: list[Bound] = field(default_factory=list)
    questions: Findings = field(default_factory=Findings)
    mutants: list[Killed] = field(default_factory=list)
    versions: dict[str, str] = field(default_factory=dict)
    seconds: float = 0.0

    @property
    def passed(self) -> bool:
        """Whether everything passed and every mutant was killed."""
        return all(result.passed for result in self.results)

    @property
    def survivors(self) -> list[Killed]:
        """Mutants that no check detected."""
        return [mutant for mutant in self.mutants if mutant.said is None]

    def as_dict(self) -> dict[str, Any]:
        """Everything, ready for JSON."""
        return {
            "passed": self.passed,
            "seconds": round(self.seconds, 1),
            "versions": self.versions,
            "results": [{**asdict(result), "passed": result.passed} for result in self.results],
            "exact_losses": [asdict(loss) for loss in self.losses],
            "lower_bounds": [{**asdict(bound), "holds": bound.holds} for bound in self.bounds],
            "questions": {
                "asked": self.questions.questions,
                "refused": self.questions.refused,
                "by_sort": dict(self.questions.kinds.most_common()),
                "by_door": dict(self.questions.doors.most_common()),
                "faults": [str(fault) for fault in self.questions.faults[:50]],
            },
            "mutants": {
                "killed": len(self.mutants) - len(self.survivors),
                "of": len(self.mutants),
                "listed": [asdict(mutant) for mutant in self.mutants],
            },
        }

    def to_html(self) -> str:
        """One page that needs no network."""
        from maquette.audit.page import page

        return page(self)

    def __str__(self) -> str:
        width = max((len(result.name) for result in self.results), default=0)
        lines = [
            f"{'ok  ' if result.passed else 'FAIL'} {result.name:<{width}}  {result.tried}"
            + ("" if result.failure is None else f"\n     {result.failure}")
            for result in self.results
        ]
        verdict = "Nothing was found." if self.passed else "The audit FAILED: do not publish with this installation."
        killed = f"{len(self.mutants) - len(self.survivors)} of {len(self.mutants)} mutants were killed."
        return "\n".join([*lines, f"{verdict} {killed} {self.seconds:.0f} s."])


def audit(
    *, questions: int = 2_000, samples: int = 8_000, seed: int = 0, mutants: bool = True, told: Tell | None = None
) -> Audit:
    """Audit this installation: samplers, exact losses, order of steps, ledgers, random questions, samples, mutants.

    `questions` is the number of random questions, drawn from `seed`; `samples` is the number of uses of a door on each
    of two neighbours, with production randomness. It reads none of your tables and charges none of your ledgers. It can
    show the presence of faults, never their absence: the argument for privacy is in the doors, and this tries to refute
    it.

    >>> audit(questions=80, samples=400, mutants=False).versions["maquette"] != ""
    True
    """
    found, tell, started = Audit(versions=_versions()), told or (lambda _: None), time.perf_counter()
    for name, check in _PARTS.items():
        tell(name)
        _tried(found, "checks", name, check)
    tell("exact losses on all neighbours of tiny tables")
    _losses(found)
    tell("lower bounds from samples")
    _bounds(found, samples)
    tell(f"{questions:,} random questions")
    _questions(found, questions, seed)
    for mutant in MUTANTS if mutants else ():
        tell(f"mutant: {mutant.name}")
        found.mutants.append(Killed(mutant.name, mutant.room, mutant.killer, mutant.kill()))
    if mutants:
        survived = ", ".join(mutant.name for mutant in found.survivors)
        killed = f"{len(found.mutants) - len(found.survivors)} of {len(found.mutants)} killed"
        found.results.append(Result("mutants", "mutants", killed, f"survived: {survived}" if survived else None, 0.0))
    found.seconds = time.perf_counter() - started
    return found


_PARTS: dict[str, Callable[[], Any]] = {
    "samplers against their laws": samplers.check_laws,
    **{name: CHECKS[name] for name in ("samplers at large scales", "minus zero", "far tail", "no state in samplers")},
    "noise grid of measure": guards.check_measured_noise,
    "noise grid of guards": guards.check_guard_transcripts,
    **{name: CHECKS[name] for name in ("guard contributions", "hits of zero", "order of steps")},
    **{name: CHECKS[name] for name in ("accounting", "accounts", "ledger", "holdout", "holdout refusals")},
}


def _tried(found: Audit, part: str, name: str, check: Callable[[], Any]) -> Any:
    started, given, failure = time.perf_counter(), None, None
    try:
        given = check()
    except Exception as error:
        failure = f"{type(error).__name__}: {error}"
    tried = f"{given:,} runs" if isinstance(given, int) else "tried"
    found.results.append(Result(part, name, tried, failure, time.perf_counter() - started))
    return given


def _losses(found: Audit) -> None:
    layers: dict[str, Callable[[], list[Loss]]] = {
        "noise": exact_losses.noisy_losses,
        "selection": exact_losses.selection_losses,
        "guards": lambda: [exact_losses.guard_losses()],
    }
    for name, measured in layers.items():
        started, losses, failure = time.perf_counter(), list[Loss](), None
        try:
            losses = measured()
        except Exception as error:
            failure = f"{type(error).__name__}: {error}"
        found.losses += losses
        over = [f"{loss.door} loses {loss.share:.4g} times its charge" for loss in losses if loss.share > TOLERANCE]
        pairs = sum(loss.pairs for loss in losses)
        failure = failure or "; ".join(over) or None
        took = time.perf_counter() - started
        found.results.append(Result("exact", f"exact loss: {name}", f"{pairs:,} pairs of neighbours", failure, took))


def _bounds(found: Audit, samples: int) -> None:
    started, failure = time.perf_counter(), None
    try:
        found.bounds = sampled.bounds(samples)
    except Exception as error:
        failure = f"{type(error).__name__}: {error}"
    over = [f"{b.door}: at least {b.bound:.3g}, claimed {b.claim:.3g}" for b in found.bounds if not b.holds]
    used = sum(bound.samples for bound in found.bounds)
    failure = failure or "; ".join(over) or None
    took = time.perf_counter() - started
    found.results.append(Result("samples", "lower bounds on epsilon", f"{used:,} samples", failure, took))


def _questions(found: Audit, count: int, seed: int) -> None:
    started, failure = time.perf_counter(), None
    try:
        found.questions = audit_questions(count, seed=seed)
    except Exception as error:
        failure = f"{type(error).__name__}: {error}"
    asked = sum(found.questions.doors.values())
    tried = f"{found.questions.questions:,} questions, {asked:,} calls of a door"
    faults = found.questions.faults
    failure = failure or (f"{len(faults)} faults; the first: {faults[0]}" if faults else None)
    found.results.append(Result("questions", "random questions", tried, failure, time.perf_counter() - started))


def _versions() -> dict[str, str]:
    known = {"python": platform.python_version(), "system": f"{platform.system()} {platform.machine()}"}
    for package in PACKAGES:
        try:
            known[package] = version(package)
        except PackageNotFoundError:
            known[package] = "not installed"
    return known
