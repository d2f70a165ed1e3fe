"""Top: SELECT TOP n, which SQL Server writes and sqlglot does not read here, as LIMIT n."""

from __future__ import annotations

from sqlglot.tokenizer_core import Token


def without_top(tokens: list[Token]) -> tuple[list[Token], int | None]:
    """The tokens without TOP n or TOP (n), and n."""
    texts = [token.text.upper() for token in tokens[:5]]
    if texts[:2] != ["SELECT", "TOP"]:
        return tokens, None
    number, rest = (texts[3:4], tokens[5:]) if texts[2::2] == ["(", ")"] else (texts[2:3], tokens[3:])
    return ([tokens[0], *rest], int(number[0])) if number and number[0].isdecimal() else (tokens, None)
