from .certified import Certified as Certified
from .guessers import MedianGuesser as MedianGuesser, WeightsGuesser as WeightsGuesser
from .holdout import Holdout as Holdout
from .models import accuracy_of as accuracy_of, mean_loss as mean_loss
from .planning import HoldoutPlan as HoldoutPlan, plan as plan
from .scoring import ReusableScore as ReusableScore, reusable_score as reusable_score
