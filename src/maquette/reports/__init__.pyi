from .comparison import compare as compare
from .hazards import Hazard as Hazard, evaluation as evaluation
from .page import report as report
from .quality import (
    Similarity as Similarity,
    TrainTest as TrainTest,
    similarity as similarity,
    train_on_synthetic as train_on_synthetic,
)
from .registry import registry_entry as registry_entry
from .risk import believed as believed, odds_factor as odds_factor, true_positive_rate as true_positive_rate
from .style import CSS as CSS
from .truth import TestRows as TestRows, test_data as test_data
