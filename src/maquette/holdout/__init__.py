"""Adaptive data analysis: one sample, thousands of questions, intervals that hold together.

The sample is the analyst's own, so nothing is kept from its owner: what is limited is how much the answers depend on
it, for what depends on a sample too much does not hold beyond it. A method is one file with the shape of `api.Method`.
"""

from maquette.holdout.certified import Certified
from maquette.holdout.guessers import MedianGuesser, WeightsGuesser
from maquette.holdout.holdout import Holdout
from maquette.holdout.models import accuracy_of, mean_loss
from maquette.holdout.plan import HoldoutPlan, plan
from maquette.holdout.scoring import ReusableScore, reusable_score

__all__ = [
    "Certified",
    "Holdout",
    "HoldoutPlan",
    "MedianGuesser",
    "ReusableScore",
    "WeightsGuesser",
    "accuracy_of",
    "mean_loss",
    "plan",
    "reusable_score",
]
