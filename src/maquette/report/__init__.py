"""The report: what was published, at what price, and how sure it is, as one page.

Everything here is post-processing of what the curator released: it reads certificates, ledgers, models and evidence,
charges nothing and never touches a row. The one exception is named: rows given as `test_data`, which are nobody's.
"""

from maquette.report.evaluation import Hazard, evaluation
from maquette.report.page import report
from maquette.report.quality import Similarity, TrainTest, similarity, train_on_synthetic
from maquette.report.registry import registry_entry
from maquette.report.risk import believed, odds_factor, true_positive_rate
from maquette.report.truth import TestRows, test_data

__all__ = [
    "Hazard",
    "Similarity",
    "TestRows",
    "TrainTest",
    "believed",
    "evaluation",
    "odds_factor",
    "registry_entry",
    "report",
    "similarity",
    "test_data",
    "train_on_synthetic",
    "true_positive_rate",
]
