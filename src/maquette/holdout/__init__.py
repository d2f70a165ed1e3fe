"""Adaptive data analysis: one sample, thousands of questions, intervals that hold together.

The sample is the analyst's own, so nothing is kept from its owner: what is limited is how much the answers depend on
it, for what depends on a sample too much does not hold beyond it. A method is one file with the shape of `api.Method`.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
