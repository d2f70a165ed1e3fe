"""The methods of `release` by name, and what a method is: a callable that measures a workload through the doors.

`method(curator, workload, *, units, ...)` answers the workload with what it measures at the curator's doors, for at
most `units` of the ledger. Instead of `units` it may take both `epsilon` and `rho`, and gets the one in which the
budget is counted. Its other keywords are settings. METHODS answer any workload without further settings; SPECIAL ones
are for a class of questions, or need settings. It is not trusted: the doors charge everything it measures, and
`release` writes the certificate from these charges. A method of another package has an entry point under
`maquette.methods`; your own can be given as a function.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from maquette.curator import Curator
from maquette.errors import QueryError
from maquette.extensions import choices, find
from maquette.privacy import recorded_price
from maquette.releases.artifact import Release
from maquette.releases.game.boosting import boosted
from maquette.releases.game.both_learn import both_learn
from maquette.releases.game.dual_query import dual_query
from maquette.releases.methods.adaptive import adaptive
from maquette.releases.methods.baseline import gaussian, laplace
from maquette.releases.methods.combined import combined
from maquette.releases.methods.draft import Draft
from maquette.releases.methods.everything import everything
from maquette.releases.methods.graphical import graphical
from maquette.releases.methods.iterative import averaged_construction, iterative_construction
from maquette.releases.methods.mwem import mwem
from maquette.releases.methods.special import ASKED, SPECIAL, WORKLOAD
from maquette.releases.nets.net import small_db

METHODS: dict[str, Callable[..., Release | Draft]] = {
    "combined": combined,
    "everything": everything,
    "adaptive": adaptive,
    "graphical": graphical,
    "iterative-construction": iterative_construction,
    "averaged-construction": averaged_construction,
    "mwem": mwem,
    "small-db": small_db,
    "dual-query": dual_query,
    "both-learn": both_learn,
    "boosting": boosted,
    "laplace": laplace,
    "gaussian": gaussian,
}
GROUP: Literal["maquette.methods"] = "maquette.methods"
AMOUNTS = ("units", "epsilon", "rho")


Method = Callable[..., Release | Draft]


@dataclass(frozen=True)
class Chosen:
    """A method by its name, or as it was given; a `trusted` one is built in and certifies what it made itself."""

    name: str
    call: Method
    trusted: bool

    def settings(self) -> list[str] | None:
        """The keywords of the method beside its price; None where it takes any."""
        parameters = list(self._parameters().values())[2:]
        if any(each.kind is inspect.Parameter.VAR_KEYWORD for each in parameters):
            return None
        return [each.name for each in parameters if each.name not in AMOUNTS]

    def check_asked(self, asked: object) -> None:
        """Refuse what the method cannot answer: a workload, cuts, distances, look-ups or functions, as it needs."""
        fits, expected = ASKED.get(self.name, WORKLOAD) if self.trusted else WORKLOAD
        if not fits(asked):
            named = "" if self.name not in ASKED else f" for method {self.name!r}"
            raise QueryError(f"the workload{named} is of type {type(asked).__name__}", expected=expected)

    def check(self, settings: Mapping[str, object]) -> None:
        """Refuse a setting that the method does not have, and one that is missing."""
        known = self.settings()
        unknown = [] if known is None else [name for name in settings if name not in known]
        if unknown:
            has = ", ".join(known or []) or "none"
            raise QueryError(f"method {self.name!r} has no setting {', '.join(unknown)}", advice=f"it has {has}")
        missing = [name for name in self.needed() if name not in settings]
        if missing:
            raise QueryError(
                f"method {self.name!r} needs {' and '.join(missing)}",
                expected=f"release(..., method={self.name!r}, {', '.join(f'{name}=...' for name in missing)})",
                advice="its docstring says what they are. Nothing was charged",
            )

    def needed(self) -> list[str]:
        """The settings without a default."""
        every = list(self._parameters().values())[2:]
        plain = (inspect.Parameter.KEYWORD_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
        return [
            each.name
            for each in every
            if each.kind in plain and each.default is inspect.Parameter.empty and each.name not in AMOUNTS
        ]

    def amount(self, curator: Curator, units: int) -> dict[str, Any]:
        """What it may spend, under the keyword that it takes."""
        own = "units" in self._parameters()
        return {"units": units} if own else dict(recorded_price(curator.budget, units))

    def _parameters(self) -> Mapping[str, inspect.Parameter]:
        try:
            return inspect.signature(self.call).parameters
        except (TypeError, ValueError):
            raise QueryError(
                f"{self.call!r} is not a method", expected="a function of a curator, a workload and keywords"
            ) from None


def method_of(given: str | Method) -> Chosen:
    """The method of a name, built-in or of an installed package; or the callable that is given."""
    if not isinstance(given, str):
        if not callable(given):
            raise QueryError(f"method is {given!r}", expected="a name, or a function of a curator and a workload")
        own = next((name for name, call in (METHODS | SPECIAL).items() if call is given), None)
        return Chosen(own or str(getattr(given, "__name__", type(given).__name__)), given, own is not None)
    if (built := METHODS.get(given) or SPECIAL.get(given)) is not None:
        return Chosen(given, built, True)
    found = find(GROUP, given, (*METHODS, *SPECIAL, "auto"))
    if found is None:
        raise QueryError(f"there is no method {given!r}", expected=choices(GROUP, ("auto", *METHODS, *SPECIAL)))
    if not callable(found):
        raise QueryError(f"method {given!r} of an installed package is {found!r}, which cannot be called")
    return Chosen(given, found, False)
