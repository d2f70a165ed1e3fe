"""Budget: the most that may be spent on a table."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from fractions import Fraction

from maquette.errors import BudgetError, PrivacyWarning
from maquette.privacy.accountant import Accountant
from maquette.privacy.basic import BasicAccountant
from maquette.privacy.gdp import GdpAccountant
from maquette.privacy.loss import Loss
from maquette.privacy.pure import PureAccountant
from maquette.privacy.units import MAX_UNITS, UNITS_PER_ONE
from maquette.privacy.zcdp import ZcdpAccountant

__all__ = ["ACCOUNTANTS", "Budget", "Loss"]

LARGEST_DELTA = 1e-5  # if the number of rows is private: a larger delta is useless for all but the smallest tables
USUAL_DELTA = 1e-6  # up to this delta there is no warning: it is below 1 / rows for most tables

ACCOUNTANTS: dict[str, Accountant] = {
    "pure": PureAccountant(),
    "zcdp": ZcdpAccountant(),
    "gdp": GdpAccountant(),
    "basic": BasicAccountant(),
}


@dataclass(frozen=True, init=False, repr=False)
class Budget:
    """The total that may be spent: (epsilon, delta) or rho, under the neighbouring relation of the table.

    Everything released within `limit` units is together (epsilon, delta)-DP. `accounting` is the composition method. By
    default a budget with delta 0 adds epsilons ("pure") and any other adds rho ("zcdp"). "gdp" adds mu squared and
    needs less Gaussian noise for the same guarantee. "basic" adds epsilons and keeps delta for one lazy guard.
    If rho is given, delta is only used to convert to `epsilon` (infinite at 0).

    >>> Budget(epsilon=1.0, delta=1e-9)
    Budget(epsilon=1.0, delta=1e-09, accounting='zcdp')
    >>> Budget(epsilon=1.0).limit
    1000000000000000
    """

    epsilon: float
    delta: float
    rho: float | None
    accounting: str
    limit: int

    def __init__(
        self,
        *,
        epsilon: float | None = None,
        delta: float = 0.0,
        rho: float | None = None,
        accounting: str | None = None,
    ) -> None:
        automatic = "pure" if rho is None and delta == 0 else "zcdp"
        name = automatic if accounting is None else accounting
        if name not in ACCOUNTANTS:
            raise BudgetError(
                f"accounting is {name!r}", expected=f"one of {', '.join(ACCOUNTANTS)}, or None to choose."
            )
        accountant = ACCOUNTANTS[name]
        limit = accountant.share(epsilon=epsilon, rho=rho, delta=delta)
        if name == "pure" and delta > 0:
            raise BudgetError(
                f"delta is {delta:g} under pure accounting, which never uses one: set delta=0, or choose "
                'accounting="zcdp" to answer more questions with it.'
            )
        if name == "basic" and delta == 0:
            raise BudgetError(
                "delta is 0 under basic accounting, which keeps it for one lazy guard: set it well below 1 / rows (as "
                '1e-9), or use accounting="pure".'
            )
        if not 0 < limit <= MAX_UNITS:
            raise BudgetError(
                f"the budget is {limit / UNITS_PER_ONE:.3g} of {'epsilon' if name == 'pure' else 'rho or mu squared'}",
                expected=f"more than 1e-15 and at most {MAX_UNITS // UNITS_PER_ONE:,}",
                advice="an epsilon from 0.1 to 10 is usual",
            )
        reported = accountant.loss(limit, delta).epsilon if epsilon is None else float(epsilon)
        values = {"epsilon": reported, "delta": float(delta), "rho": None if rho is None else float(rho)}
        for key, value in {**values, "accounting": name, "limit": limit}.items():
            object.__setattr__(self, key, value)

    @property
    def currency(self) -> str:
        """The currency of the ledger; under basic accounting with the delta, which the limit does not determine."""
        return f"basic at delta {self.delta!r}" if self.accounting == "basic" else self.accounting

    @property
    def accountant(self) -> Accountant:
        """The accountant that counts in this budget's currency."""
        return ACCOUNTANTS[self.accounting]

    def check_rows(self, rows: int) -> None:
        """Refuse a delta of 1 / rows or more; `rows` must be public, because the refusal reveals something about it.

        Publishing one row picked at random is (0, 1 / rows)-DP, so such a delta promises nothing. Mechanisms §12.23.
        """
        if rows < 1:
            raise BudgetError(f"The row count is {rows}", expected="at least 1.")
        if self.delta > 0 and Fraction(self.delta) * rows >= 1:
            raise BudgetError(
                f"delta {self.delta:g} is not below 1 / rows: publishing a random row would satisfy it",
                advice="Choose delta well below, such as 1e-9, or 0",
            )

    def check_private_rows(self) -> None:
        """Refuse a delta that is too large for almost any table; the private number of rows is not used.

        A delta above 1e-5 is refused; one above 1e-6 gives a warning. With 1 / delta rows or more, such a delta
        promises nothing; the custodian knows whether the table is that large. Mechanisms §12.23.
        """
        if self.delta > LARGEST_DELTA:
            raise BudgetError(
                f"delta is {self.delta:g}",
                expected=f"at most {LARGEST_DELTA:g} where the number of rows is private",
                advice="Choose delta well below 1 / rows, such as 1e-9, or 0; or, if the number of rows is public and "
                'every unit has one row, relation="replace", which compares delta with it',
            )
        if self.delta > USUAL_DELTA:
            warnings.warn(
                f"delta is {self.delta:g}, which promises nothing for a table of {1 / self.delta:,.0f} rows or more, "
                "and the number of rows is private, so it is not checked. Choose delta well below 1 / rows, such as "
                "1e-9",
                PrivacyWarning,
                stacklevel=4,
            )

    def __repr__(self) -> str:
        amount = f"epsilon={self.epsilon!r}" if self.rho is None else f"rho={self.rho!r}"
        delta = f", delta={self.delta!r}" if self.delta else ""
        return f"Budget({amount}{delta}, accounting={self.accounting!r})"

    def _repr_html_(self) -> str:
        total = self.accountant.loss(self.limit, self.delta)
        rows = {"total": repr(total), "accounting": self.accounting}
        cells = "".join(f"<tr><th>{name}</th><td>{value}</td></tr>" for name, value in rows.items())
        return f"<table><caption>Privacy budget</caption>{cells}</table>"
