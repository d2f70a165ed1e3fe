"""Errors carry their parts as fields, keep them on the way to another process, and never mix them into one text."""

from __future__ import annotations

import ast
import copy
import inspect
import pickle
import re
from pathlib import Path

import pytest

import maquette
from maquette import errors
from maquette.errors import BudgetExceeded, DeadlineMissed, MaquetteError, OutOfDomain, QueryError

KINDS = [kind for _, kind in inspect.getmembers(errors, inspect.isclass) if issubclass(kind, MaquetteError)]
RAISED = [
    QueryError("age is old", expected="a number", advice="use age >= 65", line=2, column=7),
    QueryError("age is old"),
    BudgetExceeded("too much", requested=2.0, remaining=0.5, advice="Ask for less"),
    OutOfDomain("values do not fit", {"age": 3}, advice="declare them"),
    DeadlineMissed(),
]


def example(kind: type[MaquetteError]) -> MaquetteError:
    return next((error for error in RAISED if type(error) is kind), None) or kind("it happened", advice="do this")


@pytest.mark.parametrize("again", [copy.copy, copy.deepcopy, lambda error: pickle.loads(pickle.dumps(error))])
@pytest.mark.parametrize("error", [*map(example, KINDS), *RAISED], ids=lambda error: type(error).__name__)
def test_errors_are_copied_and_pickled_with_every_field(error: MaquetteError, again: object) -> None:
    assert callable(again)
    other = again(error)
    assert (type(other), str(other), repr(other), vars(other)) == (type(error), str(error), repr(error), vars(error))


def test_the_message_is_the_parts_in_order() -> None:
    error = RAISED[0]
    assert str(error) == "line 2, column 7: age is old; expected a number; use age >= 65"
    assert (error.happened, error.expected, error.advice) == ("age is old", "a number", "use age >= 65")
    assert str(RAISED[2]) == "too much. Ask for less"


def test_every_kind_has_a_code_of_its_own_that_extends_its_parents() -> None:
    codes = {kind.code: kind for kind in KINDS}
    assert len(codes) == len(KINDS)
    for kind in KINDS:
        parent = kind.__mro__[1]
        if parent not in (Exception, MaquetteError) and issubclass(parent, MaquetteError):
            assert kind.code.split(".")[0] == parent.code.split(".")[0]


def _texts() -> list[tuple[str, str, str]]:
    """Every literal text given to an error: its place, which part it is, and its words."""
    names = {kind.__name__ for kind in KINDS} | {"Misused", "Unfit"}
    found = []
    for path in sorted(Path(maquette.__file__).parent.rglob("*.py")):
        for call in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(call, ast.Call) and isinstance(call.func, ast.Name) and call.func.id in names:
                parts = {"happened": call.args[0]} if call.args else {}
                parts |= {keyword.arg: keyword.value for keyword in call.keywords if keyword.arg}
                for part, node in parts.items():
                    words = [
                        n.value for n in ast.walk(node) if isinstance(n, ast.Constant) and isinstance(n.value, str)
                    ]
                    found.append((f"{path.name}:{call.lineno}", part, "".join(words)))
    return found


@pytest.mark.thorough
def test_no_text_of_an_error_holds_another_part_of_it() -> None:
    texts = _texts()
    assert len(texts) > 300
    mixed = [text for text in texts if text[1] == "happened" and re.search(r"(^|[;:.] )expected ", text[2])]
    mixed += [text for text in texts if text[1] == "advice" and re.match(r"(expected|got) ", text[2])]
    mixed += [text for text in texts if text[1] == "expected" and text[2].startswith("expected ")]
    assert mixed == []
