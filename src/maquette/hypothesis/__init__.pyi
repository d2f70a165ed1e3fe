from . import saving as saving
from .api import Arrays as Arrays, Hypothesis as Hypothesis, Savable as Savable
from .blocks import Block as Block, blocks_of as blocks_of, laid_out as laid_out
from .cut_decomposition import CutDecomposition as CutDecomposition
from .graphical import GraphicalModel as GraphicalModel
from .junction_tree import JunctionTree as JunctionTree
from .linear_weights import LinearWeights as LinearWeights
from .median import Median as Median
from .mirror_descent import MirrorDescent as MirrorDescent, norm_rule as norm_rule, on_simplex as on_simplex
from .mixture import Mixture as Mixture
from .multiplicative_weights import MultiplicativeWeights as MultiplicativeWeights
from .perceptron import Perceptron as Perceptron
from .polynomial import BlockPolynomial as BlockPolynomial
from .refining import refined as refined
from .registry import (
    HYPOTHESES as HYPOTHESES,
    RULES as RULES,
    AnyRule as AnyRule,
    Calibration as Calibration,
    check_query as check_query,
    hypothesis_named as hypothesis_named,
    practical_model as practical_model,
    rule_of as rule_of,
)
from .rule import NEVER as NEVER, RESOLUTIONS as RESOLUTIONS, Rule as Rule
from .sampling import decode as decode, systematic as systematic
from .separable import Separable as Separable
from .sparse_weights import SparseWeights as SparseWeights
from .weighted_records import WeightedRecords as WeightedRecords
