from .guard_patterns import (
    GuardNoise as GuardNoise,
    pattern_loss as pattern_loss,
    pattern_probabilities as pattern_probabilities,
    patterns as patterns,
)
from .laws import (
    discrete_gaussian as discrete_gaussian,
    discrete_laplace as discrete_laplace,
    exponential_law as exponential_law,
    laplace_tail as laplace_tail,
    permute_and_flip_law as permute_and_flip_law,
    renyi as renyi,
)
from .quiet import QuietNoise as QuietNoise
from .scripted import Call as Call, ScriptedNoise as ScriptedNoise, ScriptExhausted as ScriptExhausted, grid as grid
from .statistics import (
    clopper_pearson as clopper_pearson,
    epsilon_lower_bound as epsilon_lower_bound,
    goodness_of_fit as goodness_of_fit,
    lowest_bit as lowest_bit,
    same_law as same_law,
)
from .transcripts import reference_scales as reference_scales, reference_transcript as reference_transcript
