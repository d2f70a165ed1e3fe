"""Mutants: broken variants of the library; each is a patch, and the check that must detect it.

The patched names are in this file only. A patch is applied to the running process and then undone; it makes the
library unsafe in between, so audits run mutants on generated tables only.
"""

from __future__ import annotations

import importlib
import math
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any
from unittest import mock

import numpy as np

from maquette.audit.checks import CHECKS
from maquette.errors import MaquetteError
from maquette.privacy import Composed, DiscreteGaussian, DiscreteLaplace, Pure, Selection
from maquette.privacy.ledger import Recorded, Ticket

Change = Callable[..., Any]  # the original is its first argument


@dataclass(frozen=True)
class Mutant:
    """What is broken, where, and which check must detect it. `patches` maps "module:name.of.thing" to a replacement."""

    name: str
    room: str
    killer: str
    patches: dict[str, Any]

    @contextmanager
    def applied(self) -> Iterator[None]:
        """Keep the library broken within this context."""
        with ExitStack() as stack:
            for target, change in self.patches.items():
                owner, name = _owner(target)
                original = getattr(owner, name)
                value = _wrapped(owner, name, original, change) if isinstance(change, Wrap) else change
                stack.enter_context(mock.patch.object(owner, name, value))
            yield

    def kill(self) -> str | None:
        """The failure of its check on the broken library; None if the mutant survives.

        Only a failed check, or a refusal, kills a mutant: a patch that makes the library crash proves nothing.
        """
        with self.applied():
            try:
                with np.errstate(all="ignore"):
                    CHECKS[self.killer]()
            except (AssertionError, MaquetteError) as failure:
                return str(failure).splitlines()[0] if str(failure) else type(failure).__name__
        return None


@dataclass(frozen=True)
class Wrap:
    """A replacement for a function; it gets the original as its first argument."""

    change: Change


def _owner(target: str) -> tuple[Any, str]:
    module, _, path = target.partition(":")
    owner: Any = importlib.import_module(module)
    *inner, name = path.split(".")
    for part in inner:
        owner = getattr(owner, part)
    return owner, name


def _wrapped(owner: Any, name: str, original: Any, change: Wrap) -> Any:
    known = vars(owner).get(name) if isinstance(owner, type) else None
    if isinstance(known, property):
        return property(lambda self: change.change(known.fget, self))
    if isinstance(known, classmethod):
        return classmethod(lambda cls, *args, **named: change.change(known.__func__, cls, *args, **named))
    return lambda *args, **named: change.change(original, *args, **named)


RELATION = "maquette.privacy.relation:Relation"
THROUGH = "maquette.curator.transaction:Transaction.through"
NOISE = "maquette.curator.noise"
SPARSE = "maquette.curator.sparse_vector:SparseVector"
ACCOUNT = "maquette.curator.account"
ACCOUNTANT = "maquette.privacy.accountant:AdditiveAccountant"
ZCDP = "maquette.privacy.zcdp:ZcdpAccountant"
LEDGER = "maquette.privacy.ledger.book:BookLedger"
MACHINE = "maquette.privacy.ledger.machine"
GRID = 2**20  # of guards
HOLDOUT = "maquette.holdout.guess_and_check"


def _first_evaluated(only: str | None = None) -> Wrap:
    """Rows are read and noise is drawn before the charge."""

    def through(original: Change, self: Any, door: str, **named: Any) -> Any:
        if only is None or door == only:
            arrays = named["evaluate"]()
            named["evaluate"] = lambda: arrays
        return original(self, door, **named)

    return Wrap(through)


def _not_recorded(original: Change, self: Any, door: str, **named: Any) -> Any:
    commit, self.ledger.commit = self.ledger.commit, lambda *_, **__: None
    try:
        return original(self, door, **named)
    finally:
        self.ledger.commit = commit


def _fresh_on_retry(original: Change, self: Any, door: str, **named: Any) -> Any:
    arrays, cost = original(self, door, **named)
    return (named["evaluate"]() if self.ledger.lookup(named["request"] or "") else arrays), cost


def _wider_in_the_books(original: Change, self: Any, door: str, **named: Any) -> Any:
    """The ledger records twice the noise that is drawn."""
    wider = []
    for event in named["events"]:
        if isinstance(event, DiscreteLaplace):
            event = DiscreteLaplace(event.scale * 2, event.sensitivity)  # noqa: PLW2901
        elif isinstance(event, DiscreteGaussian):
            event = DiscreteGaussian(event.variance * 4, event.sensitivity_squared)  # noqa: PLW2901
        wider.append(event)
    return original(self, door, **{**named, "events": wider})


def _first_event_charged(original: Change, self: Any, door: str, **named: Any) -> Any:
    return original(self, door, **{**named, "events": named["events"][:1]})


def _hit_if(rule: Callable[[Any], bool], *doors: str) -> Wrap:
    def through(original: Change, self: Any, door: str, **named: Any) -> Any:
        if door in doors:
            named["hit"] = rule
        return original(self, door, **named)

    return Wrap(through)


def _rows_of_one(kinds: tuple[str, ...]) -> Wrap:
    return Wrap(lambda f, self, *rest: f(replace(self, max_contributions=1) if self.kind in kinds else self, *rest))


def _priced_for_one(kinds: tuple[str, ...]) -> dict[str, Any]:
    return {f"{RELATION}.{name}": _rows_of_one(kinds) for name in ("one_cell", "l1", "l2_squared")}


def _guarded_for_one(kinds: tuple[str, ...]) -> dict[str, Any]:
    def most(original: Change, self: Any, grid: int) -> Any:
        return grid if self._relation.kind in kinds else original(self, grid)

    return {"maquette.curator.guard:Questions.most": Wrap(most)}


def _one_bucket_as_a_total(original: Change, self: Any, question: Any) -> int:
    """A table of one cell is priced by high - low, also where a row may leave its only bucket."""
    moves = question.moves
    if self.kind == "replace" and self.max_contributions == 1 and moves.cells == 1 and moves.gains is None:
        return max(1, int(moves.high - moves.low))
    found: int = original(self, question)
    return found


def _exchanged(original: Change, self: Any, question: Any) -> int:
    """A person with several rows is replaced by one with the same number of rows."""
    moves = question.moves
    if self.kind == "replace" and moves.cells == 1 and moves.gains is None:
        return int(self.max_contributions * max(1, moves.high - moves.low))
    found: int = original(self, question)
    return found


def _no_error_no_noise(original: Change, self: Any, private: int, **named: Any) -> Any:
    outcome = original(self, private, **named)
    return type(outcome)(False, None) if private == 0 else outcome


def _one_hit_paid(original: Change, **named: Any) -> Any:
    return replace(original(**{**named, "hits": 1}), hits=named["hits"])


class _OneForAll:
    """Replaces a context variable: what one thread sets, all threads see."""

    def __init__(self) -> None:
        self._value: tuple[Any, ...] = ()

    def get(self) -> tuple[Any, ...]:
        """The value, whichever thread set it."""
        return self._value

    def set(self, value: tuple[Any, ...]) -> None:
        """Set it for all threads."""
        self._value = value


def _only_new(original: Change, self: Any, asked: Any, outcome: str) -> Any:
    return original(self, asked, "refused" if outcome == "replayed" else outcome)


def _half(name: str) -> Wrap:
    return Wrap(lambda f, **named: replace(f(**named), **{name: getattr(f(**named), name) / 2}))


def _all_forms(change: Any) -> dict[str, Any]:
    return {f"maquette.curator.guard:{form}": change for form in ("resampled", "unresampled", "concentrated")}


def _pure_as_selection(original: Change, self: Any, event: Any) -> int:
    if isinstance(event, Composed):
        return sum(_pure_as_selection(original, self, part) for part in event.events)
    found: int = original(self, Selection(event.epsilon) if isinstance(event, Pure) else event)
    return found


def _different_events_only(original: Change, self: Any, event: Any) -> int:
    found: int = original(self, Composed(tuple(dict.fromkeys(event.events))) if isinstance(event, Composed) else event)
    return found


def _minus_zero_kept(original: Change, scale: Any) -> Any:
    values, kept = original(scale)
    large = scale.floats > 2**17
    return values, kept | ((values == 0) & large)


def _tail_by_floats(original: Change, draws: Any, scale: Any, largest: Any) -> Any:
    values = original(np.maximum(draws, np.uint64(2**46)), scale, largest)
    plain = np.floor(-scale.floats * np.log((draws.astype(np.float64) + 0.5) * 2.0**-63)).astype(np.int64)
    return np.where(draws < np.uint64(2**46), plain, values)


def _scaled(factor: Fraction) -> Wrap:
    return Wrap(lambda f, self, scales, sizes: f(self, [scale * factor for scale in scales], sizes))


def _low_bits_forgotten(original: Change, self: Any, scales: Any, sizes: Any) -> Any:
    return [v >> 4 << 4 if s > 2**17 else v for s, v in zip(scales, original(self, scales, sizes), strict=True)]


def _one_for_all(original: Change, self: Any, scales: Any, sizes: Any) -> Any:
    return [np.repeat(values[:1], len(values)) for values in original(self, scales, sizes)]


def _heads_in_order(original: Change, self: Any, scores: Any, scale: Any) -> int:
    chances = np.exp((scores - scores.max()) / float(scale))
    return int(np.argmax(np.random.default_rng().random(len(scores)) < chances))


def _first_of_ties(original: Change, self: Any, scores: Any, scale: Any) -> int:
    return int(np.flatnonzero(scores == scores[original(self, scores, scale)])[0])


_SEEDED = np.random.default_rng  # a generator that restarts with every call


def _seeded(original: Change, count: int, dtype: Any) -> Any:
    return np.frombuffer(_SEEDED(1).bytes(count * np.dtype(dtype).itemsize), dtype=dtype)


def _evaluated_again(original: Change, self: Any, request: Any) -> Any:
    ticket = original(self, request)
    return Ticket(request, ticket.receipt.seq) if isinstance(ticket, Recorded) else ticket


def _any_digest(original: Change, self: Any, request: Any) -> Any:
    known = self.lookup(request.id)
    return original(self, request) if known is None else known


def _for_the_table_only(original: Change, books: Any, scope: str, units: int, currency: str) -> Any:
    return original(books, scope, units if scope == "table" else 0, currency)


def _commits(hit: bool) -> Wrap:
    return Wrap(lambda f, self, ticket, answer, **_: f(self, ticket, answer, hit=hit))


def _exact_mean(original: Change, self: Any, values: Any, bins: int) -> Any:
    return values.mean, original(self, values, bins)[1]


def _kept_whatever(original: Change, self: Any, note: Any) -> Any:
    return original(self, {**note, "failed": False})


BOTH = ("add-remove", "replace")

MUTANTS: tuple[Mutant, ...] = (
    Mutant("replace counted as add-remove", "accounting", "exact loss of noisy doors",
           {f"{RELATION}._ends": Wrap(lambda f, self: 1)}),
    Mutant("contribution bound ignored", "accounting", "exact loss of noisy doors",
           _priced_for_one(BOTH)),
    Mutant("contribution bound ignored in selections", "accounting", "exact loss of selections",
           {f"{RELATION}.one_cell": _rows_of_one(BOTH)}),
    Mutant("contribution bound ignored where rows are replaced", "accounting", "exact loss of noisy doors",
           _priced_for_one(("replace",))),
    Mutant("one weighted bucket priced by high - low", "accounting", "exact loss of one bucket",
           {f"{RELATION}.l1": Wrap(_one_bucket_as_a_total)}),
    Mutant("rows exchanged for as many", "accounting", "exact loss of noisy doors",
           {f"{RELATION}.l1": Wrap(_exchanged)}),
    Mutant("L2 norm where its square belongs", "accounting", "exact loss of noisy doors",
           {f"{RELATION}.l2_squared": Wrap(lambda f, self, q: math.isqrt(f(self, q)))}),
    Mutant("L1 sensitivity of a single cell for whole tables", "accounting", "exact loss of noisy doors",
           {f"{RELATION}.l1": Wrap(lambda f, self, q: self.one_cell(q))}),
    Mutant("norms of contrasts ignored", "accounting", "exact loss of noisy doors",
           {"maquette.curator.compile:together": Wrap(lambda f, gains: (1, 1, 1))}),
    Mutant("row count taken for public", "accounting", "exact loss of noisy doors",
           {f"{RELATION}.rows_are_public": Wrap(lambda f, self: True)}),
    Mutant("permute-and-flip priced as a selection under zCDP", "accounting", "exact loss of selections",
           {f"{ACCOUNTANT}.units": Wrap(_pure_as_selection),
            f"{ACCOUNTANT}.pure_epsilon": Wrap(lambda f, self, units: self.selection_epsilon(units))}),
    Mutant("selections four times too cheap under zCDP", "accounting", "exact loss of selections",
           {f"{ZCDP}.selection_gain": 4}),
    Mutant("pure accesses at half their price under zCDP", "accounting", "accounting",
           {f"{ZCDP}.pure_cost": Wrap(lambda f, self, epsilon: f(self, epsilon) / 2)}),
    Mutant("Gaussian noise at half its price", "accounting", "accounting",
           {f"{ZCDP}.gaussian_cost": Wrap(lambda f, self, *args: f(self, *args) / 2)}),
    Mutant("Gaussian DP of a pure access as if it were Gaussian", "accounting", "accounting",
           {"maquette.privacy.gdp:GdpAccountant.pure_cost": Wrap(lambda f, self, e: Fraction(e) ** 2 / 2)}),
    Mutant("equal events charged once", "accounting", "accounting",
           {f"{ACCOUNTANT}.units": Wrap(_different_events_only)}),
    Mutant("charges rounded down", "accounting", "accounting",
           {"maquette.privacy.accountant:units_up": Wrap(lambda f, amount: max(0, f(amount) - 1))}),
    Mutant("rho converted too well", "accounting", "accounting",
           {"maquette.privacy.zcdp:zcdp_epsilon": Wrap(lambda f, rho, delta: f(rho, delta) * 0.8)}),
    Mutant("mu converted at half its size", "accounting", "accounting",
           {"maquette.privacy.gdp:gaussian_epsilon": Wrap(lambda f, mu, delta: f(mu / 2, delta))}),
    Mutant("lazy rounds for nothing under zCDP", "accounting", "accounting",
           {f"{ACCOUNTANT}.lazy_cost": Wrap(lambda f, self, event: Fraction(0))}),
    Mutant("another thread's charge enters an account", "accounting", "accounts",
           {f"{ACCOUNT}:_OPEN": _OneForAll()}),
    Mutant("a replay is dropped from an account", "accounting", "accounts",
           {f"{ACCOUNT}:ScopedAccount.settle": Wrap(_only_new)}),
    Mutant("an interrupted charge is dropped from an account", "accounting", "accounts",
           {f"{ACCOUNT}:ScopedAccount.expect": Wrap(lambda f, *_: None)}),
    Mutant("read and drawn before the charge", "doors", "order of steps", {THROUGH: _first_evaluated()}),
    Mutant("lottery reads before the charge", "doors", "order of steps", {THROUGH: _first_evaluated("lottery")}),
    Mutant("guard tests read before the charge", "doors", "order of steps",
           {THROUGH: _first_evaluated("guard.test")}),
    Mutant("never charged", "doors", "order of steps",
           {THROUGH: Wrap(lambda f, self, door, **named: (named["evaluate"](), self.loss(0)))}),
    Mutant("answered before the record", "doors", "order of steps", {THROUGH: Wrap(_not_recorded)}),
    Mutant("fresh noise on a retry", "doors", "order of steps", {THROUGH: Wrap(_fresh_on_retry)}),
    Mutant("charged for twice the noise", "doors", "exact loss of noisy doors", {THROUGH: Wrap(_wider_in_the_books)}),
    Mutant("first of several events charged", "doors", "exact loss of noisy doors",
           {THROUGH: Wrap(_first_event_charged)}),
    Mutant("hits of guards never counted", "doors", "hits of zero",
           {THROUGH: _hit_if(lambda _: False, "guard.test", "lazy_guard.test")}),
    Mutant("lazy guard does not count a hit whose value is 0", "doors", "hits of zero",
           {THROUGH: _hit_if(lambda arrays: bool(arrays[0][1]), "lazy_guard.test")}),
    Mutant("guard does not count a hit whose value is 0", "doors", "hits of zero",
           {THROUGH: _hit_if(lambda arrays: bool(arrays[0][1]), "guard.test")}),
    Mutant("guard ignores contributions where rows are replaced", "doors", "guard contributions",
           _guarded_for_one(("replace",))),
    Mutant("guard ignores contributions", "doors", "guard contributions", _guarded_for_one(BOTH)),
    Mutant("lazy guard ignores contributions", "doors", "guard contributions",
           {"maquette.curator.lazy_guard:calibrated": Wrap(lambda f, *args: f(*args[:-1], GRID))}),
    Mutant("guard pays for one hit", "doors", "guard transcripts", _all_forms(Wrap(_one_hit_paid))),
    Mutant("half the threshold noise", "doors", "guard transcripts", _all_forms(_half("threshold_scale"))),
    Mutant("half the query noise", "doors", "guard transcripts", _all_forms(_half("query_scale"))),
    Mutant("no error, no noise", "doors", "guard transcripts", {f"{SPARSE}.test": Wrap(_no_error_no_noise)}),
    Mutant("exact number on a hit", "doors", "guard transcripts",
           {f"{SPARSE}._answer": Wrap(lambda f, self, exact: exact if self.settings.answer else None)}),
    Mutant("threshold without noise", "doors", "guard transcripts",
           {f"{SPARSE}._draw_threshold": Wrap(lambda f, self: self.threshold)}),
    Mutant("minus zero kept above scale 2^17", "noise", "minus zero", {f"{NOISE}:_laplace": Wrap(_minus_zero_kept)}),
    Mutant("far tail decided by floats", "noise", "far tail", {f"{NOISE}:_geometric": Wrap(_tail_by_floats)}),
    Mutant("Laplace noise of nine tenths", "noise", "sampler laws",
           {f"{NOISE}:ExactNoise.laplaces": _scaled(Fraction(9, 10))}),
    Mutant("Gaussian noise of nine tenths", "noise", "sampler laws",
           {f"{NOISE}:ExactNoise.gaussians": _scaled(Fraction(9, 10))}),
    Mutant("large scales without low bits", "noise", "samplers at large scales",
           {f"{NOISE}:ExactNoise.laplaces": Wrap(_low_bits_forgotten)}),
    Mutant("one value for all cells", "noise", "sampler laws", {f"{NOISE}:ExactNoise.laplaces": Wrap(_one_for_all)}),
    Mutant("permute-and-flip without the permutation", "noise", "sampler laws",
           {f"{NOISE}:ExactNoise.permute_and_flip": Wrap(_heads_in_order)}),
    Mutant("ties go to the first", "noise", "sampler laws",
           {f"{NOISE}:ExactNoise.exponential": Wrap(_first_of_ties)}),
    Mutant("a seed", "noise", "no state in samplers", {f"{NOISE}:words": Wrap(_seeded)}),
    Mutant("charges not added up", "ledger", "ledger", {f"{MACHINE}:_spend": Wrap(lambda f, *_: None)}),
    Mutant("limits of analysts ignored", "ledger", "ledger",
           {f"{MACHINE}:_check_budget": Wrap(_for_the_table_only)}),
    Mutant("answered requests evaluated again", "ledger", "ledger", {f"{LEDGER}.reserve": Wrap(_evaluated_again)}),
    Mutant("a name answers any question", "ledger", "ledger", {f"{LEDGER}.reserve": Wrap(_any_digest)}),
    Mutant("hits not taken", "ledger", "ledger", {f"{MACHINE}:_use_hits": Wrap(lambda f, *_: None)}),
    Mutant("easy tests take a hit", "ledger", "ledger", {f"{LEDGER}.commit": _commits(True)}),
    Mutant("hits given back", "ledger", "ledger", {f"{LEDGER}.commit": _commits(False)}),
    Mutant("chain that binds nothing", "ledger", "ledger",
           {"maquette.privacy.ledger.chain:Chain.link": Wrap(lambda f, *_: bytes(32))}),
    Mutant("sums not compared with the chain", "ledger", "ledger",
           {"maquette.privacy.ledger.verification:_check_tables": Wrap(lambda f, *_: None)}),
    Mutant("lost requests forgotten", "ledger", "ledger",
           {f"{MACHINE}:state": Wrap(lambda f, *_, **__: "reserved")}),
    Mutant("failed guesses not counted", "holdout", "holdout",
           {f"{HOLDOUT}:GuessAndCheck.apply": Wrap(_kept_whatever)}),
    Mutant("the sample's exact mean", "holdout", "holdout", {f"{HOLDOUT}:_Node.rounded": Wrap(_exact_mean)}),
    Mutant("intervals of a quarter", "holdout", "holdout",
           {f"{HOLDOUT}:_Node.width_at": Wrap(lambda f, *args, **named: f(*args, **named) / 4)}),
    Mutant("answers not written down", "holdout", "holdout",
           {"maquette.holdout.state:State.append": Wrap(lambda f, *_: None)}),
    Mutant("noise that does not grow with the questions", "holdout", "holdout",
           {"maquette.holdout.noisy:_promise": Wrap(lambda f, theorem, rows, _, *rest: f(theorem, rows, 5, *rest))}),
)  # fmt: skip
