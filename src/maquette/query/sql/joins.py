"""Joins without a condition of their own: the parser reads each of them in two ways, so a text may have a few."""

from __future__ import annotations

from collections.abc import Sequence

from sqlglot.tokenizer_core import Token, TokenType

MOST_LOOSE = 8  # JOINs of a text
_CONDITIONS = {TokenType.ON, TokenType.USING}


def loose_join(tokens: Sequence[Token]) -> Token | None:
    """The first JOIN beyond MOST_LOOSE that no ON or USING at the same depth follows."""
    waiting, settled = [0], 0  # by depth, and of parentheses that were closed
    for before, token in zip((None, *tokens), tokens, strict=False):
        kind = token.token_type
        if kind == TokenType.L_PAREN:
            waiting.append(0)
        elif kind == TokenType.R_PAREN and len(waiting) > 1:
            settled += waiting.pop()
        elif kind == TokenType.JOIN:
            waiting[-1] += 1
            if settled + sum(waiting) > MOST_LOOSE:
                return token
        elif kind in _CONDITIONS and waiting[-1] and (before is None or before.token_type != TokenType.DISTINCT):
            waiting[-1] -= 1
    return None
