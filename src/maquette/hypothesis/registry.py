"""The models by name: a new one is a new file and a line here; the protocol tests pick it up."""

from __future__ import annotations

from maquette.hypothesis.api import Hypothesis
from maquette.hypothesis.cut_decomposition import CutDecomposition
from maquette.hypothesis.graphical import GraphicalModel
from maquette.hypothesis.median import Median
from maquette.hypothesis.mirror_descent import MirrorDescent
from maquette.hypothesis.multiplicative_weights import MultiplicativeWeights
from maquette.hypothesis.perceptron import Perceptron
from maquette.hypothesis.separable import Separable
from maquette.hypothesis.sparse_weights import SparseWeights
from maquette.hypothesis.weighted_records import WeightedRecords

HYPOTHESES: dict[str, type[Hypothesis]] = {
    "cut-decomposition": CutDecomposition,
    "graphical": GraphicalModel,
    "median": Median,
    "mirror-descent": MirrorDescent,
    "multiplicative-weights": MultiplicativeWeights,
    "perceptron": Perceptron,
    "separable": Separable,
    "sparse-weights": SparseWeights,
    "weighted-records": WeightedRecords,
}
