"""Privacy audits: what a mechanism must satisfy, computed without looking at how it is built.

Four layers. A scripted noise grid compares a mechanism with a short reference (`scripted`, `reference`); exact laws
give the true epsilon of tiny instances (`laws`, `patterns`); sampled outputs bound epsilon from below and test samplers
against their laws (`statistics`). A grammar of questions (`universes`, `drawing`, `forms`, `weighing`) says what each
means in exact fractions; `maquette.auditing` puts them to the doors. Nothing here touches rows, and nothing here is
used to answer a question.
"""

from maquette.audit.laws import (
    discrete_gaussian,
    discrete_laplace,
    exponential_law,
    laplace_tail,
    permute_and_flip_law,
    renyi,
)
from maquette.audit.patterns import Guard, pattern_loss, pattern_probabilities, patterns
from maquette.audit.quiet import QuietNoise
from maquette.audit.reference import reference_scales, reference_transcript
from maquette.audit.scripted import Call, ScriptedNoise, ScriptExhausted, grid
from maquette.audit.statistics import clopper_pearson, epsilon_lower_bound, goodness_of_fit, lowest_bit, same_law

__all__ = [
    "Call",
    "Guard",
    "QuietNoise",
    "ScriptExhausted",
    "ScriptedNoise",
    "clopper_pearson",
    "discrete_gaussian",
    "discrete_laplace",
    "epsilon_lower_bound",
    "exponential_law",
    "goodness_of_fit",
    "grid",
    "laplace_tail",
    "lowest_bit",
    "pattern_loss",
    "pattern_probabilities",
    "patterns",
    "permute_and_flip_law",
    "reference_scales",
    "reference_transcript",
    "renyi",
    "same_law",
]
