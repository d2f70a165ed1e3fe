from .artifact import Certificate as Certificate, Release as Release, plain_name as plain_name
from .classes.coefficients import coefficients as coefficients
from .classes.cuts import cut_construction as cut_construction, cut_rule_of as cut_rule_of
from .classes.distances import distance_construction as distance_construction, distance_rule_of as distance_rule_of
from .classes.graphs import synthetic_graph as synthetic_graph
from .classes.histograms import histograms as histograms
from .classes.lookups import keys_release as keys_release, look_up as look_up
from .classes.moments import MomentModel as MomentModel, project_moments as project_moments
from .classes.projection import project_parities as project_parities, projection as projection
from .game.analyst_private import Discretion as Discretion, Repair as Repair, analyst_private as analyst_private
from .game.boosting import MedianModel as MedianModel, boosted as boosted
from .game.both_learn import both_learn as both_learn
from .game.cells import CellIndex as CellIndex
from .game.dual_query import dual_query as dual_query
from .game.equilibrium import Game as Game, Hedge as Hedge, Played as Played, mixed_answer as mixed_answer
from .learning.agnostic import (
    Learned as Learned,
    agreement as agreement,
    learn_from_release as learn_from_release,
    learn_privately as learn_privately,
)
from .learning.distinguishing import (
    ExponentialLearner as ExponentialLearner,
    LearnedDistinguisher as LearnedDistinguisher,
    Learner as Learner,
    ReleaseLearner as ReleaseLearner,
)
from .learning.thresholds import (
    LearnedConjunctions as LearnedConjunctions,
    learned_conjunctions as learned_conjunctions,
)
from .methods.adaptive import adaptive as adaptive
from .methods.baseline import gaussian as gaussian, laplace as laplace
from .methods.combined import combined as combined
from .methods.draft import Draft as Draft
from .methods.everything import everything as everything
from .methods.graphical import graphical as graphical
from .methods.iterative import (
    averaged_construction as averaged_construction,
    iterative_construction as iterative_construction,
)
from .methods.mwem import mwem as mwem
from .methods.registry import METHODS as METHODS, Method as Method, method_of as method_of
from .nets.candidates import Net as Net
from .nets.functions import (
    FINER as FINER,
    FunctionRelease as FunctionRelease,
    construct_functions as construct_functions,
    histograms_of as histograms_of,
    median_of as median_of,
    net_of_functions as net_of_functions,
    within as within,
)
from .nets.net import local_search as local_search, net_mechanism as net_mechanism, small_db as small_db
from .offline import release as release
from .progress import watch_progress as watch_progress
from .starting import Start as Start, start_of as start_of
