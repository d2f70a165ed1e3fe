"""Find the query with the largest error: private distinguishers through the doors, and solvers for public data."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
