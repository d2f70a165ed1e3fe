"""Compiling a question once for all doors of neighbouring tables: it depends on the schema and the question alone."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from maquette.query import Marginal
from maquette.schema import Schema


class CompiledOnce:
    """What curators of one schema compiled, by question; `shared` says whether the present question may be reused.

    A question of a malicious analyst may read differently each time, so that every door compiles it anew.
    """

    def __init__(self) -> None:
        self.shared = False
        self._known: dict[tuple[Any, ...], tuple[Any, Any]] = {}

    def around(self, compiler: Any) -> Any:
        """The same compiler, which does not repeat itself."""
        return _Around(self, compiler)

    def of(self, question: Any, compiler: Callable[[Any], Any]) -> Any:
        """The compiled question; it is kept with the question, so that no other can have the same id."""
        if not self.shared:
            return compiler(question)
        which = _which(question)
        if which not in self._known:
            self._known[which] = question, compiler(question)
        return self._known[which][1]


class _Around:
    """A compiler that asks for what is known first."""

    def __init__(self, known: CompiledOnce, compiler: Any) -> None:
        self.schema: Schema = compiler.schema
        self._known = known
        self._compiler = compiler

    def __call__(self, question: Any) -> Any:
        return self._known.of(question, self._compiler)


def _which(question: Any) -> tuple[Any, ...]:
    """A door wraps a query or columns in a marginal of its own: that is the same question."""
    if type(question) is not Marginal:
        return (id(question),)
    return (id(question.weight), *(axis if isinstance(axis, str) else id(axis) for axis in question.axes))
