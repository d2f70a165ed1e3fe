from .asking import Asking as Asking
from .baselines.exact_cache import ExactCache as ExactCache
from .baselines.one_histogram import OneHistogram as OneHistogram
from .baselines.whole_marginals import WholeMarginals as WholeMarginals
from .explanation import Explanation as Explanation
from .opening import online as online
from .question import lasting as lasting
from .session import Session as Session
from .textbook.cut_rule import cut_rule as cut_rule
from .textbook.distance_rule import distance_rule as distance_rule
from .textbook.functions import OnlineFunctions as OnlineFunctions
from .textbook.lazy import (
    LazyConstruction as LazyConstruction,
    PrivateMultiplicativeWeights as PrivateMultiplicativeWeights,
)
from .textbook.online_ic import OnlineIC as OnlineIC
