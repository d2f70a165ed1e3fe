"""Lower bounds: what no private mechanism can do, whatever it computes and however long it runs.

A lower bound is an error that every (epsilon, delta)-DP mechanism exceeds on some table (and, where it says so, for
some family of queries of this size). `single`, `packing` and `reconstruction` are proved here with their constants.
`fingerprinting` and `efficient_rows` are the theorems of the slides, which hide constants: they are scales, and no
numbers. Relation: replace.
"""

from __future__ import annotations

import math

from maquette.theory.arguments import checked


@checked()
def single(*, epsilon: float, delta: float, rows: int, beta: float) -> float:
    """The error that one 0/1 query must have with probability beta or more, on some table of n rows: k / (2n).

    k is the largest number with (1 - beta) > e^(k epsilon) beta + delta (e^(k epsilon) - 1) / (e^epsilon - 1). Two
    tables that differ in k rows have answers k / n apart. If the error were below k / (2n) on both, the answers that
    are right for one would be wrong for the other: by group privacy 1 - beta <= e^(k epsilon) beta + that sum. At most
    n rows differ. Pure: about ln((1 - beta) / beta) / (2 n epsilon), half of what Laplace noise reaches. For beta below
    1/2; 0 if even one row cannot be told.
    """
    if beta >= 0.5:
        return 0.0
    moved = 0
    for k in range(1, min(int(rows), 10**5) + 1):
        if k * epsilon > 700:
            break
        grown = math.exp(k * epsilon)
        leaked = delta * math.expm1(k * epsilon) / math.expm1(epsilon) if delta else 0.0
        if 1 - beta <= grown * beta + leaked:
            break
        moved = k
    return moved / (2 * rows)


@checked()
def packing(*, universe: int, queries: int, epsilon: float, rows: int, beta: float) -> float:
    """The error of any purely private mechanism on some family of |Q| queries: k / (2n).

    k is the largest whole number below ln((M - 1) (1 - beta) / beta) / epsilon. M = min(N, 2^|Q|) points are told apart
    by |Q| queries. Table i has k rows at point i, and n - k rows that all share: two such tables differ in k rows, and
    some query differs by k / n. If the error were below k / (2n), the M sets of right answers would be disjoint, and
    each have probability at least e^(-k epsilon) (1 - beta) on the first table: (1 - beta) (1 + (M - 1) e^(-k
    epsilon)) <= 1. Hardt and Talwar 2010; with delta > 0 it does not hold.
    """
    log_points = min(math.log(universe), queries * math.log(2))
    if log_points <= 0:
        return 0.0
    others = log_points + math.log1p(-math.exp(-log_points))
    most = (others + math.log((1 - beta) / beta)) / epsilon
    return max(0, min(math.ceil(most) - 1, int(rows))) / (2 * rows)


@checked()
def reconstruction(*, universe: int, queries: int, epsilon: float, delta: float, rows: int, beta: float) -> float:
    """The error of any mechanism on all subset counts of m bits: m ((1 - d) / (1 + e^epsilon) - b) / (4 n (1 - b)).

    d is delta, b is beta. m is the largest number with 2^m <= |Q| and 2m <= N, at most n. The i-th of m rows is at one
    of two points, its bit; all other rows are public. There is a query for every subset S: how many of its bits are 1.
    If all answers err by at most E rows, every table that agrees with them up to E has at most 4 E other bits: at most
    2 E that are 1 for 0, the bits of one subset, and 2 E that are 0 for 1. But of random bits a private mechanism hides
    each: whoever sees its answers and all other bits guesses it wrong with probability (1 - d) / (1 + e^epsilon) or
    more. So (1 - b) 4 E + b m is at least m times that. Dinur and Nissim 2003; Dwork and Roth, theorem 8.1.
    """
    bits = min(int(rows), int(math.log2(max(queries, 1)) + 1e-12), int(universe) // 2)
    wrong = (1 - delta) / (1 + math.exp(min(epsilon, 700.0)))
    return max(0.0, bits * (wrong - beta) / (4 * rows * (1 - beta)))


@checked()
def fingerprinting(*, universe: int, queries: int, epsilon: float, rows: int) -> float:
    """The scale of the least error for the hardest |Q| queries: sqrt(sqrt(log2 N) ln|Q| / (n epsilon)). No constant.

    n >= sqrt(d) log|Q| / (alpha^2 epsilon) for (epsilon, delta)-DP and large families, d = log2 N: private
    multiplicative weights are optimal up to constants. Bun, Ullman and Vadhan 2014, the slides' [BUV].
    """
    return math.sqrt(math.sqrt(math.log2(max(universe, 2))) * math.log(max(queries, 2)) / (rows * epsilon))


@checked()
def efficient_rows(*, queries: int) -> float:
    """The scale of the least rows for a mechanism that takes time polynomial in n, d and the queries: sqrt(|Q|).

    For the hardest queries, if secure cryptography exists. Ullman 2013, the slides' [U]: independent noise is then
    optimal among what is fast, and everything that beats it must take time like N, or exploit the queries.
    """
    return math.sqrt(queries)
