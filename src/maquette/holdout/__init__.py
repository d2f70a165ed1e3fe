"""Adaptive data analysis: one sample, thousands of questions, intervals that hold together.

The sample is the analyst's own, so nothing is hidden from its owner. What is limited is how much the answers depend on
it: answers that depend on a sample too much do not hold for the population. One file holds one method (`api.Method`).
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
