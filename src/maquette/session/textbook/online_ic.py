"""OnlineIC: the online iterative construction as the theory states it, for any update rule."""

from __future__ import annotations

from maquette.curator import Curator
from maquette.errors import QueryError
from maquette.estimates import units_for
from maquette.hypothesis import AnyRule, Calibration, rule_of
from maquette.session.textbook.guarded import GuardedModel, check_promised
from maquette.session.textbook.plan import check_promise, plan, setting_of


class OnlineIC(GuardedModel):
    """Answers from a public model, and corrects it only when a guard finds it wrong (Dwork and Roth, algorithm 11).

    Each new question has one absolute test |count - rows * f(D)|. A quiet test is answered by the model f(D); a hit by
    a fresh noisy count, with which the model takes one step of its update rule. The model starts in the rule's own
    initial state: uniform weights, the zero vector of the Perceptron, the whole net of the Median. After
    c = floor(T(a')) hits the guard is sealed and the model keeps answering without it: `status` is "exhausted", and
    answers carry no guarantee. If the noise stayed within its bounds, c updates leave no error of a' or more; but a
    session that uses up its hits may be one where the noise did not.

    Privacy: the guard alone, charged when the session opens, whatever is asked; where the number of rows is private,
    also an estimate of it for a hundredth of the charge. The noise does not depend on `queries`. The relation is the
    curator's. calibration="book" adds the noise of the book's NumericSparse to its tests; under a budget with a delta
    the ledger's bound for this noise is below the book's epsilon, so the charge is lower than the epsilon offered.

    Accuracy: with probability 1 - `beta` all answers to the first `queries` different questions are within `alpha` of
    the table, as fractions of rows. Mechanisms §6.4; erratum A10 (one test, sealed and not halted, the initial state)
    and erratum A11 (the noise of answers). A budget that allows no useful promise is refused: before any charge where
    the number of rows is public or given as `rows`, otherwise after the charge for the row estimate alone. At practical
    sizes a marginal cache answers better: see the how-to.

    A repeated question returns the recorded answer; a question in which all rows have the same weight is answered
    exactly, without a test. `hypothesis` is an update rule, given by its name, its class or as a `Rule` (`cut_rule`
    makes one for graphs): its model starts at the resolution that the budget allows. A model given instead must be
    fresh, and is updated in place. `norm` and `query_norm` are public bounds on the norms of the table and of every
    question, for mirror descent and the perceptron: fewer hits, hence less noise.
    """

    def __init__(
        self,
        curator: Curator,
        hypothesis: AnyRule = "multiplicative-weights",
        *,
        queries: int,
        epsilon: float | None = None,
        rho: float | None = None,
        beta: float = 0.05,
        calibration: Calibration = "tight",
        norm: float | None = None,
        query_norm: float | None = None,
        rows: int | None = None,
    ) -> None:
        if calibration not in ("tight", "book"):
            raise QueryError(f"calibration is {calibration!r}", expected='"tight" or "book"')
        check_promised(queries, beta)
        rule = rule_of(curator.schema, hypothesis, calibration, norm=norm, query_norm=query_norm)
        with curator.account("online construction") as account:
            setting = setting_of(curator, units_for(curator, epsilon, rho), queries=queries, beta=beta, rows=rows)
            found = plan(rule, setting, calibration)
            check_promise(rule, setting, calibration, found)
            model = rule.start(found.resolution)  # before the guard is charged
            guard = curator.guard(
                found.threshold,
                hits=found.hits,
                numeric=True,
                refreshed=found.refreshed,
                units=int(found.units),
            )
        super().__init__(
            curator,
            model,
            guard,
            account,
            rows=setting.rows,
            queries=queries,
            alpha=found.alpha,
            beta=beta,
            answer_error=found.answer_error,
        )
