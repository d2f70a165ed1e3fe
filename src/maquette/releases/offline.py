"""`release`: a workload and a budget in, a release out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from maquette.curator import Curator, ScopedAccount
from maquette.errors import QueryError
from maquette.estimates import MAX_CELLS, Allocation, Check, units_for
from maquette.privacy import UNITS_PER_ONE
from maquette.query import Workload, residual
from maquette.releases.artifact import Release, certified, plain_name
from maquette.releases.checking import check_of, reserved
from maquette.releases.methods.combined import combined
from maquette.releases.methods.draft import Draft
from maquette.releases.methods.registry import Chosen, Method, method_of
from maquette.releases.methods.special import SPECIAL
from maquette.releases.starting import Start, start_of
from maquette.releases.sums import SHARE, SumTable, measure_sums, told_of

ROWS = 0.01  # share of a pure budget for the row estimate that the choice of method needs
GLANCE = 0.002  # the same of any other budget, where only small noise matters
DENSE = 2**20  # cells up to which everything may be measured
QUIET = 0.03  # expected error, before any fit, below which choosing what to measure buys nothing
SMALL = 2**16  # cells above which rounds of dense fits take minutes and err no less than a graphical model
AUTOMATIC = ("progress", "target", "start")
NOISY = 0.3  # expected error, before any fit, above which choosing what to measure pays


def release(
    curator: Curator,
    workload: Workload,
    *,
    method: str | Method = "auto",
    epsilon: float | None = None,
    rho: float | None = None,
    check: bool = True,
    start: object = None,
    table: str | None = None,
    **settings: Any,
) -> Release:
    """Answer a whole workload at once, for `epsilon` or `rho` (default: all that remains).

    With `check`, 4% of the price is kept to measure, at the end, how far the finished model is from the rows: every
    question of the workload then has a certified interval. Where that would say nothing it is not bought or charged.

    `start` is a public first hypothesis: a public table with the columns of the schema (frame, Arrow table, mapping,
    .csv or .parquet path), an earlier `Release` or its .maq path, or a model. Its errors are looked at privately, what
    is right in it is not bought again, and a wrong one costs almost nothing. The certificate names it by its hash. One
    made from the same people's rows adds its own loss. It needs the method "combined".

    `table` is the table's name in questions to the release (default: that of its file; any name if it has none).

    method="auto" is "combined": it measures what is worth its noise, from columns alone to all triples, and keeps the
    best of several models; where the universe is small and so is the noise it is "everything". Under a pure budget it
    is "everything" where the universe can be enumerated and its expected
    error, computed from public and paid-for quantities, is small; else "adaptive" in a small universe and "graphical"
    in any other. `explain()` of the release says what was decided. Every release has a name here: those for a class of
    questions (cuts, distances, look-ups, functions, disjunctions, pairs) take its questions as the workload, and those
    with settings of their own (a net, a public start and steps) say which are missing. A method may be a function of
    your own (see `methods.registry`); the certificate of what it makes is written from what the ledger charged.

    >>> import maquette as mq
    >>> schema = mq.Schema([mq.Integer("age", 0, 9), mq.Boolean("smoker")])
    >>> table = mq.open_table({"age": [3, 7], "smoker": [True, False]}, schema)
    >>> made = mq.release(mq.Curator(table, mq.Budget(epsilon=1.0)), mq.marginals(schema, k=2))
    >>> made.marginal("smoker", "age").shape
    (2, 10)
    """
    called = None if table is None else plain_name(table)
    chosen = None if method == "auto" else method_of(method)
    (chosen or method_of("combined")).check_asked(workload)
    if any(asked.schema != curator.schema for asked in ([workload] if isinstance(workload, Workload) else ())):
        raise QueryError("the workload was built for another schema", advice="build it from curator.schema")
    summed = isinstance(workload, Workload) and bool(workload.sums)
    if summed and not curator.keeps_values:
        raise QueryError("this table keeps no values to add up", advice="leave sums out, or open it with open_table")
    begun = None if start is None else start_of(start, curator.schema)
    if begun is not None:
        settings = {**settings, "start": begun}
    _check(chosen, settings)
    if chosen is None and (settings.get("target") is not None or begun is not None):
        _check_combined(curator, settings)
        chosen = method_of("combined")
    special = chosen is not None and chosen.name in SPECIAL  # it states its own accuracy, and may have no tables
    said = f"method {method!r} was asked for" if isinstance(method, str) else "the method was given"
    with curator.account("release") as account:
        price = units = units_for(curator, epsilon, rho)
        kept = reserved(curator, workload, units) if check and not special else 0
        units -= kept
        if chosen is None:
            chosen, units, said = _choose(curator, workload, units)
            settings = {name: value for name, value in settings.items() if name in (chosen.settings() or ())}
        bought = int(SHARE * units) if summed and not special else 0
        units -= bought
        if chosen.call is combined:
            settings = {**settings, "spare": kept}
        made = chosen.call(curator, workload, **chosen.amount(curator, units), **settings)
        _check_made(curator, made, chosen)
        kept = min(kept, price - bought - account.units)  # a method may have had a better use for it
        found = check_of(curator, made.model, workload, kept, rows=made.evidence.rows) if kept > 0 else None
        sums = measure_sums(curator, workload, made.model, made.evidence.rows, bought) if bought else ()
    finished = _certified(curator, made, chosen, account, found, said=said, start=begun, sums=sums)
    if called is not None:
        finished.certificate = replace(finished.certificate, table=called)
    return finished


def _check(chosen: Chosen | None, settings: dict[str, Any]) -> None:
    """Refuse an unknown setting before anything is charged; "auto" takes only AUTOMATIC."""
    if chosen is not None:
        chosen.check(settings)
    elif unknown := [name for name in settings if name not in AUTOMATIC]:
        raise QueryError(
            f"method 'auto' has no setting {', '.join(unknown)}", advice=f"it has {' and '.join(AUTOMATIC)}"
        )


def _check_combined(curator: Curator, settings: dict[str, Any]) -> None:
    """Refuse a target or a start that cannot be served, before anything is charged."""
    if settings.get("target") is not None:
        curator.schema.position(settings["target"])
    if curator.budget.accountant.currency == "pure":
        named = f"target={settings['target']!r}" if settings.get("target") is not None else "start"
        raise QueryError(
            f"{named} needs the method 'combined', and the budget has no delta",
            advice=f"give the budget a delta, such as 1e-9, or leave {named.partition('=')[0]} out",
        )


def _check_made(curator: Curator, made: object, chosen: Chosen) -> None:
    """Refuse what is no release of this table."""
    if not isinstance(made, Release | Draft):
        raise QueryError(
            f"method {chosen.name!r} returned a {type(made).__name__}",
            expected="a Release or a Draft",
            advice="what it measured is charged and stays on the ledger",
        )
    if isinstance(made, Release) and made.schema != curator.schema:
        raise QueryError(f"method {chosen.name!r} made a release of another schema")


def _certified(
    curator: Curator,
    made: Release | Draft,
    chosen: Chosen,
    account: ScopedAccount,
    found: Check | None,
    *,
    said: str,
    start: Start | None,
    sums: Sequence[SumTable] = (),
) -> Release:
    """What a method made, with a certificate of everything that was charged for it, and its check."""
    if chosen.name in SPECIAL and isinstance(made, Release):  # its certificate may hide what its questions were
        made.explanation = (said, *made.explanation)
        return made
    accuracy = made.accuracy if isinstance(made, Draft) else made.certificate.accuracy
    checked = None if found is None else found.statement()
    told = None if start is None else start.told
    certificate = certified(curator, chosen.name, account, accuracy=accuracy, checked=checked, start=told)
    if chosen.trusted and isinstance(made, Release):  # it may say more of itself, such as its rule
        certificate = replace(certificate, method=made.certificate.method)
    explanation = (said, *made.explanation, *told_of(sums))
    return Release(
        curator.schema,
        made.model,
        made.evidence,
        certificate,
        trace=made.trace,
        check=found,
        sums=sums,
        explanation=explanation,
    )


def _choose(curator: Curator, workload: Workload, units: int) -> tuple[Chosen, int, str]:
    """The method that promises the least error, the units left for it, and why.

    The expected error of measuring everything follows from the schema, the workload, the budget and the number of
    rows; where the latter is private, a small share of the budget buys an estimate of it.
    """
    pure = curator.budget.accountant.currency == "pure"
    if curator.schema.size > (MAX_CELLS if pure else DENSE):
        name = "graphical" if pure else "combined"
        return method_of(name), units, f"{name}: the universe is too large to enumerate"
    allocation = Allocation(curator.schema, workload.tables, linear=pure)
    contrasts = residual(curator.schema, next(iter(part for part in allocation.sets if part), ()))
    moves = curator.relation.l1(contrasts) / contrasts.gains[1]
    with curator.account("number of rows") as account:
        rows = max(1.0, curator.count_rows(units=int((ROWS if pure else GLANCE) * units)))
    units -= account.units
    amount = units / UNITS_PER_ONE
    error = allocation.expected_error(curator.budget.accountant.currency, amount, rows / moves)
    told = f"measuring everything is expected to err by {error:.2g} of the rows before any fit"
    if not pure:
        name = "everything" if error <= QUIET else "combined"
        return method_of(name), units, f"{name}: {told}; up to {QUIET} nothing needs to be chosen"
    # Contrasts move more in L1 than whole tables do, so plain tables may have less noise.
    plain = sum(table.cells for table in workload.marginals) / (2 * amount * rows / moves)
    if error <= min(NOISY, plain):
        return method_of("everything"), units, f"everything: {told}"
    name = "adaptive" if curator.schema.size <= SMALL else "graphical"
    return method_of(name), units, f"{name}: {told}, so choosing what to measure pays"
