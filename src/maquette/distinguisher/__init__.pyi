from .api import Distinguisher as Distinguisher, Pointed as Pointed
from .best_response import Clause as Clause, Responder as Responder, Response as Response, Solver as Solver
from .oracle import best_query as best_query
from .registry import DISTINGUISHERS as DISTINGUISHERS, distinguisher_of as distinguisher_of
from .solver import Conjunction as Conjunction, widest_conjunction as widest_conjunction
from .worst_cell import WorstCell as WorstCell
