"""Learning and release: what one costs in terms of the other, and what statistical queries cannot learn.

An agnostic learner finds, in a class of concepts, one whose risk (the share of wrongly labelled examples) is within an
excess of the least. A release of all agreements between concepts and label within alpha gives a learner of excess
2 alpha, without further access (`excess_from_release`). A private learner gives a release: rows are examples labelled
1, records of the model examples labelled 0, both of weight 1/2; the risk of f is then 1/2 - (f(x) - f(D)) / 2, so an
excess of e is a distinguisher with F = 2 e (`distinguisher_error`). Dwork and Roth, section 5.3.2, remark 5.1.
"""

from __future__ import annotations

import math

from maquette.theory.arguments import PROBABILITY, checked


@checked()
def excess_from_release(*, alpha: float) -> float:
    """2 alpha: the chosen concept's risk and the best one's are each known within alpha."""
    return 2 * alpha


@checked()
def distinguisher_error(*, error: float) -> float:
    """F = 2 e for a learner of excess risk e on examples of which half are the model's."""
    return 2 * error


@checked()
def learner_excess(*, concepts: int, epsilon: float, rows: int, beta: float) -> float:
    """Excess risk of the exponential mechanism over all concepts: (2 / (n epsilon)) ln(|C| / beta).

    One row changes an agreement by 1/n. Kasiviswanathan, Lee, Nissim, Raskhodnikova and Smith 2008, the generic
    private agnostic learner.
    """
    return 2 / (rows * epsilon) * math.log(concepts / beta)


@checked(tolerance=PROBABILITY)
def parity_queries(*, attributes: int, tolerance: float) -> float:
    """Statistical queries that any algorithm needs to learn parities of d uniform columns: (2^d - 1) tau^2.

    A query is a function g of example and label with values in [-1, 1], answered within tau. On uniform examples with
    the label of parity S, E[g] = E[g at a random label] + <h, chi_S>, h half of the difference of g at the two labels.
    The parities are orthonormal and |h| <= 1, so the squares of <h, chi_S> add up to at most 1 (Bessel): for at most
    1/tau^2 of the 2^d - 1 parities is the first term not an allowed answer. An oracle that always gives it says nothing
    about the others. Kearns 1993; Blum et al. 1994.
    """
    return (2.0**attributes - 1) * tolerance**2 if attributes < 1000 else math.inf


@checked()
def parity_rows(*, attributes: int, epsilon: float, alpha: float, beta: float) -> float:
    """Rows from which one private selection learns a parity to excess alpha: 2 (d ln 2 + ln(1/beta)) / (alpha epsilon).

    The exponential mechanism looks at all concepts at once, which no number of noisy averages does cheaply: private
    learning is not bound to statistical queries.
    """
    return 2 * (attributes * math.log(2) + math.log(1 / beta)) / (alpha * epsilon)
