"""Asking: one question of a session's history; and the names by which questions and requests are known."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Sequence
from dataclasses import dataclass

from maquette.answers import Answered, Source
from maquette.errors import QueryError
from maquette.query import Settings
from maquette.session.question import Question
from maquette.session.streams import QuestionLike


@dataclass(frozen=True)
class Asking:
    """One question of a session's history: its route, whether it has a guarantee, and the units spent until then."""

    route: Source
    promised: bool
    spent: int


def check_analyst(analyst: object) -> None:
    """Refuse a name that is none."""
    if not isinstance(analyst, str) or not analyst:
        raise QueryError(f"analyst is {analyst!r}", expected="a name")


def named_text(asked: QuestionLike, settings: Settings) -> str | None:
    """The name under which the answer to a text is found again: the text, and the rule for cuts if there is one."""
    if not isinstance(asked, str):
        return None
    return asked if settings.cuts is None else f"{settings.cuts}\0{asked}"


def digest(settings: str, questions: Sequence[Question]) -> str:
    """What a named request asked: its questions and the settings that tell it from others."""
    return hashlib.sha256((settings + "\0".join(question.key for question in questions)).encode()).hexdigest()


def route(answer: Answered) -> tuple[Source, bool]:
    """How a question was answered, and whether with a guarantee."""
    return answer.source, answer.guarantee is not None


def promised(settings: Settings, alpha: float, beta: float, *, together: bool) -> tuple[float, float]:
    """The alpha and beta of a question, by its settings and those of its session; refused where they contradict."""
    own = alpha if settings.alpha is None else settings.alpha
    doubt = beta if settings.confidence is None else 1.0 - settings.confidence
    if math.isclose(doubt, beta, rel_tol=1e-9):
        doubt = beta
    if together and doubt > beta:
        raise QueryError(
            f"confidence is {1 - doubt:g}, and this session promises all its answers together at {1 - beta:g}",
            expected=f"a confidence of {1 - beta:g} or more",
            advice="or open a session with simultaneous=False, in which each answer has its own",
        )
    return own, doubt
